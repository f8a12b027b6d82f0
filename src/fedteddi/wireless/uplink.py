"""The uplink: Shannon rate, the least bandwidth that meets a deadline (17), and how to share what is left."""

import math

import numpy as np
from numpy.typing import ArrayLike

from fedteddi.errors import InputError, shown

LN2 = math.log(2.0)
# Below this distance from Γ = 1 the two roots of log1p(x) = Γx meet, and their series is exact to rounding.
SERIES_BELOW = 1e-6
# Newton converges quadratically from a tight start; four steps reach rounding over the whole grid of
# tests/paper/test_wireless.py, two more are for what lies between.
NEWTON_STEPS = 6
BISECTION_STEPS = 200
MOST_NATS = 600.0  # per hertz: a signal-to-noise ratio of 2600 dB


def rate_bps(
    bandwidth_hz: ArrayLike, power_w: ArrayLike, gain: ArrayLike, noise_w_per_hz: ArrayLike
) -> np.ndarray:
    """Return the Shannon rate B log2(1 + P|H|²/(B N0)); 0 without bandwidth."""
    power, gain_, noise = (np.asarray(a, dtype=np.float64) for a in (power_w, gain, noise_w_per_hz))
    return rate_from_signal(bandwidth_hz, power * gain_ / noise)


def rate_from_signal(bandwidth_hz: ArrayLike, signal_hz: ArrayLike) -> np.ndarray:
    """Return B log2(1 + s/B), where s = P|H|²/N0 is the signal in hertz."""
    band, signal = np.asarray(bandwidth_hz, dtype=np.float64), np.asarray(signal_hz, dtype=np.float64)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        rate = np.where(np.isinf(band), signal, band * np.log1p(signal / band)) / LN2
    return np.where(band > 0, rate, 0.0)


def minimum_bandwidth_hz(
    model_bits: ArrayLike,
    time_left_s: ArrayLike,
    power_w: ArrayLike,
    gain: ArrayLike,
    noise_w_per_hz: ArrayLike,
) -> np.ndarray:
    """Return the least bandwidth that carries `model_bits` within `time_left_s`: B*, (17).

    All arguments broadcast. `inf` where no bandwidth suffices: no time is left, or even an endless band,
    whose rate saturates at P|H|²/(N0 ln 2), is too slow (Γ ≥ 1). Never NaN.
    """
    bits, time_s, power, gain_, noise = np.broadcast_arrays(
        *(np.asarray(a, dtype=np.float64) for a in (model_bits, time_left_s, power_w, gain, noise_w_per_hz))
    )
    for name, values, lowest in (
        ("model_bits", bits, "positive"),
        ("time_left_s", time_s, ""),
        ("power_w", power, "positive"),
        ("gain", gain_, "not negative"),
        ("noise_w_per_hz", noise, "positive"),
    ):
        bad = ~np.isfinite(values)
        bad |= (values <= 0) if lowest == "positive" else (values < 0) if lowest else False
        if bad.any():
            raise InputError(
                f"{name}={shown(values[bad].flat[0])}: give finite numbers{', ' if lowest else ''}{lowest}"
            )
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        return _least_hz(bits, time_s, noise / (power * gain_))


def _least_hz(
    model_bits: np.ndarray | float, time_left_s: np.ndarray, per_signal_s: np.ndarray
) -> np.ndarray:
    """Return B*, as above, unchecked; `per_signal_s` is N0/(P|H|²). Division by zero means what IEEE 754 says."""
    needed_nats = model_bits / time_left_s * LN2  # R ln 2
    load = per_signal_s * needed_nats  # Γ
    # For no time left the literal formula gives a meaningless number, so test it first. A product that underflowed
    # (Γ = NaN or 0/0) is a channel too weak to be written down: infeasible too.
    feasible = (time_left_s > 0) & (load < 1)
    needed = needed_nats / _nats_per_hertz(np.where(feasible, load, 0.5))
    return np.where(feasible, needed, np.inf)


