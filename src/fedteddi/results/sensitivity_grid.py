"""A sensitivity study: one factor at a time around a baseline, and which run stands for which level.

A level is called τ = 5 by people, `tau-5` in folders and files. Rules that a factor does not concern, and the level at
which it has the baseline's value, are not run again: the baseline's runs stand for them.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from fedteddi.errors import InputError
from fedteddi.results.folder import first_difference
from fedteddi.results.runs import Accuracy, RunRecord, Study
from fedteddi.results.sensitivity_claims import LevelClaim
from fedteddi.results.summary import VARIANT, Summaries
from fedteddi.results.tables import Targets

BASELINE = "baseline"


@dataclass(frozen=True)
class Level:
    """One value of a factor."""

    label: str
    changes: Mapping[str, object] = field(default_factory=dict)  # for Settings.changed; none: the baseline
    # Which of the factor's rules must be run, where not all; the baseline's first rounds stand for the others.
    only: tuple[str, ...] = ()

    @property
    def is_baseline(self) -> bool:
        """Whether the baseline's runs are this level's."""
        return not self.changes


@dataclass(frozen=True)
class Factor:
    """Something that is varied alone."""

    name: str  # in commands and folders
    symbol: str  # in tables and figures
    title: str
    levels: tuple[Level, ...]
    schedulers: tuple[str, ...]  # the rules that it concerns
    note: str = ""

    def key(self, level: Level) -> str:
        """Return the name of a level's folder and file."""
        return BASELINE if level.is_baseline else f"{self.name}-{level.label}"

    def named(self, level: Level) -> str:
        """Return what people call a level."""
        return f"{self.symbol} = {level.label}"

    def run_at(self, level: Level) -> tuple[str, ...]:
        """Return the rules that are run at a level; the baseline's runs stand for the others."""
        return () if level.is_baseline else level.only or self.schedulers


@dataclass(frozen=True)
class Sensitivity:
    """A baseline, and the factors that are varied around it."""

    name: str  # of the summaries
    experiment: str
    command: str  # that plays it
    title: str
    schedulers: tuple[str, ...]
    seeds: int
    factors: tuple[Factor, ...]
    targets: Targets
    drawn: Mapping[Accuracy, float]  # the one target of each accuracy that figures show
    claims: tuple[LevelClaim, ...]
    changes: Mapping[str, object]  # of the experiment's settings, for the baseline
    frame: int = 1

    def varied(self) -> Iterator[tuple[Factor, Level]]:
        """Yield every level but the baseline's."""
        for factor in self.factors:
            for level in factor.levels:
                if not level.is_baseline:
                    yield factor, level

    @property
    def keys(self) -> list[str]:
        """The names of all levels' folders, the baseline's first."""
        return [BASELINE, *(factor.key(level) for factor, level in self.varied())]


@dataclass(frozen=True, eq=False)
class Played:
    """What has been played of a sensitivity study: the finished runs, by level."""

    grid: Sensitivity
    by_level: Mapping[str, Summaries]

    def __post_init__(self) -> None:
        levels = {BASELINE: Level(BASELINE)}
        levels |= {factor.key(level): level for factor, level in self.grid.varied()}
        for key, level in levels.items():
            for run in [*self._runs(key), *(self.by_level[key].failed if key in self.by_level else ())]:
                self._check_belongs(run, key, level)

    @property
    def everything(self) -> Summaries:
        """All runs, each once."""
        found = [one for key in self.grid.keys if key in self.by_level for one in self.by_level[key].runs]
        return Summaries(self.grid.name, tuple(found))

    @property
    def baseline(self) -> Study:
        """The baseline's runs, in the grid's order of rules."""
        return self._ordered(self._runs(BASELINE))

    def study(self, factor: Factor, level: Level) -> Study:
        """Return the runs of one level, and those of the baseline that stand for the others."""
        if level.is_baseline:
            return self.baseline
        rules = factor.run_at(level)
        own = [run for run in self._runs(factor.key(level)) if run.scheduler in rules]
        for run in self._runs(BASELINE):
            if run.scheduler not in rules:
                own += _beginning(run, level)
        return self._ordered(own)

    def _runs(self, key: str) -> list[RunRecord]:
        return [one.run for one in self.by_level[key].runs] if key in self.by_level else []

    def _ordered(self, runs: list[RunRecord]) -> Study:
        known = [run for run in runs if run.scheduler in self.grid.schedulers]
        order = self.grid.schedulers.index
        return Study(tuple(sorted(known, key=lambda run: (order(run.scheduler), run.settings.seed))))

    def _check_belongs(self, run: RunRecord, key: str, level: Level) -> None:
        """Refuse a run that differs from the baseline in something else than its level."""
        baseline = self._runs(BASELINE)
        own = [base for base in baseline if base.scheduler == run.scheduler]
        for base in (own or baseline)[:1]:
            same = {name: getattr(run.settings, name) for name in (("seed",) if own else VARIANT)}
            expected = base.settings.changed(**level.changes).changed(**same)
            if expected != run.settings:
                raise InputError(
                    f"{key}/{run.scheduler} with seed {run.settings.seed} belongs to another study"
                    f" ({first_difference(expected, run.settings)}): keep it in a folder of its own"
                )


def _beginning(run: RunRecord, level: Level) -> list[RunRecord]:
    """Return the first rounds of a run, as many as a level has; nothing if it has fewer, or the last was not judged."""
    rounds = run.settings.changed(**level.changes).rounds
    if any(wanted > there for wanted, there in zip(rounds, run.settings.rounds, strict=True)):
        return []
    records = tuple(record for record in run.records if record["round"] <= rounds[record["frame"]])
    if "balanced" not in records[-1]:
        return []
    return [replace(run, settings=run.settings.changed(rounds=rounds), records=records)]
