"""A study as small files that can be committed: `RULE.jsonl.gz`, one line a round, enough for all tables and figures.

The first line of a file says what it is: format, name of the study, the settings its runs share, who held what (per
seed), and on what machines they ran. Then, for every run, a line that names it and its rounds. The same runs give the
same bytes.
"""

import gzip
import json
import zlib
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from fedteddi.errors import InputError
from fedteddi.results.folder import first_difference, write_atomically
from fedteddi.results.reading import read_study
from fedteddi.results.runs import ACCURACIES, REFERENCES, RunRecord, Study
from fedteddi.settings import Settings, parse_settings

FORMAT = "fedteddi-summary-1"
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
        """What tells it from the other runs of its study."""
        return self.run.scheduler, self.run.settings.radio.deadline_s, self.run.settings.seed


@dataclass(frozen=True, eq=False)
class Summaries:
    """The finished runs of a study, by rule, deadline and seed."""

    name: str
    runs: tuple[Summarised, ...]

    @property
    def study(self) -> Study:
        """The runs as tables and figures want them."""
        return Study(tuple(summarised.run for summarised in self.runs))


def from_folder(name: str, folder: Path) -> tuple[Summaries, list[str]]:
    """Shorten the finished runs of a folder of runs; also return the names of those that are not finished."""
    found, unfinished = [], []
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
                    replace(run, records=tuple(_short(record) for record in run.records)),
                    {"device": "cpu"} | {key: machine[key] for key in MACHINE if key in machine},
                    round(seconds / 60, 2),
                )
            )
        elif run.failure is None:  # those that failed never will be
            unfinished.append(path.name)
    return Summaries(name, tuple(sorted(found, key=lambda one: one.key))), unfinished


def merged(one: Summaries, other: Summaries, file: str = "") -> Summaries:
    """Join two parts of a study; the machines may differ, the settings may not, and no run may have two outcomes.

    `file` is where the first part lies, if not in a file per rule.
    """
    found = {summarised.key: summarised for summarised in one.runs}
    for summarised in other.runs:
        known = found.setdefault(summarised.key, summarised)
        if known.run.records != summarised.run.records:
            raise InputError(
                f"{_called(summarised.key)} is there already with another outcome:"
                f" remove {file or f'{summarised.key[0]}.jsonl.gz'} to replace it"
            )
    joined = Summaries(one.name, tuple(found[key] for key in sorted(found)))
    _check_one_study(joined)
    return joined


def write_summaries(summaries: Summaries, folder: Path) -> list[Path]:
    """Write one file per rule."""
    written = []
    for rule in dict.fromkeys(key[0] for key in (one.key for one in summaries.runs)):
        own = tuple(one for one in summaries.runs if one.key[0] == rule)
        written.append(write_summary(Summaries(summaries.name, own), folder / f"{rule}.jsonl.gz"))
    return written


def write_summary(summaries: Summaries, path: Path) -> Path:
    """Write runs that share their settings into one file."""
    lines = [
        json.dumps(line, allow_nan=False, separators=(",", ":"))
        for line in _lines(summaries.name, list(summaries.runs))
    ]
    content = gzip.compress(("\n".join(lines) + "\n").encode(), compresslevel=9, mtime=0)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # The byte that names the system on which it was compressed is set to "unknown".
        write_atomically(path, content[:9] + b"\xff" + content[10:])
    except OSError as error:
        raise InputError(
            f"{path.parent} cannot be written ({error.strerror}): choose another folder"
        ) from None
    return path


def read_summaries(folder: Path) -> Summaries:
    """Read all `*.jsonl.gz` of a folder."""
    files = sorted(folder.glob("*.jsonl.gz"))
    if not files:
        raise InputError(
            f"{folder} holds no summaries: 'fedteddi reproduce … --summarise {folder}' makes them"
        )
    names: list[str] = []
    runs: dict[Key, tuple[Path, Summarised]] = {}
    for file in files:
        part = read_summary(file)
        names.append(part.name)
        for one in part.runs:
            known, _ = runs.setdefault(one.key, (file, one))
            if runs[one.key][1] is not one:
                raise InputError(f"{_called(one.key)} is in {known} and in {file}: remove one of them")
    if len(set(names)) > 1:
        raise InputError(f"{folder} mixes {' and '.join(sorted(set(names)))}: keep one folder per study")
    found = Summaries(names[0], tuple(runs[key][1] for key in sorted(runs)))
    _check_one_study(found)
    return found


