"""FedTeddi-plus: the set whose classes come closest to a target that moves from equal shares towards everyone's mix.

docs/fedteddi-plus.md says why, what each part adds, and how it fares against the paper's rules.
"""

from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

import numpy as np

from fedteddi.errors import check_choice, check_number
from fedteddi.heterogeneity.divergence import Distance
from fedteddi.heterogeneity.drift import temporal_drift
from fedteddi.heterogeneity.mixes import pooled_mix
from fedteddi.heterogeneity.objective import Objective, drift_weight
from fedteddi.heterogeneity.target import MovingTarget
from fedteddi.schedulers.references import OURS, Reference
from fedteddi.schedulers.search.greedy import Found, greedy
from fedteddi.schedulers.search.problem import SearchProblem
from fedteddi.schedulers.search.refined import refined
from fedteddi.schedulers.search.rule import SearchingRule
from fedteddi.schedulers.view import RoundView

Search = Literal["greedy", "refined"]


@dataclass(frozen=True, kw_only=True)
class FedTeddiPlus(MovingTarget, SearchingRule):
    """Lowest ‖class mix − target‖₂ + ν/√|S| within the band; the target moves from equal shares towards everyone's.

    It needs nothing but the class histograms: no gradient is estimated.
    """

    name: ClassVar[str] = "fedteddi-plus"
    reference: ClassVar[Reference] = OURS
    called: ClassVar[tuple[str, str, str]] = ("objective", "size", "distance")

    size_weight: float = 0.3  # ν
    lambda0: float = 0.0  # of the drift term, which a uniform target makes superfluous
    distance: Distance = "euclidean"
    search: Search = "refined"

    def __post_init__(self) -> None:
        SearchingRule.__post_init__(self)
        MovingTarget.__post_init__(self)
        check_number("size_weight", self.size_weight, at_least=0, at_most=1e100)
        check_number("lambda0", self.lambda0, at_least=0, at_most=1e100)
        check_choice("distance", self.distance, get_args(Distance))
        check_choice("search", self.search, get_args(Search))

    def objective(self, view: RoundView) -> Objective:
        """Return the objective of this round: classes count alike, and ν stands for σ/√b."""
        alike = np.ones(view.num_classes)
        everyone = pooled_mix(view.num_samples, view.batch_mix)
        return Objective(
            num_samples=view.num_samples,
            batch_mix=view.batch_mix,
            drift=temporal_drift(view.data_mix, view.previous_data_mix, alike),
            target_mix=self.target_mix(everyone, view.classes_seen, view.round, view.rounds_in_frame),
            class_norm=alike,
            gradient_std=self.size_weight,
            batch_size=1,
            drift_weight=drift_weight(self.lambda0, view.round, view.rounds_in_frame),
            distance=self.distance,
        )

    def search_for(self, problem: SearchProblem, rng: np.random.Generator) -> Found:
        """Search in the way that was chosen."""
        return refined(problem, rng) if self.search == "refined" else greedy(problem, "skip", rng)
