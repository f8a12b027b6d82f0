"""FedProx (Li, Sahu, Zaheer, Sanjabi, Talwalkar, Smith, MLSys 2020, arXiv:1812.06127)."""

from dataclasses import dataclass

from torch import Tensor

from fedteddi.errors import check_number


@dataclass(frozen=True, kw_only=True)
class FedProx:
    """SGD on F_n(w) + μ/2 ‖w − w_{k−1}‖²: the proximal term keeps clients near the global model."""

    mu: float = 0.01  # μ; Li et al. try 0.001 to 1

    def __post_init__(self) -> None:
        check_number("mu", self.mu, at_least=0)

    def direction(self, gradient: Tensor, weights: Tensor, start: Tensor) -> Tensor:
        """Return ∇F_n(w) + μ (w − w_{k−1})."""
        return gradient + self.mu * (weights - start)
