"""The weights whose mix comes closest to a target: an exact active-set method on the simplex, with a largest weight."""

import numpy as np

# A weight stays at its bound if the objective's slope on the way in is no steeper than this, with a curvature of 1.
TOLERANCE = 1e-13
AT_ZERO, FREE, AT_MOST = -1, 0, 1


def solved_weights(mix: np.ndarray, target: np.ndarray, size_weight: float, most: float = 1.0) -> np.ndarray:
    """Return the ω of lowest ‖Σ_n ω_n p_n − t‖² + ν²‖ω‖² with 0 ≤ ω_n ≤ `most` and Σ ω = 1, [n].

    `mix` [n, C] are the p_n, `target` [C] is t, and `size_weight` is ν > 0, which makes ω unique. Where n weights of
    at most `most` cannot add up to 1, all are equal.
    """
    count = len(mix)
    weights = np.full(count, 1.0 / count)
    if count * most <= 1.0:
        return weights
    gaps = mix - target  # Σ ω = 1: Σ ω_n p_n − t = Σ ω_n (p_n − t), [n, C]
    curvature = gaps @ gaps.T + size_weight**2 * np.eye(count)
    curvature /= curvature.max()  # H of ½ ωᵀHω, [n, n]
    at = np.full(count, FREE)
    # A pass fixes a weight at a bound, or ends at the best point of its free weights, lower than any before, and frees
    # one: so no set of free weights is met twice.
    for _ in range(100 * count):
        free = np.flatnonzero(at == FREE)
        goal, level = _best_inside(curvature, weights, free)
        moved, bound = _up_to_a_bound(weights[free], goal, most)
        weights[free] = moved
        if bound is not None:
            at[free[bound]] = AT_ZERO if goal[bound] < moved[bound] else AT_MOST
            weights[free[bound]] = 0.0 if at[free[bound]] == AT_ZERO else most
            continue
        slope = (curvature @ weights - level) * at  # down which each would go if it were set free, [n]
        steepest = int(np.argmax(slope))
        if slope[steepest] <= TOLERANCE:
            return weights
        at[steepest] = FREE
    raise AssertionError("far fewer passes are enough")


def _best_inside(curvature: np.ndarray, weights: np.ndarray, free: np.ndarray) -> tuple[np.ndarray, float]:
    """Return the best free weights if the others stay and Σ ω = 1 alone binds, and the gradient they then have."""
    fixed = np.delete(np.arange(len(weights)), free)
    block = curvature[np.ix_(free, free)]
    known = curvature[np.ix_(free, fixed)] @ weights[fixed]
    # H_FF x + known = level · 1 and Σ x = what the others leave.
    of_one, of_known = np.linalg.solve(block, np.column_stack([np.ones(len(free)), known])).T
    level = (1.0 - weights[fixed].sum() + of_known.sum()) / of_one.sum()
    return level * of_one - of_known, float(level)


def _up_to_a_bound(weights: np.ndarray, goal: np.ndarray, most: float) -> tuple[np.ndarray, int | None]:
    """Go straight to the goal, or as far as no weight leaves 0 to `most`; return also which of them stops that."""
    if len(goal) == 1:  # the others leave it no choice, and rounding must not
        return goal.clip(0.0, most), None
    way = goal - weights
    with np.errstate(divide="ignore", invalid="ignore"):
        room = np.where(goal < 0.0, weights / -way, np.where(goal > most, (most - weights) / way, np.inf))
    first = int(np.argmin(room))
    return (goal, None) if room[first] == np.inf else (weights + room[first] * way, first)
