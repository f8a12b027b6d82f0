"""Which classes a node trains on: counted from the batches that its app draws, or given by a function of its owner."""

import contextlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
from flwr.app import Context

from fedteddi.errors import InputError

# What a node's training data are labelled with: every label, or {class: samples}.
LabelsOf = Callable[[Context], Any]
NAMES = ("label", "labels", "target", "targets", "y", "fine_label", "character")  # in batches that are dicts
LARGEST_CLASS = 10_000
NOT_SEEN = (
    "no labels were seen while it trained: its batches do not come from a torch DataLoader as (…, labels) or"
    " {'label': …}; name a function: mods=[partial(report_first, labels=my_labels)] (docs/flower.md)"
)


class CountedError(BaseException):
    """Ends an app's training before its first step: all labels have been counted. No `except Exception` stops it."""


def counted(labels: Any) -> Counter[int]:
    """Return samples by class of labels [D], or of a mapping from class to samples."""
    if isinstance(labels, Mapping):
        pairs = [(int(c), int(count)) for c, count in labels.items() if count]
    else:
        values = np.asarray(labels).reshape(-1)
        if values.size and values.dtype.kind not in "iu":
            raise InputError(f"labels are of type {values.dtype}: give whole numbers, a class each")
        classes, counts = np.unique(values, return_counts=True)
        pairs = list(zip(classes.tolist(), counts.tolist(), strict=True))
    for c, count in pairs:
        if not 0 <= c <= LARGEST_CLASS or count < 0:
            raise InputError(f"class {c} with {count} samples: classes count from 0 to {LARGEST_CLASS}")
    return Counter(dict(pairs))


def labels_of_batch(batch: Any) -> Any:
    """Return the labels of a batch, [b]: under a usual name, or the first row of whole numbers after the inputs."""
    if isinstance(batch, Mapping):
        found = [batch[name] for name in NAMES if name in batch]
    elif isinstance(batch, (list, tuple)):
        found = list(batch[1:])
    else:
        found = []
    for one in found:
        kind = str(getattr(one, "dtype", ""))
        if getattr(one, "ndim", 0) == 1 and "int" in kind:
            return one
    return None


@contextlib.contextmanager
def counting_batches(*, dry: bool = False) -> Iterator[Counter[int]]:
    """Count the labels of all batches that a torch DataLoader gives while gradients are on; evaluation has them off.

    With `dry`, the first such loader is gone through once, and `CountedError` ends the training before it began.
    """
    import torch
    from torch.utils.data import DataLoader

    seen: Counter[int] = Counter()
    original: Callable[[Any], Iterator[Any]] = DataLoader.__iter__

    def watched(self: Any) -> Iterator[Any]:
        if dry and torch.is_grad_enabled():
            with torch.random.fork_rng(
                devices=[]
            ):  # the training that follows draws what it would have drawn
                for batch in original(self):
                    _add(seen, batch)
            raise CountedError
        for batch in original(self):
            if torch.is_grad_enabled():
                _add(seen, batch)
            yield batch

    setattr(DataLoader, "__iter__", watched)  # noqa: B010  # mypy minds the plain way
    try:
        yield seen
    finally:
        setattr(DataLoader, "__iter__", original)  # noqa: B010


def _add(seen: Counter[int], batch: Any) -> None:
    labels = labels_of_batch(batch)
    if labels is not None:
        seen.update(counted(np.asarray(labels.cpu() if hasattr(labels, "cpu") else labels)))
