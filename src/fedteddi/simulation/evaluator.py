"""Evaluating models: test accuracy (docs/paper.md D11), the loss F_l, and the best model of a frame."""

from dataclasses import replace
from typing import Any

import numpy as np

from fedteddi.errors import InputError
from fedteddi.learning.engine import Candidate, Engine, Probe
from fedteddi.protocol.record import RoundRecord
from fedteddi.randomness import keyed_rng
from fedteddi.simulation import known
from fedteddi.simulation.run import Run


def evaluate(engine: Engine, played: list[tuple[Run, RoundRecord]]) -> list[tuple[Run, RoundRecord]]:
    """Add test accuracy and, where the next frame needs it, F_l to the records that are due.

    Each run keeps the model whose F_l is the lowest of its frame.
    """
    due = [(index, run) for index, (run, record) in enumerate(played) if _is_due(run, record)]
    if not due:
        return played
    found: dict[int, dict[str, Any]] = {index: {} for index in range(len(played))}
    accuracies = _class_accuracies(engine, [played[index] for index, _ in due])
    for (index, run), accuracy in zip(due, accuracies, strict=True):
        found[index] = _accuracy(run, accuracy)
    probed = [(index, run) for index, run in due if _needs_loss(run)]
    losses = engine.losses(
        [
            Probe(run.state.weights, loss_samples(run), outputs=run.clients.outputs(run.state.frame))
            for _, run in probed
        ]
    )
    for (index, run), loss in zip(probed, losses, strict=True):
        found[index]["loss"] = loss
        run.keep_if_best(loss)
    return [(run, replace(record, **found[index])) for index, (run, record) in enumerate(played)]


def _is_due(run: Run, record: RoundRecord) -> bool:
    return run.frame_over or record.round % run.settings.evaluation.every == 0


def _class_accuracies(engine: Engine, due: list[tuple[Run, RoundRecord]]) -> list[np.ndarray]:
    """Return every model's test accuracy by class, [C]; one that is on record is not evaluated again."""
    known = [_on_record(run, record) for run, record in due]
    models = [
        Candidate(run.state.weights, run.clients.outputs(run.state.frame))
        for (run, _), found in zip(due, known, strict=True)
        if found is None
    ]
    measured = iter(engine.class_accuracy(models) if models else ())
    return [next(measured) if found is None else found for found in known]


def _on_record(run: Run, record: RoundRecord) -> np.ndarray | None:
    """Return the accuracy of a frame's first model if it was the first of the frame before, which had no rounds."""
    before = run.records[-1] if run.records else None
    if record.round or before is None or before.round or before.class_accuracy is None:
        return None
    outputs, outputs_then = (run.clients.outputs(frame) for frame in (record.frame, before.frame))
    if outputs is not None and outputs_then is not None and (outputs != outputs_then).any():
        return None  # it answers with more classes now
    return np.array(before.class_accuracy, dtype=float)


def _accuracy(run: Run, accuracy: np.ndarray) -> dict[str, Any]:
    frame = run.state.frame
    mix = known.global_mix(run)
    seen = known.classes_seen(run) & np.isfinite(accuracy)
    if not seen.any():
        raise InputError(
            f"no class seen up to frame {frame} has test images: there is nothing to evaluate on"
        )
    return {
        "class_accuracy": [None if np.isnan(a) else float(a) for a in accuracy],
        "balanced": float(accuracy[seen].mean()),
        "global_": float(accuracy[seen] @ mix[seen] / mix[seen].sum()),
    }


def _needs_loss(run: Run) -> bool:
    return run.state.frame < run.last_frame or run.settings.evaluation.loss_in_last_frame


def loss_samples(run: Run) -> np.ndarray:
    """Return the fixed random part of the current local data on which F_l is estimated; on a fleet, one like it."""
    if run.live and run.state.first_mix:
        return known.samples_like(run)
    pooled = np.concatenate(run.plan.frames[run.state.frame].held)
    rng = keyed_rng(run.settings.seed, "estimates", frame=run.state.frame, step=1)
    return rng.permutation(pooled)[: run.settings.evaluation.loss_samples]
