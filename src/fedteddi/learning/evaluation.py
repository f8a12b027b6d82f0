"""How good a model is: per-class test accuracy, and the loss F_l on local data."""

import numpy as np
import torch
from torch.nn import functional as F

from fedteddi.learning.data import Dataset
from fedteddi.learning.flat import FlatModel

IMAGES_AT_ONCE = 500


def class_accuracy(model: FlatModel, data: Dataset) -> np.ndarray:
    """Return the share of each class's test images told right, [C]; NaN for a class without test images."""
    model.module.eval()
    guesses = []
    with torch.no_grad():
        for part in torch.split(data.test_images, IMAGES_AT_ONCE):
            guesses.append(model.module(data.normalised(part)).argmax(dim=1))
    labels = data.test_labels.numpy()
    right = torch.cat(guesses).numpy() == labels
    asked = np.bincount(labels, minlength=data.num_classes)
    with np.errstate(invalid="ignore"):
        return np.asarray(np.bincount(labels, weights=right, minlength=data.num_classes) / asked)


def training_loss(model: FlatModel, data: Dataset, samples: np.ndarray) -> float:
    """Return the mean loss over training images, dropout off."""
    model.module.eval()
    total = 0.0
    with torch.no_grad():
        for start in range(0, len(samples), IMAGES_AT_ONCE):
            images, labels = data.training_batch(samples[start : start + IMAGES_AT_ONCE])
            total += float(F.cross_entropy(model.module(images), labels, reduction="sum"))
    return total / len(samples)
