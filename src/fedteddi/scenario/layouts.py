"""Who holds how much of what: class counts [N, C] for frame 0, and for what arrives later."""

import numpy as np

from fedteddi.errors import InputError
from fedteddi.randomness import keyed_rng


def rounded_counts(shares: np.ndarray, total: int) -> np.ndarray:
    """Turn shares [C] into whole counts that add up to `total`: the largest remainders are rounded up."""
    exact = shares / shares.sum() * total
    counts = np.floor(exact).astype(np.int64)
    counts[np.argsort(-(exact - counts), kind="stable")[: total - counts.sum()]] += 1
    return np.asarray(counts)


def few_classes(
    clients: int, classes_per_client: int, samples: int, weights: np.ndarray, seed: int
) -> np.ndarray:
    """Give every client that many classes in equal parts; a class goes to clients in proportion to its weight [C]."""
    rng = keyed_rng(seed, "arrival", step=1)
    held = np.flatnonzero(weights > 0)
    if classes_per_client > len(held):
        raise InputError(
            f"scenario.classes_per_client={classes_per_client}, but only {len(held)} classes are there: ask for fewer"
        )
    counts = np.zeros((clients, len(weights)), dtype=np.int64)
    left = _slots(
        weights[held], clients, clients * classes_per_client
    )  # how many clients each class still goes to
    for client in rng.permutation(clients):
        # The classes with most clients to go, ties at random: so all are used up, and nobody gets one twice.
        own = np.lexsort((rng.random(len(held)), -left))[:classes_per_client]
        left[own] -= 1
        counts[client, held[own]] = rounded_counts(np.ones(classes_per_client), samples)
    return counts


def _slots(weights: np.ndarray, most: int, total: int) -> np.ndarray:
    """Share `total` slots in proportion to weights, at most `most` each: what is too much goes to the others."""
    slots, open_ = np.zeros(len(weights), dtype=np.int64), np.ones(len(weights), dtype=bool)
    while True:
        slots[open_] = rounded_counts(weights[open_], total - int(slots[~open_].sum()))
        full = open_ & (slots > most)
        if not full.any():
            return slots
        slots[full], open_ = most, open_ & ~full


def dirichlet(clients: int, alpha: float, samples: int, weights: np.ndarray, seed: int) -> np.ndarray:
    """Draw every client's mix from a Dirichlet distribution around `weights` [C]: small α, unequal clients."""
    rng = keyed_rng(seed, "arrival", step=1)
    there = np.flatnonzero(weights > 0)
    counts = np.zeros((clients, len(weights)), dtype=np.int64)
    concentration = alpha * weights[there] / weights[there].mean()
    for client in range(clients):
        counts[client, there] = rounded_counts(rng.dirichlet(concentration) + 1e-12, samples)
    return counts


def one_class_each(
    chosen: np.ndarray, classes: list[int], samples: int, clients: int, num_classes: int
) -> np.ndarray:
    """Let `samples` of one class arrive at each chosen client, the classes dealt in turn, [N, C]."""
    counts = np.zeros((clients, num_classes), dtype=np.int64)
    counts[chosen, np.resize(classes, len(chosen))] = samples
    return counts


def same_mix(chosen: np.ndarray, mix: np.ndarray, samples: int, clients: int) -> np.ndarray:
    """Let `samples` with the class shares `mix` [C] arrive at each chosen client, [N, C]."""
    counts = np.zeros((clients, len(mix)), dtype=np.int64)
    counts[chosen] = rounded_counts(mix, samples)
    return counts
