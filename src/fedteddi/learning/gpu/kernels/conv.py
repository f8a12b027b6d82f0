"""Convolutions of many jobs with each its own kernel, as matrix products that never write the shifted copies down.

Three kernels for a GPU's matrix units: forward, gradient of the images, gradient of the weights. Images are
[jobs·b, H, W, channels], weights [jobs, taps, in, out], rounded to the images' type. A tap is one position of the
convolution's window.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from fedteddi.learning.gpu.kernels.conv_tiles import SHARED_BYTES, Tile, product_tile, weight_tile

ENOUGH_PROGRAMS = 2048  # to keep a large device busy


@triton.jit
def _tap_met(
    number, first_down, first_across, taps_across, TAPS_ACROSS: tl.constexpr, APART: tl.constexpr
):  # fmt: skip
    """Return which tap is the number-th of those that lie so far apart, counted from the first."""
    if APART == 1:
        return number
    down = first_down + number // taps_across * APART
    return down * TAPS_ACROSS + first_across + number % taps_across * APART


@triton.jit
def _gathered_product(
    source, weight, bias, target, images,
    height: tl.constexpr, width: tl.constexpr, high: tl.constexpr, wide: tl.constexpr,
    C: tl.constexpr, O: tl.constexpr, TAPS: tl.constexpr, TAPS_ACROSS: tl.constexpr,
    STRIDE: tl.constexpr, PAD: tl.constexpr, BACKWARD: tl.constexpr, BIAS: tl.constexpr, PRECISION: tl.constexpr,
    ROWS: tl.constexpr, BC: tl.constexpr, BO: tl.constexpr,
):  # fmt: skip
    """target[pixel, o] = Σ_taps Σ_c source[pixel moved by the tap, c] · weight[tap, c, o] of each job.

    Backward, pixels move the other way and weights are read transposed. With a stride, a pixel then meets only the taps
    that differ from it by multiples of the stride: a program takes pixels that lie so far apart, which meet the same
    taps, perhaps none. Taps and channels are one long dimension, so that a block of it may hold several taps where
    channels are few.
    """
    APART: tl.constexpr = STRIDE if BACKWARD else 1
    HIGH: tl.constexpr = (high + APART - 1) // APART
    WIDE: tl.constexpr = (wide + APART - 1) // APART
    job = tl.program_id(2).to(tl.int64)
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    out = tl.program_id(1) // (APART * APART) * BO + tl.arange(0, BO)
    image = row // (HIGH * WIDE)
    y = ((row % (HIGH * WIDE)) // WIDE)[:, None]
    x = (row % WIDE)[:, None]
    there = row < images * HIGH * WIDE
    first_y = tl.program_id(1) % (APART * APART) // APART
    first_x = tl.program_id(1) % APART
    first_down = (first_y + PAD) % APART
    first_across = (first_x + PAD) % APART
    taps_across = (TAPS_ACROSS - first_across + APART - 1) // APART
    taps = (TAPS // TAPS_ACROSS - first_down + APART - 1) // APART * taps_across
    taps_across = tl.maximum(taps_across, 1)  # it divides, before it is known that there are none
    # Offsets inside an image or a job's weights take 32 bits, all before them 64.
    own = source + ((job * images + image) * (height * width * C))[:, None]
    weight += job * (TAPS * C * O)
    total = tl.zeros((ROWS, BO), dtype=tl.float32)
    for step in range((taps * C + BC - 1) // BC):
        if C % BC == 0:  # all of one tap: little to reckon
            tap = step // (C // BC)
            c = step % (C // BC) * BC + tl.arange(0, BC)[None, :]
        else:
            tap = (step * BC + tl.arange(0, BC)[None, :]) // C
            c = (step * BC + tl.arange(0, BC)[None, :]) % C
        if BACKWARD:
            down = y + (first_y + PAD) // APART - tap // taps_across
            across = x + (first_x + PAD) // APART - tap % taps_across
        else:
            down = y * STRIDE - PAD + tap // TAPS_ACROSS
            across = x * STRIDE - PAD + tap % TAPS_ACROSS
        fits = there[:, None] & (down >= 0) & (across >= 0) & (down < height) & (across < width)
        if C % BC != 0:
            fits = fits & (tap < taps)
        seen = tl.load(own + (down * width + across) * C + c, mask=fits, other=0.0)
        k = step * BC + tl.arange(0, BC)[:, None]
        if not BACKWARD:
            place = k * O + out[None, :]
        elif C % BC == 0:  # weight is [jobs, taps, O, C] to this kernel
            met = _tap_met(tap, first_down, first_across, taps_across, TAPS_ACROSS, APART)
            place = (met * O + out[None, :]) * C + step % (C // BC) * BC + tl.arange(0, BC)[:, None]
        else:
            met = _tap_met(k // C, first_down, first_across, taps_across, TAPS_ACROSS, APART)
            place = (met * O + out[None, :]) * C + k % C
        w = tl.load(weight + place, mask=(k < taps * C) & (out < O)[None, :], other=0.0)
        total = tl.dot(seen, w, total, input_precision=PRECISION)
    if BIAS:
        total += tl.load(bias + job * O + out, mask=out < O, other=0.0)[None, :]
    if APART > 1:
        y = (row % (HIGH * WIDE)) // WIDE * APART + first_y
        x = row % WIDE * APART + first_x
        there = there & (y < high) & (x < wide)
        row = (image * high + y) * wide + x
    where = (job * images * high * wide + row) * O
    tl.store(
        target + where[:, None] + out[None, :],
        total.to(target.dtype.element_ty),
        mask=there[:, None] & (out < O)[None, :],
    )


@triton.jit
def _weight_product(
    source, back, target, images, jobs, rows_each,
    height: tl.constexpr, width: tl.constexpr, high: tl.constexpr, wide: tl.constexpr,
    C: tl.constexpr, O: tl.constexpr, TAPS: tl.constexpr, TAPS_ACROSS: tl.constexpr,
    STRIDE: tl.constexpr, PAD: tl.constexpr, PRECISION: tl.constexpr, SQUARED: tl.constexpr,
    ROWS: tl.constexpr, BC: tl.constexpr, BO: tl.constexpr,
):  # fmt: skip
    """target[tap, c, o] = Σ_pixels source[pixel moved by the tap, c] · back[pixel, o] of each job.

    The pixels are cut into parts of rows_each, one program and one sum each: few jobs would not fill the device. Taps
    and channels are one long dimension here too. SQUARED: a program writes only the sum of its values' squares, which
    says something of all pixels at once.
    """
    job = tl.program_id(2).to(tl.int64)
    part = tl.program_id(1)
    block = tl.program_id(0) // tl.cdiv(O, BO)
    out = tl.program_id(0) % tl.cdiv(O, BO) * BO + tl.arange(0, BO)
    if C % BC == 0:
        tap = block // (C // BC)
        c = block % (C // BC) * BC + tl.arange(0, BC)[None, :]
    else:
        tap = (block * BC + tl.arange(0, BC)[None, :]) // C
        c = (block * BC + tl.arange(0, BC)[None, :]) % C
    total = tl.zeros((BC, BO), dtype=tl.float32)
    pixels = images * high * wide
    for start in range(0, rows_each, ROWS):
        row = part * rows_each + start + tl.arange(0, ROWS)
        own = source + ((job * images + row // (high * wide)) * (height * width * C))[:, None]
        down = ((row % (high * wide)) // wide * STRIDE - PAD)[:, None] + tap // TAPS_ACROSS
        across = (row % wide * STRIDE - PAD)[:, None] + tap % TAPS_ACROSS
        fits = (row < pixels)[:, None] & (down >= 0) & (across >= 0) & (down < height) & (across < width)
        if C % BC != 0:
            fits = fits & (tap < TAPS)
        seen = tl.load(own + (down * width + across) * C + c, mask=fits, other=0.0)
        g = tl.load(
            back + ((job * pixels + row) * O)[:, None] + out[None, :],
            mask=(row < pixels)[:, None] & (out < O)[None, :],
            other=0.0,
        )
        total = tl.dot(tl.trans(seen), g, total, input_precision=PRECISION)
    if SQUARED:  # what lies outside has been loaded as zeros
        tl.store(target + job * tl.num_programs(0) + tl.program_id(0), tl.sum(tl.sum(total * total, 1), 0))
    else:
        k = block * BC + tl.arange(0, BC)
        place = ((part * jobs + job) * TAPS * C + k[:, None]) * O + out[None, :]
        tl.store(target + place, total, mask=(k < TAPS * C)[:, None] & (out < O)[None, :])


def _precision() -> str:
    """Follow PyTorch's setting: single precision products in full, or rounded to TF32."""
    return "ieee" if torch.get_float32_matmul_precision() == "highest" else "tf32"


