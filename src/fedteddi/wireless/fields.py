"""Random fields that are correlated over space and over rounds, computed for any round without those before it."""

import math
from collections.abc import Callable

import numpy as np

# The error of a correlation over space falls with it: 0.005 in the root mean square, below 0.03 over all distances
# and directions (tests/wireless/test_fields.py).
WAVES = 2048
POINTS_AT_ONCE = 1024
FORGOTTEN = 40.0  # correlation lengths: e^−40 is below the rounding of a correlation


def wave_vectors(correlation_m: float, rng: np.random.Generator) -> np.ndarray:
    """Draw the wave vectors of a plane field with correlation exp(−d / correlation_m), [2, M] in radians per metre.

    The field's spectrum is ∝ (1 + (κ d₀)²)^(−3/2), so the share of wave numbers below κ is 1 − (1 + (κ d₀)²)^(−1/2).
    That is drawn in M equal parts, one number in each, with directions in golden steps from a random one: every vector
    has the spectrum's distribution, and together they cover it evenly.
    """
    rest = (np.arange(1, WAVES + 1) - rng.random(WAVES)) / WAVES  # share of wave numbers above, in (0, 1]
    number = np.sqrt(rest**-2 - 1.0) / correlation_m  # κ, [M]
    golden = (math.sqrt(5.0) - 1.0) / 2.0
    direction = np.pi * ((golden * np.arange(WAVES) + rng.random()) % 1.0)  # half a turn: waves have no front
    return np.asarray(number * np.stack([np.cos(direction), np.sin(direction)]))


def field_at(positions_m: np.ndarray, waves: np.ndarray, amplitudes: np.ndarray) -> np.ndarray:
    """Return the field Σ_m (a_m cos κ_m·x + b_m sin κ_m·x) / √M at N places, [N]; `amplitudes` is [2, M].

    With standard normal amplitudes it is standard normal at every place, whatever the waves. Single precision, an
    error of 1e-4: a cosine then takes a twentieth of the time, and N·M are needed.
    """
    size, phase = np.hypot(*amplitudes).astype(np.float32), np.arctan2(amplitudes[1], amplitudes[0])
    where, vectors, phase = (part.astype(np.float32) for part in (positions_m, waves, phase))
    field = np.empty(len(where))
    for start in range(0, len(where), POINTS_AT_ONCE):
        angle = where[start : start + POINTS_AT_ONCE] @ vectors  # [n, 2] @ [2, M] -> [n, M]
        angle -= phase
        field[start : start + POINTS_AT_ONCE] = np.cos(angle, out=angle) @ size  # [n, M] @ [M] -> [n]
    return field / math.sqrt(waves.shape[1])


def gauss_markov(time: int, lasting: float, draw: Callable[[int], np.ndarray]) -> np.ndarray:
    """Return a stationary Gauss–Markov process at one time, a whole number: correlation exp(−|t − s| / lasting).

    `draw(t)` gives the standard normal numbers that belong to time t. The process is the AR(1) process, found without
    its past: times that are multiples of 2^L ≥ 40·lasting are independent (their correlation is below e^−40), and
    between two known times l and r the middle is ρ/(1 + ρ²)·(x_l + x_r) + √((1 − ρ²)/(1 + ρ²))·draw, with
    ρ = exp(−(r − l) / (2 lasting)). So it takes L + 2 draws, and nothing is cut off.
    """
    if lasting == 0:
        return draw(time)
    span = 1 << math.ceil(math.log2(max(FORGOTTEN * lasting, 1.0)))
    left = time - time % span
    right = left + span
    at_left, at_right = draw(left), draw(right)
    while time != left:
        middle = (left + right) // 2
        apart = (right - left) / (2.0 * lasting)
        squared = math.exp(-2.0 * apart)  # ρ²
        mean = math.exp(-apart) / (1.0 + squared) * (at_left + at_right)
        at_middle = mean + math.sqrt(-math.expm1(-2.0 * apart) / (1.0 + squared)) * draw(middle)
        if time < middle:
            right, at_right = middle, at_middle
        else:
            left, at_left = middle, at_middle
    return at_left
