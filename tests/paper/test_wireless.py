"""Section 1 and (17): the radio cell, against independent arithmetic and the figures measured before us."""

from decimal import Decimal, localcontext

import numpy as np
import pytest
from scipy import stats
from scipy.optimize import brentq

from fedteddi import InputError, make_scheduler, minimum_bandwidth_hz, rate_bps
from fedteddi.randomness import keyed_rng
from fedteddi.schedulers.admission import OnNoFit, fitting_in_order
from fedteddi.wireless.cell import positions_m, positions_of
from fedteddi.wireless.channels import Draws, Shadowing
from fedteddi.wireless.channels.shadowing import path_loss_db
from fedteddi.wireless.computation import computation_delay_s
from fedteddi.wireless.radio import Radio, watts_from_dbm
from fedteddi.wireless.uplink import LN2, share_band_hz

EPSILON = 2.2e-16
LOADS = [
    *(10.0**-power for power in (300, 200, 100, 30, 10, 5, 3, 2, 1)),
    *(0.2, 0.37, 0.5, 0.75, 0.9, 0.99, 0.999),
    *(1 - 10.0**-power for power in (3.5, 4, 5, 5.9, 6, 6.1, 7, 8, 9, 10, 11, 12)),
]


def bandwidth_by_bisection(bits: float, time_s: float, power: float, gain: float, noise: float) -> Decimal:
    """Solve B log2(1 + s/B) = R, s = P|H|²/N0, for B by halving, with 50 digits and more.

    In x = s/B the equation is ln(1 + x) = Γx: left above right near 0+, below it far out.
    """
    with localcontext() as context:
        context.prec = 80
        signal = Decimal(power) * Decimal(gain) / Decimal(noise)
        load = Decimal(bits) / Decimal(time_s) * Decimal(2).ln() / signal
        low, high = 1 - load, Decimal(1)  # ln(1 + x) > Γx at x = 1 − Γ, since ln(1 + x) ≥ x − x²/2 there
        while (1 + high).ln() > load * high:
            high *= 2
        while high - low > high * Decimal(10) ** -50:
            middle = (low + high) / 2
            low, high = (middle, high) if (1 + middle).ln() > load * middle else (low, middle)
        return signal / low


@pytest.mark.parametrize("load", LOADS)
def test_minimum_bandwidth_against_50_digits(load: float) -> None:
    """Relative error ≤ 1e-10 up to Γ = 0.999, beyond that ≤ ten times the conditioning limit ε/(1 − Γ).

    With P = N0 = T = 1 and |H|² = ln 2 the load is Γ = bits, up to rounding, which the oracle repeats.
    """
    ours = float(minimum_bandwidth_hz(load, 1.0, 1.0, LN2, 1.0))
    error = abs(Decimal(ours) / bandwidth_by_bisection(load, 1.0, 1.0, LN2, 1.0) - 1)
    assert error <= (1e-10 if load <= 0.999 else 10 * EPSILON / (1 - load))


def test_minimum_bandwidth_of_real_clients_against_50_digits() -> None:
    """The paper's CNN, a client at 100 m without shadowing, 0.7 s left: about 0.9 MHz."""
    gain = float(10 ** (-path_loss_db(np.array(100.0)) / 10))
    power, noise = watts_from_dbm(23), watts_from_dbm(-174)
    ours = float(minimum_bandwidth_hz(558_802 * 32, 0.7, power, gain, noise))
    assert abs(Decimal(ours) / bandwidth_by_bisection(558_802 * 32, 0.7, power, gain, noise) - 1) < 1e-13
    assert 5e5 < ours < 5e6


def test_rate_at_minimum_bandwidth_meets_the_deadline_exactly() -> None:
    gain = 10.0 ** -np.linspace(7, 13.5, 50)
    radio = (watts_from_dbm(23), gain, watts_from_dbm(-174))
    needed = minimum_bandwidth_hz(1.788e7, 0.8, *radio)
    able = np.isfinite(needed)
    np.testing.assert_allclose(1.788e7 / rate_bps(needed, *radio)[able], 0.8, rtol=1e-9)
    assert able[0]
    assert not able[-1]


