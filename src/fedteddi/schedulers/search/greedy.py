"""Algorithm 1, repaired: admit the client with the lowest U(S ∪ n) until P3 would rise (19)."""

import math
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
    reached = math.inf  # P3 of the members
    while True:
        left_hz = problem.total_hz - used_hz
        open_to = ~joined & (left.needed_hz <= left_hz) if on_no_fit == "skip" else ~joined
        number = np.count_nonzero(open_to)
        if number == 0:
            why = "nobody else fits" if members else "nobody fits"
            if len(members) == len(problem.clients) > 0:
                why = "nobody is left"
            return Found(np.array(members, dtype=np.intp), why)
        if number < 0.5 * len(open_to):  # forget the lost cases, so that later passes are short
            left, positions = left.only(open_to), positions[open_to]
            joined = np.zeros(len(positions), dtype=bool)
            open_to = ~joined
        utility = np.where(open_to, left.utility_with_each(sums), np.inf)
        best = _lowest(utility, rng)
        grown = left.with_member(sums, best)
        then = problem.total(grown)
        # (19); the first client always passes (docs/paper.md D2).
        if members and then - reached > 0:
            return Found(np.array(members, dtype=np.intp), "anybody else would raise the objective")
        if not left.needed_hz[best] <= left_hz:
            return Found(np.array(members, dtype=np.intp), "the best client does not fit (on_no_fit = stop)")
        members.append(int(positions[best]))
        sums, reached = grown, then
        used_hz += float(left.needed_hz[best])
        joined[best] = True


def _lowest(utility: np.ndarray, rng: np.random.Generator) -> int:
    tied = np.flatnonzero(utility <= utility[utility.argmin()] + TIE)
    return int(tied[0] if len(tied) == 1 else rng.choice(tied))
