"""Oort: clients whose data still teach most and who are fast, and some that were never tried."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

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
from fedteddi.schedulers.latency import reference_latency_s
from fedteddi.schedulers.references import OORT, Reference
from fedteddi.schedulers.schedule import Schedule
from fedteddi.schedulers.view import RoundView


def statistical_utility(num_samples: np.ndarray, loss: np.ndarray) -> np.ndarray:
    """Return U_n = D_n |mean loss|, [n]; the paper's D_n √(mean of loss²) is at least that."""
    return np.asarray(num_samples * np.abs(loss))


def clipped_and_scaled(utility: np.ndarray, clip: float) -> np.ndarray:
    """Cut utilities at their `clip` quantile and scale them to 0..1, [n] (all 0 where they do not differ)."""
    cut = np.minimum(utility, np.quantile(utility, clip))
    spread = cut.max() - cut.min()
    return np.asarray((cut - cut.min()) / spread) if spread > 0 else np.zeros(len(cut))


def confidence_bonus(round: int, last_round: np.ndarray) -> np.ndarray:
    """Return √(0.1 ln R / L_n), [n]; L_n is the round in which the client was last scheduled, from 1."""
    return np.asarray(np.sqrt(0.1 * math.log(round) / last_round))


def system_utility(latency_s: np.ndarray, preferred_s: float, penalty: float) -> np.ndarray:
    """Return (T/t_n)^α where t_n > T, otherwise 1, [n]."""
    return np.asarray(np.minimum(1.0, preferred_s / latency_s) ** penalty)


