"""Fed-CBS: draw clients one by one so that the pooled data come out class-balanced."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedteddi.errors import check_number
from fedteddi.schedulers.admission import AdmissionOptions, granted
from fedteddi.schedulers.references import FED_CBS, Reference
from fedteddi.schedulers.schedule import Schedule
from fedteddi.schedulers.view import RoundView

QCID_FLOOR = 1e-8  # a perfectly balanced set would otherwise divide by zero


def imbalance(shares: np.ndarray) -> np.ndarray:
    """Return QCID, the squared distance of pooled class shares [..., C] from the uniform mix: [...].

    With shares Σ_n D_n p_n^(c)/Σ D over the C classes seen so far it equals Σ_{n,m} D_n D_m ⟨p_n, p_m⟩/(Σ D)² − 1/C,
    the form a server can compute from encrypted inner products.
    """
    return np.asarray(((shares - 1.0 / shares.shape[-1]) ** 2).sum(axis=-1))


def first_log_weight(
    alone_qcid: np.ndarray, round: int, times_scheduled: np.ndarray, exploration: float
) -> np.ndarray:
    """Return log(1/QCID({n}) + exploration·√(3 ln k / (2 T_n))), [n], T_n = max(times scheduled, 1)."""
    bonus = exploration * np.sqrt(3.0 * np.log(round) / (2.0 * np.maximum(times_scheduled, 1)))
    return np.asarray(np.log(1.0 / np.maximum(alone_qcid, QCID_FLOOR) + bonus))


def later_log_weight(joint_qcid: np.ndarray, draw: int) -> np.ndarray:
    """Return log(1/QCID(M ∪ n)^m), [n], for the m-th draw (m ≥ 2)."""
    return np.asarray(-draw * np.log(np.maximum(joint_qcid, QCID_FLOOR)))


def draw_one(log_weight: np.ndarray, rng: np.random.Generator) -> int:
    """Draw a position with probability ∝ exp(log_weight): the largest after adding Gumbel noise."""
    return int(np.argmax(log_weight + rng.gumbel(size=len(log_weight))))


@dataclass(frozen=True, kw_only=True)
class FedCBS(AdmissionOptions):
    """Drawn one by one, likelier the more class-balanced the set becomes (QCID), until one does not fit.

    A decision takes time in proportion to N times the clients scheduled: about 1 s for 16 of a million.
    """

    name: ClassVar[str] = "fed-cbs"
    reference: ClassVar[Reference] = FED_CBS

    exploration: float = 10.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("exploration", self.exploration, at_least=0, at_most=1e100)

    def select(self, view: RoundView, rng: np.random.Generator) -> Schedule:
        """Draw clients until one does not fit or, with "skip", among those that still fit until nobody does."""
        left = view.schedulable
        counts = view.num_samples[left, None] * view.data_mix[left][:, view.classes_seen]  # [n, C]
        held, held_total, used_hz = np.zeros(counts.shape[1]), 0, 0.0
        samples, needed_hz = view.num_samples[left], view.needed_hz[left]
        members: list[int] = []
        while True:
            left_hz = view.total_hz - used_hz
            if self.on_no_fit == "skip":
                fits = needed_hz <= left_hz
                left, counts, samples, needed_hz = left[fits], counts[fits], samples[fits], needed_hz[fits]
            if len(left) == 0:
                break
            joint = imbalance((held + counts) / (held_total + samples)[:, None])  # [n]
            if members:
                weight = later_log_weight(joint, len(members) + 1)
            else:
                weight = first_log_weight(joint, view.round, view.times_scheduled[left], self.exploration)
            drawn = draw_one(weight, rng)
            if not needed_hz[drawn] <= left_hz:
                break
            members.append(int(left[drawn]))
            held = held + counts[drawn]
            held_total += int(samples[drawn])
            used_hz += float(needed_hz[drawn])
            left, samples, needed_hz = (
                np.concatenate([row[:drawn], row[drawn + 1 :]]) for row in (left, samples, needed_hz)
            )
            counts = np.delete(counts, drawn, axis=0)  # keeps the order in memory, and so the sums' last bits
        return granted(view, np.array(members, dtype=np.intp), self.spare_band)
