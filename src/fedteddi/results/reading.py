"""Run folders read back as a study; runs that do not belong together are refused."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from fedteddi.errors import InputError
from fedteddi.protocol.record import RoundRecord, are_all, rounds_played
from fedteddi.results.folder import RunFolder, first_difference, read_records
from fedteddi.results.points import Point, frozen, point_of, thawed, value_at
from fedteddi.results.runs import REFERENCES, RunRecord, Study
from fedteddi.settings import Settings, read_settings


def read_run(path: str | Path) -> RunRecord:
    """Read one run's folder."""
    path = Path(path)
    try:
        settings = read_settings(
            (path / "settings.toml").read_text(encoding="utf-8"), str(path / "settings.toml")
        )
        counts = np.array(json.loads((path / "scenario.json").read_text(encoding="utf-8"))["counts"])
        records = tuple(read_records(path))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path} is not a complete run folder ({error}): run it again") from None
    failure, finished = RunFolder(path).failure(), are_all(records, settings.rounds)
    return RunRecord(as_played(settings, records), counts, records, finished, failure, trained=path)


def as_played(settings: Settings, records: Sequence[RoundRecord]) -> Settings:
    """Return settings whose `rounds` are those that frames had: a fleet's may end early (docs/deploy.md)."""
    played = rounds_played(records, settings.rounds)
    return settings if played == settings.rounds else settings.changed(rounds=played)


def read_study(*paths: str | Path, held: Mapping[str, RunRecord] | None = None) -> Study:
    """Read a run's folder, a folder of runs or that of a sweep, or several of them that belong together.

    Runs `held` already, by their folders' paths in the only folder named, are not read again.
    """
    if not paths:
        raise InputError("no folder is named: give a run's folder, or one that holds runs")
    found: dict[Path, tuple[Path, Point]] = {}  # by where it is, so that a folder named twice counts once
    for path in map(Path, paths):
        found |= {folder.resolve(): (folder, point) for folder, point in _runs_in(path)}
    runs = {folder: _placed(folder, point, paths[0], held or {}) for folder, point in found.values()}
    _check_one_sweep(runs)
    return Study(tuple(runs.values()))


def _placed(folder: Path, point: Point, root: str | Path, held: Mapping[str, RunRecord]) -> RunRecord:
    """Return a run, and where it is in a sweep: by its folder's name, the values as the settings have them."""
    name = folder.relative_to(root).as_posix() if held else ""
    run = held[name] if name in held else read_run(folder)
    settings = _moved(run.settings, point)
    own = {key: value if _is_option(key) else frozen(value_at(settings, key)) for key, value in point.items()}
    return replace(run, point=own)


def _runs_in(path: Path) -> list[tuple[Path, Point]]:
    """Return the folders of runs in a folder, in a sweep each with its values."""
    if not path.is_dir():
        raise InputError(f"there is no folder {path}: give a run's folder, or one that holds runs")
    if (path / "settings.toml").is_file():
        return [(path, {})]
    runs = sorted(file.parent for file in path.glob("*/settings.toml"))
    points = {folder: point_of(folder.name) for folder in sorted(path.iterdir()) if folder.is_dir()}
    swept = [
        (file.parent, point)
        for folder, point in points.items()
        if point is not None
        for file in sorted(folder.glob("*/settings.toml"))
    ]
    if not runs and not swept:
        raise InputError(f"{path} holds no runs: 'fedteddi compare --out {path}' would make some")
    return [(folder, {}) for folder in runs] + swept


def _check_one_sweep(runs: Mapping[Path, RunRecord]) -> None:
    """Refuse runs that differ in more than rule, seed, deadline and what is swept."""
    by_point: dict[tuple[Any, ...], dict[Path, RunRecord]] = {}
    for folder, run in runs.items():
        by_point.setdefault(tuple(sorted(run.point.items())), {})[folder] = run
    base: tuple[Settings, Point] | None = None
    keys: set[str] | None = None
    for own in by_point.values():
        first = _check_one_experiment(own)
        folder, point = next((folder, run.point) for folder, run in own.items())
        keys = set(point) if keys is None else keys
        if set(point) != keys:
            swept = " and ".join(", ".join(sorted(one)) or "nothing" for one in (keys, point))
            raise InputError(f"{folder.parent} belongs to another sweep (over {swept}): report it apart")
        if first.name in REFERENCES:
            continue  # what has no limits and no band keeps few of the settings
        _check_named(folder.parent, first, point)
        base = base or (_moved(without_variant(first, first), point), point)
        neutral = _moved(without_variant(first, first), base[1])
        if neutral != base[0]:
            different = first_difference(base[0], neutral)
            raise InputError(f"{folder} belongs to another experiment ({different}): report it apart")


def _check_named(folder: Path, settings: Settings, point: Point) -> None:
    """Refuse a folder that is named after other values than its runs have."""
    if (named := _moved(settings, point)) != settings:
        different = first_difference(settings, named)
        raise InputError(f"{folder} is not named after its runs ({different}): call it as it was")


def _moved(settings: Settings, point: Point) -> Settings:
    """Return settings as they would be at a point; options of a rule are the rule's own."""
    own = {key: value for key, value in point.items() if not _is_option(key)}
    return settings.changed(**{key.replace(".", "__"): thawed(value) for key, value in own.items()})


def _is_option(key: str) -> bool:
    return key.startswith("scheduler_options.")


def _check_one_experiment(runs: Mapping[Path, RunRecord]) -> Settings:
    """Refuse runs that differ in more than rule, seed and deadline, and one that is there twice; return settings."""
    every = [run.settings for run in runs.values()]
    first = next((settings for settings in every if settings.name not in REFERENCES), every[0])
    names: dict[tuple[str, float, int], Path] = {}
    for folder, run in runs.items():
        if without_variant(run.settings, first) != without_variant(first, first):
            different = first_difference(without_variant(first, first), without_variant(run.settings, first))
            raise InputError(f"{folder} belongs to another experiment ({different}): report it apart")
        name = (run.scheduler, run.settings.radio.deadline_s, run.settings.seed)
        if names.setdefault(name, folder) != folder:
            raise InputError(
                f"{names[name]} and {folder} hold {name[0]} at deadline {name[1]:g} s with seed {name[2]} twice:"
                " keep one"
            )
    return first


def without_variant(settings: Settings, first: Settings) -> Settings:
    """Return settings without what may differ between the runs of one study."""
    if settings.name == "centralised":
        settings = settings.changed(
            scenario__pooled=False,
            training__batch_size=settings.training.batch_size // settings.scenario.clients,
        )
    radio = first.radio if settings.name in REFERENCES else settings.radio
    server = first.server if settings.name in REFERENCES else settings.server
    return settings.changed(
        name="",
        scheduler="",
        scheduler_options={},
        seed=0,
        radio__deadline_s=1.0,
        radio__total_hz=radio.total_hz,
        radio__channel=radio.channel,
        radio__channel_options=radio.channel_options,
        radio__gain_trace=radio.gain_trace,
        radio__compute_trace=radio.compute_trace,
        server__aggregation=server.aggregation,
        server__aggregation_options=server.aggregation_options,
    )
