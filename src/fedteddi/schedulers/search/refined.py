"""A better search: many sets are improved side by side by exchanging clients, and leave local optima again.

A tabu search (Glover): every set moves to its best neighbour, even a worse one, and whoever has left may not come
back for a few steps, so that it does not fall back into the optimum it came from. The greedy search's set is one
of the starting points, so the result is never worse. docs/optimality.md shows how far it is from the proven optimum.

The work is counted in steps, never in seconds: the same seed gives the same schedule on a slow machine.
"""

import numpy as np

from fedteddi.schedulers.search.exchanges import NOBODY, Pool
from fedteddi.schedulers.search.greedy import Found, greedy
from fedteddi.schedulers.search.problem import SearchProblem

# A move must gain more than rounding can fake.
LEAST_GAIN = 1e-12

# How much is tried. docs/optimality.md has what comes of it for 30 clients.
SETS = 48
STEPS = 12
SHORTEST_BAN, LONGEST_BAN = 3, 6  # steps for which who left may not come back

# Where sets, classes or candidates are many, fewer sets are moved, so that a step works on no more numbers than this.
STEP_ELEMENTS = 2**18

# Among more candidates than this, only the most promising are exchanged, in rounds.
POOL_SIZE = 128
ROUNDS = 8
TRIED_LEAVERS = 16  # for each of whom the candidates are evaluated, a pass over all of them


def refined(problem: SearchProblem, rng: np.random.Generator) -> Found:
    """Return a set that no exchange of one client improves.

    With more than POOL_SIZE candidates that holds among the most promising of them.
    """
    if len(problem.clients) == 0:
        return Found(np.zeros(0, dtype=np.intp), "nobody fits")
    # Searching a shuffled list breaks ties at random instead of in favour of low client numbers.
    order = rng.permutation(len(problem.clients))
    problem = problem.only(order)
    best = greedy(problem, "skip", rng).members
    for _ in range(1 if len(order) <= POOL_SIZE else ROUNDS):
        pool = pool_around(problem, best, rng)
        better = settle(pool, walk(pool, best, rng))
        if total(problem, better) >= total(problem, best) and len(pool.staying) == 0:
            break
        best = better
    return Found(order[best], "no exchange lowers the objective")


def total(problem: SearchProblem, members: np.ndarray) -> float:
    """P3 of a set, from scratch."""
    return problem.total(problem.sums(members))


def walk(pool: Pool, members: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Move many sets from neighbour to neighbour; return the best set met, `members` if none is better."""
    best, best_total = members, total(pool.problem, members)
    inside = starting_sets(pool, members, rng)  # [K, 1 + P]
    sets = np.arange(len(inside))
    banned_until = np.zeros(inside.shape, dtype=np.intp)
    bans = rng.integers(SHORTEST_BAN, LONGEST_BAN, size=(STEPS, len(sets)), endpoint=True)
    for step in range(STEPS):
        exchanges = pool.exchanges(inside)
        banned = (step < banned_until.T)[:, exchanges.of_set]  # [1 + P, Q]
        # Who is banned may come back all the same where that beats everything met so far.
        exchanges.total[banned & (exchanges.total >= best_total)] = np.inf
        leaver, joiner, reached = exchanges.best_of_each_set()
        banned_until[sets, leaver] = step + 1 + bans[step]
        banned_until[:, NOBODY] = 0
        inside[sets, leaver] = False
        inside[sets, joiner] = True
        inside[:, NOBODY] = True
        lowest = int(reached.argmin())
        if reached[lowest] < best_total - LEAST_GAIN:
            best, best_total = better_of(pool, best, best_total, inside[lowest])
    return best


def settle(pool: Pool, members: np.ndarray) -> np.ndarray:
    """Take the best exchange for as long as it lowers P3."""
    best, best_total = members, total(pool.problem, members)
    while True:
        inside = pool.mask(best)
        leaver, joiner, _ = pool.exchanges(inside[None]).best_of_each_set()
        inside[leaver], inside[joiner], inside[NOBODY] = False, True, True
        better, better_total = better_of(pool, best, best_total, inside)
        if better is best:
            return best
        best, best_total = better, better_total


def better_of(
    pool: Pool, best: np.ndarray, best_total: float, inside: np.ndarray
) -> tuple[np.ndarray, float]:
    """Return the better of two sets and its P3; the second is summed from scratch and must fit the band."""
    members = pool.members(inside)
    reached = total(pool.problem, members)
    if reached < best_total - LEAST_GAIN and pool.problem.fits(members):
        return members, reached
    return best, best_total


def starting_sets(pool: Pool, members: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return `members` and sets that fill the band at random, cheap clients first more often, [K, 1 + P].

    The next to join is drawn with a chance in proportion to 1/B*; who first does not fit ends it.
    """
    inside = np.ones((SETS, 1 + len(pool.clients)), dtype=bool)
    inside[0] = pool.mask(members)
    turn = np.argsort(pool.needed_hz[1:] * rng.exponential(size=(SETS - 1, len(pool.clients))), axis=1)
    fits = np.cumsum(pool.needed_hz[1:][turn], axis=1) <= pool.left_hz
    np.put_along_axis(inside[1:, 1:], turn, fits, axis=1)
    elements = pool.pull.size * inside.sum(axis=1).cumsum()  # to evaluate the first k sets' exchanges, [K]
    return inside[: max(1, int(np.searchsorted(elements, STEP_ELEMENTS, side="right")))]


def pool_around(problem: SearchProblem, members: np.ndarray, rng: np.random.Generator) -> Pool:
    """Return the clients to exchange: everybody, or as many as POOL_SIZE allows of the most promising ones.

    Half of the pool at most are members, drawn at random; the others stay for this round. The rest are those
    who lead to the lowest P3 when they take the place of one of these members, or join beside them.
    """
    if len(problem.clients) <= POOL_SIZE:
        return Pool(problem, np.arange(len(problem.clients)), np.zeros(0, dtype=np.intp))
    moving = rng.permutation(members)[: POOL_SIZE // 2]
    promise = lowest_with_each(problem, members, moving[:TRIED_LEAVERS])
    joiners = np.argpartition(promise, POOL_SIZE - len(moving))[: POOL_SIZE - len(moving)]
    joiners = joiners[~np.isin(joiners, members)]
    return Pool(problem, np.concatenate([moving, joiners]), np.setdiff1d(members, moving))


def lowest_with_each(problem: SearchProblem, members: np.ndarray, leavers: np.ndarray) -> np.ndarray:
    """Return for every candidate the lowest P3 it leads to by joining or by replacing a leaver, [M]."""
    order, rising = problem.by_need
    lowest = np.full(len(order), np.inf)  # in this order
    for stay in (members, *(members[members != leaver] for leaver in leavers)):
        left_hz = problem.total_hz - float(problem.needed_hz[stay].sum())
        sums = problem.sums(stay)
        fitting = rising.only(slice(np.searchsorted(rising.needed_hz, left_hz, side="right")))
        then = fitting.utility_with_each(sums) + problem.variance(sums.size + 1)
        np.minimum(lowest[: len(then)], then, out=lowest[: len(then)])
    promise = np.empty(len(order))
    promise[order] = lowest
    promise[members] = np.inf
    return promise
