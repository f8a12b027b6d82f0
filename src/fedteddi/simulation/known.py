"""What is known of the clients' data: in a simulation the scenario's plan; on a fleet only what they report."""

import numpy as np

from fedteddi.errors import InputError
from fedteddi.heterogeneity.mixes import pooled_mix
from fedteddi.heterogeneity.sharing import bounded_counts
from fedteddi.randomness import keyed_rng
from fedteddi.simulation.run import Run


def global_mix(run: Run) -> np.ndarray:
    """Return p^(c), the class mix of all clients' data in the current frame, [C]; of a silent client, as last known."""
    mixes = run.state.previous_mix | run.state.current_mix
    if run.live and mixes:
        return _pooled(run, mixes)
    counts = run.plan.frames[run.state.frame].counts
    return pooled_mix(counts.sum(axis=1), counts / counts.sum(axis=1, keepdims=True))


def classes_seen(run: Run) -> np.ndarray:
    """Return which classes anybody has held up to the current frame, [C]."""
    if run.live and run.state.classes_seen.any():
        return run.state.classes_seen
    return run.plan.classes_seen(run.state.frame)


def new_classes(run: Run) -> np.ndarray:
    """Return, per client, whether it holds a class that nobody held when an earlier frame began, [N]."""
    state = run.state
    if not run.live:
        return run.plan.new_classes(state.frame)
    found = np.zeros(len(state.times_scheduled), dtype=bool)
    for client, mix in state.current_mix.items() if state.frame else ():
        found[client] = not state.seen_before.issuperset(np.flatnonzero(mix).tolist())
    return found


def samples_like(run: Run) -> np.ndarray:
    """Draw training samples of the server's own data with the class mix that clients had when the frame began.

    As many as `evaluation.loss_samples`, or fewer where a class would run out; classes of which the server has no
    images are left out.
    """
    if run.state.loss_mix is None:  # the same all through the frame, whoever reports late or claims more
        run.state.loss_mix = _pooled(run, run.state.first_mix)
    labels, mix = run.clients.world.labels, run.state.loss_mix
    there = np.bincount(labels, minlength=len(mix))  # [C]
    mix = np.where(there > 0, mix, 0.0)
    held = mix > 0
    if not held.any():
        raise InputError(
            "the server's data set has no image of any class that clients report: choose another dataset"
        )
    mix = mix / mix.sum()
    size = min(float(run.settings.evaluation.loss_samples), float((there[held] / mix[held]).min()))
    counts = np.where(held, np.maximum(1, np.rint(size * mix)), 0).astype(np.int64)  # [C]
    rng = keyed_rng(run.settings.seed, "estimates", frame=run.state.frame, step=1)
    of_class = [rng.permutation(np.flatnonzero(labels == c)) for c in range(len(mix))]
    return np.concatenate([own[:count] for own, count in zip(of_class, counts, strict=True)])


def _pooled(run: Run, mixes: dict[int, np.ndarray]) -> np.ndarray:
    """Return the pooled mix of some clients by their sample counts, [C]."""
    counts = np.array([run.state.num_samples.get(client, 1) for client in mixes])
    bounded = bounded_counts(counts, run.settings.server.max_sample_share)
    return pooled_mix(bounded, np.array([*mixes.values()]))
