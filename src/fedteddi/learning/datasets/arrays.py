"""Arrays of inputs and labels as they are given, brought into one form; and the inputs' mean and deviation."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fedteddi.errors import InputError

PIECE_IMAGES = 4096  # counted at a time
FORMS = "bytes or floats in 2 (features), 3 or 4 dimensions (images)"


def as_inputs(part: str, given: ArrayLike) -> np.ndarray:
    """Return features [M, F] or images [M, channels, H, W]: bytes if they are, otherwise float32."""
    inputs = as_array(part, given)
    if inputs.ndim not in (2, 3, 4) or inputs.dtype.kind not in "fiub":
        raise InputError(f"{part} is {inputs.dtype} with {inputs.ndim} dimensions: give {FORMS}")
    if inputs.dtype != np.uint8 or inputs.ndim == 2:
        inputs = inputs.astype(np.float32)
        if not np.isfinite(inputs).all():
            raise InputError(
                f"{part} holds numbers that are not finite: fill in or leave out what is missing"
            )
    if inputs.ndim == 3:
        inputs = inputs[:, None]
    elif inputs.ndim == 4 and inputs.shape[3] in (1, 3) and inputs.shape[1] not in (1, 3):
        inputs = inputs.transpose(0, 3, 1, 2)
    return np.ascontiguousarray(inputs)


def as_labels(part: str, given: ArrayLike, number: int) -> np.ndarray:
    """Return class numbers [M]."""
    labels = as_array(part, given)
    if labels.shape != (number,) or labels.dtype.kind not in "iu" or (number and labels.min() < 0):
        raise InputError(f"{part}: give {number} class numbers from 0, one for every image")
    return labels.astype(np.int64)


def as_array(part: str, given: Any) -> np.ndarray:
    """Return numpy's, PyTorch's or pandas' numbers, or a list of them, as an array."""
    if hasattr(given, "detach"):  # a tensor, perhaps on a GPU
        given = given.detach().cpu().numpy()
    try:
        return np.asarray(given)
    except ValueError as error:  # rows of different lengths
        raise InputError(f"{part} is no array ({error}): give {FORMS}") from None


def input_statistics(inputs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the mean and standard deviation of every channel, or of every feature."""
    if inputs.dtype == np.uint8:
        return _byte_statistics(inputs)
    width, each = inputs.shape[1], inputs[0, 0].size * len(inputs)

    def total(of: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        found = np.zeros(width)
        for start in range(0, len(inputs), PIECE_IMAGES):
            piece = inputs[start : start + PIECE_IMAGES].astype(np.float64)
            found += of(piece.reshape(len(piece), width, -1)).sum(axis=(0, 2))
        return found

    mean = total(lambda piece: piece) / each
    return mean, np.sqrt(total(lambda piece: (piece - mean[:, None]) ** 2) / each)


def _byte_statistics(images: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return every channel's mean and standard deviation, from how often each byte occurs.

    As floats, CIFAR's images would take a gigabyte.
    """
    counts = np.zeros((images.shape[1], 256), dtype=np.int64)
    for start in range(0, len(images), PIECE_IMAGES):
        for channel, pixels in enumerate(images[start : start + PIECE_IMAGES].swapaxes(0, 1)):
            counts[channel] += np.bincount(pixels.reshape(-1), minlength=256)
    shares = counts / counts.sum(axis=1, keepdims=True)
    byte = np.arange(256)
    mean = shares @ byte  # [channels, 256] @ [256] -> [channels]
    return mean, np.sqrt((shares * (byte - mean[:, None]) ** 2).sum(axis=1))
