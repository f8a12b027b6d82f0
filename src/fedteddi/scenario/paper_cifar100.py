"""The paper's CIFAR-100 layout: 30 classes in frame 0, ten more in each of frames 1 and 2."""

import numpy as np

NUM_CLIENTS, NUM_CLASSES = 30, 100
SAMPLES_PER_CLIENT = 300
CLIENTS_WITH_NEWS = 12
NEW_CLASSES = (range(30, 40), range(40, 50))


def paper_cifar100_first(samples: int = SAMPLES_PER_CLIENT) -> np.ndarray:
    """Return frame 0, [30, 100]: client i < 10 holds 300 of class i, client 10 + j 200 of class 10 + j and 100 of j.

    Classes come 400, 300 and 200 times: imbalanced, and nobody shares an image. Fewer `samples` keep the proportions.
    """
    counts = np.zeros((NUM_CLIENTS, NUM_CLASSES), dtype=np.int64)
    older = samples // 3
    for i in range(10):
        counts[i, i] = samples
    for j in range(20):
        counts[10 + j, 10 + j] = samples - older
        counts[10 + j, j] = older
    return counts


def paper_cifar100_arrival(
    frame: int, rng: np.random.Generator, samples: int = SAMPLES_PER_CLIENT
) -> np.ndarray:
    """Return what arrives in frame 1 or 2, [30, 100]: 12 random clients get 150 samples of one new class each.

    Every new class once, two of them a second time. 150 is half of the `samples` a client can store.
    """
    new = np.array(NEW_CLASSES[frame - 1])
    extra = rng.choice(new, size=CLIENTS_WITH_NEWS - len(new), replace=False)
    counts = np.zeros((NUM_CLIENTS, NUM_CLASSES), dtype=np.int64)
    chosen = rng.permutation(NUM_CLIENTS)[:CLIENTS_WITH_NEWS]
    counts[chosen, np.concatenate([new, extra])] = samples // 2
    return counts
