"""Probes side by side: those of one model share a sheet, where its weights are there once for all that is asked."""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from torch import Tensor

from fedteddi.learning.engine import NO_IMAGE, Probe

SHEET_IMAGES = 1024  # about how many images one model is probed with at a time


class Sheet(NamedTuple):
    """A model, and rows of images to ask it about."""

    weights: Tensor
    outputs: np.ndarray | None
    rows: list[tuple[int, Probe]]  # a probe, or a part of a long one, and its index in the list


def sheets_of(probes: Sequence[Probe], width: int) -> list[Sheet]:
    """Put probes on sheets of about the same number of rows, each row of at most `width` images."""
    by_model: dict[tuple[int, bytes | None], list[tuple[int, Probe]]] = {}
    for index, probe in enumerate(probes):
        outputs = None if probe.outputs is None else probe.outputs.tobytes()
        rows = by_model.setdefault((id(probe.weights), outputs), [])
        rows += [(index, part) for part in _parts(probe, width)]
    longest, most = max(map(len, by_model.values()), default=1), max(1, SHEET_IMAGES // width)
    height = -(-longest // -(-longest // most))
    return [
        Sheet(rows[0][1].weights, rows[0][1].outputs, rows[start : start + height])
        for rows in by_model.values()
        for start in range(0, len(rows), height)
    ]


def _parts(probe: Probe, width: int) -> list[Probe]:
    cuts = [slice(start, start + width) for start in range(0, len(probe.samples), width)]
    return [
        replace(probe, samples=probe.samples[cut], views=None if probe.views is None else probe.views[cut])
        for cut in cuts
    ]


def images_of(sheets: Sequence[Sheet], width: int, height: int) -> tuple[np.ndarray, np.ndarray | None]:
    """Return the samples of so many rows a sheet, filled up with NO_IMAGE, and their views: [sheets, rows·width]."""
    samples = np.full((len(sheets), height, width), NO_IMAGE, dtype=np.int64)
    views = np.zeros(samples.shape, dtype=np.int16)  # view 0 is the image as it is
    viewed = False
    for page, sheet in enumerate(sheets):
        for row, (_, probe) in enumerate(sheet.rows):
            samples[page, row, : len(probe.samples)] = probe.samples
            if probe.views is not None:
                viewed, views[page, row, : len(probe.views)] = True, probe.views
    flat = (len(sheets), height * width)
    return samples.reshape(flat), views.reshape(flat) if viewed else None
