"""GroupNorm of many jobs with each its own scale and shift, and the ReLU that mostly follows, in one go on a GPU.

One program takes one image, [pixels, channels], or some of its groups, for their statistics and then to normalise them.
It holds them in between if it can, and reads them again if not. What a compiler makes of the plain formula reads and
writes them several times more, above all on the way back.
"""

from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

VALUES = 8192  # that a program takes at a time: so few that a multiprocessor has several programs
HELD = 16384  # that it can hold in its registers; on the way back, of two images
NARROWEST = 16  # channels: memory is read by 32 bytes
VALUES_A_THREAD = 32  # where they are held
WARPS = 4  # where they are not


@triton.jit
def _pixels(values, n, start, c, PIXELS: tl.constexpr, C: tl.constexpr, BLOCK: tl.constexpr):
    """Return some channels of an image's pixels from `start` on, zeros past its end."""
    p = start + tl.arange(0, BLOCK)
    # Offsets inside an image take 32 bits, all before them 64: half the registers.
    return tl.load(
        values + n * (PIXELS * C) + p[:, None] * C + c[None, :], mask=(p < PIXELS)[:, None], other=0.0
    )


@triton.jit
def _normalised(
    values, weight, bias, target, means, scales, b, PIXELS: tl.constexpr, C: tl.constexpr, EACH: tl.constexpr,
    EPS: tl.constexpr, RELU: tl.constexpr, GROUPS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """target = (values − mean) / √(var + ε) · weight + bias per group, and its positive part if asked.

    A group has EACH channels, a program GROUPS groups. Parts of one image follow each other: they share memory's lines.
    """
    PARTS: tl.constexpr = C // (GROUPS * EACH)
    n = (tl.program_id(0) // PARTS).to(tl.int64)
    part = tl.program_id(0) % PARTS
    job = n // b
    c = part * (GROUPS * EACH) + tl.arange(0, GROUPS * EACH)
    total = tl.zeros((GROUPS * EACH,), dtype=tl.float32)
    square = tl.zeros((GROUPS * EACH,), dtype=tl.float32)
    WHOLE: tl.constexpr = BLOCK >= PIXELS  # held, and not read again
    if WHOLE:
        image = _pixels(values, n, 0, c, PIXELS, C, BLOCK)
    for start in range(0, PIXELS, BLOCK):
        v = image if WHOLE else _pixels(values, n, start, c, PIXELS, C, BLOCK)
        v = v.to(tl.float32)
        total += tl.sum(v, 0)
        square += tl.sum(v * v, 0)
    number = PIXELS * EACH
    mean = tl.sum(tl.reshape(total, (GROUPS, EACH)), 1) / number
    variance = tl.sum(tl.reshape(square, (GROUPS, EACH)), 1) / number - mean * mean
    scale = 1.0 / tl.sqrt(tl.maximum(variance, 0.0) + EPS)
    g = n * (C // EACH) + part * GROUPS + tl.arange(0, GROUPS)
    tl.store(means + g, mean)
    tl.store(scales + g, scale)
    mean = tl.reshape(tl.broadcast_to(mean[:, None], (GROUPS, EACH)), (GROUPS * EACH,))
    scale = tl.reshape(tl.broadcast_to(scale[:, None], (GROUPS, EACH)), (GROUPS * EACH,))
    factor = scale * tl.load(weight + job * C + c)
    shift = tl.load(bias + job * C + c) - mean * factor
    for start in range(0, PIXELS, BLOCK):
        p = start + tl.arange(0, BLOCK)
        where = p[:, None] * C + c[None, :]
        v = image if WHOLE else _pixels(values, n, start, c, PIXELS, C, BLOCK)
        v = v.to(tl.float32)
        v = v * factor[None, :] + shift[None, :]
        if RELU:
            v = tl.maximum(v, 0.0)
        tl.store(target + n * (PIXELS * C) + where, v.to(target.dtype.element_ty), mask=(p < PIXELS)[:, None])


@triton.jit
def _normalised_back(
    values, back, weight, bias, means, scales, target, of_weight, of_bias, b,
    PIXELS: tl.constexpr, C: tl.constexpr, EACH: tl.constexpr,
    RELU: tl.constexpr, GROUPS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """With x̂ the normalised values and h = back · weight: target = (h − mean h − x̂ · mean(h x̂)) / √(var + ε)."""
    PARTS: tl.constexpr = C // (GROUPS * EACH)
    n = (tl.program_id(0) // PARTS).to(tl.int64)
    part = tl.program_id(0) % PARTS
    job = n // b
    c = part * (GROUPS * EACH) + tl.arange(0, GROUPS * EACH)
    g = n * (C // EACH) + part * GROUPS + tl.arange(0, GROUPS)
    mean = tl.load(means + g)
    scale = tl.load(scales + g)
    mean = tl.reshape(tl.broadcast_to(mean[:, None], (GROUPS, EACH)), (GROUPS * EACH,))
    scale = tl.reshape(tl.broadcast_to(scale[:, None], (GROUPS, EACH)), (GROUPS * EACH,))
    w = tl.load(weight + job * C + c)
    shift = tl.load(bias + job * C + c)
    total = tl.zeros((GROUPS * EACH,), dtype=tl.float32)
    along = tl.zeros((GROUPS * EACH,), dtype=tl.float32)
    WHOLE: tl.constexpr = BLOCK >= PIXELS  # held, and not read again
    if WHOLE:
        image = _pixels(values, n, 0, c, PIXELS, C, BLOCK)
        image_back = _pixels(back, n, 0, c, PIXELS, C, BLOCK)
    for start in range(0, PIXELS, BLOCK):
        x = image if WHOLE else _pixels(values, n, start, c, PIXELS, C, BLOCK)
        d = image_back if WHOLE else _pixels(back, n, start, c, PIXELS, C, BLOCK)
        x = (x.to(tl.float32) - mean[None, :]) * scale[None, :]
        d = d.to(tl.float32)
        if RELU:
            d = tl.where(x * w[None, :] + shift[None, :] > 0, d, 0.0)
        total += tl.sum(d, 0)
        along += tl.sum(d * x, 0)
    tl.store(of_bias + n * C + c, total)
    tl.store(of_weight + n * C + c, along)
    number = PIXELS * EACH
    total = tl.sum(tl.reshape(total * w, (GROUPS, EACH)), 1) / number
    along = tl.sum(tl.reshape(along * w, (GROUPS, EACH)), 1) / number
    total = tl.reshape(tl.broadcast_to(total[:, None], (GROUPS, EACH)), (GROUPS * EACH,))
    along = tl.reshape(tl.broadcast_to(along[:, None], (GROUPS, EACH)), (GROUPS * EACH,))
    for start in range(0, PIXELS, BLOCK):
        p = start + tl.arange(0, BLOCK)
        where = p[:, None] * C + c[None, :]
        x = image if WHOLE else _pixels(values, n, start, c, PIXELS, C, BLOCK)
        d = image_back if WHOLE else _pixels(back, n, start, c, PIXELS, C, BLOCK)
        x = (x.to(tl.float32) - mean[None, :]) * scale[None, :]
        d = d.to(tl.float32)
        if RELU:
            d = tl.where(x * w[None, :] + shift[None, :] > 0, d, 0.0)
        d = (d * w[None, :] - total[None, :] - x * along[None, :]) * scale[None, :]
        tl.store(target + n * (PIXELS * C) + where, d.to(target.dtype.element_ty), mask=(p < PIXELS)[:, None])


@torch.library.custom_op("fedteddi::stacked_norm", mutates_args=())
def _stacked_norm(
    values: Tensor, weight: Tensor, bias: Tensor, groups: int, eps: float, relu: bool
) -> tuple[Tensor, Tensor, Tensor]:
    number, channels = len(values), values.shape[-1]
    pixels = values[0].numel() // channels
    found = torch.empty_like(values)
    means = torch.empty(number, groups, device=values.device)
    scales = torch.empty_like(means)
    plan = _plan(pixels, channels, channels // groups)
    _normalised[(number * (groups // plan.groups),)](
        values, weight, bias, found, means, scales, number // len(weight),
        pixels, channels, channels // groups, eps, relu, plan.groups, plan.pixels, num_warps=plan.warps,
    )  # fmt: skip
    return found, means, scales


@torch.library.custom_op("fedteddi::stacked_norm_back", mutates_args=())
def _norm_gradients(
    values: Tensor, back: Tensor, weight: Tensor, bias: Tensor, means: Tensor, scales: Tensor, relu: bool
) -> tuple[Tensor, Tensor, Tensor]:
    number, channels = len(values), values.shape[-1]
    pixels = values[0].numel() // channels
    found = torch.empty_like(values)
    of_weight = torch.empty(number, channels, device=values.device)
    of_bias = torch.empty_like(of_weight)
    each = channels // means.shape[1]
    plan = _plan(pixels, channels, each)
    _normalised_back[(number * (means.shape[1] // plan.groups),)](
        values, back, weight, bias, means, scales, found, of_weight, of_bias, number // len(weight),
        pixels, channels, each, relu, plan.groups, plan.pixels, num_warps=plan.warps,
    )  # fmt: skip
    return found, of_weight, of_bias


class _Plan(NamedTuple):
    """Groups that a program takes, of how many pixels at a time, and its warps."""

    groups: int
    pixels: int
    warps: int


def _plan(pixels: int, channels: int, each: int) -> _Plan:
    """Cut an image by groups so that a program can hold its part; if that does not do, leave it whole."""
    whole, part = triton.next_power_of_2(pixels), channels
    while whole * part > VALUES and part > max(each, NARROWEST):
        part //= 2
    if whole * part <= HELD:
        return _Plan(part // each, whole, max(1, whole * part // (32 * VALUES_A_THREAD)))
    return _Plan(channels // each, max(1, VALUES // channels), WARPS)


@_stacked_norm.register_fake
def _(values, weight, bias, groups, eps, relu):
    kept = torch.empty(len(values), groups, device=values.device)
    return torch.empty_like(values), kept, torch.empty_like(kept)


@_norm_gradients.register_fake
def _(values, back, weight, bias, means, scales, relu):
    kept = torch.empty(len(values), values.shape[-1], device=values.device)
    return torch.empty_like(values), kept, torch.empty_like(kept)


def _remember(ctx, inputs, output):
    values, weight, bias, _, _, ctx.relu = inputs
    ctx.save_for_backward(values, weight, bias, output[1], output[2])


def _backward(ctx, back, _means, _scales):
    values, weight, bias, means, scales = ctx.saved_tensors
    found, of_weight, of_bias = _norm_gradients(
        values, back.contiguous(), weight, bias, means, scales, ctx.relu
    )
    by_job = (len(weight), -1, weight.shape[1])
    return found, of_weight.view(by_job).sum(dim=1), of_bias.view(by_job).sum(dim=1), None, None, None


_stacked_norm.register_autograd(_backward, setup_context=_remember)


def stacked_norm(values: Tensor, weight: Tensor, bias: Tensor, groups: int, eps: float, relu: bool) -> Tensor:
    """Return GroupNorm of [jobs·b, …, channels] with [jobs, channels], and its positive part if `relu`."""
    found: Tensor = _stacked_norm(values, weight, bias, groups, eps, relu)[0]
    return found