def _limits(values: Tensor) -> tuple[int, int, bool]:
    """Return what a tile depends on: bytes of a value, bytes that a program may share, whether products are exact."""
    exact = values.dtype == torch.float32 and _precision() == "ieee"
    if not values.is_cuda:  # the interpreter
        return values.element_size(), SHARED_BYTES, exact
    device = torch.cuda.get_device_properties(values.device)
    shared_bytes = getattr(device, "shared_memory_per_block_optin", SHARED_BYTES)
    return values.element_size(), shared_bytes, exact


def conv_product(
    images: Tensor, weight: Tensor, bias: Tensor | None, taps: tuple[int, int], stride: int, pad: int,
    tile: Tile | None = None,
) -> Tensor:  # fmt: skip
    """Return the convolution by the given tile, or by the usual one."""
    high, wide = (_size(images.shape[1 + i], taps[i], stride, pad) for i in (0, 1))
    found = images.new_empty(len(images), high, wide, weight.shape[3])
    return _fill_product(found, images, weight, bias, taps, stride, pad, tile, backward=False)


def images_product(
    back: Tensor, weight: Tensor, size: tuple[int, int], taps: tuple[int, int], stride: int, pad: int,
    tile: Tile | None = None,
) -> Tensor:  # fmt: skip
    """Return the images' gradient, of so many pixels down and across, by the given tile, or by the usual one."""
    found = back.new_empty(len(back), *size, weight.shape[2])
    return _fill_product(found, back, weight, None, taps, stride, pad, tile, backward=True)


