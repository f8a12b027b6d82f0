"""Comparisons over any settings: schedulers × seeds at every combination of the values of some keys."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from fedteddi.errors import InputError, nearest_hint
from fedteddi.experiment import (
    Experiment,
    named_schedulers,
    play_in_turn,
    run_name,
    runs_of,
    seeds_of,
    settings_of,
)
from fedteddi.registry import read_value
from fedteddi.results.points import Point, folder_of, frozen, point_of, value_at
from fedteddi.results.runs import RunRecord, Study
from fedteddi.settings import Settings
from fedteddi.simulation.play import RunOptions, split_keywords

BESIDE = {".lock", "report"}  # what lies beside the folders of a sweep's points
ARGUMENTS = {  # which have an argument of their own
    "scheduler": "schedulers=[…] (--scheduler)",
    "seed": "seeds=[…] (--seeds)",
    "name": "schedulers=[…] (--scheduler)",
}
OPTIONS = "scheduler_options__"


def sweep(
    settings: Experiment | None = None,
    *,
    schedulers: Iterable[str | Any] | None = None,
    seeds: int | Iterable[int] = range(5),
    deadlines_s: Iterable[float] | None = None,
    options: Mapping[str, Any] | None = None,
    run: RunOptions | None = None,
    **changes: Any,
) -> Study:
    """Compare schedulers at every combination of the values of some settings.

    A list sweeps a key, anything else sets it: `sweep(scenario__alpha=[0.1, 1], radio__total_hz=1e7)`; a key that is a
    list itself is swept by a list of lists: `rounds=[[0, 60], [0, 120]]`. `scheduler_options__KEY` goes to every
    scheduler that has that option. The rest is as in `compare`, schedulers default to that of the settings. Runs that
    cannot share a device, such as those of other models, are played one group after the other; `out` and `resume` as
    always, also with further values. `study.table()` has a column for each swept key, `study.sweep_figure()` draws
    measures over it, and `study.at(scenario__alpha=0.1)` is the comparison at one value.
    """
    how, changes = split_keywords(run, changes)
    base = settings_of(settings)
    swept = {key: [*value] for key, value in changes.items() if _is_swept(base, key, value)}
    base = base.changed(**{key: value for key, value in changes.items() if key not in swept})
    _check_keys(swept, has_deadlines=deadlines_s is not None, has_data=how.data is not None)
    rules = [base.scheduler] if schedulers is None else named_schedulers(schedulers)
    times = None if deadlines_s is None else list(deadlines_s)
    numbers = seeds_of(seeds)
    each: dict[str, Settings] = {}
    points: dict[str, Point] = {}
    for values in product(*swept.values()):
        at, point, own = _at(base, dict(zip(swept, values, strict=True)))
        runs = runs_of(at, rules, numbers, times, {**(options or {}), **own})
        for name, one in runs.items():
            folder = f"{folder_of(point)}/{name}"
            each[folder], points[folder] = one, point
    if how.folder is not None and how.resume:
        _check_folder(how.folder, next(iter(points.values()), {}))
    played = play_in_turn(each, run=how)
    return Study(tuple(replace(record, point=points[name]) for name, record in played.items()))


def folder_within(record: RunRecord) -> str:
    """Return where a run of a comparison or a sweep lies in its folder."""
    name = run_name(record.settings)
    return f"{folder_of(record.point)}/{name}" if record.point else name


def read_sweep(words: Iterable[str]) -> dict[str, list[Any]]:
    """Read `--sweep KEY=VALUE,VALUE` words as what `sweep` takes."""
    found: dict[str, list[Any]] = {}
    for word in words:
        key, equals, values = (part.strip() for part in word.partition("="))
        if not equals or not key or not values:
            raise InputError(
                f"--sweep {word!r}: write it as key=value,value, such as radio.deadline_s=0.8,1.2"
            )
        if (section := key.partition(".")[0]) not in Settings.model_fields:
            hint = nearest_hint(section, Settings.model_fields)
            raise InputError(f"--sweep {key}: there is no such setting{hint}: 'fedteddi settings' lists all")
        if (name := key.replace(".", "__")) in found:
            raise InputError(f"--sweep {key} is given twice: list all its values in one")
        found[name] = [read_value(value.strip()) for value in _parted(values)]
        if isinstance(value_at(Settings(), key), list) and not all(
            isinstance(value, list) for value in found[name]
        ):
            raise InputError(f"--sweep {key}: its values are lists: write {key}=[0,20],[0,40]")
    return found


def _parted(text: str) -> list[str]:
    """Return the values of a list, parted at commas that are in no brackets or quotes."""
    parts, depth, quoted = [""], 0, ""
    for sign in text:
        if quoted or sign in "\"'":
            quoted = "" if sign == quoted else quoted or sign
        depth += (sign in "[{") - (sign in "]}") if not quoted else 0
        if sign == "," and depth == 0 and not quoted:
            parts.append("")
        else:
            parts[-1] += sign
    return parts


def _is_swept(base: Settings, key: str, value: Any) -> bool:
    """Whether a value is a list of values: a key that has a list itself needs a list of lists."""
    many = (list, tuple, range, np.ndarray)
    if isinstance(value_at(base, key.replace("__", ".")), list):
        return isinstance(value, many) and len(value) > 0 and all(isinstance(one, many) for one in value)
    return isinstance(value, many)


def _check_keys(swept: Mapping[str, list[Any]], *, has_deadlines: bool, has_data: bool) -> None:
    """Refuse a sweep over nothing, or over what has an argument of its own."""
    if not swept:
        raise InputError("nothing is swept: give a key a list of values, such as scenario__alpha=[0.1, 1]")
    for key, values in swept.items():
        if not values:
            raise InputError(f"{key.replace('__', '.')}: no values to sweep over: give at least one")
        if key in ARGUMENTS:
            raise InputError(f"{key} cannot be swept: use {ARGUMENTS[key]}")
    if has_data and "dataset" in swept:
        raise InputError("dataset is swept, and data= is one data set: leave data= out")
    if has_deadlines and "radio__deadline_s" in swept:
        raise InputError("radio.deadline_s is swept: leave deadlines_s (--deadline) out")


def _at(base: Settings, values: dict[str, Any]) -> tuple[Settings, Point, dict[str, Any]]:
    """Return the settings at a point, the point as the settings have it, and the options of schedulers there."""
    arrays = (np.generic, np.ndarray)
    plain = {key: value.tolist() if isinstance(value, arrays) else value for key, value in values.items()}
    plain = {key: [*one] if isinstance(one, tuple | range) else one for key, one in plain.items()}
    own = {key: value for key, value in plain.items() if key.startswith(OPTIONS)}
    at = base.changed(**{key: value for key, value in plain.items() if key not in own})
    dotted = {key: key.replace("__", ".") for key in plain}
    point = {dotted[k]: frozen(plain[k] if k in own else value_at(at, dotted[k])) for k in plain}
    return at, point, {key.removeprefix(OPTIONS): value for key, value in own.items()}


def _check_folder(out: Path, point: Point) -> None:
    """Refuse to go on where something else lies than points of this sweep."""
    for path in sorted(out.iterdir()) if out.is_dir() else ():
        there = point_of(path.name)
        if path.name not in BESIDE and (there is None or set(there) != set(point)):
            raise InputError(
                f"{out} holds {path.name}, which is no part of a sweep over {', '.join(point)}: choose another --out"
            )
