"""How far the gradients of a job's images are spread: 1/(b−1) Σ_i ‖g_i − ḡ‖² of many jobs at once (docs/paper.md D5).

By layer: Σ‖g_i − ḡ‖² = Σ‖g_i‖² − b‖ḡ‖². One backward pass of all images gives ḡ, and on its way each stacked layer adds
its part of ‖g_i‖² (sample_norms.py). By image: every image becomes a job with weights of its own, whatever the model is
made of; that costs as much memory as so many models.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from fedteddi.learning.gpu.layers import StackedConv2d, StackedGroupNorm, StackedLinear
from fedteddi.learning.sample_norms import squares, watching

Params = tuple[Tensor, ...]
Losses = Callable[[Params], Tensor]  # the loss of every image, [jobs·b], of stacked parameters


@dataclass
class ImageSquares:
    """‖g_i‖² of every image, added up over layers."""

    squares: Tensor
    unsupported: bool = False

    def add(self, layer: StackedConv2d | StackedLinear, given: Tensor, back: Tensor) -> None:
        """Add a layer's part, from what went in and the gradient of what came out."""
        self.squares += layer.sample_squares(given, back)


def image_squares(
    losses: Losses, params: Params, stacked: nn.Module, names: list[str], width: int
) -> tuple[Tensor, Tensor, Tensor] | None:
    """Return ‖g_i‖² [jobs·b], ‖Σ_i g_i‖² [jobs] and the losses [jobs·b], by layer; None if a layer is used twice.

    Norms get a copy of their few weights for every image, so that the backward pass itself brings their g_i.
    """
    jobs = len(params[0])
    owners = [stacked.get_submodule(name.rpartition(".")[0]) for name in names]
    trained = [stacked.get_parameter(name).requires_grad for name in names]
    copied = [isinstance(owner, StackedGroupNorm) for owner in owners]
    own = (p.repeat_interleave(width, dim=0) if each else p for each, p in zip(copied, params, strict=True))
    every = leaves(tuple(own), trained)
    found = ImageSquares(torch.zeros(jobs * width, dtype=torch.float64, device=params[0].device))
    products = [
        layer
        for layer in stacked.modules()
        if isinstance(layer, StackedConv2d | StackedLinear)
        and any(p.requires_grad for p in layer.parameters())
    ]
    with torch.enable_grad(), watching(products, jobs * width, found):
        each_loss = losses(every)
        total_loss = each_loss.sum()
    if found.unsupported:
        return None
    gradients = torch.autograd.grad(total_loss, [p for p in every if p.requires_grad])
    of_sum = torch.zeros(jobs, dtype=torch.float64, device=params[0].device)
    for each, g in zip([c for c, t in zip(copied, trained, strict=True) if t], gradients, strict=True):
        if each:
            found.squares += squares(g)
        of_sum += squares(g.reshape(jobs, width, -1).sum(dim=1) if each else g)
    return found.squares, of_sum, each_loss.detach()


def variance_by_layer(
    losses: Losses, params: Params, stacked: nn.Module, names: list[str], width: int
) -> tuple[Tensor, Tensor] | None:
    """Return 1/(b−1) (Σ_i ‖g_i‖² − ‖Σ_i g_i‖² / b) and the mean loss of every job, [jobs] each; None as above."""
    found = image_squares(losses, params, stacked, names, width)
    if found is None:
        return None
    of_images, of_sum, each = found
    spread = of_images.view(-1, width).sum(dim=1) - of_sum / width
    return spread.clamp(min=0).float() / (width - 1), each.view(-1, width).mean(dim=1)


def image_gradients(
    losses: Losses, params: Params, trained: list[bool], width: int
) -> tuple[list[Tensor], Tensor]:
    """Return g_i, [jobs·b, …] of each trained parameter, and the losses [jobs·b]: each image is a job of its own."""
    every = leaves(tuple(p.repeat_interleave(width, dim=0) for p in params), trained)
    with torch.enable_grad():
        each = losses(every)
        total = each.sum()
    return list(torch.autograd.grad(total, [p for p in every if p.requires_grad])), each.detach()


def variance_by_image(
    losses: Losses, params: Params, trained: list[bool], width: int
) -> tuple[Tensor, Tensor]:
    """Return 1/(b−1) Σ_i ‖g_i − ḡ‖² and the mean loss of every job, [jobs] each."""
    gradients, each = image_gradients(losses, params, trained, width)
    total = torch.zeros(len(params[0]), device=params[0].device)
    for g in gradients:
        rows = g.reshape(len(total), width, -1)
        total += (rows - rows.mean(dim=1, keepdim=True)).square().sum(dim=(1, 2))
    return total / (width - 1), each.view(-1, width).mean(dim=1)


def leaves(params: Params, trained: list[bool]) -> Params:
    """Return the parameters as starting points of gradients, the frozen ones without."""
    return tuple(p.detach().requires_grad_(t) for t, p in zip(trained, params, strict=True))
