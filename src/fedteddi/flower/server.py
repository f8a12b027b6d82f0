"""The server's side of a fleet: what the simulator's rounds ask goes to real nodes, through Flower's Grid.

Flower's own strategies choose clients before training; FedTeddi chooses after. So this asks in three steps: everyone
trains and reports, the scheduled upload, everyone sends class gradients. Every step has a deadline on the wall, and
clients that time out are dropped from the round; the record says why.
"""

import time
import uuid
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from flwr.app import ConfigRecord, Message, RecordDict
from flwr.serverapp import Grid

from fedteddi.aggregation import Vector
from fedteddi.errors import InputError
from fedteddi.flower.frames import FrameEnds
from fedteddi.flower.links import Links
from fedteddi.flower.records import (
    FORGET,
    HELLO,
    MESSAGES,
    MIX,
    REPORT,
    BadAnswerError,
    content_bytes,
    read_gradients,
    read_report,
    read_vector,
    refused,
    request_records,
)
from fedteddi.flower.transport import POLL_S, Post
from fedteddi.protocol.checks import MOST_SAMPLES, is_distribution
from fedteddi.protocol.messages import Answers, ClassGradients, Report, Request
from fedteddi.protocol.state import ServerState
from fedteddi.settings import Settings

if TYPE_CHECKING:
    from fedteddi.results.trained import Inputs
    from fedteddi.simulation.clients import Clients
    from fedteddi.simulation.in_process import Asked

# Flower lets a message live this much longer than we wait: clocks differ.
GRACE_S = 30.0
HELLO_S, HELLO_TTL_S = 20.0, 600.0
APP_RAISED, NODE_GONE = 2, 5
CAUSES = {  # Flower's error codes, as far as they say something about a node
    1: "its app could not be loaded",
    APP_RAISED: "its app raised an error",
    3: "the message was lost",
    4: "its answer was lost",
    NODE_GONE: "it is gone",
    8: "its app crashed",
}


