"""Playing runs together in this process: each in its folder, all in lock-step, with checkpoints and a time limit."""

import os
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from fedteddi.errors import InputError
from fedteddi.results.folder import RunFolder
from fedteddi.results.reading import as_played, read_run
from fedteddi.simulation.checkpoint import load_checkpoint, save_checkpoint, save_failure
from fedteddi.simulation.laboratory import Laboratory
from fedteddi.simulation.pretrained import Pretraining
from fedteddi.simulation.progress import Progress, Watch
from fedteddi.simulation.run import Run
from fedteddi.simulation.turns import Turns, halves
from fedteddi.tracking.tracking import Tracking

CHECKPOINT_EVERY_S = float(os.environ.get("FEDTEDDI_CHECKPOINT_S", "10"))


Show = Callable[[Pretraining | None], None]


def play_together(
    laboratory: Laboratory,
    runs: Mapping[str, Run],  # by the names of their folders inside `folder`
    folder: Path | None,
    stop_at: float | None,  # of time.monotonic()
    watch: Watch | None,
    tracking: Tracking | None = None,
) -> None:
    """Play runs to their end, or until there is no time left; go on from what their folders hold."""
    try:
        if folder is not None:
            for name, run in runs.items():
                _attach(run, RunFolder(folder / name), laboratory)
        with telling(tracking, runs, folder, {name: len(run.records) for name, run in runs.items()}):
            _advance_all(laboratory, runs, stop_at, watch, tracking)
    finally:
        for run in runs.values():
            if run.folder is not None:
                run.folder.close()


@contextmanager
def telling(
    tracking: Tracking | None, runs: Mapping[str, Run], folder: Path | None, held: Mapping[str, int]
) -> Iterator[None]:
    """Let trackers know that runs begin, with so many records each, and in the end how they ended."""
    if tracking is None:
        yield
        return
    tracking.begin({name: run.settings for name, run in runs.items()}, folder, held)
    try:
        yield
    finally:
        tracking.end(runs)


@contextmanager
def writing_into(folder: Path | None) -> Iterator[None]:
    """Say what to do if something cannot be written, such as on a full disk."""
    try:
        yield
    except OSError as error:
        raise InputError(
            f"{folder or 'a file'} could not be written ({error.strerror or error}): what was written before is kept;"
            " make room and repeat with --resume"
        ) from None


def _attach(run: Run, folder: RunFolder, laboratory: Laboratory) -> None:
    """Give a run its folder: a new one, or one with a checkpoint to go on from."""
    scenario = {
        "data": laboratory.data.fingerprint,
        "counts": [frame.counts.tolist() for frame in run.plan.frames],
    }
    if folder.checkpoint.exists():
        folder.check_scenario(scenario)
        load_checkpoint(run, folder)
        folder.note_machine(laboratory.engine.name, run.plugins, laboratory.engine.side_by_side)
        return
    if folder.has_rounds():  # somebody removed the weights: what was found must not be overwritten
        folder.check_scenario(scenario)
        kept = read_run(folder.path)
        if kept.settings != as_played(run.settings, kept.records) or not kept.finished:
            raise InputError(
                f"{folder.path} holds rounds but no checkpoint: it cannot be continued; choose another --out"
            )
        run.records, run.finished = list(kept.records), True
        return
    folder.start(run.settings, scenario, laboratory.engine.name, run.plugins, laboratory.engine.side_by_side)
    run.folder = folder
    save_checkpoint(run)


def _advance_all(
    laboratory: Laboratory,
    runs: Mapping[str, Run],
    stop_at: float | None,
    watch: Watch | None,
    tracking: Tracking | None,
) -> None:
    engine, started_at = laboratory.engine, time.monotonic()

    def show(pretraining: Pretraining | None = None) -> None:
        if tracking is not None:
            tracking.hear(runs)
        if watch is not None:
            spent = dict(engine.seconds)
            spent["the rest"] = max(0.0, time.monotonic() - started_at - sum(spent.values()))
            watch(Progress.of(runs, spent, pretraining=pretraining))

    playing = [run for run in runs.values() if not run.over]
    parts = halves(playing, engine)
    if len(parts) == 1:
        _advance(laboratory, playing, stop_at, show)
        return
    fresh = [run for run in playing if not run.records]
    if fresh and (stop_at is None or time.monotonic() < stop_at):  # all models are pre-trained together
        _step(laboratory, fresh, show)
    turns = Turns(engine, show)
    turns.play([partial(_advance, laboratory, part, stop_at, turns.hear, turns.going) for part in parts])


def _step(laboratory: Laboratory, runs: list[Run], show: Show, at_once: int = 1) -> None:
    """Take runs one step further, and write down which of them have failed in it."""
    laboratory.advance(runs, show, at_once)
    for run in runs:
        if run.failure is not None:
            save_failure(run)


def _advance(
    laboratory: Laboratory,
    runs: list[Run],
    stop_at: float | None,
    show: Show,
    going: Callable[[], int] = lambda: 1,
) -> None:
    """Advance runs together; `show` hears of every round, and of every step of pre-training."""
    saved_at = time.monotonic()
    last_s: deque[float] = deque(maxlen=20)  # not all: the first round may compile programs, and never again
    saving_s = 0.0
    while active := [run for run in runs if not run.over]:
        if stop_at is not None and time.monotonic() + 1.5 * max(last_s, default=0.0) + saving_s > stop_at:
            break
        began = time.monotonic()
        fresh = [run for run in active if not run.records]
        # A run's first step may pre-train: on a CPU no more than run side by side, to stop in time.
        engine = laboratory.engine
        some = fresh if engine.together else fresh[: engine.side_by_side]
        _step(laboratory, some or active, show, going())
        if not fresh:  # pre-training says nothing about how long a round takes
            last_s.append(time.monotonic() - began)
        began = time.monotonic()
        # At most a fiftieth of the time goes into saving; 0 means after every round.
        pause_s = max(CHECKPOINT_EVERY_S, 50 * saving_s) if CHECKPOINT_EVERY_S else 0.0
        if began - saved_at >= pause_s:
            for run in active:
                save_checkpoint(run)
            saved_at = time.monotonic()
            saving_s = saved_at - began
        show(None)
    for run in runs:
        save_checkpoint(run)
