"""What the rules that search for a set share: an objective, a search, and the admission trace."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedteddi.heterogeneity.objective import Objective
from fedteddi.schedulers.admission import BandOptions, granted
from fedteddi.schedulers.schedule import Admission, Schedule, Trace
from fedteddi.schedulers.search.greedy import Found
from fedteddi.schedulers.search.problem import SearchProblem
from fedteddi.schedulers.view import RoundView


@dataclass(frozen=True, kw_only=True)
class SearchingRule(BandOptions):
    """A rule that looks for the set with the lowest objective within the band."""

    # What the objective, its part that falls with the set's size and its part that compares mixes are called to users.
    called: ClassVar[tuple[str, str, str]] = ("P3", "variance", "divergence")

    @abstractmethod
    def objective(self, view: RoundView) -> Objective:
        """Return P3 of this round as this rule weighs it."""

    @abstractmethod
    def search_for(self, problem: SearchProblem, rng: np.random.Generator) -> Found:
        """Look for the set."""

    def select(self, view: RoundView, rng: np.random.Generator) -> Schedule:
        """Search for the set with the lowest P3 and give each member its B*."""
        objective = self.objective(view)
        problem = SearchProblem.build(
            objective, clients=view.schedulable, needed_hz=view.needed_hz, total_hz=view.total_hz
        )
        found = self.search_for(problem, rng)
        clients = problem.clients[found.members]
        trace = Trace(admissions=_admissions(view, objective, clients), stopped=found.stopped)
        return granted(view, clients, self.spare_band, trace=trace, bound=found.bound)


def _admissions(view: RoundView, objective: Objective, clients: np.ndarray) -> tuple[Admission, ...]:
    """Retell how the terms of P3 changed as the clients joined, one by one."""
    sizes = np.arange(1, len(clients) + 1)
    held = np.cumsum(view.num_samples[clients])  # of the first k clients, [k]
    mix = (
        np.cumsum(view.num_samples[clients, None] * objective.batch_mix[clients], axis=0) / held[:, None]
    )  # [k, C]
    variance = objective.gradient_std / np.sqrt(sizes * objective.batch_size)
    divergence = np.array([objective.divergence(of_first) for of_first in mix])
    drift = np.cumsum(view.num_samples[clients] * objective.drift[clients])
    drift /= np.array([objective.drift_samples(samples) for samples in held])
    left_hz = view.total_hz - np.cumsum(view.needed_hz[clients])

    changes = ([None, *np.diff(values).tolist()] for values in (variance, divergence, drift))
    return tuple(
        Admission(
            client=client,
            variance_change=of_variance,
            divergence_change=of_divergence,
            drift_change=of_drift,
            left_hz=left,
        )
        for client, of_variance, of_divergence, of_drift, left in zip(
            clients.tolist(), *changes, left_hz.tolist(), strict=False
        )
    )
