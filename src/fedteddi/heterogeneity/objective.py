"""P3, the objective of one round: sampling variance + collective divergence − λ_k × drift of the set."""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from fedteddi.heterogeneity.divergence import Distance, collective_divergence, euclidean_divergence
from fedteddi.heterogeneity.mixes import pooled_mix


def sampling_variance(gradient_std: float, set_size: int, batch_size: int) -> float:
    """Return σ/√(|S| b); the empty set has none to give (docs/paper.md D2)."""
    return gradient_std / math.sqrt(set_size * batch_size)


def drift_weight(lambda0: float, round: int, rounds_in_frame: int) -> float:
    """Return λ_k = λ0 (1 − k/K_l): λ0 before the first round, 0 in the last (docs/paper.md D8)."""
    return lambda0 * (1.0 - round / rounds_in_frame)


@dataclass(frozen=True, kw_only=True)
class ObjectiveTerms:
    """The three terms of P3 for one set, and the weight of the last."""

    variance: float
    divergence: float
    drift: float
    drift_weight: float

    @property
    def utility(self) -> float:
        """U(S) = divergence − λ_k × drift: all that tells two sets of equal size apart."""
        return self.divergence - self.drift_weight * self.drift

    @property
    def total(self) -> float:
        """P3(S) = variance + U(S)."""
        return self.variance + self.utility


@dataclass(frozen=True, kw_only=True, eq=False)
class Objective:
    """P3 of one round: everything it depends on but the set."""

    num_samples: np.ndarray  # D_n, [N]
    batch_mix: np.ndarray  # the round's batch histograms, or the data-set mixes (docs/paper.md D4), [N, C]
    drift: np.ndarray  # drift_n, from the data-set mixes (D4), [N]
    target_mix: np.ndarray  # what the set should look like, [C]
    class_norm: np.ndarray  # L^(c), [C]
    gradient_std: float  # σ
    batch_size: int  # b
    drift_weight: float  # λ_k
    distance: Distance = "absolute"  # of the set's mix from the target; the paper's is absolute
    drift_share: Literal["set", "all"] = "set"  # over whom α adds up to 1 in the drift term (D3)

    def drift_samples(self, set_samples: float) -> float:
        """Return what D_n is divided by in the drift term: the samples of the set, or of all clients (D3)."""
        return set_samples if self.drift_share == "set" else float(self.num_samples.sum())

    def divergence(self, set_mix: np.ndarray) -> float:
        """Return how far a set's mix [C] is from the target."""
        how = collective_divergence if self.distance == "absolute" else euclidean_divergence
        return how(set_mix, self.target_mix, self.class_norm)

    def terms(self, clients: ArrayLike) -> ObjectiveTerms:
        """Return the terms for one set of client indices, at least one; α is renormalised over it (D3)."""
        members = np.asarray(clients, dtype=np.intp)
        held = self.num_samples[members]
        set_mix = pooled_mix(held, self.batch_mix[members])  # [C]
        return ObjectiveTerms(
            variance=sampling_variance(self.gradient_std, len(members), self.batch_size),
            divergence=self.divergence(set_mix),
            drift=float(held @ self.drift[members]) / self.drift_samples(float(held.sum())),  # [n] @ [n]
            drift_weight=self.drift_weight,
        )
