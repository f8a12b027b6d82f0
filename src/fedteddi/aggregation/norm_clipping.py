"""Norm clipping: no update is longer than those of the others are.

Sun, Kairouz, Suresh, McMahan 2019 (arXiv:1911.07963) clip at a fixed norm. Ours follows the norms that arrive, as the
quantiles of Andrew, Thakkar, McMahan, Ramaswamy (NeurIPS 2021, arXiv:1905.03871) do, without their noise.
"""

import math
from dataclasses import dataclass

from fedteddi.aggregation.rule import Received, Vector
from fedteddi.errors import check_number


def vector_norm(vector: Vector) -> float:
    """Return ‖v‖₂ of finite numbers, however large they are; infinity where they are not finite."""
    peak = float(abs(vector).max()) if len(vector) else 0.0
    if peak == 0.0 or not math.isfinite(peak):
        return 0.0 if peak == 0.0 else math.inf
    scaled = vector / peak
    return peak * math.sqrt(float((scaled * scaled).sum()))


def lower_median(values: list[float]) -> float:
    """Return the middle value, of an even number the lower one: half of them cannot push it up."""
    return sorted(values)[(len(values) - 1) // 2]


FEW = 3  # of fewer uploads, most may be hostile though few clients are
FIRST = 0.1  # of ‖w_0‖, which stands for a median before the first round
GROWTH = 2.0  # of the bound, after a round of few uploads


@dataclass(frozen=True, kw_only=True)
class NormClipping:
    """w_k = w_{k−1} + Σ α_n min(1, c m_k / ‖Δ_n‖) Δ_n with Δ_n = w_n − w_{k−1}: no update is longer than c m_k.

    m_k is the lower median of the round's ‖Δ_n‖. Of fewer than three uploads, the medians of the last `window` rounds
    count beside them, which are its state; it begins with 0.1 ‖w_0‖, and a round of so few adds at most 2 c m_k.
    """

    factor: float = 1.0  # c
    window: int = 9  # rounds

    def __post_init__(self) -> None:
        check_number("factor", self.factor, above=0.0, at_most=1e6)
        check_number("window", self.window, at_least=1, at_most=10**6, whole=True)

    def initial_state(self, model: Vector) -> list[float]:
        """Return the medians before the first round."""
        first = FIRST * vector_norm(model)
        return [first] if 0.0 < first < math.inf else []

    def aggregate(self, received: Received, medians: list[float]) -> tuple[Vector, list[float]]:
        """Return w_k, and the last rounds' medians."""
        updates = [upload - received.model for upload in received.uploads]
        norms = [vector_norm(update) for update in updates]
        few, seen = len(norms) < FEW, lower_median(norms)
        most = self.factor * (lower_median(norms + medians) if few else seen)
        after = received.model * 1.0
        for update, norm, share in zip(updates, norms, received.shares.tolist(), strict=True):
            if math.isfinite(norm):  # else it is so far from the model that the difference overflows
                after = after + update * (share * (min(1.0, most / norm) if norm > 0.0 else 0.0))
        seen = min(seen, GROWTH * most) if few else seen
        return after, [*medians, *([seen] if math.isfinite(seen) else [])][-self.window :]
