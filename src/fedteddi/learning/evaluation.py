"""How good a model is: per-class test accuracy, a few images at a time."""

import numpy as np
import torch

from fedteddi.learning.datasets.dataset import Dataset
from fedteddi.learning.flat import FlatModel

IMAGES_AT_ONCE = 500


def pieces(images: int) -> list[slice]:
    """Cut so many images into parts that go through a model at once."""
    return [slice(start, start + IMAGES_AT_ONCE) for start in range(0, images, IMAGES_AT_ONCE)]


def classified(model: FlatModel, data: Dataset, piece: slice) -> np.ndarray:
    """Return the classes that a model tells of some test images, [n]."""
    model.module.eval()
    with torch.no_grad():
        return model.scores(data.normalised(data.test_images[piece])).argmax(dim=1).numpy()


def share_right(right: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return the per-class test accuracy [..., C] from how many images were classified correctly; NaN without any."""
    tested = np.bincount(labels, minlength=right.shape[-1])
    with np.errstate(invalid="ignore"):
        return np.asarray(right / tested)