def _fill_product(
    found: Tensor, source: Tensor, weight: Tensor, bias: Tensor | None, taps: tuple[int, int],
    stride: int, pad: int, tile: Tile | None, *, backward: bool,
) -> Tensor:  # fmt: skip
    """Launch the kernel from source [jobs·b, H, W, C] to found [jobs·b, H', W', O], and return that."""
    (height, width, channels), (high, wide, outputs) = source.shape[1:], found.shape[1:]
    jobs, b, every = len(weight), len(source) // len(weight), taps[0] * taps[1]
    apart = stride if backward else 1
    pixels = b * triton.cdiv(high, apart) * triton.cdiv(wide, apart)  # that meet the same taps
    tile = tile or product_tile(pixels, every, channels, outputs, *_limits(source))
    grid = (triton.cdiv(pixels, tile.rows), triton.cdiv(outputs, tile.outputs) * apart**2, jobs)
    _gathered_product[grid](
        source, weight, weight if bias is None else bias, found, b, height, width, high, wide,
        channels, outputs, every, taps[1], stride, pad, backward, bias is not None, _precision(),
        tile.rows, tile.inputs, tile.outputs, num_warps=tile.warps, num_stages=tile.stages,
    )  # fmt: skip
    return found


def weight_product(
    images: Tensor, back: Tensor, jobs: int, taps: tuple[int, int], stride: int, pad: int,
    tile: Tile | None = None,
) -> Tensor:  # fmt: skip
    """Return the weights' gradient [jobs, taps, in, out] by the given tile, or by the usual one."""
    found = _fill_weight_product(images, back, jobs, taps, stride, pad, tile, squared=False)
    return found.sum(dim=0) if len(found) > 1 else found.squeeze(0)


