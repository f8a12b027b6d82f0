"""Evaluating models: test accuracy (docs/paper.md D11), the loss F_l, and the best model of a frame."""

from typing import Any

import numpy as np

from fedteddi.errors import InputError
from fedteddi.heterogeneity.mixes import pooled_mix
from fedteddi.learning.jobs import Candidate, Engine, Probe
from fedteddi.randomness import keyed_rng
from fedteddi.run import Run


def evaluate(engine: Engine, evaluated: list[tuple[Run, dict[str, Any]]]) -> None:
    """Add test accuracy and, where the next frame needs it, F_l to the records; keep each frame's best model."""
    if not evaluated:
        return
    accuracies = engine.class_accuracy(
        [Candidate(run.state.weights, run.clients.outputs(run.state.frame)) for run, _ in evaluated]
    )
    for (run, record), accuracy in zip(evaluated, accuracies, strict=True):
        record |= _accuracy(run, accuracy)
    probed = [(run, record) for run, record in evaluated if _needs_loss(run)]
    losses = engine.losses(
        [
            Probe(run.state.weights, loss_samples(run), outputs=run.clients.outputs(run.state.frame))
            for run, _ in probed
        ]
    )
    for (run, record), loss in zip(probed, losses, strict=True):
        record["loss"] = loss
        run.keep_if_best(loss)


def is_due(run: Run, frame: int, round: int) -> bool:
    """Return whether a run's model is evaluated after a round."""
    return round == run.settings.rounds[frame] or round % run.settings.evaluation.every == 0


def _accuracy(run: Run, accuracy: np.ndarray) -> dict[str, Any]:
    frame = run.state.frame
    counts = run.plan.frames[frame].counts
    mix = pooled_mix(counts.sum(axis=1), counts / counts.sum(axis=1, keepdims=True))
    seen = run.plan.classes_seen(frame) & np.isfinite(accuracy)
    if not seen.any():
        raise InputError(
            f"no class seen up to frame {frame} has test images: there is nothing to evaluate on"
        )
    return {
        "class_accuracy": [None if np.isnan(a) else float(a) for a in accuracy],
        "balanced": float(accuracy[seen].mean()),
        "global": float(accuracy[seen] @ mix[seen] / mix[seen].sum()),
    }


def _needs_loss(run: Run) -> bool:
    return run.state.frame < run.last_frame or run.settings.evaluation.loss_in_last_frame


def loss_samples(run: Run) -> np.ndarray:
    """Return the fixed random part of the current local data on which F_l is estimated."""
    pooled = np.concatenate(run.plan.frames[run.state.frame].held)
    rng = keyed_rng(run.settings.seed, "estimates", frame=run.state.frame, step=1)
    return rng.permutation(pooled)[: run.settings.evaluation.loss_samples]
