"""Run folders read back as a study; runs that do not belong together are refused."""

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from fedteddi.errors import InputError
from fedteddi.results.folder import RunFolder, first_difference, read_records
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
        rounds = [record for record in records if record.round > 0]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path} is not a complete run folder ({error}): run it again") from None
    failure = RunFolder(path).failure()
    return RunRecord(settings, counts, records, len(rounds) == sum(settings.rounds), failure, trained=path)


def read_study(path: str | Path, held: Mapping[str, RunRecord] | None = None) -> Study:
    """Read a run's folder, or a folder of runs; those `held` already, by their folders' names, are not read."""
    path, held = Path(path), held or {}
    if not path.is_dir():
        raise InputError(f"there is no folder {path}: give a run's folder, or one that holds runs")
    if (path / "settings.toml").is_file():
        return Study((read_run(path),))
    found = sorted(file.parent for file in path.glob("*/settings.toml"))
    if not found:
        raise InputError(f"{path} holds no runs: 'fedteddi compare --out {path}' would make some")
    runs = [held[folder.name] if folder.name in held else read_run(folder) for folder in found]
    first = next((run.settings for run in runs if run.scheduler not in REFERENCES), runs[0].settings)
    for run, folder in zip(runs, found, strict=True):
        if without_variant(run.settings, first) != without_variant(first, first):
            different = first_difference(without_variant(first, first), without_variant(run.settings, first))
            raise InputError(f"{folder} belongs to another experiment ({different}): report it apart")
    names = [(run.scheduler, run.settings.radio.deadline_s, run.settings.seed) for run in runs]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise InputError(
            f"{path} holds {twice[0]} at deadline {twice[1]:g} s with seed {twice[2]} twice: keep one"
        )
    return Study(tuple(runs))


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
