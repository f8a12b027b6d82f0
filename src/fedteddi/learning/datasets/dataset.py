"""Labelled images, kept as bytes and normalised batch by batch."""

import hashlib
from dataclasses import dataclass, replace
from functools import cached_property
from importlib.resources import files
from pathlib import Path
from typing import IO

import numpy as np
import torch
from torch import Tensor

from fedteddi.errors import InputError, shown
from fedteddi.learning.augmentation import viewed
from fedteddi.learning.datasets.catalogue import CIFAR, DATASETS, EMBEDDED, located_cifar
from fedteddi.learning.datasets.cifar import read_cifar
from fedteddi.registry import find, one_sentence

PARTS = ("train_images", "train_labels", "test_images", "test_labels")
PIECE_IMAGES = 4096  # counted at a time


@dataclass(frozen=True, kw_only=True, eq=False)
class Dataset:
    """Images [M, channels, height, width] as bytes and labels [M], for training and for testing."""

    name: str
    num_classes: int
    train_images: Tensor
    train_labels: Tensor
    test_images: Tensor
    test_labels: Tensor
    mean: Tensor  # per channel, of the training images, in 0..255: [channels, 1, 1]
    std: Tensor

    @classmethod
    def from_arrays(
        cls,
        name: str,
        train_images: np.ndarray,
        train_labels: np.ndarray,
        test_images: np.ndarray,
        test_labels: np.ndarray,
        *,
        num_classes: int | None = None,
    ) -> "Dataset":
        """Make a data set of any labelled byte images: [M, H, W], [M, H, W, channels] or [M, channels, H, W].

        Without `num_classes`, the highest label says how many classes there are.
        """
        train_images = _channels_first("train_images", train_images)
        test_images = _channels_first("test_images", test_images)
        if train_images.shape[1:] != test_images.shape[1:]:
            raise InputError("train_images and test_images differ in shape: give images of one shape")
        _check_labels("train_labels", train_labels, len(train_images))
        _check_labels("test_labels", test_labels, len(test_images))
        if not len(train_labels) or not len(test_labels):
            raise InputError(
                f"the data set {name} has no training or no test images: give at least one of each"
            )
        highest = int(max(train_labels.max(), test_labels.max()))
        if num_classes is not None and highest >= num_classes:
            raise InputError(
                f"num_classes={num_classes}, but the data set {name} has the label {highest}:"
                f" give at least {highest + 1}"
            )
        mean, std = _channel_statistics(train_images)
        return cls(
            name=name,
            num_classes=highest + 1 if num_classes is None else num_classes,
            train_images=torch.from_numpy(train_images),
            train_labels=torch.from_numpy(train_labels.astype(np.int64)),
            test_images=torch.from_numpy(test_images),
            test_labels=torch.from_numpy(test_labels.astype(np.int64)),
            mean=torch.tensor(mean, dtype=torch.float32)[:, None, None],
            std=torch.tensor(np.where(std > 0, std, 1.0), dtype=torch.float32)[:, None, None],
        )

    @cached_property
    def fingerprint(self) -> str:
        """A checksum of all images and labels."""
        digest = hashlib.sha256()
        for part in PARTS:
            digest.update(getattr(self, part).numpy().tobytes())
        return digest.hexdigest()

    @property
    def image_shape(self) -> tuple[int, int, int]:
        """Channels, height, width."""
        channels, height, width = self.train_images.shape[1:]
        return int(channels), int(height), int(width)

    def normalised(self, images: Tensor) -> Tensor:
        """Turn bytes into floats of mean 0 and deviation 1 per channel."""
        return (images.float() - self.mean) / self.std

    def training_batch(self, indices: np.ndarray, views: np.ndarray | None = None) -> tuple[Tensor, Tensor]:
        """Return the images and labels at `indices` [b], seen as `views` [b] says (augmentation.py)."""
        where = torch.from_numpy(indices)
        images = self.train_images[where]
        if views is not None:
            seen = viewed(images.permute(0, 2, 3, 1), torch.from_numpy(views))
            images = seen.permute(0, 3, 1, 2).contiguous()
        return self.normalised(images), self.train_labels[where]

    def with_test_images(self, number: int) -> "Dataset":
        """Keep `number` test images (0: all), the first of an order that is the same for every seed and rule."""
        if number == 0 or number >= len(self.test_labels):
            return self
        order = np.random.default_rng(0).permutation(len(self.test_labels))
        kept = torch.from_numpy(np.sort(order[:number]))
        return replace(self, test_images=self.test_images[kept], test_labels=self.test_labels[kept])


def load_dataset(name: str, data_dir: str | Path | None = None) -> Dataset:
    """Load a data set by name, or from an .npz file that holds train_images, train_labels, test_images, test_labels.

    One's own is named as `file.py:name`: a `Dataset`, or a function without arguments that returns one.
    CIFAR is looked for in `data_dir`, else in $FEDTEDDI_DATA, else in the user's cache.
    """
    if name in EMBEDDED:
        with files("fedteddi.learning.datasets").joinpath("embedded", EMBEDDED[name]).open("rb") as file:
            return _from_npz(name, file)
    if name in CIFAR:
        parts = read_cifar(CIFAR[name], located_cifar(CIFAR[name], data_dir))
        return Dataset.from_arrays(name, *parts, num_classes=CIFAR[name].num_classes)
    if name.endswith(".npz"):
        if not Path(name).is_file():
            raise InputError(f"there is no file {shown(name)}: give an .npz file with {', '.join(PARTS)}")
        with Path(name).open("rb") as file:
            return _from_npz(Path(name).stem, file)
    found = find(DATASETS, name).value
    if not isinstance(found, Dataset):
        with one_sentence(f"the data set {name} could not be loaded"):
            found = found()
    if not isinstance(found, Dataset):
        raise InputError(f"the data set {name} is a {type(found).__name__}: it must be a fedteddi.Dataset")
    return found


def _from_npz(name: str, file: IO[bytes]) -> Dataset:
    try:
        with np.load(file, allow_pickle=False) as arrays:
            missing = [part for part in PARTS if part not in arrays.files]
            if missing:
                raise InputError(f"the data set {name} lacks {missing[0]}: it needs {', '.join(PARTS)}")
            return Dataset.from_arrays(name, *(arrays[part] for part in PARTS))
    except InputError:
        raise
    except Exception as error:
        raise InputError(
            f"the data set {name} cannot be read ({error}): give an .npz file of plain arrays"
        ) from None


def _check_labels(part: str, labels: np.ndarray, number: int) -> None:
    if labels.shape != (number,) or labels.dtype.kind not in "iu" or (number and labels.min() < 0):
        raise InputError(f"{part}: give {number} class numbers from 0, one for every image")


def _channels_first(part: str, images: np.ndarray) -> np.ndarray:
    if images.dtype != np.uint8 or images.ndim not in (3, 4):
        raise InputError(
            f"{part} is {images.dtype} with {images.ndim} dimensions: give bytes (uint8) in 3 or 4"
        )
    if images.ndim == 3:
        return np.ascontiguousarray(images[:, None])
    if images.shape[3] in (1, 3) and images.shape[1] not in (1, 3):
        return np.ascontiguousarray(images.transpose(0, 3, 1, 2))
    return np.ascontiguousarray(images)


def _channel_statistics(images: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
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
