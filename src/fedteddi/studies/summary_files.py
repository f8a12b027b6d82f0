"""Summaries as files that can be committed: one per rule, or per level, a line a run.

The first line of a file says what it is: format, name of the study, the settings its runs share, who held what (per
seed), and on what machines they ran. Then follows a line for every run: what tells it from the others, and its
stretches, column by column; for one that diverged, why. The same runs give the same bytes.
"""

import gzip
import json
import zlib
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import numpy as np

from fedteddi.errors import InputError
from fedteddi.results.folder import Failure, write_atomically
from fedteddi.results.runs import RunRecord
from fedteddi.results.stretches import Stretch
from fedteddi.settings import Settings, parse_settings
from fedteddi.studies.study import BASELINE
from fedteddi.studies.summaries import VARIANT, Key, Summaries, Summarised, rounded, shared_settings

FORMAT = "fedteddi-summary-2"
ENDING = ".jsonl.gz"
COLUMNS = tuple(part.name for part in fields(Stretch))
NUMBERS = ("scheduled", "scheduled_new", "round_s", "uplink_bits", "energy_j", "balanced", "global_")


def write_summaries(summaries: Summaries, folder: Path) -> list[Path]:
    """Write one file per rule, or per level."""
    written = []
    for name in sorted({summaries.file_of(one) for one in summaries.every}):
        own = tuple(one for one in summaries.every if summaries.file_of(one) == name)
        found = _lines(summaries.name, own)
        lines = [json.dumps(line, allow_nan=False, separators=(",", ":")) + "\n" for line in found]
        content = gzip.compress("".join(lines).encode(), compresslevel=9, mtime=0)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            # The byte that names the system on which it was compressed is set to "unknown".
            write_atomically(folder / name, content[:9] + b"\xff" + content[10:])
        except OSError as error:
            raise InputError(
                f"{folder} cannot be written ({error.strerror}): choose another folder"
            ) from None
        written.append(folder / name)
    return written


def read_summaries(folder: Path, by_level: bool = False) -> Summaries:
    """Read all files of a folder."""
    found: dict[Key, tuple[Path, Summarised]] = {}
    names = set()
    for file in sorted(folder.glob(f"*{ENDING}")):
        name, runs = _read(file, file.name.removesuffix(ENDING) if by_level else BASELINE)
        names.add(name)
        for one in runs:
            if one.key in found:
                raise InputError(f"{one.called} is in {found[one.key][0]} and in {file}: remove one of them")
            found[one.key] = file, one
    if not found:
        raise InputError(
            f"{folder} holds no summaries: 'fedteddi reproduce … --summarise {folder}' makes them"
        )
    if len(names) > 1:
        raise InputError(f"{folder} mixes {' and '.join(sorted(names))}: keep one folder per study")
    return Summaries(names.pop(), tuple(one for _, one in found.values()), by_level)


def _lines(name: str, every: tuple[Summarised, ...]) -> list[dict[str, Any]]:
    finished = [one for one in every if one.run.finished]
    machines = list({json.dumps(one.machine, sort_keys=True): one.machine for one in finished}.values())
    failed = [one for one in every if not one.run.finished]
    head = {"format": FORMAT, "study": name, "settings": shared_settings((finished or every)[0].run.settings)}
    head["counts"] = {str(one.run.settings.seed): one.run.counts.tolist() for one in finished + failed}
    lines: list[dict[str, Any]] = [head | {"machines": machines}]
    for one in finished:
        about = {"machine": machines.index(one.machine), "minutes": one.minutes}
        kept = _columns([rounded(stretch) for stretch in one.run.stretches])
        lines.append({"run": _variant(one.run.settings)} | about | {"stretches": kept})
    for one in failed:
        if one.run.failure is not None:
            lines.append({"failed": _variant(one.run.settings)} | asdict(one.run.failure))
    return lines


def _columns(kept: list[Stretch]) -> dict[str, list[Any]]:
    """Return stretches by column, and class accuracies by class: alike numbers together take least space."""
    found = {name: [getattr(one, name) for one in kept] for name in COLUMNS}
    found["class_accuracy"] = [list(own) for own in zip(*found["class_accuracy"], strict=True)]
    return {name: own for name, own in found.items() if any(value is not None for value in own)}


def _stretches(columns: dict[str, list[Any]]) -> tuple[Stretch, ...]:
    by_round = columns | {"class_accuracy": [[*own] for own in zip(*columns["class_accuracy"], strict=True)]}
    rows = zip(*by_round.values(), strict=True)
    return tuple(Stretch(**dict(zip(by_round, row, strict=True))) for row in rows)


def _variant(settings: Settings) -> dict[str, Any]:
    own = settings.model_dump(include={*VARIANT})
    return {key: own[key] for key in VARIANT} | {"radio": {"deadline_s": settings.radio.deadline_s}}


def _read(file: Path, level: str) -> tuple[str, list[Summarised]]:
    try:
        lines = [json.loads(line) for line in gzip.decompress(file.read_bytes()).decode().splitlines()]
        if not lines:
            raise ValueError("it is empty")
        head = lines[0]
        if head.get("format") != FORMAT:
            raise InputError(f"{file} has the format {head.get('format')!r}: this version reads {FORMAT}")
        return head["study"], [_run(head, line, level) for line in lines[1:]]
    except InputError:
        raise
    except (OSError, EOFError, zlib.error, ValueError, LookupError, TypeError, AttributeError) as error:
        raise InputError(f"{file} is not a whole summary ({error}): make it again with --summarise") from None


def _run(head: dict[str, Any], line: dict[str, Any], level: str) -> Summarised:
    """Return the run of a line."""
    variant = line["failed" if "failed" in line else "run"]
    radio = head["settings"]["radio"] | variant["radio"]
    settings = parse_settings(head["settings"] | variant | {"radio": radio})
    counts = np.array(head["counts"][str(settings.seed)])
    if "failed" in line:
        failure = Failure(line["frame"], line["round"], line["cause"])
        return Summarised(RunRecord(settings, counts, (), False, failure), {}, 0.0, level)
    run = RunRecord(settings, counts, (), True, kept=_stretches(line["stretches"]))
    _check_whole(run)
    return Summarised(run, head["machines"][line["machine"]], line["minutes"], level)


def _check_whole(run: RunRecord) -> None:
    """Refuse a run that has not all rounds that its settings ask for, or lacks their numbers."""
    settings, classes = run.settings, run.counts.shape[2]
    every = settings.evaluation.every
    expected = [
        (frame, number)
        for frame, last in enumerate(settings.rounds)
        for number in range(last + 1)
        if number % every == 0 or number == last
    ]
    found = [(one.frame, one.round) for one in run.kept]
    if found != expected:
        raise ValueError(
            f"{run.title}: {len(found)} evaluations in place of {len(expected)}, or in another order"
        )
    before = 0
    for one in run.kept:
        before = before if one.round else 0
        if one.rounds != one.round - before:
            raise ValueError(
                f"{run.title}: {one.rounds} rounds from {before} to {one.round} of frame {one.frame}"
            )
        before = one.round
        if len(one.class_accuracy or ()) != classes:
            raise ValueError(f"{run.title}: not an accuracy for each of {classes} classes")
        for name in NUMBERS:
            if not isinstance(getattr(one, name), float | int):
                raise ValueError(f"{run.title}: {name} of round {one.round} is no number")
