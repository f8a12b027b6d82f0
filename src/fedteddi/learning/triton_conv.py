"""Convolutions of many jobs with each its own kernel, as matrix products that never write the shifted copies down.

Three kernels for a GPU's matrix units: forward, gradient of the images, gradient of the weights. Images are
[jobs·b, H, W, channels], weights [jobs, taps, in, out] in single precision, rounded to the images' type on the way in.
A tap is one position of the convolution's window.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from fedteddi.learning.conv_tiles import Tile, product_tile, weight_tile

ENOUGH_PROGRAMS = 2048  # to keep a large device busy


@triton.jit
def _gathered_product(
    source, weight, bias, target, images,
    height: tl.constexpr, width: tl.constexpr, high: tl.constexpr, wide: tl.constexpr,
    C: tl.constexpr, O: tl.constexpr, TAPS_DOWN: tl.constexpr, TAPS_ACROSS: tl.constexpr,
    STRIDE: tl.constexpr, PAD: tl.constexpr, BACKWARD: tl.constexpr, BIAS: tl.constexpr, PRECISION: tl.constexpr,
    ROWS: tl.constexpr, BC: tl.constexpr, BO: tl.constexpr,
):  # fmt: skip
    """target[pixel, o] = Σ_taps Σ_c source[pixel moved by the tap, c] · weight[tap, c, o] of each job.

    Backward, pixels move the other way, weights are read transposed, and a stride leaves holes.
    """
    job = tl.program_id(2).to(tl.int64)
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    out = tl.program_id(1) * BO + tl.arange(0, BO)
    image = row // (high * wide)
    y = (row % (high * wide)) // wide
    x = row % wide
    there = row < images * high * wide
    first = (job * images + image) * height
    total = tl.zeros((ROWS, BO), dtype=tl.float32)
    for tap in range(TAPS_DOWN * TAPS_ACROSS):
        if BACKWARD:
            down = y + PAD - tap // TAPS_ACROSS
            across = x + PAD - tap % TAPS_ACROSS
            fits = there & (down >= 0) & (across >= 0) & (down % STRIDE == 0) & (across % STRIDE == 0)
            down = down // STRIDE
            across = across // STRIDE
        else:
            down = y * STRIDE - PAD + tap // TAPS_ACROSS
            across = x * STRIDE - PAD + tap % TAPS_ACROSS
            fits = there & (down >= 0) & (across >= 0)
        fits = fits & (down < height) & (across < width)
        pixel = ((first + down) * width + across) * C
        for start in range(0, C, BC):
            c = start + tl.arange(0, BC)
            seen = tl.load(
                source + pixel[:, None] + c[None, :], mask=fits[:, None] & (c < C)[None, :], other=0.0
            )
            if BACKWARD:  # weight is [jobs, taps, O, C] to this kernel
                place = ((job * TAPS_DOWN * TAPS_ACROSS + tap) * O + out[None, :]) * C + c[:, None]
            else:
                place = ((job * TAPS_DOWN * TAPS_ACROSS + tap) * C + c[:, None]) * O + out[None, :]
            w = tl.load(weight + place, mask=(c < C)[:, None] & (out < O)[None, :], other=0.0)
            total = tl.dot(seen, w.to(seen.dtype), total, input_precision=PRECISION)
    if BIAS:
        total += tl.load(bias + job * O + out, mask=out < O, other=0.0)[None, :]
    where = ((job * images + image) * high + y) * wide + x
    tl.store(
        target + where[:, None] * O + out[None, :],
        total.to(target.dtype.element_ty),
        mask=there[:, None] & (out < O)[None, :],
    )


@triton.jit
def _weight_product(
    source, back, target, images, jobs, rows_each,
    height: tl.constexpr, width: tl.constexpr, high: tl.constexpr, wide: tl.constexpr,
    C: tl.constexpr, O: tl.constexpr, TAPS_ACROSS: tl.constexpr, TAPS: tl.constexpr,
    STRIDE: tl.constexpr, PAD: tl.constexpr, PRECISION: tl.constexpr,
    ROWS: tl.constexpr, BC: tl.constexpr, BO: tl.constexpr,
):  # fmt: skip
    """target[tap, c, o] = Σ_pixels source[pixel moved by the tap, c] · back[pixel, o] of each job.

    The pixels are cut into parts of rows_each, one program and one sum each: few jobs would not fill the device.
    """
    job = tl.program_id(2).to(tl.int64)
    tap = tl.program_id(0) % TAPS
    part = tl.program_id(0) // TAPS
    blocks = tl.cdiv(O, BO)
    c = (tl.program_id(1) // blocks) * BC + tl.arange(0, BC)
    out = (tl.program_id(1) % blocks) * BO + tl.arange(0, BO)
    total = tl.zeros((BC, BO), dtype=tl.float32)
    pixels = images * high * wide
    for start in range(0, rows_each, ROWS):
        row = part * rows_each + start + tl.arange(0, ROWS)
        image = row // (high * wide)
        down = (row % (high * wide)) // wide * STRIDE - PAD + tap // TAPS_ACROSS
        across = row % wide * STRIDE - PAD + tap % TAPS_ACROSS
        fits = (row < pixels) & (down >= 0) & (across >= 0) & (down < height) & (across < width)
        pixel = (((job * images + image) * height + down) * width + across) * C
        seen = tl.load(source + pixel[:, None] + c[None, :], mask=fits[:, None] & (c < C)[None, :], other=0.0)
        where = (job * pixels + row) * O
        g = tl.load(
            back + where[:, None] + out[None, :], mask=(row < pixels)[:, None] & (out < O)[None, :], other=0.0
        )
        total = tl.dot(tl.trans(seen), g, total, input_precision=PRECISION)
    place = (((part * jobs + job) * TAPS + tap) * C + c[:, None]) * O + out[None, :]
    tl.store(target + place, total, mask=(c < C)[:, None] & (out < O)[None, :])


def _precision() -> str:
    """Follow PyTorch's setting: single precision products in full, or rounded to TF32."""
    return "ieee" if torch.get_float32_matmul_precision() == "highest" else "tf32"


