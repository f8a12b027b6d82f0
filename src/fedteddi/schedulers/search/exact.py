"""The optimum, proven: one small mixed-integer program for every size of the set (HiGHS through scipy).

For a set of size s the variance term is fixed and P3 asks for the least U = X/T, where

    X(x) = Σ_c |Σ_n A_cn x_n| − Σ_n incentive_n x_n   and   T(x) = Σ_n D_n x_n.

A quotient is not linear, but "is there a set of size s with U < θ?" is: minimise X − θT. With θ taken from
the best set known so far, a minimum of 0 proves that size s holds nothing better; a negative one hands us a
better set, a new θ and, when all D_n are equal, the optimum of that size at once (Dinkelbach's method).
"""

import time

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import block_array, csr_array, eye_array

from fedteddi.errors import InputError
from fedteddi.schedulers.search.greedy import Found
from fedteddi.schedulers.search.problem import SearchProblem
from fedteddi.schedulers.search.refined import refined

# HiGHS works to an absolute 1e-6, and the program below is in units of the largest possible utility. Where sample
# counts differ widely that may not be enough, and the program is scaled up (which makes HiGHS 1.12 repair its own
# solutions now and then, and print about it).
PROVEN_WITHIN = 1e-6
LARGEST_SCALE = 1e8


class UnsolvedError(InputError):
    """The exact search could not prove its answer; it never falls back on a guess."""


def exact(problem: SearchProblem, rng: np.random.Generator, time_limit_s: float) -> Found:
    """Return the set with the lowest P3 of all that fit the band, with a proven lower bound.

    HiGHS 1.12 prints a stray line on stdout now and then (its issue 2783); the command line sends it to stderr.
    """
    if len(problem.clients) == 0:
        return Found(np.zeros(0, dtype=np.intp), "nobody fits")
    give_up_at = time.monotonic() + time_limit_s
    # As in the refined search: among equal optima, chance decides and not the order of the clients.
    order = rng.permutation(len(problem.clients))
    problem = problem.only(order)
    best = refined(problem, rng).members
    best_total = problem.total(problem.sums(best))
    bound = best_total
    # The cheapest s clients tell whether any s clients fit at all.
    cheapest_hz = np.cumsum(np.sort(problem.needed_hz))
    for size in range(1, int(np.searchsorted(cheapest_hz, problem.total_hz, side="right")) + 1):
        scale = 1.0
        while True:
            program = SizeProgram(problem, size, scale)
            members, size_bound = program.solve(best_total, give_up_at)
            better = members is not None and problem.total(problem.sums(members)) < best_total
            if members is not None and better:
                best, best_total = members, problem.total(problem.sums(members))
            if size_bound >= best_total - PROVEN_WITHIN * program.unit:
                break
            if not better:  # nothing found, yet nothing proven: ask for more digits
                scale *= 100.0
            if scale > LARGEST_SCALE:
                raise UnsolvedError(
                    f"search='exact' could not prove the optimum of sets of {size} clients, whose sample counts"
                    f" lie too far apart ({problem.samples.min():g} to {problem.samples.max():g}):"
                    " use search='refined' here"
                )
        bound = min(bound, size_bound)
    return Found(order[best], "proven optimal", bound=min(bound, best_total))


class SizeProgram:
    """The mixed-integer program for sets of one size: variables x [M] (in or out), then t [C] ≥ |A x|."""

    def __init__(self, problem: SearchProblem, size: int, scale: float) -> None:
        self.problem, self.size = problem, size
        classes, count = problem.pull.shape
        mean_samples = float(problem.samples.mean())
        pull, incentive = problem.pull / mean_samples, problem.incentive / mean_samples
        # What P3 is measured in: the largest of its terms for a client alone.
        largest = (np.abs(pull).sum(axis=0).max(), np.abs(incentive).max(), problem.one_client_variance)
        self.unit = float(max(largest)) or 1.0
        self.samples = problem.samples / mean_samples * scale
        self.incentive = incentive / self.unit * scale
        self.least_samples = float(np.sort(self.samples)[:size].sum())
        absolute = csr_array(pull / self.unit * scale)
        ones = eye_array(classes)
        self.rows = [
            LinearConstraint(block_array([[absolute, -ones], [-absolute, -ones]]), -np.inf, 0.0),
            self._over_clients(np.ones(count), size, size),
            self._over_clients(problem.needed_hz / problem.total_hz, -np.inf, 1.0),
        ]
        self.bounds = Bounds(np.zeros(count + classes), np.r_[np.ones(count), np.full(classes, np.inf)])
        self.integrality = np.r_[np.ones(count), np.zeros(classes)]

    def _over_clients(self, weights: np.ndarray, low: float, high: float) -> LinearConstraint:
        return LinearConstraint(np.r_[weights, np.zeros(len(self.problem.pull))], low, high)

    def solve(self, best_total: float, give_up_at: float) -> tuple[np.ndarray | None, float]:
        """Return a set that would beat `best_total` most, if any, and a lower bound of P3 for this size."""
        variance = self.problem.variance(self.size)
        theta = (best_total - variance) / self.unit
        cost = np.r_[-self.incentive - theta * self.samples, np.ones(len(self.problem.pull))]
        while True:
            seconds = give_up_at - time.monotonic()
            if seconds <= 0:
                raise self._out_of_time()
            result = milp(
                cost,
                constraints=self.rows,
                bounds=self.bounds,
                integrality=self.integrality,
                options={"mip_rel_gap": 0.0, "time_limit": seconds},
            )
            if result.status == 2:  # no set of this size fits the band
                return None, np.inf
            if result.status == 1:
                raise self._out_of_time()
            if result.status != 0 or result.x is None:
                raise UnsolvedError(
                    f"search='exact': HiGHS gave up ({result.message}); use search='refined' here"
                )
            members = np.flatnonzero(result.x[: len(self.problem.clients)] > 0.5)
            if self.problem.needed_hz[members].sum() <= self.problem.total_hz:
                break
            # Overspent by less than HiGHS' tolerance: forbid exactly this set and ask again.
            forbidden = np.isin(np.arange(len(self.problem.clients)), members)
            self.rows.append(self._over_clients(forbidden.astype(float), -np.inf, self.size - 1))
        # X − θT ≥ lowest for every set of this size, so U ≥ θ + lowest/T, and lowest ≤ 0 needs the least T.
        lowest = float(result.mip_dual_bound)
        divisor = self.least_samples if lowest < 0 else float(np.sort(self.samples)[-self.size :].sum())
        return members, variance + self.unit * (theta + lowest / divisor)

    def _out_of_time(self) -> UnsolvedError:
        return UnsolvedError(
            f"search='exact' could not prove the optimum among {len(self.problem.clients)} clients in time:"
            " raise exact_time_limit_s, or use search='refined'"
        )
