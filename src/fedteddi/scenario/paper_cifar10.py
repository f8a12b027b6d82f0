"""The paper's CIFAR-10 layout: who holds which classes in frame 0, and what arrives in frame 1."""

import numpy as np

NUM_CLIENTS, NUM_CLASSES = 30, 10
SAMPLES_PER_CLIENT, UNIT = 750, 375
# Frame 0: 15 units of 375 images for each of classes 0-2, 5 for each of 3-5 (3:1). How many clients hold
# one class only, by class, and the pairs the other ten hold.
SINGLES = (5, 5, 5, 2, 2, 1)
PAIRS = ((0, 1), (0, 1), (0, 2), (0, 2), (1, 2), (1, 2), (0, 5), (1, 5), (2, 5), (3, 4))
# Frame 1: three clients meet each of these.
NEW_CLASSES = (6, 7, 8, 9)
CLIENTS_PER_NEW_CLASS = 3


def frame0_units(rng: np.random.Generator) -> np.ndarray:
    """Return how many of its two units every client holds of each class, dealt at random, [30, 10]."""
    units = np.zeros((NUM_CLIENTS, NUM_CLASSES), dtype=np.int64)
    holdings = [(c, c) for c, clients in enumerate(SINGLES) for _ in range(clients)] + list(PAIRS)
    for client, (first, second) in zip(rng.permutation(NUM_CLIENTS), holdings, strict=True):
        units[client, first] += 1
        units[client, second] += 1
    return units


def frame1_news(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Draw the 12 clients that meet a new class in frame 1, and which, two [12] arrays."""
    classes = np.repeat(NEW_CLASSES, CLIENTS_PER_NEW_CLASS)
    return rng.permutation(NUM_CLIENTS)[: len(classes)], classes


def paper_cifar10_counts(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return how many samples of each class every client holds in frames 0 and 1, two [30, 10] arrays.

    In frame 1, 12 random clients get 375 samples of one new class and keep a random 375 of their 750.
    """
    frame0 = frame0_units(rng) * UNIT
    frame1 = frame0.copy()
    for client, new_class in zip(*frame1_news(rng), strict=True):
        frame1[client] = rng.multivariate_hypergeometric(frame0[client], SAMPLES_PER_CLIENT - UNIT)
        frame1[client, new_class] += UNIT
    return frame0, frame1


def batch_counts(held: np.ndarray, local_steps: int, batch_size: int, rng: np.random.Generator) -> np.ndarray:
    """Draw the class histogram of one round's τ·b training samples for every client, [N, C].

    Every step draws b samples without replacement; steps are independent of each other.
    """
    return np.stack(
        [rng.multivariate_hypergeometric(row, batch_size, size=local_steps).sum(axis=0) for row in held]
    )
