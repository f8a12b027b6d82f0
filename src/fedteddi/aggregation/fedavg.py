"""FedAvg: the weighted average, the paper's rule."""

from dataclasses import dataclass

import numpy as np

from fedteddi.aggregation.rule import Received, Vector


def weighted_sum(vectors: tuple[Vector, ...] | list[Vector], shares: np.ndarray) -> Vector:
    """Return Σ α_n w_n, [P]."""
    total = vectors[0] * float(shares[0])
    for vector, share in zip(vectors[1:], shares[1:], strict=True):
        total += vector * float(share)
    return total


@dataclass(frozen=True, kw_only=True)
class FedAvg:
    """w_k = Σ α_n(S) w_n: the uploads' average, weighted by the clients' samples."""

    def aggregate(self, received: Received) -> Vector:
        """Return Σ α_n w_n."""
        return weighted_sum(received.uploads, received.shares)