class FlowerFleet:
    """The clients of one run, reached through Flower's Grid; the second implementation of `Exchange`."""

    def __init__(
        self, grid: Grid, settings: Settings, num_clients: int, say: Callable[[str], None] = print
    ) -> None:
        self.post, self.settings, self.num_clients, self.say = Post(grid), settings, num_clients, say
        self.nodes: dict[int, int] = {}  # node by client
        self.session = uuid.uuid4().hex  # a resumed server must not be given models of its former life
        self._waited = False
        self._claims: dict[int, int | None] = {}  # which client a node says it is; None: none of ours
        self._greeted: dict[str, int] = {}  # nodes that were asked and have not answered, by message
        # Clients that did not answer last time: another node may take their place.
        self._silent: set[int] = set()
        # Why mixes of a frame without rounds are missing, by client, for the next record.
        self._missing_mixes: dict[int, str] = {}
        # Who trained in this round and must be told when it is over.
        self._reported: tuple[int, ...] = ()
        self.links, self.frame_ends = Links(settings.radio), FrameEnds(settings.fleet)
        self._scale: dict[str, Any] | None = None  # what the model takes; None: devices scale as they do
        self._received_bytes: dict[int, int] = {}  # of the last step's answers, by client

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
            names = ", ".join(map(str, missing))
            self.say(f"not there after {wait_s:g} s, and left out until they come: {names}")

    def exchange(self, asked: "Asked") -> list[Answers]:
        """Put the request of a run to its clients."""
        return [self._exchange(request) for _, request in asked]

    def reported_mixes(self, clients: "Clients", frame: int) -> dict[int, np.ndarray]:
        """Ask everyone for the class mix of a frame that has no rounds."""
        return {client: mix for client, (_, mix) in self.reported_data(clients, frame).items()}

    def reported_data(self, clients: "Clients", frame: int) -> dict[int, tuple[int, np.ndarray]]:
        """Ask everyone how many samples it holds in a frame, and for their class mix."""
        self._enter(frame)
        asked = RecordDict({"asked": ConfigRecord({"frame": frame})})
        read = partial(_read_held, classes=clients.plan.frames[frame].counts.shape[1])
        everyone = dict.fromkeys(range(self.num_clients), asked)
        given, failed = self._ask(MIX, everyone, read, self.settings.fleet.report_s)
        self._missing_mixes = {client: f"class mix of frame {frame}: {why}" for client, why in failed.items()}
        return given

    def begin(self, inputs: "Inputs") -> None:
        """Take what the model takes: devices scale their own images likewise."""
        self._scale = inputs.as_json()

    def frame_over(self, state: ServerState) -> bool:
        """Tell whether a frame has ended, after one of its rounds."""
        return self.frame_ends.over(state)

    def _exchange(self, request: Request) -> Answers:
        self._enter(request.frame)
        tag = f"{self.session}/{request.frame}/{request.round}"
        if not self.settings.fleet.pace:
            request = replace(request, upload_s=())
        contents = {client: request_records(request, client, tag, self._scale) for client in request.clients}
        read, fleet = READERS[request.kind], self.settings.fleet
        limit_s, began = getattr(fleet, f"{request.kind}_s"), time.monotonic()
        given, failed = self._ask(
            MESSAGES[request.kind], contents, lambda content: read(content, request.weights), limit_s
        )
        if request.kind == "report":
            given = _on_our_clock(given, time.monotonic() - began)
            failed, self._missing_mixes = self._missing_mixes | failed, {}
            asks_again = "class_norm" in request.needs and self.settings.estimates.class_norm_every == 1
            self._reported = () if asks_again else tuple(given)
        if request.kind == "upload":
            # Where no class gradients are asked for at the round's end, those not scheduled are told that it is over.
            others = [client for client in self._reported if client not in contents]
            self._tell(FORGET, dict.fromkeys(others, RecordDict()))
        sent, measured = sum(self._received_bytes.values()), None
        if request.kind == "report" and self.settings.fleet.uplink == "measured":
            given = {client: self.links.completed(client, report) for client, report in given.items()}
        if request.kind == "upload":
            measured = self._measured(request, given)
        return Answers(given, failed, sent, measured)

    def _measured(self, request: Request, given: dict[int, Any]) -> dict[int, float]:
        """Time the uploads that arrived; return every sender's rate, smoothed."""
        held_s = dict(zip(request.clients, request.upload_s, strict=False))
        for client in given:
            seconds = self.post.took_s[client] - held_s.get(client, 0.0)
            self.links.note(client, self._received_bytes[client], seconds)
        return {client: self.links.bps(client) for client in given}

    def _enter(self, frame: int) -> None:
        """Note which frame it is; its clock does not run while the first clients are waited for."""
        if not self._waited:
            self.wait_for_clients()
        self.frame_ends.hear(frame)

    def _ask(
        self, kind: str, contents: dict[int, RecordDict], read: Callable[[RecordDict], Any], limit_s: float
    ) -> tuple[dict[int, Any], dict[int, str]]:
        """Send every client its message, and collect answers until all are there or the time is over."""
        self._meet()
        until = time.monotonic() + limit_s
        while kind in (REPORT, MIX) and not self.nodes and time.monotonic() < until:
            # A fleet that lost its network comes back: rounds without anybody would be wasted.
            time.sleep(POLL_S)
            self._meet()
        failed = {client: "it is not connected" for client in contents if client not in self.nodes}
        until = time.monotonic() + limit_s
        waiting, lost = self._tell(kind, contents, limit_s)
        failed |= lost
        given: dict[int, Any] = {}
        self._received_bytes = {}
        for client, reply in self.post.answers(waiting, until):
            try:
                given[client] = self._read(client, reply, read)
            except BadAnswerError as error:
                failed[client] = str(error)
        for client in waiting.values():
            failed[client] = f"no answer within {limit_s:g} s"
        self._silent = (self._silent - set(given)) | set(waiting.values())
        return given, failed

    def _tell(
        self, kind: str, contents: dict[int, RecordDict], limit_s: float = 0.0
    ) -> tuple[dict[str, int], dict[int, str]]:
        """Send messages to clients that are there; return whose answer has which number, and who is lost."""
        messages = {
            client: Message(content, self.nodes[client], kind, ttl=limit_s + GRACE_S)
            for client, content in contents.items()
            if client in self.nodes
        }
        sent, lost = self.post.send(messages)
        for client in lost:
            self.nodes.pop(client)
        return sent, lost

    def _read(self, client: int, reply: Message | Exception, read: Callable[[RecordDict], Any]) -> Any:
        """Return what a client answered, or raise why it cannot be used."""
        if isinstance(reply, Exception):
            raise BadAnswerError(f"its answer cannot be unpacked ({type(reply).__name__})")
        if reply.has_error():
            code = reply.error.code
            reason = (reply.error.reason or "").strip().splitlines()
            why = CAUSES.get(code, f"Flower's error {code}")
            if code == NODE_GONE:
                self.nodes.pop(client, None)
            raise BadAnswerError(f"{why}: {reason[-1][:200]}" if code == APP_RAISED and reason else why)
        self._received_bytes[client] = content_bytes(reply.content)
        why_not = refused(reply.content)
        if why_not is not None:
            raise BadAnswerError(f"it refused: {why_not}")
        try:
            return read(reply.content)
        except BadAnswerError:
            raise
        except Exception as error:  # whatever it sent, it costs nobody else anything
            raise BadAnswerError(f"its answer cannot be read ({type(error).__name__})") from None

    def _meet(self, until: float | None = None) -> None:
        """Ask nodes that are new who they are, forget those that have left, and give every client its node.

        New nodes are waited for, once and not for long; an answer that comes later counts from then on.
        """
        there = self.post.nodes()
        self._claims = {node: client for node, client in self._claims.items() if node in there}
        self._greeted = {number: node for number, node in self._greeted.items() if node in there}
        new = there - set(self._claims) - set(self._greeted.values())
        if new:
            hello = RecordDict({"asked": ConfigRecord({"tag": ""})})
            messages = {node: Message(hello, node, HELLO, ttl=HELLO_TTL_S) for node in sorted(new)}
            self._greeted |= self.post.send(messages)[0]
        soon = time.monotonic() + (HELLO_S if new else 2 * POLL_S)
        for node, reply in self.post.answers(self._greeted, soon if until is None else min(soon, until)):
            if isinstance(reply, Message) and not reply.has_error():
                self._claims[node] = _read_number(reply.content)
        self.nodes = {client: node for client, node in self.nodes.items() if node in there}
        for node, client in self._claims.items():
            free = client not in self.nodes or client in self._silent
            if client is not None and client < self.num_clients and free and node not in self.nodes.values():
                self.nodes[client] = node
                self._silent.discard(client)


