"""GroupNorm of many jobs with each its own scale and shift, and the ReLU that mostly follows, in one go on a GPU.

One program takes some groups of one image, [pixels, channels], and reads them twice: for their statistics, then to
normalise. They are so few that the second time they come from the cache. What a compiler makes of the plain formula
reads and writes them several times more, above all on the way back.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

VALUES, VALUES_BACK = 4096, 16384  # that a program holds at a time
MANY = 16384  # values of an image, of which a program takes half of the channels
WARPS = 8


@triton.jit
def _normalised(
    values, weight, bias, target, means, scales, b, PIXELS: tl.constexpr, C: tl.constexpr, GROUPS: tl.constexpr,
    EPS: tl.constexpr, RELU: tl.constexpr, OWN: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """target = (values − mean) / √(var + ε) · weight + bias per group, and its positive part if asked."""
    SIZE: tl.constexpr = C // GROUPS  # of a group
    n = tl.program_id(0).to(tl.int64) // (C // OWN)
    job = n // b
    part = tl.program_id(0) % (C // OWN)
    c = part * OWN + tl.arange(0, OWN)
    g = part * (OWN // SIZE) + tl.arange(0, OWN // SIZE)
    # Added up by place, and over places at the end: a sum over all threads makes them wait for each other.
    total = tl.zeros((BLOCK, OWN), dtype=tl.float32)
    square = tl.zeros((BLOCK, OWN), dtype=tl.float32)
    for start in range(0, PIXELS, BLOCK):
        p = start + tl.arange(0, BLOCK)
        v = tl.load(
            values + (n * PIXELS + p)[:, None] * C + c[None, :], mask=(p < PIXELS)[:, None], other=0.0
        )
        v = v.to(tl.float32)
        total += v
        square += v * v
    total = tl.sum(total, 0)
    square = tl.sum(square, 0)
    number = PIXELS * SIZE
    mean = tl.sum(tl.reshape(total, (OWN // SIZE, SIZE)), 1) / number
    variance = tl.sum(tl.reshape(square, (OWN // SIZE, SIZE)), 1) / number - mean * mean
    scale = 1.0 / tl.sqrt(tl.maximum(variance, 0.0) + EPS)
    tl.store(means + n * GROUPS + g, mean)
    tl.store(scales + n * GROUPS + g, scale)
    mean = tl.reshape(tl.broadcast_to(mean[:, None], (OWN // SIZE, SIZE)), (OWN,))
    scale = tl.reshape(tl.broadcast_to(scale[:, None], (OWN // SIZE, SIZE)), (OWN,))
    factor = scale * tl.load(weight + job * C + c)
    shift = tl.load(bias + job * C + c) - mean * factor
    for start in range(0, PIXELS, BLOCK):
        p = start + tl.arange(0, BLOCK)
        where = (n * PIXELS + p)[:, None] * C + c[None, :]
        v = tl.load(values + where, mask=(p < PIXELS)[:, None], other=0.0).to(tl.float32)
        v = v * factor[None, :] + shift[None, :]
        if RELU:
            v = tl.maximum(v, 0.0)
        tl.store(target + where, v.to(target.dtype.element_ty), mask=(p < PIXELS)[:, None])


@triton.jit
def _normalised_back(
    values, back, weight, bias, means, scales, target, of_weight, of_bias, b,
    PIXELS: tl.constexpr, C: tl.constexpr, GROUPS: tl.constexpr, RELU: tl.constexpr, OWN: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """With x̂ the normalised values and h = back · weight: target = (h − mean h − x̂ · mean(h x̂)) / √(var + ε)."""
    SIZE: tl.constexpr = C // GROUPS  # of a group
    n = tl.program_id(0).to(tl.int64) // (C // OWN)
    job = n // b
    part = tl.program_id(0) % (C // OWN)
    c = part * OWN + tl.arange(0, OWN)
    g = part * (OWN // SIZE) + tl.arange(0, OWN // SIZE)
    mean = tl.load(means + n * GROUPS + g)
    scale = tl.load(scales + n * GROUPS + g)
    mean = tl.reshape(tl.broadcast_to(mean[:, None], (OWN // SIZE, SIZE)), (OWN,))
    scale = tl.reshape(tl.broadcast_to(scale[:, None], (OWN // SIZE, SIZE)), (OWN,))
    w = tl.load(weight + job * C + c)
    shift = tl.load(bias + job * C + c)
    total = tl.zeros((BLOCK, OWN), dtype=tl.float32)
    along = tl.zeros((BLOCK, OWN), dtype=tl.float32)
    for start in range(0, PIXELS, BLOCK):
        p = start + tl.arange(0, BLOCK)
        where = (n * PIXELS + p)[:, None] * C + c[None, :]
        x = tl.load(values + where, mask=(p < PIXELS)[:, None], other=0.0).to(tl.float32)
        x = (x - mean[None, :]) * scale[None, :]
        d = tl.load(back + where, mask=(p < PIXELS)[:, None], other=0.0).to(tl.float32)
        if RELU:
            d = tl.where(x * w[None, :] + shift[None, :] > 0, d, 0.0)
        total += d
        along += d * x
    total = tl.sum(total, 0)
    along = tl.sum(along, 0)
    tl.store(of_bias + n * C + c, total)
    tl.store(of_weight + n * C + c, along)
    number = PIXELS * SIZE
    total = tl.sum(tl.reshape(total * w, (OWN // SIZE, SIZE)), 1) / number
    along = tl.sum(tl.reshape(along * w, (OWN // SIZE, SIZE)), 1) / number
    total = tl.reshape(tl.broadcast_to(total[:, None], (OWN // SIZE, SIZE)), (OWN,))
    along = tl.reshape(tl.broadcast_to(along[:, None], (OWN // SIZE, SIZE)), (OWN,))
    for start in range(0, PIXELS, BLOCK):
        p = start + tl.arange(0, BLOCK)
        where = (n * PIXELS + p)[:, None] * C + c[None, :]
        x = tl.load(values + where, mask=(p < PIXELS)[:, None], other=0.0).to(tl.float32)
        x = (x - mean[None, :]) * scale[None, :]
        d = tl.load(back + where, mask=(p < PIXELS)[:, None], other=0.0).to(tl.float32)
        if RELU:
            d = tl.where(x * w[None, :] + shift[None, :] > 0, d, 0.0)
        d = (d * w[None, :] - total[None, :] - x * along[None, :]) * scale[None, :]
        tl.store(target + where, d.to(target.dtype.element_ty), mask=(p < PIXELS)[:, None])


def _sizes(values: Tensor, groups: int, at_a_time: int) -> tuple[int, int, int, int]:
    """Return an image's pixels and channels, and how many of these a program takes, of how many pixels at a time."""
    channels = values.shape[-1]
    pixels = values[0].numel() // channels
    own = channels // 2 if channels * pixels > MANY and groups > 1 else channels
    return pixels, channels, own, max(1, min(triton.next_power_of_2(pixels), at_a_time // own))


class _Norm(torch.autograd.Function):
    @staticmethod
    def forward(ctx, values, weight, bias, groups, eps, relu):
        found = torch.empty_like(values)
        means = torch.empty(len(values), groups, device=values.device)
        scales = torch.empty_like(means)
        pixels, channels, own, block = _sizes(values, groups, VALUES)
        _normalised[(len(values) * (channels // own),)](
            values, weight, bias, found, means, scales, len(values) // len(weight),
            pixels, channels, groups, eps, relu, own, block, num_warps=WARPS,
        )  # fmt: skip
        ctx.relu = relu
        ctx.save_for_backward(values, weight, bias, means, scales)
        return found

    @staticmethod
    def backward(ctx, back):
        values, weight, bias, means, scales = ctx.saved_tensors
        found = torch.empty_like(values)
        pixels, channels, own, block = _sizes(values, means.shape[1], VALUES_BACK)
        of_weight = torch.empty(len(values), channels, device=values.device)
        of_bias = torch.empty_like(of_weight)
        _normalised_back[(len(values) * (channels // own),)](
            values, back.contiguous(), weight, bias, means, scales, found, of_weight, of_bias,
            len(values) // len(weight), pixels, channels, means.shape[1], ctx.relu, own, block,
            num_warps=WARPS,
        )  # fmt: skip
        by_job = (len(weight), -1, channels)
        return found, of_weight.view(by_job).sum(dim=1), of_bias.view(by_job).sum(dim=1), None, None, None


def stacked_norm(values: Tensor, weight: Tensor, bias: Tensor, groups: int, eps: float, relu: bool) -> Tensor:
    """Return GroupNorm of [jobs·b, …, channels] with [jobs, channels], and its positive part if `relu`."""
    found: Tensor = _Norm.apply(values, weight, bias, groups, eps, relu)
    return found
