"""P3 over subsets of the schedulable clients, in the form in which adding a client is cheap to try.

With A_cn = L^(c) D_n (p_n^(c) − target^(c)) every set's utility is a quotient of sums over its members,

    U(S) = (Σ_c |Σ_{n∈S} A_cn| − λ_k Σ_{n∈S} D_n drift_n) / Σ_{n∈S} D_n,

so U(S ∪ n) for all n costs one pass over A, whatever the size of S. With the Euclidean distance, √Σ_c (Σ_n A_cn)² takes
the place of Σ_c |Σ_n A_cn|.
"""

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from fedteddi.heterogeneity.divergence import Distance
from fedteddi.heterogeneity.objective import Objective

# Columns of A worked on at once: 1 MiB of scratch stays in the cache. docs/scale.md has the measurement.
BLOCK_ELEMENTS = 2**17


@dataclass(frozen=True, kw_only=True)
class SetSums:
    """The sums over a set's members that its utility is made of."""

    size: int
    samples: float  # Σ D_n
    pull: np.ndarray  # Σ A_cn, [C]
    incentive: float  # λ_k Σ D_n drift_n


@dataclass(frozen=True, kw_only=True)
class SearchProblem:
    """The candidates of one round; indices below are positions among them, not client numbers."""

    clients: np.ndarray  # client numbers, [M]
    needed_hz: np.ndarray  # B*_n, [M]
    total_hz: float
    samples: np.ndarray  # D_n, [M]
    pull: np.ndarray  # A, [C, M]
    incentive: np.ndarray  # λ_k D_n drift_n, [M]
    one_client_variance: float  # σ/√b
    distance: Distance = "absolute"
    all_samples: float | None = None  # Σ D_n over all clients, if the drift term is shared over them (D3)

    @classmethod
    def build(
        cls, objective: Objective, *, clients: np.ndarray, needed_hz: np.ndarray, total_hz: float
    ) -> "SearchProblem":
        """Prepare the search among `clients` [M]; `needed_hz` [N] is over all clients of the round."""
        samples = objective.num_samples[clients].astype(np.float64)
        pull = np.empty((len(objective.class_norm), len(clients)))
        for block in blocks(len(clients), len(objective.class_norm)):
            deviation = objective.batch_mix[clients[block]] - objective.target_mix  # [m, C]
            pull[:, block] = (deviation * samples[block, None]).T * objective.class_norm[:, None]
        return cls(
            clients=clients,
            needed_hz=needed_hz[clients],
            total_hz=total_hz,
            samples=samples,
            pull=pull,
            incentive=objective.drift_weight * samples * objective.drift[clients],
            one_client_variance=objective.gradient_std / math.sqrt(objective.batch_size),
            distance=objective.distance,
            all_samples=None if objective.drift_share == "set" else objective.drift_samples(0.0),
        )

    @cached_property
    def by_need(self) -> tuple[np.ndarray, "SearchProblem"]:
        """The candidates by rising B*, [M], and the problem in that order: who fits in a band comes first."""
        order = np.argsort(self.needed_hz, kind="stable")
        return order, self.only(order)

    def only(self, keep: np.ndarray | slice) -> "SearchProblem":
        """Return the same problem with fewer candidates, or with the same in another order."""
        return replace(
            self,
            clients=self.clients[keep],
            needed_hz=self.needed_hz[keep],
            samples=self.samples[keep],
            pull=self.pull[:, keep],
            incentive=self.incentive[keep],
        )

    def sums(self, members: np.ndarray) -> SetSums:
        """Return the sums over a set from scratch, so that no rounding piles up."""
        return SetSums(
            size=len(members),
            samples=float(self.samples[members].sum()),
            pull=self.pull[:, members].sum(axis=1),
            incentive=float(self.incentive[members].sum()),
        )

    def with_member(self, sums: SetSums, member: int) -> SetSums:
        """Return the sums after one more client has joined."""
        return SetSums(
            size=sums.size + 1,
            samples=sums.samples + float(self.samples[member]),
            pull=sums.pull + self.pull[:, member],
            incentive=sums.incentive + float(self.incentive[member]),
        )

    def fits(self, members: np.ndarray) -> bool:
        """Tell whether a set fits the band."""
        return float(self.needed_hz[members].sum()) <= self.total_hz

    def variance(self, size: int) -> float:
        """σ/√(|S| b)."""
        return self.one_client_variance / math.sqrt(size)

    def total(self, sums: SetSums) -> float:
        """P3(S); the empty set is worse than any other (docs/paper.md D2)."""
        if sums.size == 0:
            return math.inf
        divergence = float(size_of(sums.pull.copy(), self.distance))
        return self.variance(sums.size) + float(self.utility(divergence, sums.incentive, sums.samples))

    def utility_with_each(self, sums: SetSums) -> np.ndarray:
        """Return U(S ∪ n) for every candidate n at once, [M]; members of S come out meaningless."""
        classes, count = self.pull.shape
        pull = sums.pull[:, None]
        if count <= block_width(classes):
            divergence = size_of(np.add(self.pull, pull, order="C"), self.distance)
        else:
            divergence, scratch = np.empty(count), np.empty((classes, block_width(classes)))
            for block in blocks(count, classes):
                part = scratch[:, : block.stop - block.start]
                np.add(self.pull[:, block], pull, out=part)
                divergence[block] = size_of(part, self.distance)
        return self.utility(divergence, sums.incentive + self.incentive, sums.samples + self.samples)

    def utility(
        self, divergence: np.ndarray | float, incentive: np.ndarray | float, samples: np.ndarray | float
    ) -> np.ndarray:
        """Return U of sets from their sums: Σ_c |Σ A_cn|, λ_k Σ D_n drift_n and Σ D_n."""
        if self.all_samples is None:
            return np.asarray((divergence - incentive) / samples)
        return np.asarray(divergence / samples - incentive / self.all_samples)


def size_of(pull: np.ndarray, distance: Distance) -> np.ndarray:
    """Return Σ_c |pull_c| or √Σ_c pull_c² of [C, …]; `pull` is overwritten."""
    if distance == "absolute":
        np.abs(pull, out=pull)
        return np.asarray(np.add.reduce(pull, axis=0))
    np.square(pull, out=pull)
    return np.asarray(np.sqrt(np.add.reduce(pull, axis=0)))


def block_width(classes: int) -> int:
    """How many candidates are worked on at once."""
    return max(256, BLOCK_ELEMENTS // classes)


def blocks(count: int, classes: int) -> list[slice]:
    """Cut `count` candidates into slices that fit the cache."""
    width = block_width(classes)
    return [slice(start, min(start + width, count)) for start in range(0, count, width)]
