"""A model whose weights, and whose gradient, are one vector each."""

from functools import cached_property

import numpy as np
import torch
from torch import Tensor, nn

from fedteddi.learning.dropout import key_dropout


class FlatModel:
    """Wraps a module so that its parameters are views of `weights` and their gradients views of `gradient`.

    A model then travels as one tensor [P], an SGD step is two vector operations, and averaging is a weighted sum.
    """

    def __init__(self, module: nn.Module) -> None:
        self.module = key_dropout(module)
        self.shortcuts: bool | None = None  # whether per-layer shortcuts hold for it; None: not tried yet
        self.outputs: Tensor | None = None  # the classes it has outputs for, [C]; None: all
        parameters = list(module.parameters())
        self.weights = torch.cat([p.detach().reshape(-1) for p in parameters])
        self.gradient = torch.zeros_like(self.weights)
        self.trainable = torch.cat([torch.full((p.numel(),), p.requires_grad) for p in parameters])
        start = 0
        for p in parameters:
            span = slice(start, start + p.numel())
            p.data = self.weights[span].view_as(p)
            p.grad = self.gradient[span].view_as(p)
            start += p.numel()

    @property
    def size(self) -> int:
        """P, the number of parameters."""
        return self.weights.numel()

    @property
    def bits(self) -> float:
        """D_s: what one upload weighs, 32 bits a parameter."""
        return 32.0 * self.size

    @cached_property
    def head(self) -> slice:
        """Where the last layer's parameters lie in the vector."""
        last = sum(p.numel() for p in layers_with_parameters(self.module)[-1].parameters(recurse=False))
        return slice(self.size - last, self.size)

    def load(self, weights: Tensor, outputs: np.ndarray | None = None) -> None:
        """Take on these weights, with outputs for these classes [C] only, or for all."""
        self.weights.copy_(weights)
        self.outputs = None if outputs is None else torch.from_numpy(outputs)

    def scores(self, images: Tensor) -> Tensor:
        """Return the class scores of images, [n, C]."""
        return open_scores(self.module(images), self.outputs)

    def of_outputs(self, classes: np.ndarray) -> Tensor:
        """Return which of the weights [P] belong to the outputs of these classes [C] alone."""
        found = torch.zeros(self.size, dtype=torch.bool)
        start = self.size
        # A linear head's bias and rows; any other layer's weights serve all classes.
        for shape in reversed([p.shape for p in self.module.parameters()]):
            start -= shape.numel()
            if shape[0] != len(classes) or start < self.head.start:
                break
            rows = torch.from_numpy(classes).repeat_interleave(shape.numel() // shape[0])
            found[start : start + shape.numel()] = rows
        return found

    def loss_gradient(self, images: Tensor, labels: Tensor) -> tuple[float, Tensor]:
        """Return the mean loss on a batch and its gradient [P] (a view: use it before the next call)."""
        self.gradient.zero_()
        loss = nn.functional.cross_entropy(self.scores(images), labels)
        loss.backward()  # type: ignore[no-untyped-call]
        return float(loss.detach()), self.gradient


def open_scores(scores: Tensor, outputs: Tensor | None) -> Tensor:
    """Close the outputs [..., C] that a model does not have yet: their share is 0, and so is their gradient."""
    return scores if outputs is None else scores.masked_fill(~outputs, -torch.inf)


def layers_with_parameters(module: nn.Module) -> list[nn.Module]:
    """Return the layers that have parameters themselves, not only in their parts."""
    return [layer for layer in module.modules() if any(True for _ in layer.parameters(recurse=False))]


def only_common_layers(module: nn.Module) -> bool:
    """Tell whether all parameters are those of Linear, Conv2d and GroupNorm layers as usual, each with its own."""
    layers = layers_with_parameters(module)
    parameters = [p for layer in layers for p in layer.parameters(recurse=False)]
    return all(map(_is_common, layers)) and len({id(p) for p in parameters}) == len(parameters)


def _is_common(layer: nn.Module) -> bool:
    if type(layer) is nn.Conv2d:
        return layer.groups == 1 and layer.padding_mode == "zeros" and not isinstance(layer.padding, str)
    return type(layer) in (nn.Linear, nn.GroupNorm)
