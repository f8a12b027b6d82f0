"""AFL and Oort against second readings: probabilities by enumeration, scores by plain loops."""

import math
from typing import Any

import numpy as np
import pytest

from fedteddi import InputError, check_scheduler, make_scheduler
from fedteddi.schedulers.latency import reference_latency_s
from fedteddi.schedulers.rules.afl import ActiveFL
from fedteddi.schedulers.rules.oort import (
    Oort,
    clipped_and_scaled,
    confidence_bonus,
    statistical_utility,
    system_utility,
)
from fedteddi.schedulers.schedule import choice_of, first_state, schedule_faults
from fedteddi.wireless.radio import watts_from_dbm
from fedteddi.wireless.uplink import rate_bps
from paper.utility_rounds import MODEL_BITS, assert_fits, cell, counted, ids, made, pairs, with_absences

RULES = ["afl", "oort", "tifl", "lyapunov-energy"]


@pytest.mark.parametrize("name", RULES)
def test_who_comes_late_or_is_missing_gets_turns_and_nothing_breaks(name: str) -> None:
    """Clients 6 to 11 appear after a third of 60 rounds, and a fifth is missing in each."""
    rule, views = make_scheduler(name), with_absences(np.random.default_rng(0), 12, 60)
    state, heard = first_state(rule, 12), set()
    for number, view in enumerate(views):
        schedule, state = choice_of(rule, view, np.random.default_rng(number), state)
        assert schedule_faults(view, schedule) == []
        heard |= set(ids(view, schedule.clients))
    assert heard == set(range(12))


@pytest.mark.parametrize("name", RULES)
def test_the_laws_hold_with_other_options(name: str) -> None:
    options: dict[str, dict[str, Any]] = {
        "afl": {"alpha1": 0.2, "alpha2": 1.0, "alpha3": 0.5},
        "oort": {"blacklist_after": 1, "pacer_rounds": 1, "explore": 0.3},
        "tifl": {"tiers": 2, "interval": 1, "credits": 1.0, "further": False},
        "lyapunov-energy": {"compute_power_w": 1.0, "energy_per_round_j": 1e-3, "spare_band": "share"},
    }
    assert check_scheduler(make_scheduler(name, **options[name]), rounds=20) == []


@pytest.mark.parametrize(
    ("name", "option", "value"),
    [
        ("afl", "alpha1", 1.1),
        ("afl", "alpha2", -1),
        ("oort", "cutoff", 2),
        ("oort", "pacer_rounds", 0.5),
        ("tifl", "tiers", 0),
        ("tifl", "credits", 0.5),
        ("tifl", "further", 1),
        ("lyapunov-energy", "energy_per_round_j", 0),
    ],
)
def test_options_without_a_meaning_are_refused(name: str, option: str, value: float) -> None:
    with pytest.raises(InputError, match=f"{option}={value}"):
        make_scheduler(name, **{option: value})


@pytest.mark.parametrize("name", ["oort", "tifl", "lyapunov-energy"])
def test_rules_that_need_times_say_so(name: str) -> None:
    rule, view = make_scheduler(name), made(3, fit=2, model_bits=None)
    with pytest.raises(InputError, match="compute_s, deadline_s and model_bits"):
        choice_of(rule, view, np.random.default_rng(0), first_state(rule, 3))


# --- AFL

VALUES = np.array([0.5, 3.0, 1.0, 2.0])  # ranked 1, 3, 2, 0


def softmax(*clients: int) -> dict[int, float]:
    total = sum(math.exp(VALUES[n]) for n in clients)
    return {n: math.exp(VALUES[n]) / total for n in clients}


def test_afl_draws_by_softmax_without_replacement() -> None:
    """α1 = 0.25 drops client 0. The others: p_a = e^v / Σ e^v, then the same among the two left."""
    p = softmax(1, 2, 3)

    def second(a: int, b: int) -> float:
        return softmax(*({1, 2, 3} - {a})).get(b, 0.0)

    rule = ActiveFL(alpha1=0.25, alpha2=1.0, alpha3=0.0)
    assert_fits(counted(rule, made(4, fit=2), VALUES), pairs(4, lambda a: p.get(a, 0.0), second))


@pytest.mark.parametrize(("alpha3", "uniform"), [(0.5, 1.0), (0.25, 0.5)])
def test_afl_replaces_a_share_by_uniform_draws(alpha3: float, uniform: float) -> None:
    """Two fit, so α3 m = 1: the second is any of the other three. With α3 m = 0.5 this happens half the time."""
    p = softmax(1, 3)  # α1 = 0.5 drops 0 and 2

    def second(a: int, b: int) -> float:
        return uniform / 3 + (1 - uniform) * (b in {1, 3} - {a})

    rule = ActiveFL(alpha1=0.5, alpha2=1.0, alpha3=alpha3)
    assert_fits(counted(rule, made(4, fit=2), VALUES), pairs(4, lambda a: p.get(a, 0.0), second))


