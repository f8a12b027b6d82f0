"""An experiment from settings to results: one run, or schedulers × seeds × deadlines in lock-step."""

import os
import time
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedteddi.checkpoint import load_checkpoint, save_checkpoint, save_failure
from fedteddi.errors import InputError
from fedteddi.laboratory import Laboratory
from fedteddi.learning.data import Dataset, load_dataset
from fedteddi.results.folder import RunFolder, check_out, locked
from fedteddi.results.reading import read_run
from fedteddi.results.runs import REFERENCES, RunRecord, Study
from fedteddi.run import Run
from fedteddi.runtimes.in_process import Exchange
from fedteddi.settings import Settings

CHECKPOINT_EVERY_S = float(os.environ.get("FEDTEDDI_CHECKPOINT_S", "10"))
# What the reference bounds share: no limit of band or time.
NO_LIMITS: dict[str, Any] = {
    "scheduler": "random",
    "scheduler_options": {},
    "radio__total_hz": 1e18,
    "radio__deadline_s": 1e6,
}


@dataclass(frozen=True)
class Progress:
    """How far an experiment is, for whoever shows it."""

    rounds_done: int  # over all runs
    rounds_in_all: int
    runs: tuple[Run, ...]
    seconds: dict[str, float]  # what they went into so far: training, estimates, evaluation, the rest


Watch = Callable[[Progress], None]


def simulate(
    settings: Settings | None = None,
    *,
    data: Dataset | None = None,
    device: str = "cpu",
    out: str | Path | None = None,
    resume: bool = False,
    time_limit_s: float | None = None,
    watch: Watch | None = None,
    data_dir: str | Path | None = None,
    runtime: Exchange | None = None,
    **changes: Any,
) -> RunRecord:
    """Run one experiment and return its record.

    `changes` replace settings: `simulate(scheduler="random", radio__deadline_s=1.2)`. `data_dir` is where CIFAR lies,
    `runtime` are the clients, if they are not to be simulated in this process.
    """
    chosen = (settings or Settings()).changed(**changes)
    if chosen.scheduler in REFERENCES:
        raise InputError(f"{chosen.scheduler} is a reference bound: run it with compare")
    if "name" not in changes:
        chosen = chosen.changed(name=chosen.scheduler.rpartition(":")[2])
    study = _play(
        [chosen], data, device, out, resume, time_limit_s, watch, one=True, data_dir=data_dir, runtime=runtime
    )
    record = study.runs[0]
    if record.failure is not None:
        raise InputError(f"{record.title}: {record.failure.cause}")
    return record


def compare(
    settings: Settings | None = None,
    *,
    schedulers: Iterable[str],
    seeds: Iterable[int] = range(5),
    deadlines_s: Iterable[float] | None = None,
    data: Dataset | None = None,
    device: str = "cpu",
    out: str | Path | None = None,
    resume: bool = False,
    time_limit_s: float | None = None,
    watch: Watch | None = None,
    data_dir: str | Path | None = None,
    **changes: Any,
) -> Study:
    """Run schedulers × seeds × deadlines together, on the same data, channels, delays and batches.

    A run that diverges ends there (`study.failures`); the others go on.
    """
    base = (settings or Settings()).changed(**changes)
    rules, numbers = list(dict.fromkeys(schedulers)), list(dict.fromkeys(seeds))
    times = list(dict.fromkeys(deadlines_s)) if deadlines_s is not None else [base.radio.deadline_s]
    each: dict[str, Settings] = {}
    for settings_ in (variant(base, rule, n, t) for t in times for rule in rules for n in numbers):
        name = run_name(settings_)
        if each.setdefault(name, settings_) != settings_:
            raise InputError(
                f"two runs would both be called {name}: give your schedulers different class names"
            )
    return _play(
        list(each.values()), data, device, out, resume, time_limit_s, watch, one=False, data_dir=data_dir
    )


def variant(base: Settings, scheduler: str, seed: int, deadline_s: float) -> Settings:
    """Return the settings of one run of a comparison."""
    if scheduler in REFERENCES:
        return reference(base.changed(name=scheduler, seed=seed, **NO_LIMITS))
    name = scheduler.rpartition(":")[2]
    if name in REFERENCES:
        raise InputError(f"{scheduler}: {name} is the name of a reference bound: give your class another")
    same = scheduler == base.scheduler
    return base.changed(
        name=name,
        scheduler=scheduler,
        scheduler_options=base.scheduler_options if same else {},
        seed=seed,
        radio__deadline_s=deadline_s,
    )


def reference(unlimited: Settings) -> Settings:
    """Return the settings of a reference bound: `everyone` as it is, `centralised` on all data in one place.

    The one client that stands for all N trains on batches of N·b images: as many a round as all of them together.
    """
    if unlimited.name != "centralised":
        return unlimited
    return unlimited.changed(
        scenario__pooled=True,
        training__batch_size=unlimited.training.batch_size * unlimited.scenario.clients,
        radio__gain_trace="",  # they are about N clients, and nothing is sent
        radio__compute_trace="",
    )


