"""Who uploads, and with which band, read plainly from the specification: (17), P3, the greedy search, two baselines."""

import math
from dataclasses import dataclass

import numpy as np

from fedteddi.settings import RadioSettings


def share(samples: list[int]) -> np.ndarray:
    """α_n = D_n / Σ D_m."""
    return np.array(samples) / sum(samples)


def watts(dbm: float) -> float:
    """0 dBm is a milliwatt."""
    return float(1e-3 * 10 ** (dbm / 10))


def needed_hz(radio: RadioSettings, bits: float, gain: float, delay_s: float) -> float:
    """B*, (17), by bisection: the band at which the bits take just the time that is left; inf if none does."""
    signal = watts(radio.power_dbm) * gain / watts(radio.noise_dbm_per_hz)
    left_s = radio.deadline_s - delay_s
    if left_s <= 0 or bits / left_s >= signal / math.log(2):  # what an endless band would carry
        return math.inf

    def enough(band: float) -> bool:
        return band * math.log1p(signal / band) / math.log(2) >= bits / left_s

    low, high = 0.0, 1.0
    while not enough(high):
        low, high = high, 2 * high
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


@dataclass
class P3:
    """The objective of one round: σ/√(|S|b) + divergence − λ_k · drift."""

    sigma: float
    b: int
    drift_weight: float  # λ_k
    class_norm: np.ndarray  # L̂, [C]
    samples: list[int]  # D_n
    batch_mix: np.ndarray  # [N, C]
    data_mix: np.ndarray  # [N, C]
    mix_before: np.ndarray  # of the data in the frame before, [N, C]

    def terms(self, chosen: list[int]) -> dict[str, float]:
        """Return the three terms, λ_k and their sum for a set; α is renormalised over it (D3)."""
        alpha = share([self.samples[n] for n in chosen])
        variance = self.sigma / math.sqrt(len(chosen) * self.b)
        away = alpha @ self.batch_mix[chosen] - share(self.samples) @ self.batch_mix
        divergence = float(self.class_norm @ np.abs(away))
        moved = np.abs(self.data_mix[chosen] - self.mix_before[chosen]) @ self.class_norm
        drift, weight = float(alpha @ moved), self.drift_weight
        found = {"variance": variance, "divergence": divergence, "drift": drift, "drift_weight": weight}
        return found | {"total": variance + divergence - weight * drift}

    def total(self, chosen: list[int]) -> float:
        """P3(S)."""
        return self.terms(chosen)["total"]

    def utility(self, chosen: list[int]) -> float:
        """U(S) = P3(S) without its variance."""
        return self.total(chosen) - self.terms(chosen)["variance"]


@dataclass
class Choice:
    """The choice of one round: who may be chosen, and what happens to those who do not fit (D1)."""

    needed: list[float]
    total_hz: float
    on_no_fit: str
    rng: np.random.Generator

    @property
    def schedulable(self) -> list[int]:
        """M: B*_n ≤ B."""
        return [n for n, needed in enumerate(self.needed) if needed <= self.total_hz]

    def fits(self, clients: list[int]) -> bool:
        """Whether a set fits the band."""
        return sum(self.needed[n] for n in clients) <= self.total_hz

    def greedy(self, p3: P3) -> tuple[list[int], str]:
        """Return FedTeddi's set, and why nobody else joined."""
        left, chosen = self.schedulable, []
        while left:
            utility = [p3.utility([*chosen, n]) for n in left]
            tied = [n for n, u in zip(left, utility, strict=True) if u <= min(utility) + 1e-9]
            best = tied[0] if len(tied) == 1 else int(self.rng.choice(tied))
            if chosen and p3.total([*chosen, best]) - p3.total(chosen) > 0:
                return chosen, "(19)"
            left.remove(best)
            if self.fits([*chosen, best]):
                chosen.append(best)
            elif self.on_no_fit == "stop":
                return chosen, "no fit"
        return chosen, "nobody left"

    def random(self) -> list[int]:
        """Return Random's set: a random order as long as it fits; who can never meet the deadline is skipped."""
        chosen: list[int] = []
        for n in self.rng.permutation(len(self.needed)):
            if self.fits([*chosen, int(n)]):
                chosen.append(int(n))
            elif self.on_no_fit == "stop" and math.isfinite(self.needed[n]):
                break
        return chosen

    def fed_cbs(self, counts: np.ndarray, seen: list[int], k: int, times: list[int]) -> list[int]:
        """Return Fed-CBS's set: drawn one by one, likelier the lower QCID becomes, from class counts [N, C]."""
        left, chosen = self.schedulable, []
        while True:
            if self.on_no_fit == "skip":
                left = [n for n in left if self.fits([*chosen, n])]
            if not left:
                return chosen
            log_weight = []
            for n in left:
                held = counts[[*chosen, n]].sum(axis=0)
                qcid = max(sum((held[c] / held.sum() - 1 / len(seen)) ** 2 for c in seen), 1e-8)
                bonus = 10 * math.sqrt(3 * math.log(k) / (2 * max(times[n], 1)))
                draw = len(chosen) + 1
                log_weight.append(-draw * math.log(qcid) if chosen else math.log(1 / qcid + bonus))
            # Gumbel noise makes the largest a draw with probability ∝ exp(log weight).
            best = left[int(np.argmax(log_weight + self.rng.gumbel(size=len(left))))]
            left = [n for n in left if n != best]
            if not self.fits([*chosen, best]):
                return chosen
            chosen.append(best)
