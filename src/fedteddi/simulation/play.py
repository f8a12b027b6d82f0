"""A session of runs: how they are played (`RunOptions`), what is checked before, where they are written."""

import time
import warnings
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from fedteddi.errors import InputError, NoEffectWarning
from fedteddi.learning.cpu import usable_threads
from fedteddi.learning.datasets.dataset import load_dataset
from fedteddi.learning.datasets.given import as_dataset
from fedteddi.protocol.server import needs_of
from fedteddi.results.folder import RunFolder, check_out, locked
from fedteddi.results.reading import as_played
from fedteddi.results.runs import RunRecord
from fedteddi.results.trained import Weights
from fedteddi.settings import Settings
from fedteddi.settings.effect import Player, without_effect
from fedteddi.simulation.bar import showing
from fedteddi.simulation.in_process import Exchange
from fedteddi.simulation.laboratory import Laboratory
from fedteddi.simulation.parallel.cluster import connected
from fedteddi.simulation.parallel.groups import play_in_groups
from fedteddi.simulation.progress import Watch
from fedteddi.simulation.run import Run
from fedteddi.simulation.session import play_together, writing_into
from fedteddi.tracking import FunctionTracker, OnRound, Tracker, named_trackers
from fedteddi.tracking.tracking import Tracking

THE_FOLDER_ITSELF = ""  # the name of a run that lies in no folder of runs


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """How runs are played: on what, where to, for how long. What they compute is in their settings."""

    # A Dataset, arrays, or two of PyTorch's data sets (learning/datasets/given.py), in place of the settings' data set.
    data: Any = None
    data_dir: str | Path | None = None  # where cifar10 and cifar100 lie
    device: str = "cpu"  # cpu, cuda, or auto
    out: str | Path | None = None  # the folder to write; None: nothing is written
    resume: bool = False  # go on from what `out` holds
    allow_changed: bool = False  # ... although the code of your own parts has changed since
    time_limit_s: float | None = None  # stop in time, resumable
    progress: bool = True  # show a progress bar, in a notebook or a terminal
    watch: Watch | None = None  # told how far the runs are, in place of the bar
    track: Any = ()  # trackers: mlflow, file.py:Class, a class, an instance, a function, or several (docs/track.md)
    on_round: OnRound | None = None  # called with (run, record) after every round that is played
    threads: int | None = None  # how many clients are trained at a time on a CPU; None: one for each core
    keep_going: bool = False  # a run whose scheduler fails ends there, as one that diverges does
    ray: str | None = None  # a Ray cluster's address, or "local" to start one on this machine
    runtime: Exchange | None = None  # the clients, if they are not simulated in this process

    @property
    def folder(self) -> Path | None:
        """The folder to write."""
        return None if self.out is None else Path(self.out)


def split_keywords(run: RunOptions | None, keywords: Mapping[str, Any]) -> tuple[RunOptions, dict[str, Any]]:
    """Return the options with those keywords that are options, and the other keywords."""
    names = {field.name for field in fields(RunOptions)}
    own = {key: value for key, value in keywords.items() if key in names}
    return replace(run or RunOptions(), **own), {k: v for k, v in keywords.items() if k not in names}


def play_runs(
    each: Mapping[str, Settings], how: RunOptions, *, name_unused: bool = True
) -> dict[str, RunRecord]:
    """Play runs, named by their folders inside `how.out`; return their records by the same names.

    `name_unused` warns of settings that none of them uses.
    """
    stop_at = None if how.time_limit_s is None else time.monotonic() + how.time_limit_s
    _check(each, how)
    tracking = _tracking(how)
    with connected(how.ray, how.device) if how.ray is not None else nullcontext() as cluster:
        laboratory, runs = _prepared(each, how)
        if name_unused:
            _warn_of_no_effect(runs, on_fleet=how.runtime is not None)
        folder = how.folder
        hold = locked(folder) if folder is not None else nullcontext()
        with writing_into(folder), hold as holder, showing(how.watch, how.progress) as watch:
            if cluster is None:
                play_together(laboratory, runs, folder, stop_at, watch, tracking)
            else:
                play_in_groups(cluster, laboratory, runs, folder, holder, stop_at, watch, tracking)
    return {name: _record(run, name, how.folder) for name, run in runs.items()}


def _record(run: Run, name: str, folder: Path | None) -> RunRecord:
    """Return what became of a run; its weights stay in memory only where they are in no folder."""
    record = RunRecord.of(
        as_played(run.settings, run.records), run.plan, run.records, run.finished, run.failure
    )
    trained = Weights(run.state.weights.cpu(), run.inputs) if folder is None else folder / name
    return replace(record, trained=trained)


def _check(each: Mapping[str, Settings], how: RunOptions) -> None:
    if not each:
        raise InputError("there is nothing to run: name at least one scheduler, seed and deadline")
    if how.runtime is not None and (len(each) > 1 or how.ray is not None):
        raise InputError("runtime= plays one run in this process: use simulate, without ray=")
    if how.threads is not None and how.threads < 1:
        raise InputError(f"threads={how.threads}: give at least 1, or leave it out for one on each core")
    folder = how.folder
    if folder is not None:
        if folder.exists() and not folder.is_dir():
            raise InputError(f"{folder} is a file: choose a folder with --out")
        check_out(folder, resume=how.resume, one=THE_FOLDER_ITSELF in each)


def _tracking(how: RunOptions) -> Tracking | None:
    """Make the trackers before anything is played: one that is missing is said at once."""
    passing: dict[str, Tracker] = {} if how.on_round is None else {"on_round": FunctionTracker(how.on_round)}
    trackers = named_trackers(how.track)
    return Tracking(trackers, passing) if trackers or passing else None


def _warn_of_no_effect(runs: Mapping[str, Run], *, on_fleet: bool) -> None:
    """Name the settings that none of the runs uses, where simulate, compare or play was called."""
    for sentence in without_effect(
        Player(run.settings, needs_of(run.rule), on_fleet) for run in runs.values()
    ):
        warnings.warn(sentence, NoEffectWarning, stacklevel=4)


def _prepared(each: Mapping[str, Settings], how: RunOptions) -> tuple[Laboratory, dict[str, Run]]:
    """Make the laboratory and all runs before the folder: if something is wrong, nothing is left behind."""
    first = next(iter(each.values()))
    data = load_dataset(first.dataset, how.data_dir) if how.data is None else as_dataset(how.data)
    if how.data is not None:  # the record must not claim another
        each = {name: settings.changed(dataset=data.name) for name, settings in each.items()}
    # With a cluster, this process only finds out whether all is well.
    device = how.device if how.ray is None else "cpu"
    threads = how.threads or usable_threads()
    laboratory = Laboratory(first, data, device, how.runtime, threads, how.keep_going)
    runs = {name: laboratory.new_run(settings) for name, settings in each.items()}
    if how.folder is not None and not how.allow_changed:
        for name, run in runs.items():
            RunFolder(how.folder / name).check_plugins(run.plugins)
    return laboratory, runs
