"""FedAvgM: server momentum (Hsu, Qi, Brown 2019, arXiv:1909.06335)."""

from dataclasses import dataclass

from fedteddi.aggregation.fedavg import weighted_sum
from fedteddi.aggregation.rule import Received, Vector
from fedteddi.errors import check_number


@dataclass(frozen=True, kw_only=True)
class FedAvgM:
    """Server momentum: v ← β v + (w_{k−1} − Σ α_n w_n), w_k = w_{k−1} − η v; its state is v."""

    server_momentum: float = 0.9  # β
    server_learning_rate: float = 1.0  # η; 1 in the paper

    def __post_init__(self) -> None:
        check_number("server_momentum", self.server_momentum, at_least=0.0, below=1.0)
        check_number("server_learning_rate", self.server_learning_rate, above=0.0)

    def initial_state(self, model: Vector) -> Vector:
        """Return the velocity before the first round: 0, [P]."""
        return model * 0.0

    def aggregate(self, received: Received, velocity: Vector) -> tuple[Vector, Vector]:
        """Return w_k and v."""
        step = received.model - weighted_sum(received.uploads, received.shares)  # Δ, the pseudo-gradient, [P]
        velocity = velocity * self.server_momentum + step  # [P]
        return received.model - velocity * self.server_learning_rate, velocity
