"""Rician fading, correlated shadowing and moving clients against their formulas; all new channels in the settings."""

import dataclasses
from typing import Any

import numpy as np
import pytest
from scipy import integrate, special, stats

from fedteddi import InputError, simulate
from fedteddi.settings import RadioSettings
from fedteddi.wireless import cell
from fedteddi.wireless.channels import (
    CorrelatedShadowing,
    Draws,
    Mobile,
    Rician,
    Shadowing,
    make_channel,
)
from fedteddi.wireless.channels.shadowing import gain_from_db, path_loss_db
from small_world import tiny_data, tiny_settings

# --- rician


def rician_powers(k_db: float) -> np.ndarray:
    """|h|² of 400 rounds and 50 clients: the gain without path loss and shadowing."""
    where_m = np.full((50, 2), [1000.0, 0.0])  # 1 km: 128.1 dB
    channel = Rician(k_db=k_db, shadowing_std_db=0.0)
    gains = [channel.gains(where_m, Draws(3, 1, number)) for number in range(1, 401)]
    return np.array(gains).ravel() * 10**12.81


@pytest.mark.parametrize("k_db", [-10.0, 0.0, 9.0, 20.0])
def test_rician_power_is_a_scaled_noncentral_chi_squared(k_db: float) -> None:
    """2(K+1)|h|² ~ χ²(2 degrees of freedom, around 2K): mean 1, variance (1 + 2K)/(1 + K)².

    The mean of n = 20,000 has a standard error of √(variance/n), their variance one of √((m₄ − variance²)/n).
    """
    k = 10 ** (k_db / 10)
    law = stats.ncx2(df=2, nc=2 * k, scale=1 / (2 * (k + 1)))
    powers, variance = rician_powers(k_db), (1 + 2 * k) / (1 + k) ** 2
    assert law.var() == pytest.approx(variance, rel=1e-9)
    fourth = (law.stats(moments="k") + 3) * variance**2
    assert powers.mean() == pytest.approx(1.0, abs=5 * np.sqrt(variance / powers.size))
    assert powers.var() == pytest.approx(variance, abs=5 * np.sqrt((fourth - variance**2) / powers.size))
    assert stats.kstest(powers, law.cdf).pvalue > 0.01


def test_rician_power_is_that_of_a_fixed_ray_and_scattered_ones() -> None:
    """An independent reading at K = 4: h = √(4/5) e^{iθ} + √(1/5) (x + iy)/√2, at any angle θ of the ray."""
    rng = np.random.default_rng(0)
    scattered = (rng.standard_normal(20_000) + 1j * rng.standard_normal(20_000)) / np.sqrt(2)
    h = np.sqrt(0.8) * np.exp(0.7j) + np.sqrt(0.2) * scattered
    assert stats.ks_2samp(rician_powers(10 * np.log10(4)), np.abs(h) ** 2).pvalue > 0.01


def test_without_a_ray_it_is_rayleigh_fading_and_with_nothing_else_there_is_none() -> None:
    assert stats.kstest(rician_powers(-100.0), "expon").pvalue > 0.01
    np.testing.assert_allclose(rician_powers(100.0), 1.0, atol=1e-4)


def test_rician_fading_leaves_the_shadowing_as_it_was() -> None:
    where_m, draws = np.full((4, 2), 100.0), Draws(7, 1, 4)
    mild = Rician(k_db=100.0).gains(where_m, draws)
    np.testing.assert_allclose(mild, Shadowing().gains(where_m, draws), rtol=1e-3)


# --- correlated shadowing


def shadowing_db(channel: CorrelatedShadowing, where_m: np.ndarray, draws: Draws) -> np.ndarray:
    """What is left of the loss when path loss is taken off, [N]."""
    return -10 * np.log10(channel.gains(where_m, draws)) - path_loss_db(np.hypot(*where_m.T))