def _nats_per_hertz(load: np.ndarray) -> np.ndarray:
    """Return z = Γx, where x is the positive root of log1p(x) = Γx, for Γ in (0, 1).

    x is the signal-to-noise ratio at B*, z the spectral efficiency there in nats, and B* = R ln2 / z. The
    paper writes z = −W₋₁(−Γe^{−Γ}) − Γ, which loses all digits as Γ → 1. Newton starts from an upper bound
    of −W₋₁ and so falls monotonically; it works on z, which stays small where x would overflow.
    """
    load = np.maximum(load, np.finfo(np.float64).tiny)
    log_load, small = np.log(load), load < 1e-3
    some_small = bool(small.any())
    away = 1.0 - load  # δ, exact for Γ ≥ 1/2
    u = -away - np.log1p(-np.minimum(away, 0.5))  # Γ − 1 − ln Γ, without cancellation near 1
    u = np.where(away > 0.5, load - 1.0 - log_load, u)
    z = (1.0 + np.sqrt(2.0 * u) + u) - load
    for _ in range(NEWTON_STEPS):
        log_snr = np.log1p(z / load)
        if some_small:
            log_snr = np.where(small, np.log(load + z) - log_load, log_snr)
        z = z - (log_snr - z) / (1.0 / (load + z) - 1.0)
    return np.where(away < SERIES_BELOW, load * (2.0 * away + 8.0 / 3.0 * away**2), z)


def signal_hz(model_bits: float, time_left_s: np.ndarray, needed_hz: np.ndarray) -> np.ndarray:
    """Return P|H|²/N0 of clients whose least bandwidth is known: (17) read backwards."""
    nats_per_hertz = model_bits / time_left_s * LN2 / needed_hz
    if (nats_per_hertz > MOST_NATS).any():
        raise InputError(
            f"needed_hz={shown(needed_hz[nats_per_hertz > MOST_NATS][0])} is too little for {model_bits:g} bits by"
            " any radio: check needed_hz, model_bits and deadline_s"
        )
    return np.asarray(needed_hz * np.expm1(nats_per_hertz))


def finishing_band_hz(
    finish_s: float, needed_hz: np.ndarray, ready_s: np.ndarray, signal: np.ndarray, *, model_bits: float
) -> np.ndarray:
    """Return what clients need to finish by a time T before the deadline, B*(T), [n]; `inf` = cannot.

    Never below `needed_hz`, what the deadline asks for, not even by the rounding of a barely feasible client.
    """
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        asked_hz = _least_hz(model_bits, finish_s - ready_s, 1.0 / signal)
    return np.asarray(np.maximum(asked_hz, needed_hz))


def share_band_hz(
    needed_hz: np.ndarray, ready_s: np.ndarray, *, deadline_s: float, model_bits: float, total_hz: float
) -> np.ndarray:
    """Spread the whole band so that all clients finish together, as early as possible, [n] (Shi et al.).

    `ready_s` is when each could begin to upload. At the common finishing time T each client gets its B*(T); the sum
    falls as T grows, so T is found by bisection. The power and noise of the radio are read off `needed_hz`, the B* at
    `deadline_s`.
    """
    signal = signal_hz(model_bits, deadline_s - ready_s, needed_hz)  # [n]
    granted, too_early_s, soon_enough_s = needed_hz, float(ready_s.max()), deadline_s
    for _ in range(BISECTION_STEPS):
        middle_s = 0.5 * (too_early_s + soon_enough_s)
        if not too_early_s < middle_s < soon_enough_s:
            break
        trial = finishing_band_hz(middle_s, needed_hz, ready_s, signal, model_bits=model_bits)
        if trial.sum() <= total_hz:
            granted, soon_enough_s = trial, middle_s
        else:
            too_early_s = middle_s
    return granted
