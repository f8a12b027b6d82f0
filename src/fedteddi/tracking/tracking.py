"""Telling trackers: every record of every run once, also after an interruption; one that fails is left out."""

import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from fedteddi.errors import InputError, TrackingWarning, fault_place
from fedteddi.protocol.record import RoundRecord
from fedteddi.settings import Settings
from fedteddi.tracking.marks import Mark, read_marks, write_marks
from fedteddi.tracking.tracker import Outcome, TrackedRun, Tracker

ALONE = "fedteddi"  # the group of a run that belongs to no others


class Heard(Protocol):
    """What trackers are to hear of a run."""

    @property
    def records(self) -> Sequence[RoundRecord]:
        """All records so far."""

    @property
    def finished(self) -> bool:
        """Whether it came to its end."""

    @property
    def failure(self) -> Any | None:
        """Why it never will."""


@dataclass(eq=False)
class _Followed:
    """A run, with how much each tracker has heard of it."""

    run: TrackedRun
    marks: dict[str, Mark]  # of all trackers that its folder knows
    passing: dict[str, Mark]  # of those that hear only of what is played now
    started: dict[str, TrackedRun] = field(
        default_factory=dict
    )  # what each was told at the start, in this process

    def mark(self, tracker: str) -> Mark:
        return self.passing.get(tracker) or self.marks.setdefault(tracker, Mark())

    def write(self, tracker: str) -> None:
        if self.run.folder is not None and tracker not in self.passing:
            write_marks(self.run.folder, self.marks)


@dataclass(eq=False)
class Tracking:
    """Tells trackers of the records of runs that are played together, and remembers what each has heard.

    `passing` trackers hear only of what is played now. One that raises is named in a warning and told no more; the
    runs go on, and the next `--resume` tells it what it has missed.
    """

    trackers: Mapping[str, Tracker]
    passing: Mapping[str, Tracker] = field(default_factory=dict)
    _runs: dict[str, _Followed] = field(default_factory=dict)
    _failed: set[str] = field(default_factory=set)

    def begin(self, each: Mapping[str, Settings], folder: Path | None, held: Mapping[str, int]) -> None:
        """Take up runs, by the names of their folders inside `folder`; `held` is how many records each has."""
        for name, settings in each.items():
            run = tracked_run(name, settings, folder)
            marks = {} if run.folder is None else self._kept(run.folder, held[name])
            self._runs[name] = _Followed(run, marks, {one: Mark(told=held[name]) for one in self.passing})

    def _kept(self, folder: Path, held: int) -> dict[str, Mark]:
        try:
            return read_marks(folder)
        except InputError as error:
            warnings.warn(str(error), TrackingWarning, stacklevel=2)
            return {one: Mark(told=held) for one in self.trackers}

    def hear(self, runs: Mapping[str, Heard]) -> None:
        """Tell every tracker what it has not heard yet."""
        for name, tracker in {**self.trackers, **self.passing}.items():
            for key, heard in runs.items():
                own = self._runs[key]
                for record in list(heard.records)[own.mark(name).told :]:
                    self._tell(name, tracker, own, record)

    def end(self, runs: Mapping[str, Heard]) -> None:
        """Tell what is left, and how every run ended."""
        self.hear(runs)
        for name, tracker in {**self.trackers, **self.passing}.items():
            for key, heard in runs.items():
                own, outcome = self._runs[key], _outcome(heard)
                # If the last process died before it could tell of the end, that is told now.
                overdue = own.mark(name).open and outcome != "stopped"
                if name in own.started or overdue:
                    self._tell(name, tracker, own, outcome)

    def _tell(self, name: str, tracker: Tracker, own: _Followed, news: RoundRecord | Outcome) -> None:
        """Tell one tracker one thing; marked before, so that a process that dies meanwhile tells nothing twice."""
        if name in self._failed:
            return
        mark = own.mark(name)
        before = replace(mark)
        try:
            run = self._started(name, tracker, own)
            before = replace(mark)
            mark.told += isinstance(news, RoundRecord)
            mark.open = isinstance(news, RoundRecord)
            own.write(name)
            if isinstance(news, RoundRecord):
                tracker.on_round(run, news)
            elif (on_end := getattr(tracker, "on_end", None)) is not None:
                on_end(run, news)
        except (Exception, SystemExit) as error:
            mark.told, mark.open = before.told, before.open
            with suppress(OSError):
                own.write(name)
            self._fail(name, error)

    def _started(self, name: str, tracker: Tracker, own: _Followed) -> TrackedRun:
        """Return a run as a tracker was told of it, which happens before its first record in this process."""
        if name not in own.started:
            mark = own.mark(name)
            run = replace(own.run, told=mark.told, kept=mark.kept)
            if (on_start := getattr(tracker, "on_start", None)) is not None:
                mark.kept = on_start(run)
            mark.open = True
            own.started[name] = run
        return own.started[name]

    def _fail(self, name: str, error: BaseException) -> None:
        self._failed.add(name)
        cause = (
            str(error)
            if isinstance(error, InputError)
            else f"{type(error).__name__}: {error}{fault_place(error)}"
        )
        later = "" if name in self.passing else "; --resume tells it the rest once that is corrected"
        warnings.warn(
            f"the tracker {name} failed ({cause}): the runs go on without it{later}",
            TrackingWarning,
            stacklevel=2,
        )


def _outcome(heard: Heard) -> Outcome:
    return "finished" if heard.finished else "stopped" if heard.failure is None else "failed"


def tracked_run(name: str, settings: Settings, folder: Path | None) -> TrackedRun:
    """Return a run as trackers see it; the name of one that lies in no folder of runs is that of its own."""
    if name:
        return TrackedRun(
            name=name,
            group=folder.resolve().name if folder else ALONE,
            settings=settings,
            folder=folder / name if folder else None,
        )
    called = folder.resolve().name if folder else f"{settings.name}-s{settings.seed}"
    return TrackedRun(name=called, group=ALONE, settings=settings, folder=folder)
