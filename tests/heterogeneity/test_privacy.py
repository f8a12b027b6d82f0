"""Noise of the right size, and the nearest distribution against a slow search for it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import brentq

from fedteddi.heterogeneity.privacy import noisy_mix, onto_simplex


def slow_projection(point: np.ndarray) -> np.ndarray:
    """Find the t at which max(point − t, 0) sums to 1, by bisection: its sum falls from above 1 to 0."""
    shift = brentq(lambda t: np.maximum(point - t, 0).sum() - 1, point.min() - 1.5, point.max(), xtol=1e-14)
    return np.maximum(point - shift, 0)


@given(st.lists(st.floats(-50, 50), min_size=1, max_size=12).map(np.array))
def test_projection_against_bisection(point: np.ndarray) -> None:
    found = onto_simplex(point)
    np.testing.assert_allclose(found, slow_projection(point), atol=1e-9)
    assert found.min() >= 0
    assert found.sum() == pytest.approx(1.0)


def test_projection_by_hand() -> None:
    """(0.8, 0.6, −0.1): the first two are 0.4 too much together, 0.2 each."""
    np.testing.assert_allclose(onto_simplex(np.array([0.8, 0.6, -0.1])), [0.6, 0.4, 0.0])
    np.testing.assert_allclose(onto_simplex(np.array([0.2, 0.3, 0.5])), [0.2, 0.3, 0.5])


def test_no_point_of_the_simplex_is_nearer() -> None:
    rng = np.random.default_rng(0)
    for _ in range(20):
        point = rng.normal(size=5)
        nearest = np.linalg.norm(point - onto_simplex(point))
        others = rng.dirichlet(np.ones(5), size=500)
        assert (np.linalg.norm(others - point, axis=1) >= nearest - 1e-12).all()


def test_noise_has_scale_one_over_epsilon() -> None:
    """Far from the borders the projection only takes off the mean noise: Laplace noise of variance 2/ε².

    After projection a share's error is (z_c − mean z)/D, with variance 2/ε² · (1 − 1/C)/D²; C = 4, D = 400, ε = 0.5.
    """
    counts = np.full(4, 100)
    rng = np.random.default_rng(1)
    errors = np.array([noisy_mix(counts, 0.5, rng) - 0.25 for _ in range(4000)])
    assert errors.std() == pytest.approx(np.sqrt(2 / 0.5**2 * 0.75) / 400, rel=0.05)
    assert abs(errors.mean()) < 1e-12


def test_little_noise_changes_little_and_much_noise_everything() -> None:
    counts = np.array([60, 60, 0, 0])
    close = noisy_mix(counts, 1e6, np.random.default_rng(0))
    far = noisy_mix(counts, 1e-6, np.random.default_rng(0))
    np.testing.assert_allclose(close, counts / 120, atol=1e-6)
    assert far.max() == pytest.approx(1.0)
