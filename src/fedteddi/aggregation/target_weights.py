"""Target weights: the uploads' average whose class mix comes closest to a target. Ours, not the paper's."""

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from fedteddi.aggregation.fedavg import weighted_sum
from fedteddi.aggregation.rule import Received, Vector
from fedteddi.aggregation.solved_weights import solved_weights
from fedteddi.errors import InputError, check_choice, check_number
from fedteddi.heterogeneity.target import MovingTarget

Mixes = Literal["batch", "data"]


@dataclass(frozen=True, kw_only=True)
class TargetWeights(MovingTarget):
    """w_k = Σ ω_n w_n, with ω ≥ 0, Σ ω = 1 of lowest ‖Σ ω_n p_n − t_k‖² + ν²‖ω‖².

    t_k moves from equal shares of the classes seen towards everyone's mix, as fedteddi-plus's does; ν²‖ω‖² stands for
    the sampling variance that unequal weights cost.
    """

    size_weight: float = 0.3  # ν
    mixes: Mixes = "batch"  # p_n: of the round's batches, or of all that a client holds

    def __post_init__(self) -> None:
        super().__post_init__()
        # Below, the weights of clients with like mixes would be a matter of rounding.
        check_number("size_weight", self.size_weight, at_least=1e-3, at_most=1e100)
        check_choice("mixes", self.mixes, get_args(Mixes))

    def weights(self, received: Received) -> np.ndarray:
        """Return ω, [n]; `server.max_sample_share` bounds every one of them."""
        batch = self.mixes == "batch"
        mix = received.batch_mix if batch else received.data_mix
        everyone = received.everyone_batch_mix if batch else received.everyone_data_mix
        seen, rounds = received.classes_seen, received.rounds_in_frame
        if mix is None or everyone is None or seen is None or rounds is None:
            raise InputError(
                f"target-weights needs to know {self.mixes}_mix, everyone_{self.mixes}_mix, classes_seen and"
                " rounds_in_frame: give all four to Received"
            )
        target = self.target_mix(everyone, seen, received.round, rounds)  # [C]
        return solved_weights(mix, target, self.size_weight, received.max_sample_share)

    def aggregate(self, received: Received) -> Vector:
        """Return Σ ω_n w_n."""
        return weighted_sum(received.uploads, self.weights(received))
