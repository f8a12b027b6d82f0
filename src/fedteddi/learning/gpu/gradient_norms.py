"""Norms of gradients of many groups of images at once: ‖Σ_i g_i‖² and Σ_i ‖g_i‖² of each group, from one backward pass.

By layer: what went into a layer and the gradient of what came out say all about its weights' gradients, so the pass
brings those of the values only, and each stacked layer adds its part on the way (sample_norms.py). By image: every
image becomes a job with weights of its own, whatever the model is made of; that costs the memory of so many models.
The variance 1/(b−1) Σ_i ‖g_i − ḡ‖² (docs/paper.md D5) follows from Σ‖g_i − ḡ‖² = Σ‖g_i‖² − ‖Σ g_i‖²/b.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from fedteddi.learning.gpu.layers import StackedConv2d, StackedGroupNorm, StackedLinear
from fedteddi.learning.sample_norms import squares, watching

Params = tuple[Tensor, ...]
Losses = Callable[
    [Params, Tensor], Tensor
]  # the loss of every image, [n], of stacked parameters and the images


@dataclass
class Squares:
    """Squared norms of n images' gradients in groups of `width`, added up over layers."""

    images: int
    width: int
    each: bool  # whether those of single images are wanted, too
    device: torch.device
    unsupported: bool = False
    of_images: Tensor = field(init=False)  # ‖g_i‖², [n]
    of_sums: Tensor = field(init=False)  # ‖Σ_i g_i‖² of every group

    def __post_init__(self) -> None:
        self.of_images = torch.zeros(self.images, dtype=torch.float64, device=self.device)
        self.of_sums = torch.zeros(self.images // self.width, dtype=torch.float64, device=self.device)

    def add(self, layer: StackedConv2d | StackedLinear, given: Tensor, back: Tensor) -> None:
        """Add a layer's part, from what went in and the gradient of what came out."""
        self.of_sums += layer.group_squares(given, back, self.width)
        if self.each:
            self.of_images += layer.group_squares(given, back, 1)

    def add_gradients(self, gradients: Tensor) -> None:
        """Add the part of a parameter whose gradient is there for every image, [n, …]."""
        self.of_sums += squares(gradients.reshape(len(self.of_sums), self.width, -1).sum(dim=1))
        if self.each:
            self.of_images += squares(gradients)


def gradient_squares(
    losses: Losses,
    params: Params,
    images: Tensor,
    stacked: nn.Module,
    names: list[str],
    width: int,
    *,
    each: bool,
) -> tuple[Squares, Tensor]:
    """Return the squared norms of the images' gradients and the losses [n]; unsupported if a layer is used twice.

    Norms get a copy of their few weights for every image, so that the backward pass itself brings their g_i.
    """
    found = Squares(len(images), width, each, images.device)
    owners = [stacked.get_submodule(name.rpartition(".")[0]) for name in names]
    trained = [stacked.get_parameter(name).requires_grad for name in names]
    own = []
    for owner, p, wanted in zip(owners, params, trained, strict=True):
        copied = isinstance(owner, StackedGroupNorm)
        p = p.detach().repeat_interleave(len(images) // len(p), dim=0) if copied else p.detach()
        own.append(p.requires_grad_(copied and wanted))
    products = [
        layer
        for layer in stacked.modules()
        if isinstance(layer, StackedConv2d | StackedLinear)
        and any(p.requires_grad for p in layer.parameters())
    ]
    images = images.detach().requires_grad_()  # or nothing would flow back
    with torch.enable_grad(), watching(products, len(images), found):
        each_loss = losses(tuple(own), images)
        total = each_loss.sum()
    if not found.unsupported:
        copies = [p for p in own if p.requires_grad]
        for g in torch.autograd.grad(total, [*copies, images])[: len(copies)]:
            found.add_gradients(g)
    return found, each_loss.detach()


def image_gradients(
    losses: Losses, params: Params, images: Tensor, trained: list[bool]
) -> tuple[list[Tensor], Tensor]:
    """Return g_i, [n, …] of each trained parameter, and the losses [n]: each image is a job of its own."""
    own = tuple(p.repeat_interleave(len(images) // len(p), dim=0) for p in params)
    every = leaves(own, trained)
    with torch.enable_grad():
        each = losses(every, images)
        total = each.sum()
    return list(torch.autograd.grad(total, [p for p in every if p.requires_grad])), each.detach()


def squares_by_image(
    losses: Losses, params: Params, images: Tensor, trained: list[bool], width: int
) -> tuple[Squares, Tensor]:
    """Return the same as `gradient_squares`, from the gradients themselves."""
    gradients, each = image_gradients(losses, params, images, trained)
    found = Squares(len(images), width, True, images.device)
    for g in gradients:
        found.add_gradients(g)
    return found, each


def leaves(params: Params, trained: list[bool]) -> Params:
    """Return the parameters as starting points of gradients, the frozen ones without."""
    return tuple(p.detach().requires_grad_(t) for t, p in zip(trained, params, strict=True))
