"""The weights closest to a target: by hand, against enumeration and non-negative least squares, and at its limits."""

from itertools import product

import numpy as np
import pytest
from scipy.optimize import nnls

from fedteddi.aggregation.solved_weights import solved_weights


def loss(weights: np.ndarray, mix: np.ndarray, target: np.ndarray, size_weight: float) -> float:
    """‖Σ ω_n p_n − t‖² + ν²‖ω‖² in plain loops."""
    gaps = [
        sum(w * p for w, p in zip(weights, column, strict=True)) - t
        for column, t in zip(mix.T, target, strict=True)
    ]
    return sum(g * g for g in gaps) + size_weight**2 * sum(w * w for w in weights)


def made(seed: int, clients: int, classes: int) -> tuple[np.ndarray, np.ndarray]:
    """Mixes of a few classes each, some of them alike, and a target; sometimes one that a client has."""
    rng = np.random.default_rng(seed)
    mix = rng.dirichlet(np.full(classes, (0.05, 0.3, 3.0)[seed % 3]), size=clients)
    if seed % 4 == 0:
        mix = mix[rng.integers(clients, size=clients)]
    return mix, mix[0] if seed % 5 == 0 else rng.dirichlet(np.ones(classes))


# --- by hand


@pytest.mark.parametrize(("size_weight", "first"), [(1.0, 0.6), (0.5, 0.66), (0.3, 0.745 / 1.09)])
def test_two_clients_of_one_class_each(size_weight: float, first: float) -> None:
    """p = (1, 0) and (0, 1), t = (0.7, 0.3), ω = (x, 1 − x): 2(x − 0.7)² + ν²(x² + (1 − x)²) is lowest where
    4(x − 0.7) + ν²(4x − 2) = 0, so x = (0.7 + ν²/2)/(1 + ν²): 1.2/2, 0.825/1.25, 0.745/1.09."""
    found = solved_weights(np.eye(2), np.array([0.7, 0.3]), size_weight)
    np.testing.assert_allclose(found, [first, 1 - first], rtol=0, atol=1e-15)


def test_who_only_leads_away_gets_nothing() -> None:
    """t = (1, 0), a third client has (0, 1): alone, ω = (x, 1 − x) of the first two with p = (1, 0), (1/2, 1/2) gives
    2(1 − x)²/4 + ν²(x² + (1 − x)²), lowest at x = (1 + 2ν²)/(1 + 4ν²) = 1.5/2 for ν = 1/2. There ω = (3/4, 1/4), the
    residual is (−1/8, 1/8), and half the gradients p_n·r + ν² ω_n are 1/16, 1/16 and 1/8: the third would raise it."""
    mix = np.array([[1.0, 0.0], [0.5, 0.5], [0.0, 1.0]])
    found = solved_weights(mix, np.array([1.0, 0.0]), 0.5)
    np.testing.assert_allclose(found, [0.75, 0.25, 0.0], rtol=0, atol=1e-15)


def test_nobody_gets_more_than_the_most() -> None:
    """As above with at most 0.6: the first is held there, and 2(0.2 + z/2)² + (1/4)(0.36 + (0.4 − z)² + z²) for the
    third's z has the slope 2(0.2 + z/2) − (0.4 − z)/2 + z/2 > 0 at z = 0: it gets nothing, the second 0.4."""
    mix = np.array([[1.0, 0.0], [0.5, 0.5], [0.0, 1.0]])
    found = solved_weights(mix, np.array([1.0, 0.0]), 0.5, most=0.6)
    np.testing.assert_allclose(found, [0.6, 0.4, 0.0], rtol=0, atol=1e-15)


def test_a_most_that_cannot_be_kept_makes_all_equal() -> None:
    """Four weights of at most 0.2 add up to 0.8; of at most 0.25 they are 0.25 each."""
    mix, target = made(1, 4, 3)
    for most in (0.2, 0.25):
        assert solved_weights(mix, target, 0.3, most).tolist() == [0.25] * 4


def test_one_upload_has_weight_1() -> None:
    assert solved_weights(np.array([[0.2, 0.8]]), np.array([1.0, 0.0]), 0.3).tolist() == [1.0]


# --- it is the minimum


def enumerated(mix: np.ndarray, target: np.ndarray, size_weight: float, most: float) -> np.ndarray:
    """Try every way of being at 0, at the most or in between; solve the last ones' optimality conditions."""
    clients, best = len(mix), (np.inf, np.zeros(len(mix)))
    hessian = 2 * (mix @ mix.T + size_weight**2 * np.eye(clients))
    for at in product((0.0, most, None), repeat=clients):
        weights = np.array([0.0 if bound is None else bound for bound in at])
        free = [n for n, bound in enumerate(at) if bound is None]
        if free:
            size = len(free) + 1
            system = np.ones((size, size))
            system[:-1, :-1], system[-1, -1] = hessian[np.ix_(free, free)], 0.0
            right = np.append((2 * mix @ target - hessian @ weights)[free], 1.0 - weights.sum())
            weights[free] = np.linalg.solve(system, right)[:-1]
        possible = weights.min() >= -1e-12 and weights.max() <= most + 1e-12
        if possible and abs(weights.sum() - 1.0) < 1e-12:
            best = min(best, (loss(weights, mix, target, size_weight), weights), key=lambda pair: pair[0])
    return best[1]


