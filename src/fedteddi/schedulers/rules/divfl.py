"""DivFL: whoever's updates represent all updates best."""

from dataclasses import dataclass, field
from typing import ClassVar, Literal

import numpy as np

from fedteddi.errors import InputError, check_number
from fedteddi.schedulers.admission import AdmissionOptions, highest, one_by_one, required
from fedteddi.schedulers.references import DIVFL, Reference
from fedteddi.schedulers.schedule import Schedule
from fedteddi.schedulers.view import RoundView

MOST_DISTANCES = 2**21  # held at a time: 16 MiB
FEW = 16  # candidates that are looked at first
ROUNDING = 1e-12  # of the sum of all distances' bounds: gains closer than this tie


@dataclass(frozen=True, kw_only=True)
class DivFL(AdmissionOptions):
    """Largest gain first in how well S represents all updates, Σ_k min_{i∈S} ‖g_k − g_i‖, until one does not fit.

    The sum is over all who reported, also those who cannot upload. −Σ_k min(…) is monotone and submodular, so where
    all need the same bandwidth greedy reaches 1 − 1/e of the optimum. `subset` is the paper's stochastic greedy: each
    step tries so many random candidates.

    Differs from the paper: g_n is a sketch of this round's update w_n − w_{k−1}, from everyone, not a gradient that is
    as old as the client's last upload; models are averaged by sample counts, as under every rule here, not by how
    many clients each stands for; the band ends the search, not a number of clients.

    Takes N² distances at least: 5,000 clients are decided within seconds; beyond that, set `subset`.
    """

    name: ClassVar[str] = "divfl"
    reference: ClassVar[Reference] = DIVFL
    needs: ClassVar[frozenset[str]] = frozenset({"update_sketch"})

    subset: int | Literal["all"] = "all"  # candidates tried in each step, drawn at random

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.subset, str):
            check_number("subset", self.subset, at_least=1, whole=True)
        elif self.subset != "all":
            raise InputError(f'subset={self.subset!r}: give a number from 1, or "all"')

    def select(self, view: RoundView, rng: np.random.Generator) -> Schedule:
        """Grow S by the largest gain."""
        cover = Cover(required(view, "update_sketch", self.name))

        def choose(left: np.ndarray) -> int:
            if not isinstance(self.subset, str) and self.subset < len(left):
                left = rng.choice(left, self.subset, replace=False)
            chosen = cover.best_of(left, rng)
            cover.add(chosen)
            return chosen

        return one_by_one(view, choose, self)


@dataclass(eq=False)
class Cover:
    """How far every update is from the nearest one in S, and who would lower the sum most."""

    updates: np.ndarray  # [N, S]
    nearest: np.ndarray = field(init=False)  # min_{i∈S} ‖g_k − g_i‖, [N]
    gain: np.ndarray = field(init=False)  # of each client as it was last computed, [N]: it never grows
    tie: float = field(init=False)

    def __post_init__(self) -> None:
        count = len(self.updates)
        radius = float(np.linalg.norm(self.updates - self.updates.mean(axis=0), axis=1).max())
        self.nearest = np.full(
            count, 2 * radius
        )  # the paper's auxiliary element: none is farther from another
        self.gain = np.full(count, np.inf)
        self.tie = ROUNDING * 2 * radius * count

    def gains(self, clients: np.ndarray) -> np.ndarray:
        """Return Σ_k max(min_{i∈S} ‖g_k − g_i‖ − ‖g_k − g_n‖, 0) for each of these clients n, [n]."""
        distance = _distances(self.updates[clients], self.updates)  # [n, N]
        return np.asarray(np.maximum(self.nearest - distance, 0.0).sum(axis=1))

    def best_of(self, clients: np.ndarray, rng: np.random.Generator) -> int:
        """Return the client of the largest gain, ties at random.

        Gains only fall as S grows (Minoux's lazy greedy): whoever's last gain is below what another has now is passed
        over.
        """
        clients = clients[np.argsort(-self.gain[clients], kind="stable")]
        looked_at, at_once, reached = 0, FEW, -np.inf
        most = max(1, MOST_DISTANCES // len(self.updates))
        while looked_at < len(clients) and self.gain[clients[looked_at]] >= reached - self.tie:
            some = clients[looked_at : looked_at + min(at_once, most)]
            self.gain[some] = self.gains(some)
            reached = max(reached, float(self.gain[some].max()))
            looked_at, at_once = looked_at + len(some), 2 * at_once
        return int(clients[highest(self.gain[clients[:looked_at]], self.tie, rng)])

    def add(self, client: int) -> None:
        """Let a client join S."""
        distance = _distances(self.updates[[client]], self.updates)[0]
        self.nearest = np.minimum(self.nearest, distance)


def _distances(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Return ‖one_i − other_j‖, [n, m]; SciPy is imported when it is needed, because others start in milliseconds."""
    from scipy.spatial.distance import cdist

    return np.asarray(cdist(one, other))
