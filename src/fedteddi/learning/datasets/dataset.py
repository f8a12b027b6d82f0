"""Labelled images or features, kept as they are given (images as bytes, if they are) and normalised batch by batch."""

import hashlib
from dataclasses import dataclass, replace
from functools import cached_property
from importlib.resources import files
from pathlib import Path
from typing import IO

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from fedteddi.errors import InputError, shown
from fedteddi.learning.augmentation import viewed
from fedteddi.learning.datasets.arrays import as_inputs, as_labels, input_statistics
from fedteddi.learning.datasets.catalogue import CIFAR, DATASETS, EMBEDDED, located_cifar
from fedteddi.learning.datasets.cifar import read_cifar
from fedteddi.registry import find, one_sentence

PARTS = ("train_images", "train_labels", "test_images", "test_labels")


@dataclass(frozen=True, kw_only=True, eq=False)
class Dataset:
    """Inputs and labels [M], for training and for testing.

    Inputs are images [M, channels, height, width], bytes or floats, or features [M, F]; both are called images here.
    """

    name: str
    num_classes: int
    train_images: Tensor
    train_labels: Tensor
    test_images: Tensor
    test_labels: Tensor
    mean: Tensor  # per channel, of the training images: [channels, 1, 1]; of features per feature: [F]
    std: Tensor

    @classmethod
    def from_arrays(
        cls,
        name: str,
        train_images: ArrayLike,
        train_labels: ArrayLike,
        test_images: ArrayLike,
        test_labels: ArrayLike,
        *,
        num_classes: int | None = None,
        normalise: bool = True,
    ) -> "Dataset":
        """Make a data set of images, [M, H, W], [M, H, W, channels] or [M, channels, H, W], or of features, [M, F].

        Models see them with mean 0 and deviation 1 per channel or feature, by the training part; `normalise=False`
        gives floats as they are. Without `num_classes`, the highest label says how many classes there are.
        """
        train, test = (
            as_inputs(*part) for part in (("train_images", train_images), ("test_images", test_images))
        )
        if train.shape[1:] != test.shape[1:]:
            raise InputError("train_images and test_images differ in shape: give inputs of one shape")
        if train.dtype != test.dtype:
            raise InputError(
                f"train_images are {train.dtype} and test_images {test.dtype}: give both as bytes, or both as floats"
            )
        labels = as_labels("train_labels", train_labels, len(train))
        test_of = as_labels("test_labels", test_labels, len(test))
        if not len(labels) or not len(test_of):
            raise InputError(
                f"the data set {name} has no training or no test images: give at least one of each"
            )
        highest = int(max(labels.max(), test_of.max()))
        if num_classes is not None and highest >= num_classes:
            raise InputError(
                f"num_classes={num_classes}, but the data set {name} has the label {highest}:"
                f" give at least {highest + 1}"
            )
        mean, std = input_statistics(train) if normalise else (np.zeros(1), np.ones(1))
        return cls(
            name=name,
            num_classes=highest + 1 if num_classes is None else num_classes,
            train_images=torch.from_numpy(train),
            train_labels=torch.from_numpy(labels),
            test_images=torch.from_numpy(test),
            test_labels=torch.from_numpy(test_of),
            mean=_by_channel(mean, train.shape[1:]),
            std=_by_channel(np.where(std > 0, std, 1.0), train.shape[1:]),
        )

    @cached_property
    def fingerprint(self) -> str:
        """A checksum of all images and labels."""
        digest = hashlib.sha256()
        for part in PARTS:
            digest.update(getattr(self, part).numpy().tobytes())
        digest.update(self.scale_bytes)
        return digest.hexdigest()

    @property
    def scale_bytes(self) -> bytes:
        """How inputs are normalised, where that does not follow from bytes: for checksums."""
        if self.train_images.dtype == torch.uint8 and bool(self.mean.any()):
            return b""
        return self.mean.numpy().tobytes() + self.std.numpy().tobytes()

    @property
    def image_shape(self) -> tuple[int, ...]:
        """Channels, height, width; or how many features."""
        return tuple(self.train_images.shape[1:])

    def normalised(self, images: Tensor) -> Tensor:
        """Turn inputs into what models see: floats of mean 0 and deviation 1 per channel or feature."""
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


def _by_channel(values: np.ndarray, shape: tuple[int, ...]) -> Tensor:
    """Return values of channels [channels, 1, 1], or of features [F], from as many of them or one for all."""
    found = torch.from_numpy(np.broadcast_to(values, shape[:1]).astype(np.float32))
    return found.reshape(-1, *[1] * (len(shape) - 1))
