"""A class histogram with Laplace noise, as a client may release it in place of its own (docs/privacy.md)."""

import numpy as np


def noisy_mix(counts: np.ndarray, epsilon: float, rng: np.random.Generator) -> np.ndarray:
    """Return an ε-differentially private class mix of the counts [C], a distribution.

    One sample more or less changes one count by 1, so Laplace noise of scale 1/ε on every count hides it. The noisy
    shares of the (unprotected) total are then moved to the nearest distribution, which costs no privacy.
    """
    noisy = counts + rng.laplace(scale=1.0 / epsilon, size=len(counts))
    return onto_simplex(noisy / counts.sum())


def onto_simplex(point: np.ndarray) -> np.ndarray:
    """Return the distribution nearest to a point [C], in the Euclidean sense.

    It is max(point − t, 0), with t such that it sums to 1.
    """
    ordered = np.sort(point)[::-1]
    above = np.cumsum(ordered) - 1.0  # what the k largest have too much together, [C]
    sizes = np.arange(1, len(point) + 1)
    kept = int(np.flatnonzero(ordered * sizes > above)[-1])  # the largest k whose members all stay positive
    nearest = np.maximum(point - above[kept] / sizes[kept], 0.0)
    return np.asarray(nearest / nearest.sum())  # rounding only
