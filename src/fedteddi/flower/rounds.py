"""The training rounds of a plain Flower app, with a scheduler between training and upload, or before the training."""

import logging
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from flwr.app import Error, Message, RecordDict

from fedteddi.errors import InputError
from fedteddi.flower.nodes import Node, loss_of, view_of
from fedteddi.flower.options import Options, ScheduledRound
from fedteddi.flower.records import BadAnswerError, refused
from fedteddi.flower.told import (
    TOLD,
    Phase,
    Told,
    array_bits,
    asking,
    bytes_of,
    plain_content,
    read_told,
)
from fedteddi.flower.transport import Post
from fedteddi.randomness import keyed_rng
from fedteddi.schedulers.memory import State
from fedteddi.schedulers.schedule import checked_choice, checked_first_state

log = logging.getLogger("flwr")
LONGEST_S = 3600.0  # Flower's own default for a phase, where an app sets no timeout
APP_FAILED = 2  # Flower's code for "the app raised"; with it, strategies log the reason


@dataclass(eq=False)
class Rounds:
    """Plays one round after the other on a Grid; remembers nodes and the scheduler's state in between."""

    options: Options
    post: Post
    num_rounds: int
    done: list[ScheduledRound]
    nodes: dict[int, Node] = field(default_factory=dict)
    number: int = 0
    session: str = field(default_factory=lambda: uuid.uuid4().hex)
    classes: int = 1
    _state: State = None
    _state_for: int = 0  # clients the scheduler's state was made for
    _failures: dict[int, str] = field(default_factory=dict)
    _errors: dict[int, Message] = field(default_factory=dict)  # what the strategy is given of them
    _silent: set[int] = field(default_factory=set)  # whose apps have no report_first

    def play(self, messages: Sequence[Message], timeout_s: float | None) -> list[Message]:
        """Play a round of these messages; return what the strategy is to aggregate: uploads, then errors."""
        asked = {message.metadata.dst_node_id: message for message in messages}
        if len(asked) < len(messages):
            raise InputError("two training messages for one node in a round: Scheduled wants one each")
        self.number += 1
        self._begin_frame()
        self.__dict__.pop("_there", None)
        self._failures, self._errors, self._silent = {}, {}, set()
        report_s = self.options.report_s or timeout_s or LONGEST_S
        upload_s = self.options.upload_s or timeout_s or LONGEST_S
        if self.options.select_first:
            report_bytes = self._count_labels(asked, report_s)
        else:
            report_bytes = self._ask("report", asked, report_s, self._heard)[1]
        reported = [node for node in asked if node not in self._failures and self._known(node)]
        self._refuse_if_unprepared(asked)
        scheduled = self._schedule(reported, max(array_bits(message) for message in messages))
        chosen = {node: asked[node] for node in asked if node in scheduled}
        phase: Phase = "train" if self.options.select_first else "upload"
        arrived, upload_bytes = self._ask(phase, chosen, upload_s, self._arrived)
        for node in arrived:
            self.nodes[node].times_scheduled += 1
            self.nodes[node].uploaded_round = self.number
        self._note(reported, scheduled, tuple(arrived), report_bytes, upload_bytes)
        return [*arrived.values(), *self._errors.values()]

    def _begin_frame(self) -> None:
        length = self.options.frame_rounds
        if length is not None and self.number > 1 and (self.number - 1) % length == 0:
            for node in self.nodes.values():
                node.earlier = None if node.told is None else node.told.counts
                node.times_scheduled = 0

    def _count_labels(self, asked: dict[int, Message], limit_s: float) -> int:
        """Ask those whose class counts are unknown, or too old."""
        every = self.options.labels_every
        fresh = {n for n in asked if self._known(n) and not self._is_old(self.nodes[n], every)}
        unknown = {node: message for node, message in asked.items() if node not in fresh}
        return self._ask("labels", unknown, limit_s, self._heard)[1]

    def _is_old(self, node: Node, every: int | None) -> bool:
        return every is not None and self.number - node.told_round >= every

    def _known(self, node: int) -> bool:
        return node in self.nodes and self.nodes[node].told is not None

    def _ask(
        self,
        phase: Phase,
        asked: dict[int, Message],
        limit_s: float,
        take: Callable[[int, Message, float], None],
    ) -> tuple[dict[int, Message], int]:
        """Ask nodes and hand each valid answer to `take`; return the valid answers and the bytes of all."""
        tag, needs = f"{self.session}/{self.number}", self.options.needs & {"update_norm"}
        sent = {node: self._question(phase, message, tag, needs) for node, message in asked.items()}
        began = time.monotonic()
        waiting, lost = self.post.send(sent)
        self._failures |= lost
        good: dict[int, Message] = {}
        size = 0
        for node, reply in self.post.answers(waiting, began + limit_s):
            try:
                if isinstance(reply, Exception):
                    raise BadAnswerError(f"its answer cannot be unpacked ({type(reply).__name__})")
                if reply.has_error():
                    self._fail(node, (reply.error.reason or "").strip().splitlines()[-1:], reply)
                    continue
                size += bytes_of(reply.content)
                _take(node, reply, time.monotonic() - began, take)
                good[node] = reply
            except BadAnswerError as error:
                reason = Error(APP_FAILED, f"fedteddi: {error}")
                self._fail(node, [str(error)], Message(reason, reply_to=sent[node]))
        for node in waiting.values():
            self._failures[node] = f"no answer within {limit_s:g} s"
        return {node: good[node] for node in asked if node in good}, size

    def _question(self, phase: Phase, message: Message, tag: str, needs: frozenset[str]) -> Message:
        content = RecordDict() if phase == "upload" else message.content
        meta = message.metadata
        return Message(
            asking(content, phase, tag, needs),
            meta.dst_node_id,
            meta.message_type,
            ttl=meta.ttl,
            group_id=meta.group_id,
        )

    def _fail(self, node: int, why: list[str], reply: Message) -> None:
        self._failures[node] = (why or ["its app failed"])[0][:200]
        self._errors[node] = reply

    def _heard(self, node: int, reply: Message, _seconds: float) -> None:
        """Take what a node reports."""
        if TOLD not in reply.content:
            self._silent.add(node)
        told = read_told(reply.content)
        self._check_usable(told)
        self._remember(node, told)

    def _check_usable(self, told: Told) -> None:
        limit, needs = self.options.num_classes, self.options.needs
        if limit is not None and max(told.counts) >= limit:
            raise BadAnswerError(f"it holds class {max(told.counts)}, beyond num_classes={limit}")
        if "loss" in needs:
            loss_of(told, self.options.loss_key)
        if "update_norm" in needs and told.update_norm is None:
            raise BadAnswerError("its arrays do not match the model's, so the norm of its update is unknown")

    def _remember(self, node: int, told: Told) -> None:
        self.classes = max(self.classes, max(told.counts) + 1, self.options.num_classes or 1)
        if node not in self.nodes:
            self.nodes[node] = Node(self._free_id(told.partition))
        self.nodes[node].hear(told, self.number, self.options.weight_key)

    def _free_id(self, wanted: int | None) -> int:
        """Return a number for a new node: its partition-id if that is free, or of one that has left, or the lowest."""
        holders = {node.client_id: node_id for node_id, node in self.nodes.items()}
        if wanted is not None and wanted < self._room and wanted not in holders:
            return wanted
        gone = [number for number in holders if holders[number] not in self._there]
        if wanted in gone or (gone and len(holders) >= self._state_for > 0):
            number = wanted if wanted in gone and wanted is not None else gone[0]
            del self.nodes[holders[number]]
            return number
        return next(number for number in range(len(holders) + 1) if number not in holders)

    @cached_property
    def _there(self) -> set[int]:
        """Who is connected; asked once a round, where a node is new."""
        return self.post.nodes()

    @property
    def _room(self) -> int:
        """How many clients there are, as far as is known: those who were not asked yet will be."""
        return max(self._state_for, len(self._there))

    def _arrived(self, node: int, reply: Message, seconds: float) -> None:
        """Take an upload: the app's own answer, as its strategy expects it."""
        trained_s = 0.0
        if self.options.select_first:
            told = read_told(reply.content)
            self._check_usable(told)
            self._remember(node, told)
            reply.content = plain_content(reply.content)
            trained_s = told.compute_s or 0.0
        self.nodes[node].measure(array_bits(reply), seconds - trained_s, self.number)

    def _refuse_if_unprepared(self, asked: dict[int, Message]) -> None:
        if asked and not self.nodes and self._silent == set(asked):
            raise InputError(
                "no node's app has report_first: its client_app needs ClientApp(mods=[report_first]), first of all mods"
            )

    def _schedule(self, reported: list[int], model_bits: float) -> tuple[int, ...]:
        """Let the scheduler choose among those who reported."""
        if not reported:
            return ()
        own = [self.nodes[node] for node in reported]
        frame, number, length = self._place()
        links = [node.link(node_id, self.number) for node_id, node in zip(reported, own, strict=True)]
        limits = self.options.budget.limits(links, self.number, max(1.0, model_bits))
        limits = replace(limits, needed_hz=np.where(self._resting(own), np.inf, limits.needed_hz))
        view = view_of(
            own,
            limits,
            frame=frame,
            round=number,
            rounds_in_frame=length,
            classes=self.classes,
            needs=self.options.needs,
            loss_key=self.options.loss_key,
        )
        self._make_room(max(node.client_id for node in self.nodes.values()) + 1)
        rng = keyed_rng(self.options.seed, "scheduler", frame=frame, round=number)
        chosen, self._state = checked_choice(self.options.rule, view, rng, self._state)
        return tuple(reported[index] for index in chosen.clients)

    def _resting(self, nodes: Sequence[Node]) -> np.ndarray:
        """Tell who sits out because it has uploaded lately, [N]; nobody, if that were everybody."""
        rests = np.array([self.number - node.uploaded_round <= self.options.rest for node in nodes])
        return rests & ~rests.all()

    def _place(self) -> tuple[int, int, int]:
        """Return the frame, the round in it, and how many rounds it has."""
        length = self.options.frame_rounds or max(self.num_rounds, self.number)
        frame = (self.number - 1) // length
        return frame, self.number - frame * length, length

    def _make_room(self, clients: int) -> None:
        if clients > self._state_for:
            if self._state is not None:
                log.info("fedteddi: %d nodes by now; %s begins anew", clients, self.options.rule.name)
            self._state_for = max(clients, self._room)
            self._state = checked_first_state(self.options.rule, self._state_for)

    def _note(
        self,
        reported: list[int],
        scheduled: tuple[int, ...],
        uploaded: tuple[int, ...],
        report_bytes: int,
        upload_bytes: int,
    ) -> None:
        done = ScheduledRound(
            round=self.number,
            reported=tuple(reported),
            scheduled=scheduled,
            uploaded=uploaded,
            failures=dict(self._failures),
            report_bytes=report_bytes,
            upload_bytes=upload_bytes,
        )
        self.done.append(done)
        names = ", ".join(str(self.nodes[node].name(node)) for node in scheduled) or "nobody"
        log.info(
            "%s: %s of %d reported upload; %d bytes of reports, %d of uploads",
            *(self.options.rule.name, names, len(reported), report_bytes, upload_bytes),
        )
        for node, why in done.failures.items():
            log.info("\t> node %d failed: %s", node, why)


def _take(node: int, reply: Message, seconds: float, take: Callable[[int, Message, float], None]) -> None:
    """Take an answer, or raise `BadAnswerError`: whatever it holds, it costs nobody else anything."""
    if (why := refused(reply.content)) is not None:
        raise BadAnswerError(why)
    try:
        take(node, reply, seconds)
    except (BadAnswerError, InputError):
        raise
    except Exception as error:
        raise BadAnswerError(f"its answer cannot be read ({type(error).__name__})") from None