def conv_product(
    images: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    taps: tuple[int, int],
    stride: int,
    pad: int,
    tile: Tile | None = None,
) -> Tensor:
    """Return the convolution by the given tile, or by the usual one."""
    jobs, _, channels, outputs = weight.shape
    number, height, width, _ = images.shape
    high, wide = _size(height, taps[0], stride, pad), _size(width, taps[1], stride, pad)
    found = images.new_empty(number, high, wide, outputs)
    b = number // jobs
    tile = tile or product_tile(b * high * wide, channels, outputs, images.element_size())
    grid = (triton.cdiv(b * high * wide, tile.rows), triton.cdiv(outputs, tile.outputs), jobs)
    _gathered_product[grid](
        images, weight, weight if bias is None else bias, found, b, height, width, high, wide,
        channels, outputs, *taps, stride, pad, False, bias is not None, _precision(),
        tile.rows, tile.inputs, tile.outputs, num_warps=tile.warps, num_stages=tile.stages,
    )  # fmt: skip
    return found


def images_product(
    back: Tensor,
    weight: Tensor,
    size: tuple[int, int],
    taps: tuple[int, int],
    stride: int,
    pad: int,
    tile: Tile | None = None,
) -> Tensor:
    """Return the images' gradient, of so many pixels down and across, by the given tile, or by the usual one."""
    jobs, _, channels, outputs = weight.shape
    number, high, wide, _ = back.shape
    found = back.new_empty(number, *size, channels)
    b, pixels = number // jobs, number // jobs * size[0] * size[1]
    tile = tile or product_tile(pixels, outputs, channels, back.element_size())
    grid = (triton.cdiv(pixels, tile.rows), triton.cdiv(channels, tile.outputs), jobs)
    _gathered_product[grid](
        back, weight, weight, found, b, high, wide, *size,
        outputs, channels, *taps, stride, pad, True, False, _precision(),
        tile.rows, tile.inputs, tile.outputs, num_warps=tile.warps, num_stages=tile.stages,
    )  # fmt: skip
    return found


