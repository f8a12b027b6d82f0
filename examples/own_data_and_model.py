"""Your own images and your own model: here bright bars at ten places, and a small network."""

import numpy as np
from torch import nn

import fedteddi


def net(image_shape: tuple[int, int, int], num_classes: int) -> nn.Module:
    """Return a network from images to class scores; weights are drawn from the run's seed."""
    channels, height, width = image_shape
    return nn.Sequential(
        nn.Flatten(), nn.Linear(channels * height * width, 32), nn.ReLU(), nn.Linear(32, num_classes)
    )


def bars(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw noisy images with a bright bar in the row that is the class."""
    rng = np.random.default_rng(seed)
    labels = np.arange(count) % 10
    images = rng.integers(0, 150, size=(count, 10, 10))
    images[np.arange(count), labels] += 100
    return images.astype(np.uint8), labels


if __name__ == "__main__":
    record = fedteddi.simulate(
        data=fedteddi.Dataset.from_arrays("bars", *bars(2000, seed=0), *bars(500, seed=1)),
        training__model=f"{__file__}:net",
        training__pretrain_epochs=3,
        radio__total_hz=2e5,
        rounds=[0, 30],
    )
    print(
        record.curve()[["frame", "round", "balanced", "global", "old", "new"]].round(3).to_string(index=False)
    )
