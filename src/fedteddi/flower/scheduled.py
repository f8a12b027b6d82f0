"""`Scheduled`: a scheduler for any Flower strategy, by a Grid that makes two messages of every training message."""

import inspect
from collections.abc import Iterable
from typing import Any

from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Result, Strategy

from fedteddi.errors import InputError, check_number
from fedteddi.flower.budget import Budget, Of
from fedteddi.flower.options import Options, ScheduledRound, obtainable
from fedteddi.flower.rounds import Rounds
from fedteddi.flower.transport import Post
from fedteddi.schedulers.registry import make_scheduler, named_rule

OWN = ("strategy", "rounds", "_options", "_last")


class Scheduled(Strategy):
    """Any strategy, with a scheduler that decides who uploads; its ClientApp has `mods=[report_first]`.

    Nodes whom the strategy asks to train report first: class counts, and what their app measures. The scheduler picks
    among them, and only those send their arrays; the strategy aggregates these as it always does. With `select_first`
    it picks before training, from class counts that are asked once. `rounds` says afterwards what happened.
    """

    def __init__(
        self,
        strategy: Strategy,
        scheduler: Any = "fedteddi-plus",
        *,
        uploads: float
        | None = None,  # at most so many a round, or a share of those asked; half of them by default
        deadline_s: float | None = None,  # for training and upload; who would miss it is not chosen
        band_hz: float | None = None,  # in place of uploads: as many as it carries before the deadline
        channel_gain: Of | None = None,  # (client, round) -> power gain; else the node's `channel-gain`
        rate_bps: float | Of | None = None,  # (client, round) -> bit/s; else measured from uploads
        rest: int = 0,  # rounds that a node sits out after an upload
        select_first: bool = False,
        labels_every: int
        | None = None,  # with select_first: class counts are asked again after so many rounds
        num_classes: int | None = None,  # else as many as were reported
        frame_rounds: int | None = None,  # rounds after which data are taken to have changed; else never
        loss_key: str = "train_loss",  # the app's metric that is its loss, for rules that need one
        weighted_by_key: str | None = None,  # the app's metric that is its sample count; else the strategy's
        report_s: float | None = None,  # seconds for training and reporting; else the timeout of `start`
        upload_s: float | None = None,  # seconds for the upload, likewise
        seed: int = 0,
    ) -> None:
        named = named_rule(scheduler)
        rule = make_scheduler(named.scheduler, **named.options)
        obtainable(rule, select_first)
        limits = {"labels_every": labels_every, "num_classes": num_classes, "frame_rounds": frame_rounds}
        for name, value in limits.items():
            if value is not None:
                check_number(name, value, at_least=1, at_most=100_000, whole=True)
        check_number("rest", rest, at_least=0, at_most=100_000, whole=True)
        for name, seconds in (("report_s", report_s), ("upload_s", upload_s)):
            if seconds is not None:
                check_number(name, seconds, above=0, at_most=1e9)
        if labels_every is not None and not select_first:
            raise InputError(
                "labels_every has no effect without select_first=True: everyone reports each round"
            )
        self.strategy = strategy
        self.rounds: list[ScheduledRound] = []
        self._options = Options(
            rule=rule,
            budget=Budget(
                uploads=uploads,
                deadline_s=deadline_s,
                band_hz=band_hz,
                channel_gain=channel_gain,
                rate_bps=rate_bps,
            ),
            select_first=select_first,
            rest=rest,
            num_classes=num_classes,
            frame_rounds=frame_rounds,
            labels_every=labels_every,
            loss_key=loss_key,
            weight_key=weighted_by_key or _weight_key(strategy),
            report_s=report_s,
            upload_s=upload_s,
            seed=seed,
        )

    def start(self, grid: Grid, *args: Any, **more: Any) -> Result:
        """Run the strategy's own `start` with its own arguments, on a Grid that schedules."""
        given = inspect.signature(self.strategy.start).bind(grid, *args, **more)
        given.apply_defaults()
        return self.strategy.start(self.grid(grid, given.arguments.get("num_rounds", 1)), *args, **more)

    def grid(self, grid: Grid, num_rounds: int) -> "ScheduledGrid":
        """Return a Grid that schedules, for an app with a loop of its own in place of `start`."""
        check_number("num_rounds", num_rounds, at_least=0, at_most=2**53, whole=True)
        self.rounds = []
        self._last = Rounds(self._options, Post(grid), max(1, num_rounds), self.rounds)
        return ScheduledGrid(grid, self._last)

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Ask the strategy."""
        if not isinstance(grid, ScheduledGrid):
            raise InputError(
                "Scheduled must be the outermost strategy: Scheduled(Other(FedAvg())), then start"
            )
        return self.strategy.configure_train(server_round, arrays, config, grid)

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Ask the strategy."""
        return self.strategy.aggregate_train(server_round, replies)

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Ask the strategy."""
        return self.strategy.configure_evaluate(server_round, arrays, config, grid)

    def aggregate_evaluate(self, server_round: int, replies: Iterable[Message]) -> MetricRecord | None:
        """Ask the strategy."""
        return self.strategy.aggregate_evaluate(server_round, replies)

    def summary(self) -> None:
        """Ask the strategy."""
        self.strategy.summary()

    def __setattr__(self, name: str, value: Any) -> None:
        """Keep what is ours; whatever else an app sets belongs to its strategy."""
        if name in OWN:
            object.__setattr__(self, name, value)
        else:
            setattr(self.strategy, name, value)

    def __getattr__(self, name: str) -> Any:
        """Be the strategy for whatever an app does with its own."""
        if name in ("strategy", "__setstate__"):  # not there yet while it is unpickled
            raise AttributeError(name)
        return getattr(self.strategy, name)


class ScheduledGrid(Grid):
    """A Grid on which training messages are played as scheduled rounds; all others pass through untouched."""

    def __init__(self, grid: Grid, rounds: Rounds) -> None:
        self._grid, self._rounds = grid, rounds

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> Iterable[Message]:
        """Play a round of the training messages; send the others as they are."""
        given = list(messages)
        training = [message for message in given if _trains(message)]
        if not training:
            return self._grid.send_and_receive(given, timeout=timeout)
        replies = self._rounds.play(training, timeout)
        others = [message for message in given if not _trains(message)]
        return [*replies, *(self._grid.send_and_receive(others, timeout=timeout) if others else [])]

    def set_run(self, run: Any) -> None:
        """Ask the Grid."""
        self._grid.set_run(run)

    @property
    def run(self) -> Any:
        """The Grid's."""
        return self._grid.run

    def create_message(
        self,
        content: RecordDict,
        message_type: str,
        dst_node_id: int,
        group_id: str,
        ttl: float | None = None,
    ) -> Message:
        """Ask the Grid."""
        return self._grid.create_message(content, message_type, dst_node_id, group_id, ttl)

    def get_node_ids(self) -> Iterable[int]:
        """Ask the Grid."""
        return self._grid.get_node_ids()

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """Send messages as they are: only `send_and_receive` schedules."""
        return self._grid.push_messages(messages)

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        """Ask the Grid."""
        return self._grid.pull_messages(message_ids)

    def __getattr__(self, name: str) -> Any:
        """Be the Grid for whatever an app does with its own."""
        if name in ("_grid", "__setstate__"):
            raise AttributeError(name)
        return getattr(self._grid, name)


def _trains(message: Message) -> bool:
    return str(message.metadata.message_type).partition(".")[0] == "train"


def _weight_key(strategy: Any) -> str:
    """Return the metric by which a strategy, or the one that it wraps, weights uploads."""
    for _ in range(5):
        if isinstance(key := getattr(strategy, "weighted_by_key", None), str):
            return key
        strategy = getattr(strategy, "strategy", None)
    return "num-examples"
