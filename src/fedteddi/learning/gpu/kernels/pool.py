"""2×2 max-pooling and the dropout that may follow it, in one go on a GPU; the mask is that of learning/dropout.py."""

import torch
import triton
import triton.language as tl
from torch import Tensor

BLOCK = 1024


@triton.jit
def _mixed(bits):
    """Mix 32 bits as learning/dropout.py does; the masks make the shifts those of unsigned numbers."""
    bits = (bits ^ ((bits >> 16) & 0xFFFF)) * (0x85EBCA6B - 0x100000000)
    bits = (bits ^ ((bits >> 13) & 0x7FFFF)) * (0xC2B2AE35 - 0x100000000)
    return bits ^ ((bits >> 16) & 0xFFFF)


@triton.jit
def _pooled(
    values, keys, target, chosen, number, b,
    H: tl.constexpr, W: tl.constexpr, C: tl.constexpr, OFFSET: tl.constexpr, LEAST: tl.constexpr,
    SCALE: tl.constexpr, DROP: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """target = the largest of 2×2 values, dropped or scaled; chosen says which: the first of equals, or 4, none."""
    HIGH: tl.constexpr = H // 2
    WIDE: tl.constexpr = W // 2
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    there = at < number
    c = (at % C).to(tl.int32)
    x = (at // C % WIDE).to(tl.int32)
    y = (at // (C * WIDE) % HIGH).to(tl.int32)
    image = at // (C * WIDE * HIGH)
    first = values + image * (H * W * C) + (2 * y * W + 2 * x) * C + c
    best = tl.load(first, mask=there, other=0.0).to(tl.float32)
    which = tl.zeros((BLOCK,), dtype=tl.int32)
    for k in tl.static_range(1, 4):
        v = tl.load(first + (k // 2 * W + k % 2) * C, mask=there, other=0.0).to(tl.float32)
        more = (v > best) | (v != v)
        which = tl.where(more, k, which)
        best = tl.where(more, v, best)
    if DROP:
        job = image // b
        own = (((image % b).to(tl.int32) * C + c) * HIGH + y) * WIDE + x  # as PyTorch counts, channels first
        one = tl.load(keys + 2 * job, mask=there, other=0)
        two = tl.load(keys + 2 * job + 1, mask=there, other=0)
        keep = _mixed(_mixed(own + (one ^ OFFSET)) ^ two) >= LEAST
        best = tl.where(keep, best * SCALE, 0.0)
        which = tl.where(keep, which, 4)
    tl.store(target + at, best.to(target.dtype.element_ty), mask=there)
    tl.store(chosen + at, which.to(tl.uint8), mask=there)


@triton.jit
def _pooled_back(
    back, chosen, target, number, H: tl.constexpr, W: tl.constexpr, C: tl.constexpr, SCALE: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """Give each gradient to the value that was chosen, and 0 to the three others."""
    HIGH: tl.constexpr = H // 2
    WIDE: tl.constexpr = W // 2
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    there = at < number
    c = (at % C).to(tl.int32)
    x = (at // C % WIDE).to(tl.int32)
    y = (at // (C * WIDE) % HIGH).to(tl.int32)
    first = target + at // (C * WIDE * HIGH) * (H * W * C) + (2 * y * W + 2 * x) * C + c
    d = tl.load(back + at, mask=there, other=0.0).to(tl.float32) * SCALE
    which = tl.load(chosen + at, mask=there, other=0).to(tl.int32)
    for k in tl.static_range(4):
        own = tl.where(which == k, d, 0.0)
        tl.store(first + (k // 2 * W + k % 2) * C, own.to(target.dtype.element_ty), mask=there)


class _Pool(torch.autograd.Function):
    @staticmethod
    def forward(ctx, values, keys, offset, p):
        number, height, width, channels = values.shape
        ctx.size, ctx.scale = values.shape, 1.0 if keys is None else 1 / (1 - p)
        found = values.new_empty(number, height // 2, width // 2, channels)
        chosen = torch.empty(found.shape, device=values.device, dtype=torch.uint8)
        images = number if keys is None else number // len(keys)
        _pooled[(triton.cdiv(found.numel(), BLOCK),)](
            values, chosen if keys is None else keys, found, chosen, found.numel(), images,
            height, width, channels, offset, int(p * 2**32) - 2**31, ctx.scale, keys is not None, BLOCK,
        )  # fmt: skip
        ctx.save_for_backward(chosen)
        return found

    @staticmethod
    def backward(ctx, back):
        (chosen,) = ctx.saved_tensors
        _, height, width, channels = ctx.size
        # A last row or column that no window has met gets nothing.
        make = back.new_zeros if height % 2 or width % 2 else back.new_empty
        found = make(ctx.size)
        _pooled_back[(triton.cdiv(chosen.numel(), BLOCK),)](
            back.contiguous(), chosen, found, chosen.numel(), height, width, channels, ctx.scale, BLOCK
        )
        return found, None, None, None


def pooled(values: Tensor, keys: Tensor | None, offset: int, p: float) -> Tensor:
    """Return [jobs·b, H, W, channels] pooled; with keys [jobs, 2], entries are dropped with probability p."""
    found: Tensor = _Pool.apply(values, keys, offset, p)
    return found
