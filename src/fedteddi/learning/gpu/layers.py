"""Layers that hold the weights of many jobs at once, [jobs, …], and take the images of all jobs as one long batch.

The rows of a batch belong to the jobs in turn. Layers without weights (ReLU, pooling, Flatten) need not know; so a
model is stacked by replacing its layers with weights by these. A convolution is one batched matrix product over shifted
copies of the images; on a GPU, kernels of our own do without the copies (kernels/conv.py, kernels/norm.py).
"""

import copy
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from fedteddi.learning.dropout import KeyedDropout
from fedteddi.learning.flat import only_common_layers
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
        weight = self.weight.to(values.dtype).transpose(1, 2)
        found = torch.bmm(rows, weight)
        if self.bias is not None:
            found = found + self.bias.to(values.dtype)[:, None]
        return found.reshape(*values.shape[:-1], outputs)

    def sample_squares(self, values: Tensor, back: Tensor) -> Tensor:
        """Return ‖g_i‖² of what is trained here, from what went in, [n, …, in], and the gradient of what came out."""
        given, back = (v.reshape(len(v), -1, v.shape[-1]).float() for v in (values, back))
        total = torch.zeros(len(values), dtype=torch.float64, device=values.device)
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
        self.kernel, self.weight_kernel = kernels.conv, kernels.conv_weight

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

    def sample_squares(self, images: Tensor, back: Tensor) -> Tensor:
        """Return ‖g_i‖² of what is trained here, from what went in, [n, in, …], and the gradient of what came out."""
        given, back = images.permute(0, 2, 3, 1), back.permute(0, 2, 3, 1)
        total = torch.zeros(len(images), dtype=torch.float64, device=images.device)
        if self.weight.requires_grad:
            positions = back.shape[1] * back.shape[2]
            inputs, outputs = self.weight[0, ..., 0].numel(), self.weight.shape[4]
            if grams_cost_less(positions, inputs, outputs):
                total += in_slices(self._gram_squares, given, back, positions * inputs)
            else:
                total += in_slices(self._product_squares, given, back, max(positions, outputs) * inputs)
        if self.bias is not None and self.bias.requires_grad:
            total += squares(back.sum(dim=(1, 2), dtype=torch.float32))
        return total

    def _gram_squares(self, given: Tensor, back: Tensor) -> Tensor:
        columns = self._columns(given.float(), *self.weight.shape[1:3])
        return gram_squares(columns.flatten(1, 2), back.float().flatten(1, 2))

    def _product_squares(self, given: Tensor, back: Tensor) -> Tensor:
        height, width = self.weight.shape[1:3]
        if self.weight_kernel is not None and on_gpu(given):
            geometry = (height, width, self.stride[0], self.padding[0])
            # To this kernel each image is a job.
            return squares(self.weight_kernel(given.contiguous(), back.contiguous(), len(given), *geometry))
        columns = self._columns(given.float(), height, width)
        return product_squares(columns.flatten(1, 2), back.float().flatten(1, 2))

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


def on_gpu(values: Tensor) -> bool:
    """Tell whether the kernels can take these values."""
    return values.is_cuda


class Kernels(NamedTuple):
    """What is written for a GPU: a convolution, the gradient of its weights, a norm."""

    conv: Callable[..., Tensor] | None
    conv_weight: Callable[..., Tensor] | None
    norm: Callable[..., Tensor] | None


NO_KERNELS = Kernels(None, None, None)


@lru_cache
def gpu_kernels() -> Kernels:
    """Return the layers that are written for a GPU; none without a GPU, or without Triton."""
    if not torch.cuda.is_available():
        return NO_KERNELS
    try:
        from fedteddi.learning.gpu.kernels.conv import stacked_conv, weight_gradient
        from fedteddi.learning.gpu.kernels.norm import stacked_norm
    except ImportError:
        return NO_KERNELS
    return Kernels(stacked_conv, weight_gradient, stacked_norm)


STACKED: dict[type[nn.Module], Callable[..., nn.Module]] = {
    nn.Linear: StackedLinear,
    nn.Conv2d: StackedConv2d,
    nn.GroupNorm: StackedGroupNorm,
}


def stacked_copy(module: nn.Module) -> nn.Module | None:
    """Return a copy with stacked layers under the same parameter names; None if some layer has no stacked form."""
    if not only_common_layers(module):
        return None
    if type(module) in STACKED:
        return STACKED[type(module)](module)
    made = copy.deepcopy(module)
    for parent in list(made.modules()):
        if getattr(parent, "inplace", False):
            # It would overwrite what came out of a layer, of which gradient_variance.py wants the gradient.
            parent.inplace = False  # type: ignore[assignment]
        children = list(parent.named_children())
        for index, (name, child) in enumerate(children):
            after = children[index + 1] if index + 1 < len(children) else ("", parent)
            if type(child) is nn.GroupNorm and type(parent) is nn.Sequential and type(after[1]) is nn.ReLU:
                setattr(parent, name, StackedGroupNorm(child, relu=True))
                setattr(parent, after[0], nn.Identity())
            elif type(child) in STACKED:
                setattr(parent, name, STACKED[type(child)](child))
    return made


def stacked_layout(parameter: Tensor) -> Tensor:
    """View a parameter [jobs, …] as stacked layers hold it: a convolution's weight as [jobs, down, across, in, out].

    So matrix products read it and leave its gradient; no step of training has to turn anything. Nothing else has so
    many dimensions.
    """
    return parameter.permute(0, 3, 4, 2, 1) if parameter.dim() == 5 else parameter


def dropout_keys(module: nn.Module) -> list[str]:
    """Return the names under which a module's dropout layers take their keys."""
    return [f"{name}.key" for name, layer in module.named_modules() if isinstance(layer, KeyedDropout)]


def _one_job(values: Tensor) -> nn.Parameter:
    return nn.Parameter(stacked_layout(values.detach().clone()[None]), requires_grad=values.requires_grad)
