"""Summaries as files that can be committed: `RULE.jsonl.gz`, one line a round.

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
from fedteddi.results.summary import (
    VARIANT,
    Key,
    Summaries,
    Summarised,
    called,
    check_one_study,
    key_of,
    shared_settings,
    short,
    sorted_runs,
)
from fedteddi.settings import Settings, parse_settings

FORMAT = "fedteddi-summary-1"


def write_summaries(summaries: Summaries, folder: Path) -> list[Path]:
    """Write one file per rule."""
    written = []
    keys = [*(one.key for one in summaries.runs), *map(key_of, summaries.failed)]
    for rule in sorted({rule for rule, *_ in keys}):
        own = tuple(one for one in summaries.runs if one.key[0] == rule)
        failed = tuple(run for run in summaries.failed if run.scheduler == rule)
        written.append(write_summary(Summaries(summaries.name, own, failed), folder / f"{rule}.jsonl.gz"))
    return written


def write_summary(summaries: Summaries, path: Path) -> Path:
    """Write runs that share their settings into one file."""
    lines = [json.dumps(line, allow_nan=False, separators=(",", ":")) for line in _lines(summaries)]
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
    parts = [read_summary(file) for file in files]
    lies_in: dict[Key, Path] = {}
    for file, part in zip(files, parts, strict=True):
        for key in (*(one.key for one in part.runs), *map(key_of, part.failed)):
            if key in lies_in:
                raise InputError(f"{called(key)} is in {lies_in[key]} and in {file}: remove one of them")
            lies_in[key] = file
    names = sorted({part.name for part in parts})
    if len(names) > 1:
        raise InputError(f"{folder} mixes {' and '.join(names)}: keep one folder per study")
    failed = sorted((run for part in parts for run in part.failed), key=key_of)
    found = Summaries(names[0], sorted_runs(one for part in parts for one in part.runs), tuple(failed))
    check_one_study(found)
    return found


def read_summary(file: Path) -> Summaries:
    """Read one file of summaries."""
    try:
        return _read(file)
    except InputError:
        raise
    except (OSError, EOFError, zlib.error, ValueError, KeyError, IndexError, TypeError) as error:
        raise InputError(f"{file} is not a whole summary ({error}): make it again with --summarise") from None


def _lines(summaries: Summaries) -> list[dict[str, Any]]:
    machines = list({json.dumps(one.machine, sort_keys=True): one.machine for one in summaries.runs}.values())
    runs = [*(one.run for one in summaries.runs), *summaries.failed]
    lines: list[dict[str, Any]] = [
        {
            "format": FORMAT,
            "study": summaries.name,
            "settings": shared_settings(runs[0].settings),
            "counts": {str(run.settings.seed): run.counts.tolist() for run in runs},
            "machines": machines,
        }
    ]
    for one in summaries.runs:
        about = {"machine": machines.index(one.machine), "minutes": one.minutes}
        lines += [{"run": _variant(one.run.settings)} | about, *map(short, one.run.records)]
    for run in summaries.failed:
        assert run.failure is not None
        lines.append({"failed": _variant(run.settings)} | asdict(run.failure))
    return lines


def _variant(settings: Settings) -> dict[str, Any]:
    own = settings.model_dump(include={*VARIANT})
    return {key: own[key] for key in VARIANT} | {"radio": {"deadline_s": settings.radio.deadline_s}}


def _read(file: Path) -> Summaries:
    lines = [json.loads(line) for line in gzip.decompress(file.read_bytes()).decode().splitlines()]
    if not lines:
        raise ValueError("it is empty")
    head = lines[0]
    if head.get("format") != FORMAT:
        raise InputError(f"{file} has the format {head.get('format')!r}: this version reads {FORMAT}")
    starts = [place for place, line in enumerate(lines) if "run" in line or "failed" in line] + [len(lines)]
    found, failed = [], []
    for start, end in pairwise(starts):
        about = lines[start]
        variant = about["failed" if "failed" in about else "run"]
        radio = head["settings"]["radio"] | variant["radio"]
        settings = parse_settings(head["settings"] | variant | {"radio": radio})
        counts = np.array(head["counts"][str(settings.seed)])
        records = tuple(map(RoundRecord.from_json, lines[start + 1 : end]))
        if "failed" in about:
            failure = Failure(about["frame"], about["round"], about["cause"])
            failed.append(RunRecord(settings, counts, records, False, failure))
            continue
        run = RunRecord(settings, counts, records, True)
        _check_whole(run)
        found.append(Summarised(run, head["machines"][about["machine"]], about["minutes"]))
    return Summaries(head["study"], sorted_runs(found), tuple(sorted(failed, key=key_of)))


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
