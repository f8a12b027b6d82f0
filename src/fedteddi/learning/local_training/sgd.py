"""SGD: the paper's local training."""

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class SGD:
    """Plain SGD with momentum: a step follows the loss's gradient."""

    def direction(self, gradient: Tensor, weights: Tensor, start: Tensor) -> Tensor:  # noqa: ARG002
        """Return ∇F_n(w)."""
        return gradient
