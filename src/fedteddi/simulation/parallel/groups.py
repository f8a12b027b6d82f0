"""Runs in groups on a cluster: which form a group, what its worker plays and reports (docs/cluster.md)."""

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import numpy as np
from torch import Tensor

from fedteddi.errors import InputError
from fedteddi.learning.datasets.dataset import Dataset
from fedteddi.protocol.record import RoundRecord
from fedteddi.results.folder import Failure, check_shared, locked
from fedteddi.results.following import FollowedRun
from fedteddi.results.reading import read_run
from fedteddi.results.runs import RunRecord
from fedteddi.settings import Settings
from fedteddi.simulation.laboratory import Laboratory
from fedteddi.simulation.parallel.cluster import POLL_S, Cluster
from fedteddi.simulation.parallel.worker import ToReport
from fedteddi.simulation.pretrained import Pretraining
from fedteddi.simulation.progress import Progress, Watch
from fedteddi.simulation.run import Run
from fedteddi.simulation.session import play_together, telling, writing_into
from fedteddi.tracking.tracking import Tracking

EVALUATIONS_REPORTED = 20


def cut(seeds: Sequence[int], over: Sequence[bool], slots: int) -> list[list[int]]:
    """Cut runs into as many groups as there are slots: of equal size, and seeds kept together as far as that goes.

    `seeds` and `over` say of every run its seed and whether it has come to its end already; a group is a list of
    the runs' numbers. Runs that are over cost nothing, so they are dealt out after the others.
    """
    order = sorted(range(len(seeds)), key=lambda number: (seeds[number], number))
    open_, ended = ([n for n in order if over[n] is done] for done in (False, True))
    number = max(1, min(slots, len(open_)))
    groups = [part.tolist() for part in np.array_split(np.array(open_, dtype=int), number)]
    return [group + ended[index::number] for index, group in enumerate(groups)]


@dataclass(frozen=True)
class Group:
    """Runs that one worker plays in lock-step."""

    each: dict[str, Settings]  # by the names of their folders inside `folder`
    device: str
    folder: Path | None  # of all runs, with what its lock says
    holder: str | None
    stop_at: float | None  # of time.time(): clocks of other machines count from elsewhere
    keep_going: bool = False


@dataclass(frozen=True)
class Account:
    """How far one run is, as its worker reports it."""

    frame: int
    round: int
    rounds_done: int
    records: list[RoundRecord] = field(repr=False)
    finished: bool
    failure: Failure | None
    weights: Tensor | None = field(default=None, repr=False)  # in the end, if they are in no folder

    @classmethod
    def of(cls, run: Run, records: list[RoundRecord], weights: Tensor | None = None) -> "Account":
        """Give account of a run, with some of its records."""
        state = run.state
        return cls(state.frame, state.round, state.rounds_done, records, run.finished, run.failure, weights)

    def take_over(self, run: Run) -> None:
        """Show in a run of this process what became of it elsewhere."""
        run.state.frame, run.state.round, run.state.rounds_done = self.frame, self.round, self.rounds_done
        run.records, run.finished, run.failure = self.records, self.finished, self.failure
        if self.weights is not None:
            run.state.weights = self.weights


# What a group reports: its runs' accounts, seconds by what they went into, a pre-training that goes on.
Reported = tuple[list[Account], dict[str, float], Pretraining | None]


def play_in_groups(
    cluster: Cluster,
    laboratory: Laboratory,  # of this process, which plays nothing
    runs: Mapping[str, Run],  # by the names of their folders inside `folder`
    folder: Path | None,
    holder: str | None,
    stop_at: float | None,  # of time.monotonic()
    watch: Watch | None,
    tracking: Tracking | None = None,
) -> None:
    """Let a cluster's workers play the runs in groups, and take over what they report and answer."""
    names = list(runs)
    kept = [_found(folder, name) for name in names]
    over = [found is not None and (found.finished or found.failure is not None) for found in kept]
    numbers = cut([run.settings.seed for run in runs.values()], over, cluster.slots)
    groups = [{names[number]: runs[names[number]] for number in group} for group in numbers]
    own = None if folder is None else folder.resolve()
    until = None if stop_at is None else time.time() + stop_at - time.monotonic()
    asked = {}
    for number, group in enumerate(groups):
        each = {name: run.settings for name, run in group.items()}
        asked[_title(number, groups)] = Group(each, cluster.device, own, holder, until, laboratory.keep_going)
    held = {name: 0 if found is None else len(found.records) for name, found in zip(names, kept, strict=True)}
    with telling(tracking, runs, folder, held):
        look = partial(_show, groups, runs, watch, time.monotonic(), _reader(folder, names, tracking))
        answers = cluster.spread(play_group, laboratory.data, asked, look, until)
        for group, accounts in zip(groups, answers, strict=True):
            if accounts is not None:
                _take_over(group, accounts)
                continue
            for name, run in group.items():  # not begun in time; what there was is still there
                if (found := _found(folder, name)) is not None:
                    run.records, run.finished = list(found.records), found.finished
                    run.failure = found.failure


