"""Accuracy as columns of whole numbers: of every run over rounds, seconds, joules and bits, and by class."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from fedteddi.results.page.detail import Detail, spaced
from fedteddi.results.runs import REFERENCES, RunRecord
from fedteddi.results.stretches import Stretch

SHARE = 10_000  # an accuracy of 1 as a whole number
COSTS = {"seconds": "round_s", "joules": "energy_j", "bits": "uplink_bits"}
# Bounds have no limits, so what they spend means nothing (docs/metrics.md).


def run_curves(run: RunRecord, detail: Detail, series: int) -> dict[str, Any]:
    """Return the evaluations of a run: frame, round, four accuracies, and what was spent since its beginning."""
    rows: list[tuple[Stretch, dict[str, float]]] = []
    spent = dict.fromkeys(COSTS, 0.0)
    for one in run.stretches:
        spent = {name: spent[name] + getattr(one, column) for name, column in COSTS.items()}
        if one.is_evaluated:
            rows.append((one, spent))
    rows = [rows[index] for index in _kept([one.frame for one, _ in rows], detail.points(series))]
    found: dict[str, Any] = {
        "frame": [one.frame for one, _ in rows],
        "round": [one.round for one, _ in rows],
        "balanced": [share(one.balanced) for one, _ in rows],
        "global": [share(one.global_) for one, _ in rows],
    }
    for name, which in (("old", run.old_classes), ("new", run.new_classes)):
        found[name] = [share(_mean_of(one, which(one.frame))) for one, _ in rows]
    if run.scheduler not in REFERENCES:
        found |= {name: [float(f"{costs[name]:.5g}") for _, costs in rows] for name in COSTS}
    return found


def class_curves(runs: Sequence[RunRecord], detail: Detail, series: int) -> dict[str, Any] | None:
    """Return the accuracy of each class, the mean over a scheduler's finished runs, by evaluation: [E][C]."""
    together = [run for run in runs if run.finished] or list(runs[:1])
    evaluated = [[one for one in run.stretches if one.is_evaluated] for run in together]
    length = min((len(own) for own in evaluated), default=0)
    if not length or any(one.class_accuracy is None for own in evaluated for one in own):
        return None
    first = evaluated[0][:length]
    kept = _kept([one.frame for one in first], detail.class_points(series))
    table = np.array(
        [[own[index].class_accuracy for index in kept] for own in evaluated], dtype=float
    )  # [runs, E, C]
    known = np.isfinite(table)
    with np.errstate(invalid="ignore"):
        mean = np.where(known, table, 0.0).sum(axis=0) / known.sum(axis=0)  # [E, C]
    return {
        "frame": [first[index].frame for index in kept],
        "round": [first[index].round for index in kept],
        "accuracy": [[percent(value) for value in row] for row in mean],
        "seeds": len(together),
    }


def share(value: float | None) -> int | None:
    """Return a share as a whole number of ten-thousandths."""
    return None if value is None or not np.isfinite(value) else round(value * SHARE)


def percent(value: float) -> int | None:
    """Return a share as a whole number of hundredths; None for what is not known."""
    return None if not np.isfinite(value) else round(value * 100)


def _mean_of(one: Stretch, classes: np.ndarray) -> float | None:
    if one.class_accuracy is None:
        return None
    own = np.array(one.class_accuracy, dtype=float)[classes]
    own = own[np.isfinite(own)]
    return float(own.mean()) if len(own) else None


def _kept(frames: Sequence[int], most: int) -> list[int]:
    """Return the positions that are drawn: at most so many of every frame, its first and last among them."""
    found: list[int] = []
    for frame in dict.fromkeys(frames):
        own = [index for index, number in enumerate(frames) if number == frame]
        found += [own[index] for index in spaced(len(own), most)]
    return found
