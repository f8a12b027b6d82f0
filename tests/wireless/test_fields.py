"""Random fields over space and rounds, against the correlations they are to have."""

import math

import numpy as np
import pytest
from scipy import stats

from fedteddi.wireless.fields import WAVES, field_at, gauss_markov, wave_vectors

DISTANCES = np.concatenate([np.linspace(0.0, 2.0, 41), np.linspace(2.2, 10.0, 40)])  # in correlation lengths


def weights(time: int, lasting: float, times: int) -> np.ndarray:
    """What each time's own numbers add to the process at `time`: it is linear in them."""
    return gauss_markov(time, lasting, lambda at: np.eye(times)[at])


@pytest.mark.parametrize("lasting", [0.0, 0.01, 0.3, 1.0, 3.0])
def test_the_process_over_rounds_has_exactly_the_correlation_of_an_ar_1(lasting: float) -> None:
    """Cov(x_t, x_s) = Σ_i w_ti w_si, with the weights of independent numbers: no statistics needed.

    At 3 rounds blocks are 2^7 ≥ 40 · 3 long, so 300 rounds cross two of their borders.
    """
    many = 300
    w = np.array([weights(time, lasting, 2 * 256) for time in range(many)])
    apart = np.abs(np.subtract.outer(np.arange(many), np.arange(many)))
    expected = np.exp(-apart / lasting) if lasting else np.eye(many)
    np.testing.assert_allclose(w @ w.T, expected, rtol=0, atol=1e-14)


def test_a_late_round_takes_few_draws() -> None:
    """Blocks of 2^16 ≥ 40 · 1000: two ends and at most 16 middles, a million rounds late as well."""
    asked: list[int] = []

    def draw(time: int) -> np.ndarray:
        asked.append(time)
        return np.ones(1)

    gauss_markov(1_234_567, 1000.0, draw)
    assert len(asked) == len(set(asked)) <= 18


def correlation(waves: np.ndarray, direction: float) -> np.ndarray:
    """(1/M) Σ cos(κ_m · Δ) over DISTANCES: the field's correlation, given its waves."""
    step = DISTANCES[:, None] * [math.cos(direction), math.sin(direction)]
    return np.cos(step @ waves).mean(axis=1)


@pytest.mark.parametrize("seed", range(5))
def test_waves_have_the_correlation_of_gudmundson_within_a_known_error(seed: int) -> None:
    """All distances up to ten lengths in 36 directions: the root mean square error is 0.005, the largest below 0.03.

    M waves drawn one by one would have a standard error of √(1/2M) = 0.016 at long distances.
    """
    waves = wave_vectors(1.0, np.random.default_rng(seed))
    found = np.array([correlation(waves, direction) for direction in np.linspace(0, np.pi, 36)])
    error = found - np.exp(-DISTANCES)
    assert np.sqrt((error**2).mean()) < 0.006
    assert np.abs(error).max() < 0.03


def test_over_seeds_the_correlation_is_right() -> None:
    """The mean of 100 seeds lies within five of its standard errors, and these are below 0.002."""
    found = np.array(
        [correlation(wave_vectors(1.0, np.random.default_rng(seed)), 0.7) for seed in range(100)]
    )
    error = found.std(axis=0, ddof=1) / np.sqrt(len(found))
    assert error.max() < 0.002
    assert (np.abs(found.mean(axis=0) - np.exp(-DISTANCES)) <= 5 * error + 1e-12).all()


def test_wave_numbers_follow_the_spectrum() -> None:
    """P(κ ≤ q) = 1 − (1 + (q d₀)²)^(−1/2), in equal parts: no quantile is off by more than one part."""
    number = np.sort(np.hypot(*wave_vectors(50.0, np.random.default_rng(0))))
    below = 1 - 1 / np.sqrt(1 + (50.0 * number) ** 2)
    assert np.abs(below - (np.arange(WAVES) + 0.5) / WAVES).max() <= 0.51 / WAVES


def test_the_field_against_a_plain_sum() -> None:
    """a cos κx + b sin κx, one wave after another; single precision is good for 1e-3."""
    rng = np.random.default_rng(1)
    where_m = rng.uniform(-250, 250, size=(40, 2))
    waves, amplitudes = wave_vectors(50.0, rng), rng.standard_normal((2, WAVES))
    slow = np.zeros(40)
    for (x, y), a, b in zip(waves.T, *amplitudes, strict=True):
        angle = where_m @ [x, y]
        slow += a * np.cos(angle) + b * np.sin(angle)
    np.testing.assert_allclose(field_at(where_m, waves, amplitudes), slow / np.sqrt(WAVES), atol=1e-3)


def test_every_place_is_standard_normal_whatever_the_waves() -> None:
    """3,000 draws of the amplitudes over the same waves."""
    waves = wave_vectors(50.0, np.random.default_rng(2))
    rng = np.random.default_rng(3)
    place = np.array([[30.0, -70.0]])
    drawn = [field_at(place, waves, rng.standard_normal(waves.shape))[0] for _ in range(3000)]
    assert stats.kstest(drawn, "norm").pvalue > 0.01