def run_name(settings: Settings) -> str:
    """Return the folder of one run of a comparison."""
    deadline = "" if settings.name in REFERENCES else f"-d{settings.radio.deadline_s:.12g}"
    return f"{settings.name}{deadline}-s{settings.seed}"


def _play(
    each: list[Settings],
    data: Dataset | None,
    device: str,
    out: str | Path | None,
    resume: bool,
    time_limit_s: float | None,
    watch: Watch | None,
    *,
    one: bool,
    data_dir: str | Path | None = None,
    runtime: Exchange | None = None,
) -> Study:
    if not each:
        raise InputError("there is nothing to run: name at least one scheduler, seed and deadline")
    stop_at = None if time_limit_s is None else time.monotonic() + time_limit_s
    folder = None if out is None else Path(out)
    if folder is not None and folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is a file: choose a folder with --out")
    if data is not None:
        each = [
            settings.changed(dataset=data.name) for settings in each
        ]  # so that the record does not claim another
    if folder is not None:
        check_out(folder, resume=resume, one=one)
    if data is None:
        data = load_dataset(each[0].dataset, data_dir)
    laboratory = Laboratory(each[0], data, device, runtime)
    # All before the folder is made: if something is wrong, nothing is left behind.
    runs = [laboratory.new_run(settings) for settings in each]
    try:
        with locked(folder) if folder is not None else nullcontext():
            try:
                if folder is not None:
                    for run in runs:
                        own = folder if one else folder / run_name(run.settings)
                        _attach(run, RunFolder(own), laboratory)
                _advance_all(laboratory, runs, stop_at, watch)
            finally:
                for run in runs:
                    if run.folder is not None:
                        run.folder.close()
    except OSError as error:  # such as a full disk
        raise InputError(
            f"{folder or 'a file'} could not be written ({error.strerror or error}): what was written before is kept;"
            " make room and repeat with --resume"
        ) from None
    return Study(tuple(_record(run) for run in runs))


def _record(run: Run) -> RunRecord:
    return RunRecord.of(run.settings, run.plan, run.records, run.finished, run.failure)


def _attach(run: Run, folder: RunFolder, laboratory: Laboratory) -> None:
    """Give a run its folder: a new one, or one with a checkpoint to go on from."""
    scenario = {
        "data": laboratory.data.fingerprint,
        "counts": [frame.counts.tolist() for frame in run.plan.frames],
    }
    if folder.checkpoint.exists():
        folder.check_scenario(scenario)
        load_checkpoint(run, folder)
        folder.note_machine(laboratory.engine.name)
        return
    if folder.has_rounds():  # somebody removed the weights: what was found must not be overwritten
        folder.check_scenario(scenario)
        kept = read_run(folder.path)
        if kept.settings != run.settings or not kept.finished:
            raise InputError(
                f"{folder.path} holds rounds but no checkpoint: it cannot be continued; choose another --out"
            )
        run.records, run.finished = list(kept.records), True
        return
    folder.start(run.settings, scenario, laboratory.engine.name)
    run.folder = folder
    save_checkpoint(run)


def _advance_all(laboratory: Laboratory, runs: list[Run], stop_at: float | None, watch: Watch | None) -> None:
    in_all = sum(sum(run.settings.rounds) for run in runs)
    started_at = saved_at = time.monotonic()
    last_s: deque[float] = deque(maxlen=20)  # not all: the first round may compile programs, and never again
    saving_s = 0.0
    started = [run for run in runs if not run.over]
    while active := [run for run in runs if not run.over]:
        if stop_at is not None and time.monotonic() + 1.5 * max(last_s, default=0.0) + saving_s > stop_at:
            break
        began = time.monotonic()
        fresh = [run for run in active if not run.records]
        # A run's first step may pre-train: on a CPU one at a time, to stop in time.
        laboratory.advance((fresh if laboratory.engine.together else fresh[:1]) or active)
        if not fresh:  # pre-training says nothing about how long a round takes
            last_s.append(time.monotonic() - began)
        for run in active:
            if run.failure is not None:
                save_failure(run)
        began = time.monotonic()
        # At most a twentieth of the time goes into saving; 0 means after every round.
        pause_s = max(CHECKPOINT_EVERY_S, 20 * saving_s) if CHECKPOINT_EVERY_S else 0.0
        if began - saved_at >= pause_s:
            for run in active:
                save_checkpoint(run)
            saved_at = time.monotonic()
            saving_s = saved_at - began
        if watch is not None:
            spent = dict(laboratory.engine.seconds)
            spent["the rest"] = max(0.0, time.monotonic() - started_at - sum(spent.values()))
            watch(Progress(sum(run.state.rounds_done for run in runs), in_all, tuple(runs), spent))
    for run in started:
        save_checkpoint(run)
