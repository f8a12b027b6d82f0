"""TiFL: clients in tiers of like latency; one tier leads a round, the less accurate ones more often."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from fedteddi.errors import InputError, check_number
from fedteddi.schedulers.admission import AdmissionOptions, drawn, fill_band, ranked, required
from fedteddi.schedulers.latency import reference_latency_s
from fedteddi.schedulers.references import TIFL, Reference
from fedteddi.schedulers.schedule import Schedule
from fedteddi.schedulers.view import RoundView


def tiers_of(latency_s: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """Return each client's tier, [n], 0 the fastest: equal groups by rising latency, ties at random."""
    tier = np.empty(len(latency_s), dtype=np.int64)
    tier[ranked(-latency_s, rng)] = np.arange(len(latency_s)) * count // max(1, len(latency_s))
    return tier


def tier_losses(loss: np.ndarray, tier: np.ndarray, known: np.ndarray) -> np.ndarray:
    """Return the mean loss of each tier's clients, [T]; as `known` where none of them reports."""
    members = np.bincount(tier, minlength=len(known))
    total = np.bincount(tier, weights=loss, minlength=len(known))
    return np.where(members > 0, total / np.maximum(members, 1), known)


def changed_probabilities(loss: np.ndarray, credits: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return n, n − 1, …, 1 by falling loss over n(n + 1)/2, [T], for the n tiers with credits; 0 for others."""
    left = np.flatnonzero(credits > 0)
    probability = np.zeros(len(loss))
    if len(left):
        falling = left[ranked(np.where(np.isnan(loss[left]), -np.inf, loss[left]), rng)]
        probability[falling] = np.arange(len(left), 0, -1) / (len(left) * (len(left) + 1) / 2)
    return probability


@dataclass(frozen=True, kw_only=True)
class TiFL(AdmissionOptions):
    """Random clients of one latency tier, drawn by the tiers' losses and credits, until one does not fit.

    Every I rounds, if the leading tier's loss has not fallen since I rounds ago, the tiers' probabilities are set by
    rank (Chai et al., Algorithm 2): the tier of highest loss is likeliest. A tier that leads pays a credit; one without
    credits comes last. Credits and probabilities begin anew with a frame, because its data are new.

    - Accuracy: the server has no test data of a tier, so the mean loss of its clients' reports stands for it.
    - Latency: when a client would finish if all had the same bandwidth (`fedteddi.schedulers.latency`), averaged over
      all rounds in which it reported; no profiling phase. Clients that cannot meet the deadline count as the slowest.
      Tiers are equally large, and found anew each round.
    - Probabilities n, n − 1, …, 1 as in public implementations (bacox/fltk, FLGo); credits are equal.
    - The paper's tiers are larger than a round's schedule. Here a tier may fit whole: then clients of other tiers
      follow, tier by tier in drawn order (`further`).
    - At B* every client ends at the deadline: a fast tier shortens a round only with `spare_band=share`.
    """

    name: ClassVar[str] = "tifl"
    reference: ClassVar[Reference] = TIFL
    needs: ClassVar[frozenset[str]] = frozenset({"loss"})

    tiers: int = 5  # T
    interval: int = 10  # I, in rounds
    credits: float = 1.5  # a tier leads at most so many times its even share K_l/T of a frame's rounds
    further: bool = True  # go on with other tiers where all clients of the leading one fit

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("tiers", self.tiers, at_least=1, at_most=1000, whole=True)
        check_number("interval", self.interval, at_least=1, at_most=2**53, whole=True)
        check_number("credits", self.credits, at_least=1, at_most=1e6)
        if not isinstance(self.further, bool):
            raise InputError(f"further={self.further!r}: give true or false")

    def initial_state(self, num_clients: int) -> dict[str, Any]:
        """Return mean latency and number of reports by client id, and what is known of the T tiers."""
        return {
            "latency_s": np.zeros(num_clients),
            "reports": np.zeros(num_clients, dtype=np.int64),
            "loss": np.full(self.tiers, np.nan),
            "frame": -1,
        }

    def select(
        self, view: RoundView, rng: np.random.Generator, state: dict[str, Any]
    ) -> tuple[Schedule, dict[str, Any]]:
        """Draw the tiers' order, and clients at random within each."""
        loss, able = required(view, "loss", self.name), view.schedulable
        self._profile(view, state)
        tier = self._tiers(view, rng, state)
        state["loss"] = tier_losses(loss, tier, state["loss"])
        self._adapt(view, rng, state)
        with np.errstate(divide="ignore"):
            weight = np.log(np.where(state["credits"] > 0, state["probability"], 0.0))  # [T]
        place = np.empty(self.tiers, dtype=np.int64)
        place[drawn(weight, rng)] = np.arange(self.tiers)
        order = able[np.lexsort((rng.random(len(able)), place[tier[able]]))]
        if len(order):
            state["leader"] = int(tier[order[0]])
            state["credits"][state["leader"]] = max(0, state["credits"][state["leader"]] - 1)
            order = order if self.further else order[tier[order] == state["leader"]]
        return fill_band(view, order, self), state

    def _profile(self, view: RoundView, state: dict[str, Any]) -> None:
        """Take this round's latencies into the running means."""
        latency_s, ids = reference_latency_s(view, self.name), view.client_id
        if len(view.schedulable):
            slowest_s = latency_s[np.isfinite(latency_s)].max()
            mean_s, reports = state["latency_s"], state["reports"]
            reports[ids] += 1
            mean_s[ids] += (np.minimum(latency_s, slowest_s) - mean_s[ids]) / reports[ids]

    def _tiers(self, view: RoundView, rng: np.random.Generator, state: dict[str, Any]) -> np.ndarray:
        """Return the tiers of those who report, [N], among all clients heard from so far."""
        ids = np.union1d(np.flatnonzero(state["reports"]), view.client_id)
        tier = np.empty(len(state["reports"]), dtype=np.int64)
        tier[ids] = tiers_of(state["latency_s"][ids], self.tiers, rng)
        return np.asarray(tier[view.client_id])

    def _adapt(self, view: RoundView, rng: np.random.Generator, state: dict[str, Any]) -> None:
        """Begin a frame anew; every I rounds compare the leading tier's loss with that of I rounds ago."""
        if state["frame"] != view.frame:
            state |= {"frame": view.frame, "round": 0, "leader": 0, "loss_before": state["loss"].copy()}
            state["probability"] = np.full(self.tiers, 1 / self.tiers)
            each = math.ceil(self.credits * view.rounds_in_frame / self.tiers)
            state["credits"] = np.full(self.tiers, each, dtype=np.int64)
        elif state["round"] % self.interval == 0:
            if state["loss"][state["leader"]] >= state["loss_before"][state["leader"]]:
                state["probability"] = changed_probabilities(state["loss"], state["credits"], rng)
            state["loss_before"] = state["loss"].copy()
        state["round"] += 1
