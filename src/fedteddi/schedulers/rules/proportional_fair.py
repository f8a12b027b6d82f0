"""Proportional fair: whoever's channel is good for its own standards."""

from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

import numpy as np

from fedteddi.errors import check_choice, check_number
from fedteddi.schedulers.admission import AdmissionOptions, fill_band
from fedteddi.schedulers.references import PROPORTIONAL_FAIR, Reference
from fedteddi.schedulers.schedule import Schedule
from fedteddi.schedulers.view import MAX_COUNT, RoundView

Rate = Literal["snr", "bits-per-hz"]
Mean = Literal["offered", "served"]


def moved_mean(mean: np.ndarray, new: np.ndarray, rounds: np.ndarray, window: int) -> np.ndarray:
    """Return mean + (new − mean)/min(rounds, window), [n]; `rounds` counts the new one.

    The plain mean of the first t_c = `window` rounds, then T(k+1) = (1 − 1/t_c) T(k) + R(k)/t_c.
    """
    return np.asarray(mean + (new - mean) / np.minimum(rounds, window))


@dataclass(frozen=True, kw_only=True)
class ProportionalFair(AdmissionOptions):
    """Highest rate over its own running mean first, until one does not fit.

    By default this is the rule of Yang et al.: the signal-to-noise ratio in place of the rate, over its mean so far.
    Power, noise and bandwidth cancel in it, so it is |H_n|² over its mean, whatever band a client gets.

    - `rate=bits-per-hz`: 1/B*_n, the models that one hertz carries by the deadline, computation included.
    - `mean=served`: a round in which a client is not scheduled counts as rate 0, as with Viswanath et al. Clients that
      were rarely scheduled come first, even if channels never change; before them those that never were, the highest
      rate first.
    - `window`: t_c, the rounds that the mean remembers.

    Only rounds in which a client reports count. In the first of them there is no mean yet; with `mean=offered` the
    ratio is 1. Ties are broken at random: over a channel that never changes, that is the whole rule with
    `mean=offered`.
    """

    name: ClassVar[str] = "proportional-fair"
    reference: ClassVar[Reference] = PROPORTIONAL_FAIR

    rate: Rate = "snr"
    mean: Mean = "offered"
    window: int = 100

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("rate", self.rate, get_args(Rate))
        check_choice("mean", self.mean, get_args(Mean))
        check_number("window", self.window, at_least=1, at_most=MAX_COUNT, whole=True)

    def initial_state(self, num_clients: int) -> dict[str, np.ndarray]:
        """Return, by client id, the mean rates and the rounds they are taken over, [all clients] each."""
        return {"mean": np.zeros(num_clients), "rounds": np.zeros(num_clients, dtype=np.int64)}

    def select(
        self, view: RoundView, rng: np.random.Generator, state: dict[str, np.ndarray]
    ) -> tuple[Schedule, dict[str, np.ndarray]]:
        """Fill the band by falling rate over its mean before this round."""
        ids, able = view.client_id, view.schedulable
        rate = view.channel_gain if self.rate == "snr" else 1.0 / view.needed_hz  # [N]
        mean, rounds = state["mean"][ids], state["rounds"][ids]
        with np.errstate(over="ignore"):
            ratio = np.divide(rate, mean, out=np.full(len(rate), np.inf), where=mean > 0)
        if self.mean == "offered":
            ratio[rounds == 0] = 1.0
        unserved = np.where(np.isinf(ratio), rate, 0.0)
        schedule = fill_band(
            view, able[np.lexsort((rng.random(len(able)), -unserved[able], -ratio[able]))], self
        )
        if self.mean == "served":
            uploads = np.zeros(len(rate))
            uploads[list(schedule.clients)] = 1.0
            rate = rate * uploads
        after = {name: values.copy() for name, values in state.items()}
        after["mean"][ids] = moved_mean(mean, rate, rounds + 1, self.window)
        after["rounds"][ids] = rounds + 1
        return schedule, after
