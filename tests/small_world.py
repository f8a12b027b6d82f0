"""A world small enough to be simulated many times in tests: 6 clients, 8×8 images, one convolution with dropout."""

import numpy as np
from torch import nn

from fedteddi.learning.datasets.dataset import Dataset
from fedteddi.settings import Settings, parse_settings


def tiny_model(image_shape: tuple[int, int, int], num_classes: int) -> nn.Module:
    channels, height, width = image_shape
    return nn.Sequential(
        nn.Conv2d(channels, 8, 3, padding=1),
        nn.GroupNorm(8, 8),
        nn.ReLU(),
        nn.Dropout(0.2),
        nn.Flatten(),
        nn.Linear(8 * height * width, num_classes),
    )


def tiny_data(classes: int = 5, per_class: int = 60, size: int = 8) -> Dataset:
    """Noise with a bright row that tells the class."""
    rng = np.random.default_rng(0)

    def images(count: int) -> tuple[np.ndarray, np.ndarray]:
        labels = np.repeat(np.arange(classes), count)
        pixels = rng.integers(0, 120, size=(len(labels), size, size))
        pixels[np.arange(len(labels)), labels] += 120
        return pixels.astype(np.uint8), labels

    return Dataset.from_arrays("tiny", *images(per_class), *images(20))


def tiny_settings(**changes: object) -> Settings:
    settings = parse_settings(
        {
            "name": "fedteddi",
            "rounds": [2, 5, 4],
            "scenario": {
                "layout": "classes",
                "clients": 6,
                "samples_per_client": 24,
                "classes_per_client": 2,
                "class_weights": [1, 1, 1],
                "arrivals": [
                    {"frame": 1, "clients": 3, "classes": [3], "samples": 12},
                    {"frame": 2, "clients": 2, "classes": [4], "samples": 12},
                ],
            },
            "training": {
                "model": "small_world:tiny_model",
                "local_steps": 2,
                "batch_size": 8,
                "pretrain_epochs": 0,
                "augment": "flip",
                "learning_rate": 0.05,
            },
            "radio": {"total_hz": 1.5e4},
            "estimates": {"class_gradient_samples": 10},
            "evaluation": {"every": 2, "loss_samples": 60},
        }
    )
    return settings.changed(**changes)
