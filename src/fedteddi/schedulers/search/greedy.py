"""Algorithm 1, repaired: admit the client with the lowest U(S ∪ n) until P3 would rise (19)."""

from dataclasses import dataclass

import numpy as np

from fedteddi.schedulers.admission import OnNoFit
from fedteddi.schedulers.search.problem import SearchProblem

TIE = 1e-9  # utilities closer than this are equal, and chance decides


@dataclass(frozen=True)
class Found:
    """A set, in order of admission (positions in the problem), why no one else joined, and a proven bound."""

    members: np.ndarray
    stopped: str
    bound: float | None = None


def greedy(problem: SearchProblem, on_no_fit: OnNoFit, rng: np.random.Generator) -> Found:
    """Grow a set as the paper's Algorithm 1 does.

    With "stop", the first best client that does not fit ends the search (docs/paper.md D1). With "skip", it is
    dropped and the search goes on. Since the band in use only grows, such a client will never fit again, and
    looking only at those who still fit gives the same set: one pass over the candidates per admission.
    """
    positions = np.arange(len(problem.clients))
    left = problem
    members: list[int] = []
    sums = problem.sums(np.zeros(0, dtype=np.intp))
    used_hz = 0.0
    joined = np.zeros(len(positions), dtype=bool)
    while True:
        fits = left.needed_hz <= problem.total_hz - used_hz
        open_to = ~joined & fits if on_no_fit == "skip" else ~joined
        if not open_to.any():
            why = "nobody else fits" if members else "nobody fits"
            if len(members) == len(problem.clients) > 0:
                why = "nobody is left"
            return Found(np.array(members, dtype=np.intp), why)
        if open_to.sum() < 0.5 * len(open_to):  # forget the lost cases, so that later passes are short
            left, positions, fits = left.only(open_to), positions[open_to], fits[open_to]
            joined = np.zeros(len(positions), dtype=bool)
            open_to = ~joined
        utility = np.where(open_to, left.utility_with_each(sums), np.inf)
        best = _lowest(utility, rng)
        grown = left.with_member(sums, best)
        # (19); the first client always passes (docs/paper.md D2).
        if members and problem.total(grown) - problem.total(sums) > 0:
            return Found(np.array(members, dtype=np.intp), "anybody else would raise the objective")
        if not fits[best]:
            return Found(np.array(members, dtype=np.intp), "the best client does not fit (on_no_fit = stop)")
        members.append(int(positions[best]))
        sums = grown
        used_hz += float(left.needed_hz[best])
        joined[best] = True


def _lowest(utility: np.ndarray, rng: np.random.Generator) -> int:
    tied = np.flatnonzero(utility <= utility.min() + TIE)
    return int(tied[0] if len(tied) == 1 else rng.choice(tied))
