"""How good a model is: per-class test accuracy."""

import numpy as np
import torch

from fedteddi.learning.datasets.dataset import Dataset
from fedteddi.learning.flat import FlatModel

IMAGES_AT_ONCE = 500


def class_accuracy(model: FlatModel, data: Dataset) -> np.ndarray:
    """Return the per-class test accuracy, [C]; NaN for a class without test images."""
    model.module.eval()
    guesses = []
    with torch.no_grad():
        for part in torch.split(data.test_images, IMAGES_AT_ONCE):
            guesses.append(model.scores(data.normalised(part)).argmax(dim=1))
    labels = data.test_labels.numpy()
    right = np.bincount(labels, weights=torch.cat(guesses).numpy() == labels, minlength=data.num_classes)
    return share_right(right, labels)


def share_right(right: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return the per-class test accuracy from how many images were classified correctly, [..., C]."""
    tested = np.bincount(labels, minlength=right.shape[-1])
    with np.errstate(invalid="ignore"):
        return np.asarray(right / tested)