def _on_our_clock(reports: dict[int, Report], most_s: float) -> dict[int, Report]:
    """Cut computation times that are longer than it took to ask."""
    long = {
        n: report
        for n, report in reports.items()
        if isinstance(report.compute_s, int | float) and report.compute_s > most_s
    }
    return reports | {n: replace(report, compute_s=most_s) for n, report in long.items()}


def _read_number(content: RecordDict) -> int | None:
    try:
        number = content.config_records["client"]["number"]
    except Exception:
        return None
    return number if isinstance(number, int) and not isinstance(number, bool) and number >= 0 else None


def _read_held(content: RecordDict, classes: int) -> tuple[int, np.ndarray]:
    mix = np.array(content.metric_records["mix"]["mix"], dtype=np.float64)
    if mix.shape != (classes,):
        raise BadAnswerError(f"its class mix has {mix.size} entries, not {classes}")
    if not is_distribution(mix):
        raise BadAnswerError("its class mix is not a distribution")
    samples = content.metric_records["mix"]["num_samples"]
    if not isinstance(samples, int) or not 0 < samples <= MOST_SAMPLES:
        raise BadAnswerError(f"its num_samples is no whole number from 1 to {MOST_SAMPLES:g}")
    return samples, mix


def _read_gradients(content: RecordDict, like: Vector) -> ClassGradients:
    rows, counts = read_gradients(content)
    return ClassGradients(gradient_sum={c: _placed(row, like) for c, row in rows.items()}, counts=counts)


def _placed(values: np.ndarray, like: Vector) -> Vector:
    """Bring numbers to where the server's model lies; what they are worth is looked at later."""
    import torch

    try:
        return torch.from_numpy(values.copy()).to(like.device)
    except (TypeError, ValueError):
        raise BadAnswerError(f"it sent {values.dtype}, not numbers") from None


READERS: dict[str, Callable[[RecordDict, Vector], Any]] = {
    "report": lambda content, _: read_report(content),
    "upload": lambda content, like: _placed(read_vector(content, "upload"), like),
    "class_gradients": _read_gradients,
}