@pytest.mark.parametrize("most", [1.0, 0.5, 0.34])
@pytest.mark.parametrize("seed", range(12))
def test_it_is_the_best_of_all_supports(seed: int, most: float) -> None:
    mix, target = made(seed, 4 + seed % 2, 2 + seed % 3)
    size_weight = (0.05, 0.3, 1.0)[seed % 3]
    found = solved_weights(mix, target, size_weight, most)
    np.testing.assert_allclose(found, enumerated(mix, target, size_weight, most), rtol=0, atol=1e-10)


@pytest.mark.parametrize("clients", [2, 10, 30, 300])
@pytest.mark.parametrize("seed", range(5))
def test_it_is_that_of_non_negative_least_squares(seed: int, clients: int) -> None:
    """With Σ ω = 1 the objective is ‖A ω‖², A = (p_n − t over ν I). min_{y ≥ 0} ‖A y‖² + (Σ y − 1)² with y = s ω is
    s²‖A ω‖² + (s − 1)²: whatever s, the lowest ‖A ω‖ is best, so ω = y/Σ y exactly."""
    mix, target = made(seed, clients, 10)
    size_weight = (0.1, 0.3, 1.0)[seed % 3]
    system = np.vstack([(mix - target).T, size_weight * np.eye(clients), np.ones(clients)])
    right = np.append(np.zeros(len(system) - 1), 1.0)
    scaled = nnls(system, right)[0]
    found = solved_weights(mix, target, size_weight)
    np.testing.assert_allclose(found, scaled / scaled.sum(), rtol=0, atol=1e-10)


@pytest.mark.parametrize("most", [1.0, 0.5, 0.2])
@pytest.mark.parametrize("size_weight", [1e-3, 0.1, 0.3, 1.0, 100.0])
def test_its_gradient_is_level_where_weights_are_free(size_weight: float, most: float) -> None:
    """Optimality on the bounded simplex: a level that the gradient has at every weight between its bounds, that it is
    not below at weights of 0 and not above at the largest possible ones. Convex, so that is all."""
    for seed in range(60):
        mix, target = made(seed, 2 + seed % 30, 2 + seed % 9)
        found = solved_weights(mix, target, size_weight, most)
        largest = max(most, 1 / len(mix))
        assert found.min() >= 0.0
        assert found.max() <= largest + 1e-15
        assert found.sum() == pytest.approx(1.0, abs=1e-14)
        gradient = mix @ (found @ mix - target) + size_weight**2 * found
        can_fall, can_rise = found > 0.0, found < largest - 1e-15
        highest = gradient[can_fall].max()
        lowest = gradient[can_rise].min() if can_rise.any() else np.inf
        assert highest - lowest <= 1e-10 * max(1.0, size_weight**2)


# --- its limits


def test_with_a_large_nu_all_are_equal() -> None:
    """ω = 1/n + (what two classes can pull, at most 2)/ν²."""
    for seed in range(10):
        mix, target = made(seed, 7, 4)
        np.testing.assert_allclose(solved_weights(mix, target, 1e4), np.full(7, 1 / 7), rtol=0, atol=1e-7)
        np.testing.assert_allclose(solved_weights(mix, target, 1e100), np.full(7, 1 / 7), rtol=1e-14)


def test_with_a_small_nu_the_target_is_met_where_it_can_be() -> None:
    """A t = Σ c_n p_n with c on the simplex costs ν²‖c‖² ≤ ν² there, so the best misses t by at most ν."""
    for seed in range(20):
        rng = np.random.default_rng(seed)
        mix = rng.dirichlet(np.full(6, 0.3), size=9)
        target = rng.dirichlet(np.ones(9)) @ mix
        missed = {v: np.linalg.norm(solved_weights(mix, target, v) @ mix - target) for v in (0.3, 0.01, 1e-6)}
        assert all(gap <= size_weight for size_weight, gap in missed.items())
        assert list(missed.values()) == sorted(missed.values(), reverse=True)


def test_the_order_of_clients_does_not_matter_and_like_clients_count_alike() -> None:
    for seed in range(20):
        mix, target = made(seed, 9, 5)
        mix[4] = mix[2]
        found = solved_weights(mix, target, 0.3, 0.4)
        order = np.random.default_rng(seed).permutation(9)
        np.testing.assert_allclose(solved_weights(mix[order], target, 0.3, 0.4), found[order], atol=1e-12)
        assert found[4] == pytest.approx(found[2], abs=1e-12)


def test_classes_that_nobody_uploads_change_nothing_but_the_target() -> None:
    """A class with share 0 in all mixes adds the constant t_c² to the objective; without it t adds up to less."""
    mix, target = made(2, 6, 5)
    padded, wanted = np.pad(mix, ((0, 0), (0, 2))), np.append(0.7 * target, [0.2, 0.1])
    np.testing.assert_allclose(
        solved_weights(padded, wanted, 0.3), solved_weights(mix, 0.7 * target, 0.3), rtol=0, atol=1e-12
    )
