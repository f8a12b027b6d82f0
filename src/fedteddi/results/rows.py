"""How far runs are: a row for each rule, made of runs that are being played, or of their folders."""

import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from fedteddi.protocol.record import RoundRecord
from fedteddi.results.folder import Failure
from fedteddi.results.runs import REFERENCES
from fedteddi.settings import Settings

When = tuple[int, int]  # a frame and a round in it


class Seen(Protocol):
    """What a row says of a run is made of this."""

    @property
    def settings(self) -> Settings:
        """The run's settings."""

    @property
    def records(self) -> Sequence[RoundRecord]:
        """Its records so far; at least the last one, and the last that was evaluated."""

    @property
    def rounds_done(self) -> int:
        """How many rounds it has played."""

    @property
    def finished(self) -> bool:
        """Whether it came to its end."""

    @property
    def failure(self) -> Failure | None:
        """Why it never will."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """The runs of a rule (at a deadline, at a level) over all seeds; means are over those that have not failed."""

    label: str
    runs: int
    finished: int
    failed: int
    rounds_done: int
    rounds_in_all: int
    last: When | None  # where the one is that is least far
    evaluated: When | None  # the last round after which all of them were evaluated
    balanced: float | None  # test accuracies after that round
    global_: float | None
    clients: float | None  # scheduled in the last round; None in round 0
    new: float | None  # of them, with new classes

    @property
    def is_going(self) -> bool:
        """Whether more rounds can follow."""
        return self.finished + self.failed < self.runs

    @property
    def state(self) -> str:
        """Say how it stands, in a word or two."""
        if self.failed == self.runs:
            return "failed"
        failed = f", {self.failed} failed" if self.failed else ""
        if not self.is_going:
            return f"finished{failed}"
        return f"{'playing' if self.last else 'starting'}{failed}"


def rows_of(runs: Mapping[str, Seen]) -> list[Row]:
    """Return a row for each rule, from runs by the names of their folders, in their order."""
    groups: dict[str, list[Seen]] = {}
    for key, run in zip(_without_seeds(runs), runs.values(), strict=True):
        groups.setdefault(key, []).append(run)
    deadlines = {r.settings.radio.deadline_s for r in runs.values() if r.settings.name not in REFERENCES}
    return [_row(_label(key, own[0].settings, len(deadlines) > 1), own) for key, own in groups.items()]


def _without_seeds(runs: Mapping[str, Seen]) -> list[str]:
    return [name.removesuffix(f"-s{run.settings.seed}") for name, run in runs.items()]


def _label(key: str, settings: Settings, by_deadline: bool) -> str:
    """Say which runs these are: the rule; the deadline where there are several; else what their folders are called."""
    level, _, own = key.rpartition("/")
    deadline = f"{settings.radio.deadline_s:.12g}"
    if own in (f"{settings.name}-d{deadline}", settings.name, ""):
        at = by_deadline and settings.name not in REFERENCES and "deadline_s=" not in level
        own = f"{settings.name} {deadline} s" if at else settings.name
    if "=" in level:  # of a sweep: the rule first, for names are cut at their ends
        parts = [part.partition("=") for part in level.split(",")]
        return " ".join([own, *(f"{key.rpartition('.')[2]}{sign}{value}" for key, sign, value in parts)])
    return f"{level}/{own}" if level else own


def _row(label: str, runs: Sequence[Seen]) -> Row:
    going = [run for run in runs if run.failure is None]
    begun = [run for run in going if run.records]
    last = [run.records[-1] for run in begun]
    when, found = _evaluated(begun) if len(begun) == len(going) else (None, [])
    played = [record for record in last if record.round] if len(begun) == len(going) else []
    return Row(
        label=label,
        runs=len(runs),
        finished=sum(run.finished for run in runs),
        failed=len(runs) - len(going),
        rounds_done=sum(run.rounds_done for run in runs),
        rounds_in_all=sum(sum(run.settings.rounds) for run in runs),
        last=min(((record.frame, record.round) for record in last), default=None),
        evaluated=when,
        balanced=_mean(record.balanced for record in found),
        global_=_mean(record.global_ for record in found),
        clients=_mean(len(record.clients) for record in played),
        new=_mean(record.scheduled_new for record in played),
    )


def _evaluated(runs: Sequence[Seen]) -> tuple[When | None, list[RoundRecord]]:
    """Return the last round after which every run was evaluated, and their records of it."""
    last = [next((_when(r) for r in reversed(run.records) if r.is_evaluated), None) for run in runs]
    known = [when for when in last if when is not None]
    if not known or len(known) < len(runs):
        return None, []
    when = min(known)
    found = [next((r for r in reversed(run.records) if _when(r) == when), None) for run in runs]
    evaluated = [record for record in found if record is not None and record.is_evaluated]
    return (when, evaluated) if len(evaluated) == len(runs) else (None, [])


def _when(record: RoundRecord) -> When:
    return record.frame, record.round


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def accuracy_lines(rows: Sequence[Row], width: int) -> list[str]:
    """Say the balanced accuracy of every rule, and after which round it was found, wrapped at a width."""
    after: dict[When, list[str]] = {}
    others: dict[str, list[str]] = {}
    for row in rows:
        if row.evaluated is not None and row.balanced is not None:
            after.setdefault(row.evaluated, []).append(f"{row.label} {row.balanced:.3f}")
        if row.evaluated is None or row.failed:
            others.setdefault(row.state, []).append(row.label)
    said = [
        f"balanced accuracy after frame {frame} round {round}: {', '.join(own)}"
        for (frame, round), own in after.items()
    ]
    said += [f"{state}: {', '.join(own)}" for state, own in others.items()]
    return [line for sentence in said for line in _wrapped(sentence, width)]


def _wrapped(sentence: str, width: int) -> list[str]:
    """Wrap between rules, not inside of one: its name stays beside its number."""
    joined = re.sub(r" (?=\d\.\d{3}\b)", "\xa0", sentence)
    lines = textwrap.wrap(joined, width, subsequent_indent="  ", break_on_hyphens=False)
    return [line.replace("\xa0", " ") for line in lines]
