"""The server's side of a fleet: what the simulator's rounds ask goes to real nodes, through Flower's Grid.

Flower's own strategies choose clients before training; FedTeddi chooses after. So this asks in three steps: everyone
trains and reports, the scheduled upload, everyone sends class gradients. Every step has a deadline on the wall, and
whoever does not answer in time is left out of the round, with the cause.
"""

import time
import uuid
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from flwr.app import ConfigRecord, Message, RecordDict
from flwr.serverapp import Grid

from fedteddi.errors import InputError
from fedteddi.protocol.messages import Answers, ClassGradients, Request, Vector
from fedteddi.runtimes.flower_records import (
    CLASS_GRADIENTS,
    HELLO,
    MIX,
    REPORT,
    UPLOAD,
    BadAnswerError,
    read_gradients,
    read_report,
    read_vector,
    refused,
    request_records,
)
from fedteddi.settings import Settings

if TYPE_CHECKING:
    from fedteddi.runtimes.in_process import Asked, Clients

POLL_S = 0.1
# Flower lets a message live this much longer than we wait: clocks differ.
GRACE_S = 30.0
MESSAGES = {"report": REPORT, "upload": UPLOAD, "class_gradients": CLASS_GRADIENTS}
CAUSES = {  # Flower's error codes, as far as they say something about a node
    1: "its app could not be loaded",
    2: "its app raised an error",
    3: "the message was lost",
    4: "its answer was lost",
    5: "it is gone",
    8: "its app crashed",
}


class FlowerFleet:
    """The clients of one run, reached through Flower's Grid; the second implementation of `Exchange`."""

    def __init__(
        self, grid: Grid, settings: Settings, num_clients: int, say: Callable[[str], None] = print
    ) -> None:
        self.grid, self.settings, self.num_clients, self.say = grid, settings, num_clients, say
        self.nodes: dict[int, int] = {}  # node by client
        self.session = uuid.uuid4().hex  # a resumed server must not be given models of its former life
        self._waited = False
        self._known: set[int] = set()  # nodes that have said who they are
        self._silent: set[int] = (
            set()
        )  # clients that failed to answer last time: another node may take their place

    def wait_for_clients(self) -> None:
        """Wait until all clients are there, or for as long as the settings allow; nobody at all is an error."""
        self._waited = True
        wait_s = self.settings.fleet.wait_s
        until = time.monotonic() + wait_s
        while len(self.nodes) < self.num_clients and time.monotonic() < until:
            self._meet(until)
            time.sleep(POLL_S)
        missing = [n for n in range(self.num_clients) if n not in self.nodes]
        self.say(f"{len(self.nodes)} of {self.num_clients} clients are there")
        if not self.nodes:
            raise InputError(f"no client has connected within fleet.wait_s={wait_s:g}: start SuperNodes")
        if missing:
            self.say(
                f"not there after {wait_s:g} s, and left out until they come: {', '.join(map(str, missing))}"
            )

    def exchange(self, asked: "Asked") -> list[Answers]:
        """Put the request of a run to its clients."""
        return [self._exchange(request) for _, request in asked]

    def told_mixes(self, clients: "Clients", frame: int) -> dict[int, np.ndarray]:  # noqa: ARG002
        """Ask everyone for the class mix of a frame that has no rounds."""
        asked = RecordDict({"asked": ConfigRecord({"frame": frame})})
        given, _ = self._ask(
            MIX, dict.fromkeys(range(self.num_clients), asked), _read_mix, self._limit("report")
        )
        classes = {len(mix) for mix in given.values()}
        return given if len(classes) <= 1 else {}

    def _exchange(self, request: Request) -> Answers:
        tag = f"{self.session}/{request.frame}/{request.round}"
        contents = {client: request_records(request, client, tag) for client in request.clients}
        if request.kind == "class_gradients":
            for content in contents.values():  # before a frame's first uploads the round is numbered 0
                content.config_records["asked"]["after"] = request.round > 0
        read = {"report": _read_report, "upload": _read_upload, "class_gradients": _read_gradients}[
            request.kind
        ]

        def answer(content: RecordDict) -> Any:
            return read(content, request.weights)

        given, failed = self._ask(MESSAGES[request.kind], contents, answer, self._limit(request.kind))
        return Answers(given, failed)

    def _limit(self, kind: str) -> float:
        fleet = self.settings.fleet
        return {
            "report": fleet.report_s,
            "upload": fleet.upload_s,
            "class_gradients": fleet.class_gradients_s,
        }[kind]

    def _ask(
        self, kind: str, contents: dict[int, RecordDict], read: Callable[[RecordDict], Any], limit_s: float
    ) -> tuple[dict[int, Any], dict[int, str]]:
        """Send every client its message, and collect answers until all are there or the time is over."""
        if not self._waited:
            self.wait_for_clients()
        until = time.monotonic() + limit_s
        self._meet(until)
        failed = {client: "it is not connected" for client in contents if client not in self.nodes}
        sent = [client for client in contents if client in self.nodes]
        messages = [
            Message(contents[client], self.nodes[client], kind, ttl=limit_s + GRACE_S) for client in sent
        ]
        waiting: dict[str, int] = {}
        for client, number in zip(sent, self._push(messages), strict=True):
            if number:
                waiting[number] = client
            else:
                failed[client] = "it is gone"
                self._lose(client)
        given: dict[int, Any] = {}
        for client, reply in self._replies(waiting, until):
            if reply.has_error():
                code = reply.error.code
                reason = (reply.error.reason or "").strip().splitlines()
                why = CAUSES.get(code, f"Flower's error {code}")
                failed[client] = f"{why}: {reason[-1][:200]}" if code == 2 and reason else why
                if code == 5:
                    self._lose(client)
                continue
            why_not = refused(reply.content)
            try:
                if why_not is not None:
                    raise BadAnswerError(f"it refused: {why_not}")
                given[client] = read(reply.content)
            except BadAnswerError as error:
                failed[client] = str(error)
        for client in waiting.values():
            failed[client] = f"no answer within {limit_s:g} s"
        self._silent = (self._silent - set(given)) | set(waiting.values())
        return given, failed

    def _push(self, messages: list[Message]) -> list[str]:
        return list(self.grid.push_messages(messages)) if messages else []

    def _replies(self, waiting: dict[str, int], until: float) -> Iterator[tuple[int, Message]]:
        """Give out answers as they come, and take them off the list, until all are there or the time is over."""
        while waiting and time.monotonic() < until:
            came = list(self.grid.pull_messages([*waiting]))
            for reply in came:
                number = reply.metadata.reply_to_message_id
                if number in waiting:
                    yield waiting.pop(number), reply
            if not came:
                time.sleep(POLL_S)

    def _meet(self, until: float) -> None:
        """Ask nodes that are new who they are; forget those that have left."""
        there = set(self.grid.get_node_ids())
        self._known &= there
        self.nodes = {client: node for client, node in self.nodes.items() if node in there}
        new = sorted(there - self._known)
        if not new:
            return
        limit_s = max(1.0, until - time.monotonic())
        asked = RecordDict({"asked": ConfigRecord({"tag": ""})})
        messages = [Message(asked, node, HELLO, ttl=limit_s + GRACE_S) for node in new]
        numbers = self._push(messages)
        waiting = {number: node for number, node in zip(numbers, new, strict=True) if number}
        for node, reply in self._replies(waiting, min(until, time.monotonic() + limit_s / 2)):
            client = None if reply.has_error() else _read_number(reply.content)
            free = client not in self.nodes or client in self._silent
            if client is not None and client < self.num_clients and free:
                self.nodes[client] = node
                self._known.add(node)
                self._silent.discard(client)
        # A node that said nothing, or the number of one that is there, is asked again in the next step.

    def _lose(self, client: int) -> None:
        node = self.nodes.pop(client, None)
        self._known.discard(-1 if node is None else node)


