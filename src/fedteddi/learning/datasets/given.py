"""Data given in Python: a Dataset, arrays, or PyTorch's data sets."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from fedteddi.errors import InputError
from fedteddi.learning.datasets.arrays import as_array
from fedteddi.learning.datasets.dataset import PARTS, Dataset

REMEDY = (
    "give a fedteddi.Dataset, two of PyTorch's data sets (train, test), or arrays (train_images, train_labels,"
    " test_images, test_labels)"
)


def as_dataset(given: Any, name: str = "given") -> Dataset:
    """Return what is given as a data set: (train, test), each a PyTorch data set or (inputs, labels); or four arrays.

    A mapping has the arrays under the names that an .npz file gives them.
    """
    if isinstance(given, Dataset):
        return given
    if isinstance(given, Mapping) and all(part in given for part in PARTS):
        return Dataset.from_arrays(name, *(given[part] for part in PARTS))
    if isinstance(given, tuple | list) and len(given) == 4:
        return Dataset.from_arrays(name, *given)
    if isinstance(given, tuple | list) and len(given) == 2:
        train, test = (_labelled(*part) for part in zip(("train", "test"), given, strict=True))
        return Dataset.from_arrays(name, *train, *test)
    if isinstance(given, str):
        raise InputError(f"data={given!r} is a name: give it as dataset={given!r}")
    raise InputError(f"data is a {type(given).__name__}: {REMEDY}")


def _labelled(part: str, given: Any) -> tuple[Any, Any]:
    """Return inputs and labels, of a pair of arrays or of all items of a PyTorch data set."""
    if isinstance(given, tuple | list) and len(given) == 2:
        return given[0], given[1]
    if not hasattr(given, "__getitem__") or not hasattr(given, "__len__"):
        raise InputError(
            f"the {part} data are a {type(given).__name__}, which has no items and length: {REMEDY}"
        )
    return _items(part, given)


def _items(part: str, given: Any) -> tuple[np.ndarray, np.ndarray]:
    """Read every item once, (input, label); what a transform draws at random stays as it was drawn."""
    inputs, labels = [], []
    for index in range(len(given)):
        try:
            one, label = given[index]
        except (TypeError, ValueError, KeyError):
            raise InputError(f"item {index} of the {part} data is not (input, label): {REMEDY}") from None
        inputs.append(as_array(f"item {index} of the {part} data", one))
        labels.append(label)
    shapes = {each.shape for each in inputs}
    if len(shapes) > 1:
        raise InputError(
            f"the {part} data have inputs of shapes {sorted(shapes)[:2]}: bring them to one shape"
        )
    return np.stack(inputs) if inputs else np.zeros((0, 1)), np.array(
        [as_array(f"label of the {part} data", label) for label in labels]
    )
