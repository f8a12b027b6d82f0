"""Augmentation: which view of every image a step trains on, drawn beforehand, so that all engines see the same."""

import numpy as np
import torch
from torch import Tensor

MOST_PIXELS = 4  # by which a crop moves the image; what moves in is black
STEPS = 2 * MOST_PIXELS + 1


def draw_views(rng: np.random.Generator, shape: tuple[int, ...], augment: str) -> np.ndarray | None:
    """Draw a view for every image: with "flip" whether it is mirrored, with "crop-flip" a code; None for "none".

    A code is mirrored + 2·move; move 0 of STEPS² leaves the image where it is.
    """
    if augment == "none":
        return None
    mirrored = rng.random(shape) < 0.5
    if augment == "flip":
        return mirrored
    return (mirrored + 2 * rng.integers(0, STEPS**2, size=shape)).astype(np.int16)


def viewed(images: Tensor, views: Tensor) -> Tensor:
    """Return the views [n] of images [n, H, W, channels]."""
    mirrored = views if views.dtype == torch.bool else (views & 1).bool()
    images = torch.where(mirrored[:, None, None, None], images.flip(2), images)
    return images if views.dtype == torch.bool else _moved(images, (views >> 1).long())


def _moved(images: Tensor, move: Tensor) -> Tensor:
    centred = (move + STEPS**2 // 2) % STEPS**2
    down, across = centred // STEPS - MOST_PIXELS, centred % STEPS - MOST_PIXELS
    number, height, width = images.shape[:3]
    row = torch.arange(height, device=images.device) + down[:, None]  # where each pixel comes from, [n, H]
    column = torch.arange(width, device=images.device) + across[:, None]  # [n, W]
    inside = ((row >= 0) & (row < height))[:, :, None] & ((column >= 0) & (column < width))[:, None, :]
    which = torch.arange(number, device=images.device)[:, None, None]
    found = images[which, row.clamp(0, height - 1)[:, :, None], column.clamp(0, width - 1)[:, None, :]]
    return found * inside[..., None]