def _read_number(content: RecordDict) -> int | None:
    try:
        number = content.config_records["client"]["number"]
    except Exception:
        return None
    return number if isinstance(number, int) and not isinstance(number, bool) and number >= 0 else None


def _read_mix(content: RecordDict) -> np.ndarray:
    try:
        mix = np.array(content.metric_records["mix"]["mix"], dtype=np.float64)
    except Exception as error:
        raise BadAnswerError(f"its class mix cannot be read ({type(error).__name__})") from None
    if mix.ndim != 1 or not (np.isfinite(mix).all() and mix.min() >= 0 and abs(mix.sum() - 1) <= 1e-6):
        raise BadAnswerError("its class mix is not a distribution")
    return mix


def _read_report(content: RecordDict, _like: Vector) -> Any:
    return read_report(content)


def _read_upload(content: RecordDict, like: Vector) -> Vector:
    return _placed(read_vector(content, "upload"), like)


def _read_gradients(content: RecordDict, like: Vector) -> ClassGradients:
    rows, counts = read_gradients(content)
    return ClassGradients(gradient_sum={c: _placed(row, like) for c, row in rows.items()}, counts=counts)


def _placed(values: np.ndarray, like: Vector) -> Vector:
    """Bring numbers to where the server's model lies; what they are worth is looked at later."""
    import torch

    try:
        return torch.from_numpy(values.copy()).to(like.device)
    except TypeError:
        raise BadAnswerError(f"it sent {values.dtype}, not numbers") from None