def test_infeasible_clients_need_infinite_bandwidth() -> None:
    """No time left; no channel; and Γ ≥ 1: the rate cannot exceed s/ln 2 = 1.4427 s, whatever the band."""
    assert minimum_bandwidth_hz(1.0, [0.0, -1.0], 1.0, 1.0, 1.0).tolist() == [np.inf, np.inf]
    assert minimum_bandwidth_hz(1.0, 1.0, 1.0, 0.0, 1.0) == np.inf
    assert minimum_bandwidth_hz([1.4426, 1.4427, 2.0], 1.0, 1.0, 1.0, 1.0)[1:].tolist() == [np.inf, np.inf]
    assert np.isfinite(minimum_bandwidth_hz(1.4426, 1.0, 1.0, 1.0, 1.0))


def test_rate_is_shannons() -> None:
    """1 MHz at a signal-to-noise ratio of 3: log2(4) = 2 bits per second and hertz."""
    assert rate_bps(1e6, 3e6, 1.0, 1.0) == pytest.approx(2e6)
    assert rate_bps(0.0, 1.0, 1.0, 1.0) == 0


def test_positions_are_uniform_over_the_area() -> None:
    """The share of clients within r is r²/R² (Kolmogorov-Smirnov), any angle is as likely, nobody under 1 m."""
    where = positions_m(20_000, 250.0, np.random.default_rng(0))
    radius = np.hypot(where[:, 0], where[:, 1])
    assert stats.kstest(radius**2 / 250.0**2, "uniform").pvalue > 0.01
    assert stats.kstest(np.arctan2(where[:, 1], where[:, 0]) / (2 * np.pi) + 0.5, "uniform").pvalue > 0.01
    close = positions_m(20_000, 2.0, np.random.default_rng(0))
    assert np.hypot(close[:, 0], close[:, 1]).min() == pytest.approx(1.0)


def test_path_loss() -> None:
    """128.1 dB at 1 km, 37.6 dB less at 100 m."""
    np.testing.assert_allclose(path_loss_db(np.array([1000.0, 100.0])), [128.1, 90.5])


def test_shadowing_redrawn_or_static() -> None:
    """The gain in dB varies with σ = 8 dB around minus the path loss, from round to round or not at all."""
    where = np.full((20_000, 2), [100.0, 0.0])
    redrawn, static = Shadowing(), Shadowing(shadowing="static")
    db = 10 * np.log10(redrawn.gains(where, Draws(0, 1, 1)))
    assert db.mean() == pytest.approx(-90.5, abs=0.2)
    assert db.std() == pytest.approx(8.0, abs=0.15)
    again = 10 * np.log10(redrawn.gains(where, Draws(0, 1, 2)))
    assert abs(np.corrcoef(db, again)[0, 1]) < 0.03
    fixed = static.gains(where, Draws(0, 1, 1))
    np.testing.assert_array_equal(static.gains(where, Draws(0, 0, 9)), fixed)
    assert not np.array_equal(static.gains(where, Draws(1, 1, 1)), fixed)


def test_computation_delay_is_a_shifted_exponential() -> None:
    """320 samples: never under 0.5 ms · 320 = 160 ms, on average 320/2 = 160 ms more."""
    delay = computation_delay_s(50_000, 320, np.random.default_rng(0))
    assert delay.min() >= 0.16
    assert stats.kstest(delay - 0.16, "expon", args=(0, 0.16)).pvalue > 0.01


PADDED, UNPADDED = 558_802, 259_282  # parameters of the paper's CNN in both readings


