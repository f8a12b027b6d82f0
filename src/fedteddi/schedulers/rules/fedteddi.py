"""FedTeddi: favour clients whose data drifted, while the set as a whole mirrors the target mix."""

from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

import numpy as np

from fedteddi.errors import InputError, check_choice, check_number
from fedteddi.heterogeneity.drift import temporal_drift
from fedteddi.heterogeneity.mixes import pooled_mix, uniform_mix
from fedteddi.heterogeneity.objective import Objective, drift_weight
from fedteddi.schedulers.admission import AdmissionOptions
from fedteddi.schedulers.references import FEDTEDDI, Reference
from fedteddi.schedulers.search.greedy import Found, greedy
from fedteddi.schedulers.search.problem import SearchProblem
from fedteddi.schedulers.search.refined import refined
from fedteddi.schedulers.search.rule import SearchingRule
from fedteddi.schedulers.view import RoundView

Target = Literal["global", "uniform"]
Search = Literal["greedy", "refined", "exact"]
Mixes = Literal["batch", "data"]
Sigma = Literal["std", "literal"]
DriftShare = Literal["set", "all"]


@dataclass(frozen=True, kw_only=True)
class FedTeddi(SearchingRule, AdmissionOptions):
    """Lowest P3 = sampling variance + collective divergence − λ_k × temporal drift, within the band."""

    name: ClassVar[str] = "fedteddi"
    reference: ClassVar[Reference] = FEDTEDDI
    needs: ClassVar[frozenset[str]] = frozenset({"gradient_std", "class_norm"})

    lambda0: float = 2.0
    target: Target = "global"
    search: Search = "greedy"
    mixes: Mixes = "batch"
    sigma: Sigma = "std"  # "literal": σ̂ is the variance itself, as Algorithm 1 is printed (docs/paper.md D5)
    drift_share: DriftShare = "set"  # α in the drift term is over the set, or over all clients (D3)
    exact_time_limit_s: float = 60.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("lambda0", self.lambda0, at_least=0, at_most=1e100)
        check_choice("target", self.target, get_args(Target))
        check_choice("search", self.search, get_args(Search))
        check_choice("mixes", self.mixes, get_args(Mixes))
        check_choice("sigma", self.sigma, get_args(Sigma))
        check_choice("drift_share", self.drift_share, get_args(DriftShare))
        if self.search == "exact" and self.drift_share == "all":
            raise InputError(
                "drift_share='all' has no linear program: use search='greedy' or 'refined' with it"
            )
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
            gradient_std=view.gradient_std if self.sigma == "std" else view.gradient_std**2,
            batch_size=view.batch_size,
            drift_weight=drift_weight(self.lambda0, view.round, view.rounds_in_frame),
            drift_share=self.drift_share,
        )

    def search_for(self, problem: SearchProblem, rng: np.random.Generator) -> Found:
        """Search in the way that was chosen."""
        if self.search == "exact":
            from fedteddi.schedulers.search.exact import exact  # imports scipy.optimize, which is slow

            return exact(problem, rng, self.exact_time_limit_s)
        if self.search == "refined":
            return refined(problem, rng)
        return greedy(problem, self.on_no_fit, rng)
