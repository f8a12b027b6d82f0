"""Runs made by hand, so that every number about them is known."""

from typing import Any

import numpy as np

from fedteddi.protocol.record import RoundRecord
from fedteddi.results.runs import RunRecord, Study
from fedteddi.results.tables import Targets
from fedteddi.settings import Settings
from fedteddi.studies.outcomes import Outcomes
from fedteddi.studies.summaries import Summaries, Summarised

TARGETS: Targets = {"balanced": [0.5], "global": [0.5]}


def made_run(rule: str, seed: int, curve: list[float], **more: Any) -> RunRecord:
    """A run whose accuracy, on every class and so by both measures, is `curve` at rounds 0, 5, 10, … of frame 1."""
    return made_frames(rule, seed, [curve], **more)


def made_frames(
    rule: str,
    seed: int,
    curves: list[list[float]],
    *,
    deadline_s: float = 1.2,
    clients: int = 2,
    new: int = 1,
    every: int = 5,
    base: Settings | None = None,
) -> RunRecord:
    """A run with a curve for each of frames 1, 2, …; frame 0 has no rounds."""
    lengths = [(len(curve) - 1) * every for curve in curves]
    settings = (base or Settings()).changed(
        name=rule, scheduler=rule, seed=seed, rounds=[0, *lengths], radio__deadline_s=deadline_s
    )
    counts = _counts(len(curves))
    classes = counts.shape[2]
    records: list[dict[str, Any]] = [{"frame": 0, "round": 0} | _evaluated(0.9, classes)]
    for frame, (curve, last) in enumerate(zip(curves, lengths, strict=True), start=1):
        for number in range(last + 1):
            record: dict[str, Any] = {"frame": frame, "round": number}
            if number:
                record |= {"clients": list(range(clients)), "scheduled_new": new, "round_s": deadline_s}
                record |= {
                    "uplink_bits": 32 * clients,
                    "energy_j": 2 / 3,
                    "gradient_std": None,
                    "objective": None,
                }
            if number % every == 0:
                record |= _evaluated(curve[number // every], classes)
            records.append(record)
    return RunRecord(settings, counts, tuple(map(RoundRecord.from_json, records)), True)


def outcomes_of(
    study: Study, deadlines_s: tuple[float, ...] = (1.2,), ours: str = "fedteddi", targets: Targets = TARGETS
) -> Outcomes:
    """What these runs came to; the other rules are those that have runs."""
    others = [rule for rule in study.schedulers if rule != ours]
    return Outcomes(study, ours, others, deadlines_s, targets)


def in_short(*runs: RunRecord, name: str = "cifar10-first", machine: str = "cpu") -> Summaries:
    """Runs as they are kept, each of a minute."""
    return Summaries(name, tuple(Summarised(run, {"device": machine}, 1.0) for run in runs))


def _counts(frames: int) -> np.ndarray:
    """Frame 0: a class for each of two clients; every later frame brings one more class to client 1, [L, 2, C]."""
    counts = np.zeros((1 + frames, 2, 2 + frames), dtype=np.int64)
    counts[:, 0, 0] = counts[0, 1, 1] = 10
    for frame in range(1, 1 + frames):
        counts[frame, 1, [1, 1 + frame]] = 5
    return counts


def _evaluated(value: float, classes: int) -> dict[str, Any]:
    return {"class_accuracy": [value] * classes, "balanced": value, "global": value}