@dataclass(frozen=True, kw_only=True)
class Oort(AdmissionOptions):
    """Drawn by data × loss × speed among the best that were tried, plus a falling share of untried ones.

    A tried client scores (U_n + √(0.1 ln R / L_n)) × (T/t_n)^α (Lai et al., Algorithm 1). K clients are
    wanted: as many as fit when taken by falling score. (1 − ε) K are drawn ∝ score among those above c × the
    (1 − ε) K-th score, then ε K untried ones ∝ 1/t_n; who is next by score fills what is left of the band.

    - U_n: D_n × the loss of the first batch when the client was last scheduled; clipped and scaled to 0..1 as in the
      authors' code (otherwise the bonus would vanish beside it). Reports carry no losses of single samples.
    - t_n: at B* all end at the deadline, so t_n is when a client would finish in this round if all had the same
      bandwidth (`fedteddi.schedulers.latency`). The paper remembers measured durations.
    - T: a percentile of t_n, as in the authors' code. Every W rounds the pacer raises it by Δ if these rounds gained
      less utility than the W before.
    """

    name: ClassVar[str] = "oort"
    reference: ClassVar[Reference] = OORT
    needs: ClassVar[frozenset[str]] = frozenset({"loss"})

    explore: float = 0.9  # ε of the first round
    explore_decay: float = 0.98  # its factor from round to round
    explore_least: float = 0.2
    cutoff: float = 0.95  # c
    clip: float = 0.95  # quantile at which U_n is cut
    penalty: float = 2.0  # α; 0 = speed does not matter
    preferred_percent: float = 10.0  # T at first, as a percentile of t_n; 100 = no preference
    pacer_percent: float = 5.0  # Δ
    pacer_rounds: int = 20  # W
    blacklist_after: int = 0  # leave out who was scheduled more often than this; 0 = nobody
    blacklist_share: float = 0.3  # and at most this share of all clients, the most often scheduled

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("explore", "explore_decay", "explore_least", "cutoff", "clip", "blacklist_share"):
            check_number(name, getattr(self, name), at_least=0, at_most=1)
        check_number("penalty", self.penalty, at_least=0, at_most=100)
        for name in ("preferred_percent", "pacer_percent"):
            check_number(name, getattr(self, name), at_least=0, at_most=100)
        check_number("pacer_rounds", self.pacer_rounds, at_least=1, at_most=100_000, whole=True)
        check_number("blacklist_after", self.blacklist_after, at_least=0, at_most=2**53, whole=True)

    def initial_state(self, num_clients: int) -> dict[str, Any]:
        """Return what is known by client id ([all clients]; NaN: untried), T and the utility gained in 2W rounds."""
        return {
            "round": 0,
            "utility": np.full(num_clients, np.nan),
            "last": np.zeros(num_clients, dtype=np.int64),
            "times": np.zeros(num_clients, dtype=np.int64),
            "percent": self.preferred_percent,
            "gained": np.zeros(2 * self.pacer_rounds),
        }

    def select(
        self, view: RoundView, rng: np.random.Generator, state: dict[str, Any]
    ) -> tuple[Schedule, dict[str, Any]]:
        """Choose by what earlier rounds told, then remember what the scheduled clients report now."""
        now, ids = statistical_utility(view.num_samples, required(view, "loss", self.name)), view.client_id
        self._pace(state)
        state["round"] += 1
        schedule = fill_band(view, self._order(view, rng, state), self)
        scheduled = list(schedule.clients)
        state["utility"][ids[scheduled]] = now[scheduled]
        state["last"][ids[scheduled]] = state["round"]
        state["times"][ids[scheduled]] += 1
        state["gained"] = np.append(state["gained"][1:], now[scheduled].sum())
        return schedule, state

    def _pace(self, state: dict[str, Any]) -> None:
        """Raise T where the last W rounds gained less utility than the W before."""
        rounds = self.pacer_rounds
        before, after = state["gained"][:rounds].sum(), state["gained"][rounds:].sum()
        if state["round"] >= 2 * rounds and state["round"] % rounds == 0 and before > after:
            state["percent"] = min(100.0, state["percent"] + self.pacer_percent)

    def _order(self, view: RoundView, rng: np.random.Generator, state: dict[str, Any]) -> np.ndarray:
        """Return the clients in order of admission: drawn by score, drawn untried ones, all others."""
        able, latency_s = view.schedulable, reference_latency_s(view, self.name)
        if len(able) == 0:
            return able
        preferred_s = float(np.percentile(latency_s[able], state["percent"]))
        able = able[~np.isin(view.client_id[able], self._blacklist(state["times"], rng))]
        tried = ~np.isnan(state["utility"][view.client_id[able]])
        untried = able[~tried]
        untried = untried[drawn(-np.log(latency_s[untried]), rng)]
        score, ranking = (
            self._scores(view.client_id[able[tried]], latency_s[able[tried]], preferred_s, state),
            able[tried],
        )
        best = ranked(score, rng)
        score, ranking = score[best], ranking[best]  # falling
        everyone = np.concatenate([ranking, untried])
        wanted = len(fitting_in_order(everyone, view.needed_hz, view.total_hz, self.on_no_fit))
        share = max(self.explore_least, self.explore * self.explore_decay ** (state["round"] - 1))
        explored = min(rounded(share * wanted, rng), len(untried))
        exploited = min(wanted - explored, len(ranking))
        chosen = np.concatenate([self._drawn_by_score(ranking, score, exploited, rng), untried[:explored]])
        return np.asarray(np.concatenate([chosen, everyone[~np.isin(everyone, chosen)]]))

    def _scores(
        self, ids: np.ndarray, latency_s: np.ndarray, preferred_s: float, state: dict[str, Any]
    ) -> np.ndarray:
        """Return the scores of tried clients, [n]."""
        if len(ids) == 0:
            return np.zeros(0)
        utility = clipped_and_scaled(state["utility"][ids], self.clip)
        bonus = confidence_bonus(state["round"], state["last"][ids])
        return np.asarray((utility + bonus) * system_utility(latency_s, preferred_s, self.penalty))

    def _drawn_by_score(
        self, ranking: np.ndarray, score: np.ndarray, count: int, rng: np.random.Generator
    ) -> np.ndarray:
        """Draw `count` clients ∝ score among those that reach c × the score of the last of the best `count`."""
        if count == 0:
            return ranking[:0]
        pool = np.flatnonzero(score >= self.cutoff * score[count - 1])
        with np.errstate(divide="ignore"):  # (T/t)^α may underflow to 0
            return np.asarray(ranking[pool[drawn(np.log(score[pool]), rng)[:count]]])

    def _blacklist(self, times: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Return the ids of those scheduled too often, the most often scheduled first."""
        if self.blacklist_after == 0:
            return np.zeros(0, dtype=np.intp)
        often = np.flatnonzero(times > self.blacklist_after)
        return np.asarray(often[ranked(times[often], rng)[: int(self.blacklist_share * len(times))]])