def test_shadowing_is_correlated_over_metres_and_rounds_and_normal() -> None:
    """Four clients in a row at 0, 25, 50 and 150 m, in rounds 3, 8 and 23, of 1,600 seeds; d₀ = 50 m, k₀ = 10.

    Between any two of these twelve the correlation is exp(−d/50) exp(−k/10), with a standard error of
    (1 − ρ²)/√1600 ≤ 0.025; each is N(0, 8²).
    """
    along_m, numbers = np.array([0.0, 25.0, 50.0, 150.0]), np.array([3, 8, 23])
    where_m = np.stack([along_m, np.full(4, 60.0)], axis=1)
    channel = CorrelatedShadowing()
    found = np.array(
        [
            [shadowing_db(channel, where_m, Draws(seed, 0, number)) for number in numbers]
            for seed in range(1600)
        ]
    ).reshape(1600, 12)
    over_rounds = np.exp(-np.abs(np.subtract.outer(numbers, numbers)) / 10)
    expected = np.kron(over_rounds, np.exp(-np.abs(np.subtract.outer(along_m, along_m)) / 50))
    error = (1 - expected**2) / np.sqrt(1600)
    assert (np.abs(np.corrcoef(found.T) - expected) <= 5 * error + 1e-9).all()
    assert all(stats.kstest(one, "norm", args=(0, 8.0)).pvalue > 0.001 for one in found.T)


def test_without_correlation_over_space_clients_are_independent() -> None:
    """5,000 clients at one place and 10 rounds: neighbours 1/√45000, rounds in a row e^(−1/4) = 0.779."""
    where_m = np.full((5000, 2), 100.0)
    channel = CorrelatedShadowing(correlation_m=0.0, correlation_rounds=4.0, shadowing_std_db=6.0)
    found = np.array([shadowing_db(channel, where_m, Draws(1, 0, number)) for number in range(1, 11)])
    assert abs(np.corrcoef(found[:, 1:].ravel(), found[:, :-1].ravel())[0, 1]) < 0.06
    for number in range(9):
        step = np.corrcoef(found[number], found[number + 1])[0, 1]
        assert step == pytest.approx(np.exp(-0.25), abs=5 * (1 - np.exp(-0.5)) / np.sqrt(5000))
    assert stats.kstest(found[0], "norm", args=(0, 6.0)).pvalue > 0.01


def test_without_correlation_over_rounds_every_round_is_new() -> None:
    where_m = np.full((5000, 2), 100.0)
    channel = CorrelatedShadowing(correlation_m=0.0, correlation_rounds=0.0)
    one, other = (shadowing_db(channel, where_m, Draws(1, 0, number)) for number in (1, 2))
    assert abs(np.corrcoef(one, other)[0, 1]) < 5 / np.sqrt(5000)


def test_rounds_go_on_over_frames() -> None:
    """Round 2 of frame 1 after 60 rounds of frame 0 is round 62, for who stands and for who walks."""
    where_m = cell.positions_of(0, 20)
    for channel in (CorrelatedShadowing(), Mobile()):
        there, here = Draws(0, 1, 2, rounds_before=60), Draws(0, 0, 62)
        np.testing.assert_array_equal(channel.gains(where_m, there), channel.gains(where_m, here))


def test_the_place_decides_however_many_clients_there_are() -> None:
    """100,000 clients, and the same first hundred alone; two at one place have the same shadowing."""
    where_m = cell.positions_of(0, 100_000)
    few_m = np.concatenate([where_m[:100], where_m[:1]])
    many = CorrelatedShadowing().gains(where_m, Draws(0, 0, 7))
    few = CorrelatedShadowing().gains(few_m, Draws(0, 0, 7))
    np.testing.assert_allclose(few[:100], many[:100], rtol=1e-3)
    assert few[100] == pytest.approx(few[0], rel=1e-3)


# --- mobile

FAST = Mobile(speed_min_mps=10.0, speed_max_mps=10.0)


def walked(channel: Mobile, seed: int, client: int, clients: int, time_s: float) -> np.ndarray:
    """Where one client is, leg by leg: a plain reading of the model from the same draws."""
    here = cell.positions_of(seed, clients)[client]
    for leg in range(10_000):
        rng = Draws(seed, 0, 1).static("movement", part=leg)
        goal = cell.positions_m(clients, channel.radius_m, rng)[client]
        speed = rng.uniform(channel.speed_min_mps, channel.speed_max_mps, size=clients)[client]
        way = goal - here
        takes_s = float(np.linalg.norm(way)) / speed
        if time_s <= takes_s:
            return np.asarray(here + way / np.linalg.norm(way) * speed * time_s)
        time_s -= takes_s
        if time_s <= channel.pause_s:
            return goal
        time_s, here = time_s - channel.pause_s, goal
    raise AssertionError


