"""A study in short: of its finished runs what tables and figures need, and which runs diverged; parts of it merge."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from fedteddi.errors import InputError
from fedteddi.protocol.record import RoundRecord
from fedteddi.results.folder import first_difference
from fedteddi.results.reading import read_study
from fedteddi.results.runs import REFERENCES, RunRecord, Study
from fedteddi.settings import Settings

EXACT = ("frame", "round", "clients", "scheduled_new", "uplink_bits", "class_accuracy", "balanced", "global")
ROUNDED = ("round_s", "energy_j", "gradient_std")
DIGITS = 6  # significant, of what is measured in seconds, joules and norms; accuracies are kept to the bit
MACHINE = ("device", "python", "packages", "system", "cpus", "git_revision")
VARIANT = (
    "name",
    "scheduler",
    "scheduler_options",
    "seed",
)  # and the deadline: what tells runs of a study apart

Key = tuple[str, float, int]  # rule, deadline, seed


@dataclass(frozen=True, eq=False)
class Summarised:
    """A finished run in short, where it ran, and how long its rounds took."""

    run: RunRecord
    machine: dict[str, Any]
    minutes: float

    @property
    def key(self) -> Key:
        """What tells it from the others of its study."""
        return key_of(self.run)


@dataclass(frozen=True, eq=False)
class Summaries:
    """The finished runs of a study, by rule, deadline and seed; and those that diverged, without their rounds."""

    name: str
    runs: tuple[Summarised, ...]
    failed: tuple[RunRecord, ...] = ()

    @property
    def study(self) -> Study:
        """The finished runs as tables and figures want them."""
        return Study(tuple(summarised.run for summarised in self.runs))


def from_folder(name: str, folder: Path) -> tuple[Summaries, list[str]]:
    """Shorten the finished runs of a folder of runs; also return the names of those that can still go on."""
    found, failed, unfinished = [], [], []
    single = (folder / "settings.toml").is_file()
    paths = [folder] if single else sorted(file.parent for file in folder.glob("*/settings.toml"))
    for path, run in zip(paths, read_study(folder).runs, strict=True):
        if run.finished:
            try:
                machine, seconds = _machine(path), _seconds(path)
            except (OSError, ValueError) as error:
                raise InputError(f"{path} is not a complete run folder ({error}): run it again") from None
            found.append(
                Summarised(
                    replace(
                        run, records=tuple(RoundRecord.from_json(short(record)) for record in run.records)
                    ),
                    {"device": "cpu"} | {key: machine[key] for key in MACHINE if key in machine},
                    round(seconds / 60, 2),
                )
            )
        elif run.failure is not None:
            failed.append(replace(run, records=()))
        else:
            unfinished.append(path.name)
    return Summaries(name, sorted_runs(found), tuple(sorted(failed, key=key_of))), unfinished


def merged(one: Summaries, other: Summaries, file: str = "") -> Summaries:
    """Join two parts of a study; the machines may differ, the settings may not, and no run may have two outcomes.

    `file` is where the first part lies, if not in a file per rule.
    """
    found = {summarised.key: summarised for summarised in one.runs}
    failed = {key_of(run): run for run in one.failed}
    for summarised in other.runs:
        known = found.setdefault(summarised.key, summarised)
        if known.run.records != summarised.run.records or summarised.key in failed:
            raise _two_outcomes(summarised.key, file)
    for run in other.failed:
        if failed.setdefault(key_of(run), run).failure != run.failure or key_of(run) in found:
            raise _two_outcomes(key_of(run), file)
    joined = Summaries(one.name, sorted_runs(found.values()), tuple(failed[key] for key in sorted(failed)))
    check_one_study(joined)
    return joined


def _two_outcomes(key: Key, file: str) -> InputError:
    return InputError(
        f"{called(key)} is there already with another outcome: remove {file or f'{key[0]}.jsonl.gz'} to replace it"
    )


def shared_settings(settings: Settings) -> dict[str, Any]:
    """Return settings without what tells the runs of a study apart."""
    data = {key: value for key, value in settings.model_dump().items() if key not in VARIANT}
    data["radio"] = {key: value for key, value in data["radio"].items() if key != "deadline_s"}
    return data


def key_of(run: RunRecord) -> Key:
    """Return what tells a run from the others of its study."""
    return run.scheduler, run.settings.radio.deadline_s, run.settings.seed


def sorted_runs(runs: Iterable[Summarised]) -> tuple[Summarised, ...]:
    """Return runs by rule, deadline and seed."""
    return tuple(sorted(runs, key=lambda one: one.key))


def called(key: Key) -> str:
    """Return what a run is called in messages."""
    rule, deadline_s, seed = key
    return f"{rule} at deadline {deadline_s:g} s with seed {seed}"


def check_one_study(summaries: Summaries) -> None:
    """Refuse runs that differ in more than rule, deadline and seed, or that did not see the same data."""
    runs = [*(one.run for one in summaries.runs), *summaries.failed]
    if not runs:
        return
    held: dict[tuple[int, bool], RunRecord] = {}
    every = [run.settings for run in runs]
    first = next((settings for settings in every if settings.name not in REFERENCES), every[0])
    of_its_name: dict[str, Settings] = {}
    for run in runs:
        own = run.settings
        kin = of_its_name.setdefault(own.name, own)
        for other, varied in ((first, _varied(first, own.name)), (kin, _varied(kin, ""))):
            alike = own.changed(**varied)
            if alike != other:
                raise InputError(
                    f"{called(key_of(run))} belongs to another study"
                    f" ({first_difference(other, alike)}): keep it in a folder of its own"
                )
        same_seed = held.setdefault((own.seed, own.scenario.pooled), run)
        if not np.array_equal(same_seed.counts, run.counts):
            raise InputError(
                f"{called(key_of(run))} and {called(key_of(same_seed))} did not see the same data:"
                " run one of them again"
            )


def _varied(settings: Settings, name: str) -> dict[str, Any]:
    """Return what a run of this name may have of its own, with the value that it has here, for Settings.changed."""
    found: dict[str, Any] = settings.model_dump(include={*VARIANT})
    if name not in REFERENCES:
        return found | {"radio__deadline_s": settings.radio.deadline_s}
    return found | {  # a bound has no limits, and its one client may hold all data
        "radio": settings.radio.model_dump(),
        "scenario__pooled": settings.scenario.pooled,
        "training__batch_size": settings.training.batch_size,
    }


def short(record: Mapping[str, Any]) -> dict[str, Any]:
    """Keep what tables and figures need of a round."""
    short = {key: record[key] for key in EXACT if key in record}
    short |= {key: _rounded(record[key]) for key in ROUNDED if record.get(key) is not None}
    if record.get("objective"):
        short["objective"] = {key: _rounded(value) for key, value in record["objective"].items()}
    return short


def _rounded(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")


def _machine(path: Path) -> dict[str, Any]:
    """Return where a run was made; which kernel the system has does not matter."""
    machine: dict[str, Any] = json.loads((path / "environment.json").read_text(encoding="utf-8"))
    return machine | {"system": str(machine.get("system", "–")).partition("-")[0]}


def _seconds(path: Path) -> float:
    lines = (path / "timing.jsonl").read_text(encoding="utf-8").splitlines()
    return float(sum(json.loads(line).get("seconds", 0.0) for line in lines))