def _reader(folder: Path | None, names: list[str], tracking: Tracking | None) -> Callable[[], None]:
    """Return what tells trackers of the rounds that workers have written by now: they report their last ones only."""
    followed = (
        {} if folder is None or tracking is None else {name: FollowedRun(folder / name) for name in names}
    )

    def read() -> None:
        written = {}
        for name, run in followed.items():
            with suppress(InputError, OSError):  # who plays it will say what is wrong
                run.look()
                written[name] = run
        if tracking is not None:
            tracking.hear(written)

    return read


def _take_over(group: Mapping[str, Run], accounts: list[Account]) -> None:
    for run, account in zip(group.values(), accounts, strict=True):
        account.take_over(run)


def _show(
    groups: list[dict[str, Run]],
    runs: Mapping[str, Run],
    watch: Watch | None,
    started_at: float,
    read: Callable[[], None],
    reported: dict[int, Reported],
    news: list[str],
) -> None:
    """Bring the runs of this process to what groups reported last, and show how far they are."""
    spent: Counter[str] = Counter()
    for number, (accounts, seconds, _) in reported.items():
        _take_over(groups[number], accounts)
        spent.update(seconds)
    read()
    if watch is None:
        return
    # All groups' shares, of the time that passes here.
    passed, total = time.monotonic() - started_at, spent.total()
    shares = {purpose: passed * value / total for purpose, value in spent.items() if total}
    state = Progress.of(runs, shares, news)
    # Some groups may play while others still pre-train: then the rounds are what is shown.
    begun = None if state.rounds_done else next((p for *_, p in reported.values() if p is not None), None)
    watch(replace(state, pretraining=begun))


def _title(number: int, groups: list[dict[str, Run]]) -> str:
    names = list(groups[number])
    more = f" and {len(names) - 2} more" if len(names) > 2 else ""
    return f"group {number + 1} of {len(groups)} ({', '.join(names[:2])}{more})"


def _found(folder: Path | None, name: str) -> RunRecord | None:
    """Return what a folder holds of a run; nothing if that cannot be read, which its worker will say."""
    if folder is None:
        return None
    try:
        return read_run(folder / name)
    except InputError:
        return None


def play_group(data: Dataset, group: Group, report: ToReport) -> list[Account]:
    """Play runs in lock-step in a cluster's worker; return what became of each."""
    stop_at = None if group.stop_at is None else time.monotonic() + group.stop_at - time.time()
    first = next(iter(group.each.values()))
    laboratory = Laboratory(first, data, group.device, keep_going=group.keep_going)
    runs = {name: laboratory.new_run(settings) for name, settings in group.each.items()}
    reported_at = 0.0

    def show(state: Progress) -> None:
        nonlocal reported_at
        if time.monotonic() - reported_at >= POLL_S or state.rounds_done == state.rounds_in_all:
            reported_at = time.monotonic()
            accounts = [Account.of(run, _last_records(run)) for run in runs.values()]
            report((accounts, state.seconds, state.pretraining))

    with ExitStack() as locks:
        if group.folder is not None:
            check_shared(group.folder, group.holder or "")
            for name in runs:  # one that was given up but lives on must not write beside its successor
                locks.enter_context(locked(group.folder / name))
        with writing_into(group.folder):
            play_together(laboratory, runs, group.folder, stop_at, show)
    kept = group.folder is not None
    return [Account.of(run, run.records, None if kept else run.state.weights.cpu()) for run in runs.values()]


def _last_records(run: Run) -> list[RoundRecord]:
    """Return what says how far a run is: its last evaluated rounds (other workers may lag), and its last round."""
    evaluated = [record for record in run.records[:-1] if record.is_evaluated]
    return [*(replace(record, trace=None) for record in evaluated[-EVALUATIONS_REPORTED:]), *run.records[-1:]]