@pytest.mark.parametrize("number", [1, 2, 30, 400])
def test_clients_are_where_a_plain_walk_leads(number: int) -> None:
    """Walks with pauses of 12 s at 2 to 15 m/s, 1.5 s a round: round k begins at (k − 1)·1.5 s."""
    channel = Mobile(speed_min_mps=2.0, speed_max_mps=15.0, pause_s=12.0, seconds_per_round=1.5)
    places = channel.places_m(cell.positions_of(4, 8), Draws(4, 0, number))
    expected = [walked(channel, 4, client, 8, (number - 1) * 1.5) for client in range(8)]
    np.testing.assert_allclose(places, expected, atol=1e-9)


def test_the_first_round_is_at_the_scenarios_positions() -> None:
    where_m = cell.positions_of(0, 30)
    np.testing.assert_array_equal(Mobile().places_m(where_m, Draws(0, 0, 1)), where_m)


def test_clients_stay_in_the_cell_and_never_jump() -> None:
    """At most 2 m a round at 2 m/s; where the leg goes on straight, at least 0.5 m."""
    where_m = cell.positions_of(2, 200)
    path = np.array([Mobile().places_m(where_m, Draws(2, 0, number)) for number in range(1, 400)])
    assert np.hypot(path[..., 0], path[..., 1]).max() <= 250.0 + 1e-9
    steps = np.diff(path, axis=0)  # [398, 200, 2]
    length = np.hypot(steps[..., 0], steps[..., 1])
    assert length.max() <= 2.0 + 1e-9
    turned = np.hypot(*np.moveaxis(np.diff(steps, axis=0), -1, 0)) > 1e-9
    straight = ~turned[1:] & ~turned[:-1]
    assert straight.mean() > 0.95
    assert length[1:-1][straight].min() >= 0.5 - 1e-9


def test_speeds_are_uniform_in_their_range() -> None:
    """A millisecond after the start everyone is on the first leg."""
    where_m = cell.positions_of(5, 5000)
    channel = Mobile(seconds_per_round=1e-3, speed_min_mps=0.5, speed_max_mps=2.0)
    speed = np.linalg.norm(channel.places_m(where_m, Draws(5, 0, 2)) - where_m, axis=1) / 1e-3
    assert stats.kstest(speed, "uniform", args=(0.5, 1.5)).pvalue > 0.01


def test_a_long_pause_holds_everyone_at_the_first_goal() -> None:
    channel = dataclasses.replace(FAST, pause_s=1e9)
    places = channel.places_m(cell.positions_of(0, 50), Draws(0, 0, 10_000))
    goals = cell.positions_m(50, 250.0, Draws(0, 0, 1).static("movement", part=0))
    np.testing.assert_allclose(places, goals, atol=1e-9)


def test_in_the_long_run_clients_are_nearer_to_the_centre_as_the_model_says() -> None:
    """f(r) = 45 (1 − r²)/(64π) · 2 E(r²) for R = 1, so P(distance ≤ q) = 2π ∫₀^q r f(r) dr.

    10,000 clients after 2,000 s at 10 m/s, about 88 legs of 128 · 250/(45π) = 226 m. Within half the radius there
    are 0.43 of them; of uniform places, as at the start, there would be a quarter.
    """

    def below(radius: float) -> float:
        density = lambda r: r * 45 * (1 - r**2) / (64 * np.pi) * 2 * special.ellipe(r**2)  # noqa: E731
        return float(2 * np.pi * integrate.quad(density, 0, radius)[0])

    assert below(1.0) == pytest.approx(1.0, abs=1e-9)
    grid = np.linspace(0, 1, 201)
    table = np.array([below(r) for r in grid])
    places = FAST.places_m(cell.positions_of(1, 10_000), Draws(1, 0, 2001))
    share = np.minimum(np.hypot(*places.T) / 250.0, 1.0)
    assert stats.kstest(share, lambda r: np.interp(r, grid, table)).pvalue > 0.01
    assert stats.kstest(share, lambda r: r**2).pvalue < 1e-9
    assert (share <= 0.5).mean() == pytest.approx(below(0.5), abs=5 * 0.5 / np.sqrt(10_000))
    angle = np.arctan2(*places.T)
    assert stats.kstest(angle, "uniform", args=(-np.pi, 2 * np.pi)).pvalue > 0.01