def weight_product(
    images: Tensor,
    back: Tensor,
    jobs: int,
    taps: tuple[int, int],
    stride: int,
    pad: int,
    tile: Tile | None = None,
) -> Tensor:
    """Return the weights' gradient by the given tile, or by the usual one."""
    number, height, width, channels = images.shape
    _, high, wide, outputs = back.shape
    every, pixels = taps[0] * taps[1], number // jobs * high * wide
    tile = tile or weight_tile(pixels, channels, outputs, images.element_size())
    blocks = triton.cdiv(channels, tile.inputs) * triton.cdiv(outputs, tile.outputs)
    parts = max(1, min(ENOUGH_PROGRAMS // (every * blocks * jobs), pixels // (8 * tile.rows)))
    rows_each = triton.cdiv(triton.cdiv(pixels, parts), tile.rows) * tile.rows
    parts = triton.cdiv(pixels, rows_each)
    found = torch.empty(parts, jobs, every, channels, outputs, device=images.device)
    _weight_product[(every * parts, blocks, jobs)](
        images, back, found, number // jobs, jobs, rows_each, height, width, high, wide,
        channels, outputs, taps[1], every, stride, pad, _precision(),
        tile.rows, tile.inputs, tile.outputs, num_warps=tile.warps, num_stages=tile.stages,
    )  # fmt: skip
    return found.sum(dim=0) if parts > 1 else found.squeeze(0)


@torch.library.custom_op("fedteddi::stacked_conv", mutates_args=())
def stacked_conv(
    images: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    taps_down: int,
    taps_across: int,
    stride: int,
    pad: int,
) -> Tensor:
    """Return [jobs·b, H, W, in] convolved with [jobs, taps, in, out], plus [jobs, out]: [jobs·b, H', W', out]."""
    return conv_product(images, weight, bias, (taps_down, taps_across), stride, pad)


@torch.library.custom_op("fedteddi::stacked_conv_images", mutates_args=())
def _images_gradient(
    back: Tensor,
    weight: Tensor,
    height: int,
    width: int,
    taps_down: int,
    taps_across: int,
    stride: int,
    pad: int,
) -> Tensor:
    return images_product(back, weight, (height, width), (taps_down, taps_across), stride, pad)


@torch.library.custom_op("fedteddi::stacked_conv_weight", mutates_args=())
def weight_gradient(
    images: Tensor, back: Tensor, jobs: int, taps_down: int, taps_across: int, stride: int, pad: int
) -> Tensor:
    """Return the gradient of [jobs, taps, in, out], from [jobs·b, H, W, in] and the gradient [jobs·b, H', W', out]."""
    return weight_product(images, back, jobs, (taps_down, taps_across), stride, pad)


def _size(length: int, taps: int, stride: int, pad: int) -> int:
    return (length + 2 * pad - taps) // stride + 1


@stacked_conv.register_fake
def _(images, weight, bias, taps_down, taps_across, stride, pad):
    high, wide = (
        _size(images.shape[1], taps_down, stride, pad),
        _size(images.shape[2], taps_across, stride, pad),
    )
    return images.new_empty(images.shape[0], high, wide, weight.shape[3])


@_images_gradient.register_fake
def _(back, weight, height, width, taps_down, taps_across, stride, pad):
    return back.new_empty(back.shape[0], height, width, weight.shape[2])


@weight_gradient.register_fake
def _(images, back, jobs, taps_down, taps_across, stride, pad):
    shape = (jobs, taps_down * taps_across, images.shape[3], back.shape[3])
    return torch.empty(shape, device=images.device)


def _remember(ctx, inputs, output):
    images, weight, bias, *ctx.geometry = inputs
    ctx.biased = bias is not None
    ctx.save_for_backward(images, weight)


def _backward(ctx, back):
    images, weight = ctx.saved_tensors
    back = back.contiguous()
    of_images = of_weight = of_bias = None
    if ctx.needs_input_grad[0]:
        of_images = _images_gradient(back, weight, images.shape[1], images.shape[2], *ctx.geometry)
    if ctx.needs_input_grad[1]:
        of_weight = weight_gradient(images, back, weight.shape[0], *ctx.geometry)
    if ctx.biased and ctx.needs_input_grad[2]:
        of_bias = back.view(len(weight), -1, back.shape[3]).sum(dim=1, dtype=torch.float32)
    return of_images, of_weight, of_bias, None, None, None, None


stacked_conv.register_autograd(_backward, setup_context=_remember)
