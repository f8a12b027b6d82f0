"""Batches of images in one go on a GPU: gathered from bytes, moved and mirrored (augmentation.py), normalised."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from fedteddi.learning.augmentation import MOST_PIXELS, STEPS

BLOCK = 1024


@triton.jit
def _gathered(
    source, samples, views, mean, std, target, H: tl.constexpr, W: tl.constexpr, C: tl.constexpr,
    VIEWED: tl.constexpr, MOST: tl.constexpr, STEPS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """target[n] = (source[samples[n]] as seen in views[n] − mean) / std; what moves in from outside is black."""
    n = tl.program_id(0).to(tl.int64)
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    c = at % C
    x = at // C % W
    y = at // (C * W)
    there = at < H * W * C
    wanted = there
    if VIEWED:
        view = tl.load(views + n).to(tl.int32)
        move = ((view >> 1) + STEPS * STEPS // 2) % (STEPS * STEPS)
        y += move // STEPS - MOST
        x += move % STEPS - MOST
        wanted = there & (y >= 0) & (y < H) & (x >= 0) & (x < W)
        x = tl.where((view & 1) == 1, W - 1 - x, x)
    sample = tl.maximum(tl.load(samples + n), 0)
    value = tl.load(source + sample * (H * W * C) + (y * W + x) * C + c, mask=wanted, other=0).to(tl.float32)
    value = (value - tl.load(mean + c)) / tl.load(std + c)
    tl.store(target + n * (H * W * C) + at, value.to(target.dtype.element_ty), mask=there)


def gathered(
    source: Tensor, samples: Tensor, views: Tensor | None, mean: Tensor, std: Tensor, dtype: torch.dtype
) -> Tensor:
    """Return images [n, H, W, channels] of `source` at samples [n], as seen in views [n], normalised."""
    number, (height, width, channels) = len(samples), source.shape[1:]
    found = torch.empty(number, height, width, channels, device=source.device, dtype=dtype)
    codes = samples if views is None else views.to(torch.int16)
    grid = (number, triton.cdiv(height * width * channels, BLOCK))
    _gathered[grid](
        source, samples, codes, mean, std, found, height, width, channels,
        views is not None, MOST_PIXELS, STEPS, BLOCK,
    )  # fmt: skip
    return found