def test_path_loss_follows_the_clients() -> None:
    channel = dataclasses.replace(FAST, shadowing_std_db=0.0)
    where_m, draws = cell.positions_of(0, 40), Draws(0, 0, 33)
    distance_m = np.maximum(np.linalg.norm(channel.places_m(where_m, draws), axis=1), 1.0)
    np.testing.assert_allclose(
        channel.gains(where_m, draws), gain_from_db(path_loss_db(distance_m)), rtol=1e-12
    )


def test_shadowing_is_a_map_that_clients_walk_through() -> None:
    """Where a client is in round 33, another would have stood under the same shadow in round 1."""
    where_m, late = cell.positions_of(0, 40), Draws(0, 0, 33)
    now_m = FAST.places_m(where_m, late)
    np.testing.assert_allclose(FAST.gains(where_m, late), FAST.gains(now_m, Draws(0, 0, 1)), rtol=1e-3)


def test_without_correlation_the_shadowing_is_redrawn_as_the_papers() -> None:
    channel = dataclasses.replace(FAST, correlation_m=0.0)
    where_m, draws = cell.positions_of(0, 40), Draws(0, 0, 33)
    expected = Shadowing().gains(channel.places_m(where_m, draws), draws)
    np.testing.assert_allclose(channel.gains(where_m, draws), expected, rtol=1e-9)


# --- in the settings


@pytest.mark.parametrize(
    ("channel", "options"),
    [
        ("rician", {"k_db": 3.0}),
        ("correlated-shadowing", {"correlation_rounds": 3.0}),
        ("mobile", {"speed_max_mps": 20.0}),
        ("umi", {"carrier_ghz": 2.0}),
    ],
)
def test_a_run_on_each_of_them_repeats_itself(channel: str, options: dict[str, Any]) -> None:
    settings = tiny_settings(rounds=[2, 2, 0], radio__channel=channel, radio__channel_options=options)
    one, other = (simulate(settings, data=tiny_data()).records for _ in range(2))
    assert one == other
    plain = simulate(tiny_settings(rounds=[2, 2, 0]), data=tiny_data()).records
    assert [r.bandwidth_hz for r in one[1:3]] != [r.bandwidth_hz for r in plain[1:3]]


def test_the_cells_radius_reaches_whoever_walks_in_it() -> None:
    assert make_channel(RadioSettings(channel="mobile", radius_m=100.0)) == Mobile(radius_m=100.0)
    assert make_channel(RadioSettings(radius_m=100.0)) == Shadowing()


@pytest.mark.parametrize(
    ("radio", "message"),
    [
        ({"channel": "rician", "channel_options": {"k_db": 200.0}}, "k_db=200.0: give a finite number at least -100"),
        ({"channel": "correlated-shadowing", "shadowing": "static"}, "radio.shadowing='static' has no effect on"),
        ({"channel": "correlated-shadowing", "channel_options": {"correlation_m": -1.0}}, "correlation_m=-1.0"),
        ({"channel": "mobile", "channel_options": {"speed_min_mps": 0.0}}, "speed_min_mps=0.0: give a finite number"),
        (
            {"channel": "mobile", "channel_options": {"seconds_per_round": 1e6}},
            "seconds_per_round=1000000.0: give a finite number at least 0 and at most 600",
        ),
        ({"channel": "mobile", "channel_options": {"speed_min_mps": 3.0}}, "speed_max_mps=2 lies below speed_min"),
        ({"channel": "mobile", "channel_options": {"radius_m": 9.0}}, "radio.channel_options.radius_m=9.0: set radio."),
        ({"channel": "umi", "shadowing_std_db": 6.0}, "radio.shadowing_std_db=6.0 has no effect on radio"),
        ({"channel": "umi", "channel_options": {"client_height_m": 1.0}}, "client_height_m=1.0: give a finite number"),
    ],
)  # fmt: skip
def test_impossible_options_are_refused(radio: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as refused:
        make_channel(RadioSettings(**radio))
    assert message in str(refused.value)
