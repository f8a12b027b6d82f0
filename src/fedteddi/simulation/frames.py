"""Frame changes: what a run begins with, and what it carries from one frame into the next."""

import numpy as np
import torch

from fedteddi.errors import DivergedError
from fedteddi.simulation.in_process import Exchange, Live
from fedteddi.simulation.pretrained import OnPretraining, Pretrained
from fedteddi.simulation.run import Run


def is_entered(run: Run) -> bool:
    """Return whether the model that the run's frame begins with is on record."""
    return any((r.frame, r.round) == (run.state.frame, 0) for r in run.records[-1:])


def enter(runs: list[Run], pretrained: Pretrained, tell: OnPretraining | None) -> None:
    """Begin a frame; a run's first frame begins with its pre-trained model."""
    fresh = [run for run in runs if not run.records]
    for run, weights in zip(fresh, pretrained.weights(fresh, tell), strict=True):
        with run.failing():
            if not bool(torch.isfinite(weights).all()):
                rate = run.settings.training.pretrain_learning_rate
                raise DivergedError(
                    f"pre-training diverged: lower training.pretrain_learning_rate={rate:g}", 0, 0
                )
            run.state.weights = weights
    for run in runs:
        run.best_loss, run.best_weights, run.best_aggregation = float("inf"), None, None


def ask(run: Run, runtime: Exchange) -> None:
    """Ask the clients of a fleet what they hold as a frame begins; a simulation knows."""
    if run.live and isinstance(runtime, Live):
        held = runtime.reported_data(run.clients, run.state.frame)
        if held:
            mixes = np.array([mix for _, mix in held.values()])
            run.state.hear(held, mixes, np.array([samples for samples, _ in held.values()]))
            run.state.classes_seen = run.state.classes_seen | (mixes.max(axis=0) > 0)


def leave_if_done(run: Run, runtime: Exchange) -> None:
    """After a frame's last round, the best model of the frame starts the next: w̃_l (docs/paper.md D12)."""
    state = run.state
    if run.over or not run.frame_over:
        return
    if state.frame == run.last_frame:
        run.finished = True
        return
    if run.best_weights is not None:
        state.weights, run.best_weights = run.best_weights, None
        state.aggregation, run.best_aggregation = run.best_aggregation, None
    if not state.current_mix:  # a frame without rounds had no reports; what was held then is the past now
        state.current_mix = runtime.reported_mixes(run.clients, state.frame)
        state.first_mix = dict(state.current_mix)
        for mix in state.current_mix.values():
            state.classes_seen = state.classes_seen | (mix > 0)
    state.enter_frame(state.frame + 1)
    run.ended = False