def weight_squares(
    images: Tensor, back: Tensor, jobs: int, taps_down: int, taps_across: int, stride: int, pad: int
) -> Tensor:
    """Return ‖weights' gradient‖² of every job, [jobs], of which the gradients are never written down."""
    found = _fill_weight_product(
        images, back, jobs, (taps_down, taps_across), stride, pad, None, squared=True
    )
    return found.sum(dim=1, dtype=torch.float64)


def _fill_weight_product(
    images: Tensor, back: Tensor, jobs: int, taps: tuple[int, int], stride: int, pad: int,
    tile: Tile | None, *, squared: bool,
) -> Tensor:  # fmt: skip
    """Launch the kernel; return its sums [parts, jobs, taps, in, out], or its squares [jobs, blocks]."""
    number, height, width, channels = images.shape
    _, high, wide, outputs = back.shape
    every, pixels = taps[0] * taps[1], number // jobs * high * wide
    tile = tile or weight_tile(pixels, every, channels, outputs, *_limits(images))
    blocks = triton.cdiv(every * channels, tile.inputs) * triton.cdiv(outputs, tile.outputs)
    parts = 1 if squared else max(1, min(ENOUGH_PROGRAMS // (blocks * jobs), pixels // (8 * tile.rows)))
    rows_each = triton.cdiv(triton.cdiv(pixels, parts), tile.rows) * tile.rows
    parts = triton.cdiv(pixels, rows_each)
    shape = (jobs, blocks) if squared else (parts, jobs, every, channels, outputs)
    found = torch.empty(shape, device=images.device)
    _weight_product[(blocks, parts, jobs)](
        images, back, found, number // jobs, jobs, rows_each, height, width, high, wide,
        channels, outputs, every, taps[1], stride, pad, _precision(), squared,
        tile.rows, tile.inputs, tile.outputs, num_warps=tile.warps, num_stages=tile.stages,
    )  # fmt: skip
    return found


def _size(length: int, taps: int, stride: int, pad: int) -> int:
    return (length + 2 * pad - taps) // stride + 1


class _Conv(torch.autograd.Function):
    @staticmethod
    def forward(ctx, images, weight, bias, stride, pad):
        # What matrix units read is rounded once here; in the kernel, each tile would take a detour.
        rounded = weight.to(images.dtype).contiguous()
        ctx.stride, ctx.pad = stride, pad
        ctx.save_for_backward(images, rounded)
        return conv_product(images, rounded.flatten(1, 2), bias, rounded.shape[1:3], stride, pad)

    @staticmethod
    def backward(ctx, back):
        images, rounded = ctx.saved_tensors
        back = back.contiguous()
        jobs, down, across, _, outputs = rounded.shape
        geometry = (down, across), ctx.stride, ctx.pad
        of_images = of_weight = of_bias = None
        if ctx.needs_input_grad[0]:
            of_images = images_product(back, rounded.flatten(1, 2), images.shape[1:3], *geometry)
        if ctx.needs_input_grad[1]:
            of_weight = weight_product(images, back, jobs, *geometry).view(rounded.shape)
        if ctx.needs_input_grad[2]:
            of_bias = back.view(jobs, -1, outputs).sum(dim=1, dtype=torch.float32)
        return of_images, of_weight, of_bias, None, None


def stacked_conv(images: Tensor, weight: Tensor, bias: Tensor | None, stride: int, pad: int) -> Tensor:
    """Return [jobs·b, H, W, in] convolved with [jobs, taps down, across, in, out], plus a bias [jobs, out]."""
    found: Tensor = _Conv.apply(images, weight, bias, stride, pad)
    return found
