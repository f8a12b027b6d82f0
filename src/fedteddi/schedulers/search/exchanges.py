"""P3 of every set one exchange away, for several sets at once: one client leaves, one joins, or both.

Nobody may also leave and nobody may also join, so that adding and dropping are exchanges too. "Nobody" is index 0
of every array below, a client without samples, pull or need; the pool's clients are indices 1..P.
"""

from dataclasses import dataclass

import numpy as np

from fedteddi.heterogeneity.divergence import Distance
from fedteddi.schedulers.search.problem import BLOCK_ELEMENTS, SearchProblem

NOBODY = 0


@dataclass(frozen=True, kw_only=True)
class Exchanges:
    """All exchanges of K sets, a column for every client that may leave one of them (and for nobody)."""

    of_set: np.ndarray  # which set the column is about, rising, [Q]
    leaver: np.ndarray  # who leaves it, nobody first, [Q]
    first: np.ndarray  # the column of each set in which nobody leaves, [K]
    total: np.ndarray  # P3 with each joiner in, [1 + P, Q]; inf if that is impossible

    def best_of_each_set(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return who leaves, who joins and the P3 reached by the best exchange of every set, [K] each."""
        lowest = self.total.min(axis=0)  # [Q]
        reached = np.minimum.reduceat(lowest, self.first)  # [K]
        attained = np.flatnonzero(lowest == reached[self.of_set])
        column = attained[np.searchsorted(self.of_set[attained], np.arange(len(self.first)))]
        return self.leaver[column], self.total[:, column].argmin(axis=0), reached


class Pool:
    """The clients that may leave or join, beside members that stay whatever happens."""

    def __init__(self, problem: SearchProblem, clients: np.ndarray, staying: np.ndarray) -> None:
        self.problem, self.clients, self.staying = problem, clients, staying
        kept = problem.sums(staying)
        kept_hz = float(problem.needed_hz[staying].sum())
        self.left_hz = problem.total_hz - kept_hz
        self.needed_hz = np.r_[0.0, problem.needed_hz[clients]]  # [1 + P]
        self.samples = np.r_[0.0, problem.samples[clients]]
        self.incentive = np.r_[0.0, problem.incentive[clients]]
        self.pull = np.c_[np.zeros(len(problem.pull)), problem.pull[:, clients]]  # [C, 1 + P]
        heads = np.r_[0.0, np.ones(len(clients))]
        # What a set is summed from, [4 + C, 1 + P]: nobody is in every set and brings the staying members' sums.
        self.share = np.vstack([heads, self.needed_hz, self.samples, self.incentive, self.pull])
        self.share[:, NOBODY] = [kept.size, kept_hz, kept.samples, kept.incentive, *kept.pull]
        sizes = range(1, kept.size + len(clients) + 1)
        self.variance = np.array([np.inf, *map(problem.variance, sizes)])  # by size; nobody is worst (D2)

    def members(self, inside: np.ndarray) -> np.ndarray:
        """Return a set [1 + P] as positions in the problem."""
        return np.concatenate([self.staying, self.clients[inside[1:]]])

    def mask(self, members: np.ndarray) -> np.ndarray:
        """Return a set of positions in the problem as a mask over the pool, [1 + P]."""
        return np.concatenate([[True], np.isin(self.clients, members)])

    def exchanges(self, inside: np.ndarray) -> Exchanges:
        """Return every exchange of the sets `inside` [K, 1 + P] and the P3 it leads to."""
        of_set, leaver = np.nonzero(inside)
        first = np.flatnonzero(leaver == NOBODY)
        stays = inside[of_set]  # [Q, 1 + P]
        stays[np.arange(len(leaver)), leaver] = False
        stays[:, NOBODY] = True
        # Summed from scratch: to subtract a leaver with a million samples would leave rounding in place of the rest.
        sums = self.share @ stays.T.astype(np.float64)  # [4 + C, Q]
        size, spent_hz, samples, incentive = sums[:4]
        held = samples + self.samples[:, None]
        held[NOBODY, samples == 0] = 1.0  # the empty set; its variance below rules it out
        total = self.problem.utility(
            self._divergence(sums[4:]), incentive + self.incentive[:, None], held
        )  # [1 + P, Q]
        size = size.astype(np.intp)
        total[NOBODY] += self.variance[size]
        total[1:] += self.variance[np.minimum(size + 1, len(self.variance) - 1)]
        impossible = inside.T[:, of_set]  # who is in already cannot join, but nobody can ...
        impossible[NOBODY] = False
        impossible[NOBODY, first] = True  # ... unless nobody leaves either: that is no exchange
        impossible |= self.needed_hz[:, None] > self.problem.total_hz - spent_hz
        total[impossible] = np.inf
        return Exchanges(of_set=of_set, leaver=leaver, first=first, total=total)

    def _divergence(self, pull: np.ndarray) -> np.ndarray:
        """Return the size of (pull of those who stay + A_n) for every joiner n, [1 + P, Q], in blocks of joiners."""
        joiners, columns = self.pull.shape[1], pull.shape[1]
        divergence = np.empty((joiners, columns))
        width = max(1, BLOCK_ELEMENTS // columns)
        for start in range(0, joiners, width):
            block = slice(start, start + width)
            add_sizes(self.pull[:, block], pull, self.problem.distance, out=divergence[block])
        return divergence


def add_sizes(joining: np.ndarray, staying: np.ndarray, distance: Distance, *, out: np.ndarray) -> None:
    """Write ‖a_p + b_q‖ of all columns of `joining` [C, p] and `staying` [C, Q] to `out` [p, Q].

    Class by class: that needs no [C, p, Q], takes a fifth of its time, and adds up in the same order.
    """
    both, size = np.empty_like(out), np.abs if distance == "absolute" else np.square
    out[:] = 0.0
    for of_joining, of_staying in zip(joining, staying, strict=True):
        np.add.outer(of_joining, of_staying, out=both)
        size(both, out=both)
        out += both
    if distance != "absolute":
        np.sqrt(out, out=out)
