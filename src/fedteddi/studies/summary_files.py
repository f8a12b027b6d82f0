"""Summaries as files that can be committed: one per rule, or per level, a line a round.

The first line of a file says what it is: format, name of the study, the settings its runs share, who held what (per
seed), and on what machines they ran. Then, for every run, a line that names it and its rounds; for one that diverged,
a line that says why. The same runs give the same bytes.
"""

import gzip
import json
import zlib
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from fedteddi.errors import InputError
from fedteddi.protocol.record import RoundRecord
from fedteddi.results.folder import Failure, write_atomically
from fedteddi.results.runs import ACCURACIES, RunRecord
from fedteddi.settings import Settings, parse_settings
from fedteddi.studies.study import BASELINE
from fedteddi.studies.summaries import VARIANT, Key, Summaries, Summarised, shared_settings, short

FORMAT = "fedteddi-summary-1"
ENDING = ".jsonl.gz"


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
        lines += [{"run": _variant(one.run.settings)} | about, *map(short, one.run.records)]
    for one in failed:
        if one.run.failure is not None:
            lines.append({"failed": _variant(one.run.settings)} | asdict(one.run.failure))
    return lines


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
        starts = [i for i, line in enumerate(lines) if "run" in line or "failed" in line] + [len(lines)]
        return head["study"], [_run(head, lines[start:end], level) for start, end in pairwise(starts)]
    except InputError:
        raise
    except (OSError, EOFError, zlib.error, ValueError, KeyError, IndexError, TypeError) as error:
        raise InputError(f"{file} is not a whole summary ({error}): make it again with --summarise") from None


def _run(head: dict[str, Any], lines: list[dict[str, Any]], level: str) -> Summarised:
    """Return one run of a file: its first line names it, then come its rounds."""
    about, *rounds = lines
    variant = about["failed" if "failed" in about else "run"]
    radio = head["settings"]["radio"] | variant["radio"]
    settings = parse_settings(head["settings"] | variant | {"radio": radio})
    counts = np.array(head["counts"][str(settings.seed)])
    if "failed" in about:
        failure = Failure(about["frame"], about["round"], about["cause"])
        return Summarised(RunRecord(settings, counts, (), False, failure), {}, 0.0, level)
    run = RunRecord(settings, counts, tuple(map(RoundRecord.from_json, rounds)), True)
    _check_whole(run)
    return Summarised(run, head["machines"][about["machine"]], about["minutes"], level)


def _check_whole(run: RunRecord) -> None:
    """Refuse a run that has not all rounds that its settings ask for, or lacks their numbers."""
    settings, classes = run.settings, run.counts.shape[2]
    expected = [(frame, number) for frame, last in enumerate(settings.rounds) for number in range(last + 1)]
    found = [(record.frame, record.round) for record in run.records]
    if found != expected:
        raise ValueError(f"{run.title}: {len(found)} rounds in place of {len(expected)}, or in another order")
    for record in run.records:
        wanted = ["round_s", "uplink_bits", "energy_j", "scheduled_new"] if record.round else []
        at_end = record.round == settings.rounds[record.frame]
        if at_end or record.round % settings.evaluation.every == 0:
            wanted += ACCURACIES
            if len(record.class_accuracy or ()) != classes:
                raise ValueError(f"{run.title}: not an accuracy for each of {classes} classes")
        line = record.as_json()
        for key in wanted:
            if not isinstance(line.get(key), float | int):
                raise ValueError(f"{run.title}: {key} of round {record.round} is no number")
