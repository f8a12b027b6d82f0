"""How long every image's own gradient of a layer is, from what went into the layer, A, and the gradient Δ of what came
out: one row of each for every position where the layer's weights were used. The gradients themselves are products, AᵀΔ.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import torch
from torch import Tensor, nn

BYTES_AT_ONCE = 2**29  # what the products of one layer may take while they are looked at


class Watch(Protocol):
    """Adds up the squares of layers."""

    unsupported: bool  # whether a layer was used in a way that has no shortcut

    def add(self, layer: Any, given: Tensor, back: Tensor) -> None:
        """Add a layer's part, from what went in and the gradient of what came out."""


@contextmanager
def watching(layers: Iterable[nn.Module], images: int, found: Watch) -> Iterator[None]:
    """While active, see what enters each layer; its part is added as gradients of so many images flow back."""
    called: set[nn.Module] = set()

    def watch(layer: nn.Module, given: tuple[Tensor, ...], result: Any) -> None:
        # A row must be all that an image gives the layer. Of a layer that is used twice, an image's gradient is the
        # sum over the uses: a sum of products, not one.
        if layer in called or len(given) != 1 or len(given[0]) != images:
            found.unsupported = True
            return
        called.add(layer)
        entered = given[0].detach()
        result.register_hook(lambda back: found.add(layer, entered, back))

    hooks = [layer.register_forward_hook(watch) for layer in layers]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def squares(values: Tensor) -> Tensor:
    """Return ‖v_i‖² of [n, …]: [n], in double precision, because differences of such sums are wanted.

    Sums are added up in pairs; `vector_norm` adds one number after another, and loses four digits of a long row.
    """
    return values.square().sum(dim=tuple(range(1, values.dim()))).double()


def outer_squares(given: Tensor, back: Tensor) -> Tensor:
    """Return ‖a_i δ_iᵀ‖² = ‖a_i‖² ‖δ_i‖² of [n, in] and [n, out]: [n]."""
    return back.double().square().sum(dim=1) * given.double().square().sum(dim=1)


def product_squares(given: Tensor, back: Tensor) -> Tensor:
    """Return ‖A_iᵀΔ_i‖² of [n, L, in] and [n, L, out]: [n], from the products themselves."""
    return squares(torch.bmm(given.mT, back))


def gram_squares(given: Tensor, back: Tensor) -> Tensor:
    """Return ‖A_iᵀΔ_i‖² = Σ (A_i A_iᵀ) ∘ (Δ_i Δ_iᵀ) of [n, L, in] and [n, L, out]: [n]."""
    both = torch.bmm(given, given.mT) * torch.bmm(back, back.mT)
    return both.sum(dim=(1, 2), dtype=torch.float64)


def grams_cost_less(positions: int, inputs: int, outputs: int) -> bool:
    """Compare L² (in + out) with L·in·out multiplications. If less, then L² < in·out / 4 too, so also less to hold."""
    return positions * (inputs + outputs) < inputs * outputs


def in_slices(
    work: Callable[[Tensor, Tensor], Tensor], given: Tensor, back: Tensor, values_each: int
) -> Tensor:
    """Do the work on some images at a time, each of which makes it hold so many values: [n]."""
    some = max(1, BYTES_AT_ONCE // (4 * values_each))
    parts = zip(torch.split(given, some), torch.split(back, some), strict=True)
    return torch.cat([work(*part) for part in parts])
