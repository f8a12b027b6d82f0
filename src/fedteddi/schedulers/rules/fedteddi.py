"""FedTeddi: favour clients whose data drifted, while the set as a whole mirrors the target mix."""

from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

import numpy as np

from fedteddi.errors import check_choice, check_number
from fedteddi.heterogeneity.drift import temporal_drift
from fedteddi.heterogeneity.mixes import pooled_mix, uniform_mix
from fedteddi.heterogeneity.objective import Objective, drift_weight
from fedteddi.schedulers.admission import BandOptions, granted
from fedteddi.schedulers.references import FEDTEDDI, Reference
from fedteddi.schedulers.schedule import Admission, Schedule, Trace
from fedteddi.schedulers.search.exact import exact
from fedteddi.schedulers.search.greedy import OnNoFit, greedy
from fedteddi.schedulers.search.problem import SearchProblem
from fedteddi.schedulers.search.refined import refined
from fedteddi.schedulers.view import RoundView

Target = Literal["global", "uniform"]
Search = Literal["greedy", "refined", "exact"]
Mixes = Literal["batch", "data"]


@dataclass(frozen=True, kw_only=True)
class FedTeddi(BandOptions):
    """Lowest P3 = sampling variance + collective divergence − λ_k × temporal drift, within the band."""

    name: ClassVar[str] = "fedteddi"
    reference: ClassVar[Reference] = FEDTEDDI
    needs: ClassVar[frozenset[str]] = frozenset({"gradient_std", "class_norm"})

    lambda0: float = 2.0
    on_no_fit: OnNoFit = "skip"
    target: Target = "global"
    search: Search = "greedy"
    mixes: Mixes = "batch"
    exact_time_limit_s: float = 60.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("lambda0", self.lambda0, at_least=0, at_most=1e100)
        check_choice("on_no_fit", self.on_no_fit, get_args(OnNoFit))
        check_choice("target", self.target, get_args(Target))
        check_choice("search", self.search, get_args(Search))
        check_choice("mixes", self.mixes, get_args(Mixes))
        check_number("exact_time_limit_s", self.exact_time_limit_s, above=0)

    def objective(self, view: RoundView) -> Objective:
        """Return P3 of this round as this rule weighs it."""
        everyone = self.target == "global"
        mix = view.batch_mix if self.mixes == "batch" else view.data_mix  # docs/paper.md D4
        return Objective(
            num_samples=view.num_samples,
            batch_mix=mix,
            drift=temporal_drift(view.data_mix, view.previous_data_mix, view.class_norm),
            target_mix=pooled_mix(view.num_samples, mix) if everyone else uniform_mix(view.classes_seen),
            class_norm=view.class_norm,
            gradient_std=view.gradient_std,
            batch_size=view.batch_size,
            drift_weight=drift_weight(self.lambda0, view.round, view.rounds_in_frame),
        )

    def select(self, view: RoundView, rng: np.random.Generator) -> Schedule:
        """Search for the set with the lowest P3 and give each member its B*."""
        objective = self.objective(view)
        problem = SearchProblem.build(
            objective, clients=view.schedulable, needed_hz=view.needed_hz, total_hz=view.total_hz
        )
        if self.search == "exact":
            found = exact(problem, rng, self.exact_time_limit_s)
        elif self.search == "refined":
            found = refined(problem, rng)
        else:
            found = greedy(problem, self.on_no_fit, rng)
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
    divergence = np.abs(mix - objective.target_mix) @ objective.class_norm
    drift = np.cumsum(view.num_samples[clients] * objective.drift[clients]) / held
    left_hz = view.total_hz - np.cumsum(view.needed_hz[clients])

    def change(values: np.ndarray, place: int) -> float | None:
        return float(values[place] - values[place - 1]) if place else None

    return tuple(
        Admission(
            client=int(client),
            variance_change=change(variance, place),
            divergence_change=change(divergence, place),
            drift_change=change(drift, place),
            left_hz=float(left_hz[place]),
        )
        for place, client in enumerate(clients)
    )
