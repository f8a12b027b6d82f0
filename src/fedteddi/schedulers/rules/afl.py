"""Active federated learning: clients drawn by a valuation of their data, √D_n × loss."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedteddi.errors import check_number
from fedteddi.schedulers.admission import (
    AdmissionOptions,
    drawn,
    fill_band,
    fitting_in_order,
    ranked,
    required,
    rounded,
)
from fedteddi.schedulers.references import ACTIVE, Reference
from fedteddi.schedulers.schedule import Schedule
from fedteddi.schedulers.view import RoundView


def valuation(num_samples: np.ndarray, loss: np.ndarray) -> np.ndarray:
    """Return v_n = (1/√D_n) Σ loss of its samples = √D_n × mean loss, [n]."""
    return np.asarray(np.sqrt(num_samples) * loss)


def log_weights(value: np.ndarray, alpha1: float, alpha2: float, rng: np.random.Generator) -> np.ndarray:
    """Return α2·v_n, [n], and −inf for the α1 share with the smallest values, ties at random."""
    weight = alpha2 * value
    weight[ranked(-value, rng)[: int(alpha1 * len(value))]] = -np.inf
    return weight


@dataclass(frozen=True, kw_only=True)
class ActiveFL(AdmissionOptions):
    """Drawn with probability ∝ exp(α2 √D_n × loss) among the highest, a few at random, until one does not fit.

    A client's value is renewed when it is scheduled, as in the paper; before that it is the one of its first report
    (the paper does not say). The α1 share of the schedulable clients with the smallest values has weight 0.

    The paper draws a fixed number m. Here m is how many of the weighted order fit into the band: the first (1 − α3) m
    of them stay, α3 m drawn uniformly from all others follow, then the rest of the weighted order. α3 m is rounded up
    or down at random, so its mean is exact. Clients of weight 0 come last, in random order: where more than a 1 − α1
    share fits, they fill the band; lower alpha1 in a small cell.
    """

    name: ClassVar[str] = "afl"
    reference: ClassVar[Reference] = ACTIVE
    needs: ClassVar[frozenset[str]] = frozenset({"loss"})

    alpha1: float = 0.75  # share of clients, those of least value, with weight 0
    alpha2: float = 0.01  # of the softmax: 0 = uniform, large = the highest value first
    alpha3: float = 0.1  # share of the scheduled clients that is drawn uniformly

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("alpha1", self.alpha1, at_least=0, at_most=1)
        check_number("alpha2", self.alpha2, at_least=0, at_most=1e100)
        check_number("alpha3", self.alpha3, at_least=0, at_most=1)

    def initial_state(self, num_clients: int) -> np.ndarray:
        """Return the values by client id, [all clients]; NaN: no report yet."""
        return np.full(num_clients, np.nan)

    def select(
        self, view: RoundView, rng: np.random.Generator, state: np.ndarray
    ) -> tuple[Schedule, np.ndarray]:
        """Draw by the values known so far, then renew those of the scheduled clients."""
        now, ids, able = (
            valuation(view.num_samples, required(view, "loss", self.name)),
            view.client_id,
            view.schedulable,
        )
        state[ids] = np.where(np.isnan(state[ids]), now, state[ids])
        weighted = able[drawn(log_weights(state[ids[able]], self.alpha1, self.alpha2, rng), rng)]
        fitting = fitting_in_order(weighted, view.needed_hz, view.total_hz, self.on_no_fit)
        uniform = rounded(self.alpha3 * len(fitting), rng)
        kept = fitting[: len(fitting) - uniform]
        others = weighted[~np.isin(weighted, kept)]
        uniformly = rng.choice(others, size=uniform, replace=False)
        rest = others[~np.isin(others, uniformly)]
        schedule = fill_band(view, np.concatenate([kept, uniformly, rest]), self)
        scheduled = list(schedule.clients)
        state[ids[scheduled]] = now[scheduled]
        return schedule, state
