"""A study in short: of its finished runs what tables and figures need, and which runs diverged; parts of it merge."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from fedteddi.errors import InputError
from fedteddi.results.folder import first_difference
from fedteddi.results.reading import read_study, without_variant
from fedteddi.results.runs import REFERENCES, RunRecord, Study
from fedteddi.results.stretches import Stretch
from fedteddi.settings import Settings
from fedteddi.studies.study import BASELINE

ROUNDED = ("round_s", "energy_j", "class_gradient_j")
DIGITS = 6  # significant, of seconds and joules; accuracies are kept to the bit
MACHINE = ("device", "python", "packages", "system", "cpus", "git_revision")
# What tells runs of a study apart, beside the deadline.
VARIANT = ("name", "scheduler", "scheduler_options", "seed")

Key = tuple[str, str, float, int]  # level, rule, deadline, seed


@dataclass(frozen=True, eq=False)
class Summarised:
    """A run in short that finished or failed, where it ran, and how long its rounds took."""

    run: RunRecord
    machine: dict[str, Any]
    minutes: float
    level: str = BASELINE

    @property
    def key(self) -> Key:
        """What tells it from the others of its study."""
        return self.level, self.run.scheduler, self.run.settings.radio.deadline_s, self.run.settings.seed

    @property
    def called(self) -> str:
        """What it is called in messages."""
        level, rule, deadline_s, seed = self.key
        at = "" if level == BASELINE else f"{level}/"
        return f"{at}{rule} at deadline {deadline_s:g} s with seed {seed}"


@dataclass(frozen=True, eq=False)
class Summaries:
    """The runs of a study that came to an end, by level, rule, deadline and seed."""

    name: str
    every: tuple[Summarised, ...]
    by_level: bool = False  # a file per level, not per rule

    def __post_init__(self) -> None:
        object.__setattr__(self, "every", tuple(sorted(self.every, key=lambda one: one.key)))
        for level in {one.level for one in self.every}:
            _check_one_study([one for one in self.every if one.level == level])

    @property
    def runs(self) -> tuple[Summarised, ...]:
        """The finished ones."""
        return tuple(one for one in self.every if one.run.finished)

    @property
    def failed(self) -> tuple[Summarised, ...]:
        """Those that diverged; their rounds are not kept."""
        return tuple(one for one in self.every if not one.run.finished)

    @property
    def study(self) -> Study:
        """The finished runs as tables and figures want them."""
        return Study(tuple(one.run for one in self.runs))

    def file_of(self, one: Summarised) -> str:
        """Return the name of the file that a run is kept in."""
        return f"{one.level if self.by_level else one.run.scheduler}.jsonl.gz"


def from_folders(
    name: str, folders: Mapping[str, Path], by_level: bool = False
) -> tuple[Summaries, list[str]]:
    """Shorten the runs of folders, each a level; also return the names of those that can still go on."""
    found, unfinished = [], []
    for level, folder in folders.items():
        single = (folder / "settings.toml").is_file()
        paths = [folder] if single else sorted(file.parent for file in folder.glob("*/settings.toml"))
        for path, run in zip(paths, read_study(folder).runs, strict=True):
            if run.finished:
                short = replace(run, records=(), kept=tuple(map(rounded, run.stretches)))
                found.append(Summarised(short, *_machine(path), level))
            elif run.failure is not None:
                found.append(Summarised(replace(run, records=()), {}, 0.0, level))
            else:
                unfinished.append(f"{level}/{path.name}" if by_level else path.name)
    return Summaries(name, tuple(found), by_level), unfinished


def merged(one: Summaries, other: Summaries) -> Summaries:
    """Join two parts of a study; the machines may differ, the settings may not, and no run may have two outcomes."""
    found = {own.key: own for own in one.every}
    for own in other.every:
        there = found.setdefault(own.key, own).run
        if (there.stretches, there.failure) != (own.run.stretches, own.run.failure):
            raise InputError(
                f"{own.called} is there already with another outcome: remove {one.file_of(own)} to replace it"
            )
    return Summaries(one.name, tuple(found.values()), one.by_level)


def _check_one_study(runs: list[Summarised]) -> None:
    """Refuse runs that differ in more than rule, deadline and seed, or that did not see the same data."""
    held: dict[tuple[int, bool], Summarised] = {}
    every = [one.run.settings for one in runs]
    first = next((settings for settings in every if settings.name not in REFERENCES), every[0])
    for one in runs:
        own, expected = (without_variant(settings, first) for settings in (one.run.settings, first))
        if own != expected:
            what = f"belongs to another study ({first_difference(expected, own)})"
            raise InputError(f"{one.called} {what}: keep it in a folder of its own")
        same = held.setdefault((one.run.settings.seed, one.run.settings.scenario.pooled), one)
        if not np.array_equal(same.run.counts, one.run.counts):
            both = f"{one.called} and {same.called}"
            raise InputError(f"{both} did not see the same data: run one of them again")


def shared_settings(settings: Settings) -> dict[str, Any]:
    """Return settings without what tells the runs of a study apart."""
    return settings.model_dump(exclude={**dict.fromkeys(VARIANT, True), "radio": {"deadline_s"}})


def ordered(rules: Iterable[str], study: Study) -> Study:
    """Return the finished runs in this order of rules, then others, bounds last."""
    order = [*rules]

    def position(run: RunRecord) -> tuple[bool, int, str, float, int]:
        rule, settings = run.scheduler, run.settings
        index = order.index(rule) if rule in order else len(order)
        return rule in REFERENCES, index, rule, settings.radio.deadline_s, settings.seed

    return Study(tuple(sorted((run for run in study.runs if run.finished), key=position)))


def rounded(one: Stretch) -> Stretch:
    """Return a stretch as it is kept."""
    found: dict[str, Any] = {name: getattr(one, name) for name in ROUNDED}
    kept = {key: float(f"{value:.{DIGITS}g}") for key, value in found.items() if value is not None}
    return replace(one, loss=None, **kept)  # type: ignore[arg-type]


def _machine(path: Path) -> tuple[dict[str, Any], float]:
    """Return where a run was made (which kernel the system has does not matter), and the minutes its rounds took."""
    try:
        machine: dict[str, Any] = json.loads((path / "environment.json").read_text(encoding="utf-8"))
        lines = (path / "timing.jsonl").read_text(encoding="utf-8").splitlines()
        seconds = sum(json.loads(line).get("seconds", 0.0) for line in lines)
    except (OSError, ValueError) as error:
        raise InputError(f"{path} is not a complete run folder ({error}): run it again") from None
    machine |= {"system": str(machine.get("system", "–")).partition("-")[0]}
    kept = {"device": "cpu"} | {key: machine[key] for key in MACHINE if key in machine}
    return kept, round(seconds / 60, 2)