@pytest.mark.parametrize(
    ("parameters", "on_no_fit", "local_steps", "deadline_s", "measured"),
    [
        *((PADDED, "skip", 5, 0.8, 7.6), (PADDED, "skip", 5, 1.0, 10.2), (PADDED, "skip", 5, 1.2, 12.9)),
        *((PADDED, "skip", 10, 0.8, 5.6), (PADDED, "skip", 10, 1.0, 8.0), (PADDED, "skip", 10, 1.2, 10.6)),
        *((PADDED, "skip", 24, 0.8, 3.2), (PADDED, "skip", 24, 1.0, 4.5), (PADDED, "skip", 24, 1.2, 6.1)),
    ],
)
def test_as_many_clients_fit_as_measured_before(
    parameters: int, on_no_fit: OnNoFit, local_steps: int, deadline_s: float, measured: float
) -> None:
    """Cell, delay and B* together: clients that fit 20 MHz in random order, 2,000 rounds.

    The expected figures come from an independent prototype. Counts vary by about 2.5 between rounds, and clients
    stay where they are within one of the 200 seeds: a standard error of about 0.1 for the mean, on both sides.
    """
    counts = []
    for seed in range(200):
        where = positions_of(seed, 30)
        for number in range(10):
            compute_s = computation_delay_s(30, local_steps * 32, keyed_rng(seed, "delay", round=number))
            gain = Shadowing().gains(where, Draws(seed, 0, number))
            needed = Radio().needed_hz(gain, compute_s, deadline_s=deadline_s, model_bits=parameters * 32)
            order = keyed_rng(seed, "scheduler", round=number).permutation(30)
            counts.append(len(fitting_in_order(order, needed, 20e6, on_no_fit)))
    assert np.mean(counts) == pytest.approx(measured, abs=0.4)


def test_shared_band_gives_one_finishing_time_and_the_earliest() -> None:
    """Three clients; the common time found by a root finder on the rates, without B* at all."""
    bits, total_hz = 1e6, 5e6
    compute_s, signal = np.array([0.1, 0.3, 0.2]), np.array([4e6, 2e7, 1e7])
    needed = minimum_bandwidth_hz(bits, 1.0 - compute_s, 1.0, signal, 1.0)
    granted = share_band_hz(needed, compute_s, deadline_s=1.0, model_bits=bits, total_hz=total_hz)

    def band_for(finish_s: float, client: int) -> float:
        def missing(hz: float) -> float:
            return hz * np.log2(1 + signal[client] / hz) - bits / (finish_s - compute_s[client])

        return float(brentq(missing, 1.0, 1e9, xtol=1e-6))

    finish_s = brentq(lambda t: sum(band_for(t, n) for n in range(3)) - total_hz, 0.4, 0.99, xtol=1e-13)
    np.testing.assert_allclose(granted, [band_for(finish_s, n) for n in range(3)], rtol=1e-6)
    assert granted.sum() == pytest.approx(total_hz, rel=1e-9)
    assert granted.sum() <= total_hz


def test_spare_band_option_shortens_the_round() -> None:
    from fedteddi import example_round
    from fedteddi.protocol.round_json.answer import finish_s

    view = example_round(3, deadline_s=1.2)
    unused = make_scheduler("random").select(view, np.random.default_rng(0))
    shared = make_scheduler("random", spare_band="share").select(view, np.random.default_rng(0))
    assert unused.clients == shared.clients
    np.testing.assert_allclose(finish_s(view, unused), 1.2, rtol=1e-9)
    times = finish_s(view, shared)
    assert times is not None
    assert max(times) - min(times) < 1e-9
    assert max(times) < 1.2


def test_shared_band_never_gives_less_than_needed() -> None:
    """Barely feasible clients (Γ up to 1 − 1e-10), whose B* is ill-conditioned, in a band that is all but full."""
    for seed in range(400):
        rng = np.random.default_rng(seed)
        compute_s, load = rng.uniform(0, 0.9, size=3), 1 - 10 ** rng.uniform(-10, -6, size=3)
        signal = 1e6 / (1 - compute_s) * LN2 / load
        needed = minimum_bandwidth_hz(1e6, 1 - compute_s, 1.0, signal, 1.0)
        total_hz = float(needed.sum()) * (1 + 1e-12)
        granted = share_band_hz(needed, compute_s, deadline_s=1.0, model_bits=1e6, total_hz=total_hz)
        assert (granted >= needed).all()
        assert granted.sum() <= total_hz


def test_a_needed_bandwidth_beyond_any_radio_is_refused() -> None:
    with pytest.raises(InputError, match="check needed_hz"):
        share_band_hz(np.array([1.0]), np.array([0.1]), deadline_s=1.0, model_bits=1e6, total_hz=10.0)