def read_summary(file: Path) -> Summaries:
    """Read one file of summaries."""
    try:
        name, own = _read(file)
    except InputError:
        raise
    except (OSError, EOFError, zlib.error, ValueError, KeyError, IndexError, TypeError) as error:
        raise InputError(f"{file} is not a whole summary ({error}): make it again with --summarise") from None
    return Summaries(name, tuple(sorted(own, key=lambda one: one.key)))


def shared_settings(settings: Settings) -> dict[str, Any]:
    """Return settings without what tells the runs of a study apart."""
    data = {key: value for key, value in settings.model_dump().items() if key not in VARIANT}
    data["radio"] = {key: value for key, value in data["radio"].items() if key != "deadline_s"}
    return data


def _called(key: Key) -> str:
    rule, deadline_s, seed = key
    return f"{rule} at deadline {deadline_s:g} s with seed {seed}"


def _check_one_study(summaries: Summaries) -> None:
    if not summaries.runs:
        return
    held: dict[tuple[int, bool], Summarised] = {}
    every = [one.run.settings for one in summaries.runs]
    first = next((settings for settings in every if settings.name not in REFERENCES), every[0])
    of_its_name: dict[str, Settings] = {}
    for one in summaries.runs:
        own = one.run.settings
        kin = of_its_name.setdefault(own.name, own)
        for other, varied in ((first, _varied(first, own.name)), (kin, _varied(kin, ""))):
            alike = own.changed(**varied)
            if alike != other:
                raise InputError(
                    f"{_called(one.key)} belongs to another study"
                    f" ({first_difference(other, alike)}): keep it in a folder of its own"
                )
        same_seed = held.setdefault((own.seed, own.scenario.pooled), one)
        if not np.array_equal(same_seed.run.counts, one.run.counts):
            raise InputError(
                f"{_called(one.key)} and {_called(same_seed.key)} did not see the same data: run one of them again"
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


def _lines(name: str, own: list[Summarised]) -> list[dict[str, Any]]:
    machines = list({json.dumps(one.machine, sort_keys=True): one.machine for one in own}.values())
    shared = shared_settings(own[0].run.settings)
    counts = {str(one.key[2]): one.run.counts.tolist() for one in own}
    lines: list[dict[str, Any]] = [
        {"format": FORMAT, "study": name, "settings": shared, "counts": counts, "machines": machines}
    ]
    for one in own:
        settings = one.run.settings.model_dump()
        variant = {key: settings[key] for key in VARIANT}
        variant["radio"] = {"deadline_s": settings["radio"]["deadline_s"]}
        lines.append({"run": variant, "machine": machines.index(one.machine), "minutes": one.minutes})
        lines += one.run.records
    return lines


def _read(file: Path) -> tuple[str, list[Summarised]]:
    lines = [json.loads(line) for line in gzip.decompress(file.read_bytes()).decode().splitlines()]
    if not lines:
        raise ValueError("it is empty")
    head = lines[0]
    if head.get("format") != FORMAT:
        raise InputError(f"{file} has the format {head.get('format')!r}: this version reads {FORMAT}")
    starts = [place for place, line in enumerate(lines) if "run" in line] + [len(lines)]
    found = []
    for start, end in pairwise(starts):
        about = lines[start]
        radio = head["settings"]["radio"] | about["run"]["radio"]
        settings = parse_settings(head["settings"] | about["run"] | {"radio": radio})
        counts = np.array(head["counts"][str(settings.seed)])
        run = RunRecord(settings, counts, tuple(lines[start + 1 : end]), True)
        _check_whole(run)
        found.append(Summarised(run, head["machines"][about["machine"]], about["minutes"]))
    return head["study"], found


def _check_whole(run: RunRecord) -> None:
    """Refuse a run that has not all rounds that its settings ask for, or lacks their numbers."""
    settings, classes = run.settings, run.counts.shape[2]
    expected = [(frame, number) for frame, last in enumerate(settings.rounds) for number in range(last + 1)]
    found = [(record["frame"], record["round"]) for record in run.records]
    if found != expected:
        raise ValueError(f"{run.title}: {len(found)} rounds in place of {len(expected)}, or in another order")
    for record in run.records:
        wanted = ["round_s", "uplink_bits", "energy_j", "scheduled_new"] if record["round"] else []
        at_end = record["round"] == settings.rounds[record["frame"]]
        if at_end or record["round"] % settings.evaluation.every == 0:
            wanted += ACCURACIES
            if len(record["class_accuracy"]) != classes:
                raise ValueError(f"{run.title}: not an accuracy for each of {classes} classes")
        for key in wanted:
            if not isinstance(record[key], float | int):
                raise ValueError(f"{run.title}: {key} of round {record['round']} is no number")


def _short(record: dict[str, Any]) -> dict[str, Any]:
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