def test_afl_goes_on_with_the_dropped_where_more_fit() -> None:
    """α1 = 0.75 leaves client 1 of four; two fit: the second is uniform among the rest."""
    rule = ActiveFL(alpha1=0.75, alpha3=0.0)
    assert_fits(counted(rule, made(4, fit=2), VALUES), {(1, n): 1 / 3 for n in (0, 2, 3)})


@pytest.mark.parametrize("seed", range(4))
def test_afl_is_what_a_diary_of_valuations_says(seed: int) -> None:
    """With α2 → ∞ and α3 = 0 it ranks: by √D × loss of the last report when scheduled, or else of the first report."""
    rule = ActiveFL(alpha1=0.5, alpha2=1e9, alpha3=0.0)
    state, diary = first_state(rule, 9), dict[int, float]()
    for number, view in enumerate(with_absences(np.random.default_rng(seed), 9, 20)):
        assert view.loss is not None
        now = {
            int(n): math.sqrt(d) * x
            for n, d, x in zip(view.client_id, view.num_samples, view.loss, strict=True)
        }
        diary = now | diary
        able = [int(n) for n, hz in zip(view.client_id, view.needed_hz, strict=True) if hz <= view.total_hz]
        kept = sorted(able, key=lambda n: -diary[n])[: len(able) - len(able) // 2]
        schedule, state = choice_of(rule, view, np.random.default_rng(number), state)
        chosen = ids(view, schedule.clients)
        assert chosen[: len(kept)] == kept[: len(chosen)]
        diary |= {n: now[n] for n in chosen}
        assert {n: state[n] for n in diary} == pytest.approx(diary)
        assert np.isnan(state[[n for n in range(9) if n not in diary]]).all()


# --- latency


def test_latency_is_the_finishing_time_with_the_median_bandwidth() -> None:
    """From power, gain and noise directly, where the rule sees only B*; so t ≤ T_max exactly where B* ≤ B_ref."""
    view, radio = cell(np.random.default_rng(3), 40)
    power_w, noise = watts_from_dbm(radio.power_dbm), watts_from_dbm(radio.noise_dbm_per_hz)
    reference_hz = float(np.median([hz for hz in view.needed_hz if hz <= view.total_hz]))
    assert view.compute_s is not None
    latency_s = reference_latency_s(view, "a rule")
    for n in range(40):
        if math.isinf(view.needed_hz[n]):
            assert math.isinf(latency_s[n])
            continue
        rate = float(rate_bps(reference_hz, power_w, view.channel_gain[n], noise))
        assert latency_s[n] == pytest.approx(view.compute_s[n] + MODEL_BITS / rate, rel=1e-6)
        assert (latency_s[n] <= 1.0 + 1e-9) == (view.needed_hz[n] <= reference_hz * (1 + 1e-9))
    assert np.isinf(latency_s).any()


# --- Oort


def tried(loss: list[float], last: list[int], **more: Any) -> dict[str, Any]:
    """Oort's state before round 9: D = 100 of each client, with these losses when last scheduled."""
    state = Oort(preferred_percent=100).initial_state(len(loss))
    utility = np.array([100 * x for x in loss])
    return state | {"round": 8, "utility": utility, "last": np.array(last)} | more


def test_oort_terms_by_hand() -> None:
    """100 · |−2|; 4 is cut at the median of 1, 2, 4; R = 8103 ≈ e⁹, so √(0.9 / L); (1/2)², and 1 if fast."""
    assert statistical_utility(np.array([100]), np.array([-2.0])).tolist() == [200.0]
    assert clipped_and_scaled(np.array([1.0, 2.0, 4.0]), 0.5).tolist() == [0.0, 1.0, 1.0]
    assert clipped_and_scaled(np.array([3.0, 3.0]), 0.95).tolist() == [0.0, 0.0]
    assert confidence_bonus(8103, np.array([1, 90])) == pytest.approx([math.sqrt(0.9), 0.1], rel=1e-5)
    assert system_utility(np.array([0.5, 2.0]), 1.0, 2.0).tolist() == [1.0, 0.25]


@pytest.mark.parametrize(("cutoff", "reached"), [(0.5, {1, 2, 3}), (0.55, {1, 3})])
def test_oort_draws_by_score_above_the_cut_off(cutoff: float, reached: set[int]) -> None:
    """Nobody is untried, speed does not matter, two fit: K = 2 are drawn ∝ score among those above c × the second.

    U = 100, 300, 200, 400, cut at their 75 % quantile, 325: scaled 0, 8/9, 4/9, 1; the bonus is √(0.1 ln 9 / L).
    """
    view, last = made(4, fit=2), [8, 1, 4, 2]
    score = {n: u + math.sqrt(0.1 * math.log(9) / last[n]) for n, u in enumerate((0, 8 / 9, 4 / 9, 1.0))}
    second_best = sorted(score.values())[-2]
    pool = {n: s for n, s in score.items() if s >= cutoff * second_best}
    assert set(pool) == reached  # the scores are 0.17, 1.36, 0.68, 1.33

    def second(a: int, b: int) -> float:
        return pool.get(b, 0.0) / (sum(pool.values()) - pool.get(a, 0.0))

    rule = Oort(explore=0.0, explore_least=0.0, cutoff=cutoff, clip=0.75)
    first = {n: s / sum(pool.values()) for n, s in pool.items()}
    assert_fits(counted(rule, view, tried([1, 3, 2, 4], last)), pairs(4, lambda n: first.get(n, 0.0), second))


def test_oort_weighs_speed() -> None:
    """One fits, c = 0. Equal U and L: the scores are √(0.1 ln 9 / 2) × (T/t)², T the 25 % percentile of t."""
    view = made(4, fit=1, slower=0.25)  # 1.9 of the first one's bandwidth serve any one, and no two
    latency_s = reference_latency_s(view, "oort")
    preferred_s = sorted(latency_s)[0] + 0.75 * (sorted(latency_s)[1] - sorted(latency_s)[0])
    weight = [min(1.0, preferred_s / t) ** 2 for t in latency_s]
    state = tried([1, 1, 1, 1], [2, 2, 2, 2], percent=25.0)
    rule = Oort(explore=0.0, explore_least=0.0, cutoff=0.0)
    assert_fits(counted(rule, view, state), {(n,): w / sum(weight) for n, w in enumerate(weight)})


def test_oort_draws_untried_clients_by_speed() -> None:
    """In the first round nobody is tried: P(a, b) by 1/t without replacement."""
    view = made(4, fit=2, slower=0.13)  # 2.9 of the first one's bandwidth serve any two, and no three
    speed = [1 / t for t in reference_latency_s(view, "oort")]
    expected = pairs(4, lambda a: speed[a] / sum(speed), lambda a, b: speed[b] / (sum(speed) - speed[a]))
    assert_fits(counted(Oort(), view), expected)
    view = made(4, fit=1, slower=0.28)
    speed = [1 / t for t in reference_latency_s(view, "oort")]
    assert max(speed) > 1.2 * min(speed)
    assert_fits(counted(Oort(), view), {(n,): s / sum(speed) for n, s in enumerate(speed)})


@pytest.mark.parametrize(("round", "share"), [(10, 0.9 * 0.98**10), (200, 0.2)])
def test_oort_explores_a_falling_share(round: int, share: float) -> None:
    """Ten of 60 fit, 30 are tried: the mean number of untried ones is 10 ε, with a deviation of at most a half."""
    view, rng, draws = made(60, fit=10), np.random.default_rng(0), 2000
    state = tried([1.0] * 30 + [math.nan] * 30, [1] * 60, round=round)
    untried = [sum(n >= 30 for n in choice_of(Oort(), view, rng, state)[0].clients) for _ in range(draws)]
    assert np.mean(untried) == pytest.approx(10 * share, abs=5 * 0.5 / math.sqrt(draws))
    assert set(untried) <= {math.floor(10 * share), math.ceil(10 * share)}


@pytest.mark.parametrize(("factor", "percents"), [(0.9, [10] * 6 + [15] * 3 + [20] * 3), (1.1, [10] * 12)])
def test_pacer_relaxes_the_pace_when_utility_falls(factor: float, percents: list[float]) -> None:
    """W = 3: before round 7 it compares rounds 4-6 with 1-3, before round 10 7-9 with 4-6. All clients fit."""
    rule = Oort(pacer_rounds=3)
    state, seen = first_state(rule, 4), []
    for number in range(12):
        view = made(4, fit=4, loss=np.full(4, factor**number))
        _, state = choice_of(rule, view, np.random.default_rng(number), state)
        seen.append(state["percent"])
    assert seen == percents


def test_oort_remembers_what_scheduled_clients_report_and_leaves_out_the_blacklisted() -> None:
    """Client 2 was scheduled four times, client 0 three: one of four may be left out, the one with most."""
    state = tried([1, 1, 1, 1], [1, 1, 1, 1], times=np.array([3, 0, 4, 0]))
    view = made(4, fit=3, loss=np.array([2.0, -0.5, 9.0, 1.0]))
    rule = Oort(blacklist_after=2, blacklist_share=0.25)
    schedule, after = choice_of(rule, view, np.random.default_rng(0), state)
    assert set(schedule.clients) == {0, 1, 3}
    assert after["utility"].tolist() == [200.0, 50.0, 100.0, 100.0]
    assert after["last"].tolist() == [9, 9, 1, 9]
    assert after["times"].tolist() == [4, 1, 4, 1]
    assert after["gained"][-1] == 350.0
