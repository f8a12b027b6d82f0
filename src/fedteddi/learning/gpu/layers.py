"""Layers that hold the weights of many jobs at once, [jobs, …], and take the images of all jobs as one long batch.

The rows of a batch belong to the jobs in turn. Layers without weights (ReLU, pooling, Flatten) need not know; so a
model is stacked by replacing its layers with weights by these (stacking.py). A convolution is one batched matrix
product over shifted copies of the images; on a GPU, kernels of our own do without the copies (kernels/).
"""

import os
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from fedteddi.learning.dropout import KeyedDropout, layer_offset
from fedteddi.learning.models import ReLUOfSum
from fedteddi.learning.sample_norms import (
    gram_squares,
    grams_cost_less,
    in_slices,
    outer_squares,
    product_squares,
    squares,
)

# Matrix units want inner dimensions that are multiples of this.
ALIGNED = 8


class StackedLinear(nn.Module):
    """y = x Wᵀ + b, with each job's own W and b."""

    def __init__(self, layer: nn.Linear) -> None:
        super().__init__()
        self.weight = _one_job(layer.weight)
        self.bias = None if layer.bias is None else _one_job(layer.bias)

    def forward(self, values: Tensor) -> Tensor:
        """Map [jobs·b, …, in] to [jobs·b, …, out]."""
        jobs, outputs, inputs = self.weight.shape
        rows = values.reshape(jobs, -1, inputs)
        # In this order the weight's gradient comes out as the weight lies, not turned.
        found = torch.bmm(self.weight.to(values.dtype), rows.transpose(1, 2)).transpose(1, 2)
        if self.bias is not None:
            found = found + self.bias.to(values.dtype)[:, None]
        return found.reshape(*values.shape[:-1], outputs)

    def group_squares(self, values: Tensor, back: Tensor, width: int) -> Tensor:
        """Return ‖Σ_i g_i‖² of what is trained here, for every group of `width` images.

        `values` [n, …, in] is what went in, `back` [n, …, out] the gradient of what came out.
        """
        given, back = (v.reshape(len(v) // width, -1, v.shape[-1]).float() for v in (values, back))
        total = torch.zeros(len(given), dtype=torch.float64, device=values.device)
        if self.weight.requires_grad:
            positions, inputs, outputs = given.shape[1], given.shape[2], back.shape[2]
            if positions == 1:
                total += outer_squares(given[:, 0], back[:, 0])
            elif grams_cost_less(positions, inputs, outputs):
                total += in_slices(gram_squares, given, back, positions * positions)
            else:
                total += in_slices(product_squares, given, back, inputs * outputs)
        if self.bias is not None and self.bias.requires_grad:
            total += squares(back.sum(dim=1))
        return total


class StackedConv2d(nn.Module):
    """A convolution with each job's own kernel, [jobs, down, across, in, out]; images are channels-last in memory."""

    def __init__(self, layer: nn.Conv2d) -> None:
        super().__init__()
        self.weight = _one_job(layer.weight)
        self.bias = None if layer.bias is None else _one_job(layer.bias)
        self.stride, self.dilation = layer.stride, layer.dilation
        self.padding = (0, 0) if isinstance(layer.padding, str) else layer.padding
        even = len(set(self.stride)) == len(set(self.padding)) == 1 and self.dilation == (1, 1)
        kernels = gpu_kernels() if even else NO_KERNELS
        self.kernel, self.squares_kernel = kernels.conv, kernels.conv_squares

    def forward(self, images: Tensor) -> Tensor:
        """Map [jobs·b, in, H, W] to [jobs·b, out, H', W']."""
        jobs, height, width, _, channels = self.weight.shape
        if self.kernel is not None and on_gpu(images):
            seen = images.permute(0, 2, 3, 1).contiguous()
            made = self.kernel(seen, self.weight, self.bias, self.stride[0], self.padding[0])
            return made.permute(0, 3, 1, 2)
        columns = self._columns(images.permute(0, 2, 3, 1), height, width)  # [jobs·b, H', W', k²·in]
        weight = self.weight.to(images.dtype).reshape(jobs, -1, channels)
        weight = F.pad(weight, (0, 0, 0, columns.shape[3] - weight.shape[1]))
        found = torch.bmm(columns.reshape(jobs, -1, columns.shape[3]), weight)
        if self.bias is not None:
            found = found + self.bias.to(images.dtype)[:, None]
        return found.reshape(*columns.shape[:3], channels).permute(0, 3, 1, 2)

    def group_squares(self, images: Tensor, back: Tensor, width: int) -> Tensor:
        """Return ‖Σ_i g_i‖² of what is trained here, for every group of `width` images.

        `images` [n, in, …] is what went in, `back` [n, out, …] the gradient of what came out.
        """
        given, back = images.permute(0, 2, 3, 1), back.permute(0, 2, 3, 1)
        total = torch.zeros(len(images) // width, dtype=torch.float64, device=images.device)
        if self.weight.requires_grad:
            positions = width * back.shape[1] * back.shape[2]
            inputs, outputs = self.weight[0, ..., 0].numel(), self.weight.shape[4]
            by_group = _grouped(given, width), _grouped(back, width)
            if grams_cost_less(positions, inputs, outputs):
                total += in_slices(self._gram_squares, *by_group, positions * inputs)
            elif self.squares_kernel is not None and on_gpu(given):
                geometry = (*self.weight.shape[1:3], self.stride[0], self.padding[0])
                total += self.squares_kernel(given.contiguous(), back.contiguous(), len(total), *geometry)
            else:
                total += in_slices(self._product_squares, *by_group, max(positions, outputs) * inputs)
        if self.bias is not None and self.bias.requires_grad:
            total += squares(_grouped(back, width).sum(dim=(1, 2, 3), dtype=torch.float32))
        return total

    def _gram_squares(self, given: Tensor, back: Tensor) -> Tensor:
        return gram_squares(self._group_columns(given), back.float().flatten(1, 3))

    def _product_squares(self, given: Tensor, back: Tensor) -> Tensor:
        return product_squares(self._group_columns(given), back.float().flatten(1, 3))

    def _group_columns(self, given: Tensor) -> Tensor:
        """Lay out groups of images [groups, width, H, W, in] as rows of products, [groups, width·H'·W', k²·in]."""
        columns = self._columns(given.float().flatten(0, 1), *self.weight.shape[1:3])
        return columns.reshape(len(given), -1, columns.shape[-1])

    def _columns(self, images: Tensor, height: int, width: int) -> Tensor:
        """Lay the shifted copies of [n, H, W, in] side by side, filled up to an aligned number of columns."""
        (down, across), (skip_down, skip_across) = self.padding, self.dilation
        if down or across:
            images = F.pad(images, (0, 0, across, across, down, down))
        rows = (images.shape[1] - skip_down * (height - 1) - 1) // self.stride[0] + 1
        columns = (images.shape[2] - skip_across * (width - 1) - 1) // self.stride[1] + 1
        shifted = [
            images[:, i : i + (rows - 1) * self.stride[0] + 1 : self.stride[0]][
                :, :, j : j + (columns - 1) * self.stride[1] + 1 : self.stride[1]
            ]
            for i in range(0, height * skip_down, skip_down)
            for j in range(0, width * skip_across, skip_across)
        ]
        spare = -len(shifted) * images.shape[3] % ALIGNED
        if spare:
            shifted.append(images.new_zeros(1).expand(len(images), rows, columns, spare))
        return torch.cat(shifted, dim=3)


class StackedGroupNorm(nn.Module):
    """GroupNorm with each job's own scale and shift, and perhaps a ReLU; statistics in single precision."""

    def __init__(self, layer: nn.GroupNorm, relu: bool = False) -> None:
        super().__init__()
        self.groups, self.eps, self.relu = layer.num_groups, layer.eps, relu
        self.weight, self.bias = _one_job(layer.weight), _one_job(layer.bias)
        powers = all(number & (number - 1) == 0 for number in (layer.num_channels, layer.num_groups))
        self.kernel: Callable[..., Tensor] | None = gpu_kernels().norm if powers else None

    def forward(self, values: Tensor) -> Tensor:
        """Map [jobs·b, channels, …] to the same shape."""
        jobs, channels = self.weight.shape
        last = values.movedim(1, -1)  # channels last, as they lie in memory
        if self.kernel is not None and on_gpu(values):
            settings = (self.groups, self.eps, self.relu)
            return self.kernel(last.contiguous(), self.weight, self.bias, *settings).movedim(-1, 1)
        grouped = last.float().reshape(len(values), -1, self.groups, channels // self.groups)
        variance, mean = torch.var_mean(grouped, dim=(1, 3), correction=0, keepdim=True)
        plain = ((grouped - mean) * torch.rsqrt(variance + self.eps)).reshape(jobs, -1, channels)
        scaled = plain * self.weight[:, None] + self.bias[:, None]
        scaled = torch.relu(scaled) if self.relu else scaled
        return scaled.to(values.dtype).reshape(last.shape).movedim(-1, 1)


class PooledDropout(KeyedDropout):
    """2×2 max-pooling, and then a dropout; p = 0 for pooling alone."""

    def __init__(self, p: float = 0.0, layer: int = 0) -> None:
        super().__init__(p, layer)
        self.kernel = gpu_kernels().pool

    def forward(self, values: Tensor) -> Tensor:
        """Map [jobs·b, channels, H, W] to half as many pixels down and across."""
        if self.kernel is None or not on_gpu(values):
            return super().forward(F.max_pool2d(values, 2))
        keys = self.key if self.training and self.p > 0 else None
        last = values.permute(0, 2, 3, 1).contiguous()
        return self.kernel(last, keys, layer_offset(self.layer), self.p).permute(0, 3, 1, 2)


class StackedReLUOfSum(nn.Module):
    """The positive part of a sum; nothing in it belongs to a job."""

    def __init__(self, _layer: ReLUOfSum) -> None:
        super().__init__()
        self.kernel = gpu_kernels().relu_of_sum

    def forward(self, one: Tensor, other: Tensor) -> Tensor:
        """Add two tensors [jobs·b, channels, H, W]."""
        if self.kernel is None or not on_gpu(one):
            return torch.relu(one + other)
        one, other = (values.permute(0, 2, 3, 1).contiguous() for values in (one, other))
        return self.kernel(one, other).permute(0, 3, 1, 2)


def on_gpu(values: Tensor) -> bool:
    """Tell whether the kernels can take these values."""
    return values.is_cuda


class Kernels(NamedTuple):
    """What is written for a GPU."""

    conv: Callable[..., Tensor] | None = None
    conv_squares: Callable[..., Tensor] | None = None  # of the gradients of a convolution's weights
    norm: Callable[..., Tensor] | None = None
    pool: Callable[..., Tensor] | None = None
    relu_of_sum: Callable[..., Tensor] | None = None
    images: Callable[..., Tensor] | None = None
    update: Callable[..., None] | None = None
    turned: Callable[..., None] | None = None


NO_KERNELS = Kernels()


@lru_cache
def gpu_kernels() -> Kernels:
    """Return what is written for a GPU; nothing without a GPU, without Triton, or with FEDTEDDI_COMPILE=0."""
    if not torch.cuda.is_available() or os.environ.get("FEDTEDDI_COMPILE") == "0":
        return NO_KERNELS
    try:
        from fedteddi.learning.gpu.kernels.conv import stacked_conv, weight_squares
        from fedteddi.learning.gpu.kernels.elementwise import relu_of_sum, stepped
        from fedteddi.learning.gpu.kernels.images import gathered
        from fedteddi.learning.gpu.kernels.norm import stacked_norm
        from fedteddi.learning.gpu.kernels.pool import pooled
        from fedteddi.learning.gpu.kernels.turned import turned
    except ImportError:
        return NO_KERNELS
    return Kernels(stacked_conv, weight_squares, stacked_norm, pooled, relu_of_sum, gathered, stepped, turned)


def stacked_layout(parameter: Tensor) -> Tensor:
    """View a parameter [jobs, …] as stacked layers hold it: a convolution's weight as [jobs, down, across, in, out].

    So matrix products read it and leave its gradient; no step of training has to turn anything. Nothing else has so
    many dimensions.
    """
    return parameter.permute(0, 3, 4, 2, 1) if parameter.dim() == 5 else parameter


def _grouped(values: Tensor, width: int) -> Tensor:
    """View [n, …] as [n / width, width, …]."""
    return values.view(-1, width, *values.shape[1:])


def _one_job(values: Tensor) -> nn.Parameter:
    return nn.Parameter(stacked_layout(values.detach().clone()[None]), requires_grad=values.requires_grad)
