"""A better search: grow in two ways, then swap, drop and refill until nothing helps; best of both.

Never worse than the greedy search, whose set is one of the starting points. docs/optimality.md shows how far
both are from the proven optimum.
"""

import numpy as np

from fedteddi.schedulers.search.greedy import Found, greedy
from fedteddi.schedulers.search.problem import SearchProblem

# A move must gain more than rounding can fake, or the search could walk in circles.
LEAST_GAIN = 1e-12

Members = list[int]


def refined(problem: SearchProblem, rng: np.random.Generator) -> Found:
    """Return a set that neither an exchange of one client nor a drop-and-refill improves."""
    if len(problem.clients) == 0:
        return Found(np.zeros(0, dtype=np.intp), "nobody fits")
    # Searching a shuffled list breaks ties at random instead of in favour of low client numbers.
    order = rng.permutation(len(problem.clients))
    problem = problem.only(order)
    greedy_members = [int(m) for m in greedy(problem, "skip", rng).members]
    starts = [greedy_members, grow(problem, greedy_members[:1], per_hertz=True)]
    best = min((improve(problem, start) for start in starts), key=lambda members: total(problem, members))
    return Found(order[best], "no exchange lowers P3")


def total(problem: SearchProblem, members: Members) -> float:
    """P3 of a set given as a list of positions."""
    return problem.total(problem.sums(np.array(members, dtype=np.intp)))


def grow(problem: SearchProblem, members: Members, *, per_hertz: bool, without: int | None = None) -> Members:
    """Add clients, each time the one with the largest gain in P3 (or gain per hertz), while P3 falls."""
    members = list(members)
    shut_out = np.zeros(len(problem.clients), dtype=bool)
    shut_out[members] = True
    if without is not None:
        shut_out[without] = True
    while True:
        sums = problem.sums(np.array(members, dtype=np.intp))
        left_hz = problem.total_hz - float(problem.needed_hz[members].sum())
        fits = ~shut_out & (problem.needed_hz <= left_hz)
        if not fits.any():
            return members
        then = problem.utility_with_each(sums) + problem.variance(sums.size + 1)  # P3(S ∪ n), [M]
        if sums.size == 0:
            best = int(np.argmin(np.where(fits, then, np.inf)))
        else:
            gain = np.where(fits, problem.total(sums) - then, -np.inf)
            best = int(np.argmax(gain / problem.needed_hz if per_hertz else gain))
            if gain[best] <= LEAST_GAIN:
                return members
        members.append(best)
        shut_out[best] = True


def improve(problem: SearchProblem, members: Members) -> Members:
    """Move to better neighbours until there is none."""
    while True:
        better = best_exchange(problem, members) or best_refill(problem, members)
        if better is None:
            return members
        members = better


def best_exchange(problem: SearchProblem, members: Members) -> Members | None:
    """Return the best set reached by adding one client, dropping one, or swapping one, if it is better."""
    best_total, best = total(problem, members) - LEAST_GAIN, None
    shut_out = np.zeros(len(problem.clients), dtype=bool)
    shut_out[members] = True
    used_hz = float(problem.needed_hz[members].sum())
    for leaver in (None, *members):
        stay = [m for m in members if m != leaver]
        sums = problem.sums(np.array(stay, dtype=np.intp))
        left_hz = problem.total_hz - (used_hz if leaver is None else used_hz - problem.needed_hz[leaver])
        if problem.total(sums) < best_total:
            best_total, best = problem.total(sums), stay
        then = problem.utility_with_each(sums) + problem.variance(sums.size + 1)  # [M]
        then = np.where(shut_out | (problem.needed_hz > left_hz), np.inf, then)
        joiner = int(np.argmin(then))
        if then[joiner] < best_total:
            best_total, best = float(then[joiner]), [*stay, joiner]
    return best


def best_refill(problem: SearchProblem, members: Members) -> Members | None:
    """Return the best set reached by dropping one client and growing anew without it, if it is better."""
    best_total, best = total(problem, members) - LEAST_GAIN, None
    for leaver in members:
        stay = [m for m in members if m != leaver]
        for per_hertz in (False, True):
            trial = grow(problem, stay, per_hertz=per_hertz, without=leaver)
            if trial and total(problem, trial) < best_total:
                best_total, best = total(problem, trial), trial
    return best
