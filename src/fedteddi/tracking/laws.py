"""The invariants of every tracker, as functions: `fedteddi check` and our tests ask the same questions."""

import copy
import inspect
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from fedteddi.laws import Law, broken_laws
from fedteddi.protocol.record import RoundRecord
from fedteddi.settings import Settings
from fedteddi.tracking import FunctionTracker
from fedteddi.tracking.tracker import Outcome, TrackedRun, Tracker

ROUNDS = [1, 3]  # of two frames: six records


def tell(tracker: Tracker, folder: Path, outcome: Outcome = "finished") -> Iterator[Any]:
    """Play the part of a session with two runs that is interrupted and resumed; yield what on_start returned."""
    runs = [_run(folder, name, seed) for seed, name in enumerate(("a-d1-s0", "b-d1-s1"))]
    halves: list[tuple[list[RoundRecord], Outcome]] = [(_records()[:3], "stopped"), (_records()[3:], outcome)]
    for records, how in halves:
        kept = [_start(tracker, run) for run in runs]
        yield from kept
        for record in records:  # the runs in turn, as in lock-step
            for run in runs:
                tracker.on_round(run, record)
        for run in runs:
            if (on_end := getattr(tracker, "on_end", None)) is not None:
                on_end(run, how)
        runs = [replace(run, told=3, kept=own) for run, own in zip(runs, kept, strict=True)]


def takes_every_round(tracker: Tracker, folder: Path) -> Iterator[str]:
    """Rounds of two runs in turn, evaluated or not, before and after an interruption, are taken without an error."""
    for _ in tell(tracker, folder):
        pass
    yield from ()


def takes_a_failure(tracker: Tracker, folder: Path) -> Iterator[str]:
    """Runs may fail."""
    for _ in tell(tracker, folder, "failed"):
        pass
    yield from ()


def keeps_text(tracker: Tracker, folder: Path) -> Iterator[str]:
    """What on_start returns is kept in a file of the run, as text."""
    for kept in tell(tracker, folder):
        if kept is not None and not isinstance(kept, str):
            yield f"on_start returned a {type(kept).__name__}: return text, or None"


def leaves_its_input(tracker: Tracker, folder: Path) -> Iterator[str]:
    """Records and settings are the run's own: whoever changes them changes results."""
    run, records = _run(folder, "a-d1-s0", 0), _records()
    settings, before = run.settings.model_dump(), [copy.deepcopy(record.as_json()) for record in records]
    _start(tracker, run)
    for record, line in zip(records, before, strict=True):
        tracker.on_round(run, record)
        if record.as_json() != line:
            yield f"changed the record of frame {record.frame}, round {record.round}: copy what you change"
    if run.settings.model_dump() != settings:
        yield "changed the run's settings: copy what you change"
    if (on_end := getattr(tracker, "on_end", None)) is not None:
        on_end(run, "finished")


LAWS: dict[str, Law[Path]] = {
    "every round of every run": takes_every_round,
    "a run that fails": takes_a_failure,
    "what it keeps is text": keeps_text,
    "leaves its input as it was": leaves_its_input,
}


def check_tracker(tracker: Any) -> dict[str, str]:
    """Try every invariant in an empty folder; return the first fault, or "not tried", of each not kept, by name."""
    one = FunctionTracker(tracker) if inspect.isroutine(tracker) else tracker
    with tempfile.TemporaryDirectory() as folder:
        cases = [Path(folder)]
        return broken_laws(LAWS, cases, lambda law, case: law(one, case / law.__name__))


def _start(tracker: Tracker, run: TrackedRun) -> Any:
    on_start = getattr(tracker, "on_start", None)
    return None if on_start is None else on_start(run)


def _run(folder: Path, name: str, seed: int) -> TrackedRun:
    (folder / name).mkdir(parents=True, exist_ok=True)
    settings = Settings().changed(rounds=ROUNDS, seed=seed, name=name[0])
    return TrackedRun(name=name, group=folder.name, settings=settings, folder=folder / name)


def _records() -> list[RoundRecord]:
    """Return the records of a run; round 2 of frame 1 is not evaluated, and class 2 has no test images."""
    found = []
    for frame, rounds in enumerate(ROUNDS):
        for number in range(rounds + 1):
            accuracy = None if (frame, number) == (1, 2) else 0.25 * number
            found.append(
                RoundRecord(
                    frame=frame,
                    round=number,
                    clients=[0, 2] if number else [],
                    scheduled_new=min(number, 1),
                    bandwidth_hz=[1e6, 2e6] if number else [],
                    round_s=float(number > 0),
                    uplink_bits=64.0 * (number > 0),
                    energy_j=0.5 * (number > 0),
                    failures={"1": "late"} if number == 3 else {},
                    objective={"variance": 1.0, "divergence": 2.0, "total": 3.0} if number else None,
                    balanced=accuracy,
                    global_=accuracy,
                    class_accuracy=None if accuracy is None else [accuracy, accuracy, None],
                )
            )
    return found
