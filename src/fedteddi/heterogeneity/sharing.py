"""How much of an average one client may claim: `server.max_sample_share` bounds every α_n."""

import numpy as np

ROUNDING = 1e-12


def bounded_counts(num_samples: np.ndarray, largest_share: float) -> np.ndarray:
    """Clip sample counts [n] so that nobody's share of their sum is above `largest_share`.

    Everyone above a common level is cut down to it, the highest level (a whole number) at which the bound holds;
    the others keep what they said. Fewer than 1/`largest_share` clients cannot keep the bound: then all count the same.
    """
    if largest_share >= 1.0:
        return num_samples
    ordered = np.sort(num_samples)[::-1]
    if len(ordered) * largest_share <= 1.0:
        return np.full_like(num_samples, ordered[-1])
    rest = float(ordered.sum())
    for cut, count in enumerate(ordered):
        # With the `cut` largest at level x, x = share · (cut · x + rest); the next one must not lie above it.
        level = largest_share * rest / (1.0 - cut * largest_share)
        if count <= level * (1 + ROUNDING):
            return num_samples if cut == 0 else np.minimum(num_samples, _whole(level))
        rest -= float(count)
    raise AssertionError("the smallest count never lies above the level")


def bounded_class_counts(
    class_counts: np.ndarray, num_samples: np.ndarray, largest_share: float
) -> np.ndarray:
    """Scale down the class counts [n, C] of clients that claim more than their share, keeping their mix."""
    counted = bounded_counts(num_samples, largest_share)
    if counted is num_samples:
        return class_counts
    return np.asarray(class_counts * counted[:, None] // num_samples[:, None])


def _whole(level: float) -> int:
    """Round down, but not below a whole number that rounding errors have just missed."""
    return int(np.floor(level * (1 + ROUNDING)))
