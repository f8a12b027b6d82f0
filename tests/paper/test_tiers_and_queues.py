"""TiFL and the energy queues against second readings: diaries in plain loops, enumeration, long-run means."""

import math
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from scipy import stats

from fedteddi.schedulers.latency import reference_latency_s
from fedteddi.schedulers.rules.lyapunov_energy import LyapunovEnergy
from fedteddi.schedulers.rules.tifl import TiFL, changed_probabilities, tier_losses, tiers_of
from fedteddi.schedulers.schedule import choice_of, first_state
from fedteddi.wireless.radio import watts_from_dbm
from fedteddi.wireless.uplink import rate_bps
from paper.utility_rounds import DEADLINE_S, DRAWS, MODEL_BITS, cell, ids, made, with_absences

# --- TiFL


def test_tiers_are_equal_groups_by_latency() -> None:
    """Seven clients in three tiers: ranks 0-6 times 3 over 7 are 0, 0, 0, 1, 1, 2, 2."""
    latency_s = np.array([5.0, 1.0, 7.0, 2.0, 6.0, 3.0, 4.0])
    assert tiers_of(latency_s, 3, np.random.default_rng(0)).tolist() == [1, 0, 2, 0, 2, 0, 1]
    alike = [tuple(tiers_of(np.ones(2), 2, np.random.default_rng(seed))) for seed in range(200)]
    assert 60 < alike.count((0, 1)) < 140  # ties at random: 100 ± 6 standard errors of 7


def test_losses_and_probabilities_of_tiers() -> None:
    """Tier 1 has nobody here and keeps 4. By falling loss: 1, 2, 0 get 3/6, 2/6, 1/6; without tier 1: 2/3 and 1/3."""
    loss = tier_losses(np.array([1.0, 3.0, 2.5]), np.array([0, 2, 2]), np.array([9.0, 4.0, math.nan]))
    assert loss.tolist() == [1.0, 4.0, 2.75]
    rng = np.random.default_rng(0)
    assert changed_probabilities(loss, np.array([1, 1, 1]), rng) == pytest.approx([1 / 6, 3 / 6, 2 / 6])
    assert changed_probabilities(loss, np.array([1, 0, 2]), rng) == pytest.approx([1 / 3, 0, 2 / 3])
    assert changed_probabilities(loss, np.array([0, 0, 0]), rng).tolist() == [0, 0, 0]
    unheard = np.array([math.nan, 4.0])
    assert changed_probabilities(unheard, np.array([1, 1]), rng) == pytest.approx([1 / 3, 2 / 3])


def test_tiers_lead_as_often_as_their_probabilities_say_and_others_follow() -> None:
    """Six clients of rising latency in three tiers, three fit: a whole tier by 0.5, 0.3, 0.2, then one of another."""
    probability = np.array([0.5, 0.3, 0.2])
    view, rule, rng = made(6, fit=3, slower=0.05), TiFL(tiers=3), np.random.default_rng(0)
    assert (np.diff(reference_latency_s(view, "tifl")) > 0).all()
    _, state = choice_of(rule, view, rng, first_state(rule, 6))
    state |= {"probability": probability, "credits": np.array([5, 5, 5])}
    counts, firsts = np.zeros((3, 3)), np.zeros(2)
    for _ in range(DRAWS):
        clients = choice_of(rule, view, rng, state)[0].clients
        assert clients[0] // 2 == clients[1] // 2  # the whole leading tier first
        counts[clients[0] // 2, clients[2] // 2] += 1
        firsts[clients[0] % 2] += 1
    follow = probability / (1 - probability)[:, None]  # P(second = j | first = i), i ≠ j
    expected = probability[:, None] * follow * DRAWS
    off = ~np.eye(3, dtype=bool)
    assert counts.trace() == 0
    assert stats.chisquare(counts[off], expected[off]).pvalue > 0.001
    assert stats.chisquare(firsts).pvalue > 0.001  # random order within a tier
    alone = TiFL(tiers=3, further=False)
    assert {len(choice_of(alone, view, rng, state)[0].clients) for _ in range(50)} == {2}


def test_a_tier_without_credits_leads_only_where_no_other_can() -> None:
    view, rule, rng = made(4, fit=1, slower=0.2), TiFL(tiers=2), np.random.default_rng(0)
    _, state = choice_of(rule, view, rng, first_state(rule, 4))
    state |= {"credits": np.array([3, 0]), "round": 1}
    leaders = []
    for _ in range(60):
        schedule, state = choice_of(rule, view, rng, state)
        leaders.append(schedule.clients[0] // 2)
    assert leaders[:3] == [0, 0, 0]
    assert set(leaders[3:]) == {0, 1}  # all credits are spent
    assert state["credits"].tolist() == [0, 0]


@pytest.mark.parametrize("seed", range(3))
def test_tifl_is_what_a_diary_says(seed: int) -> None:
    """Second reading of 40 rounds with absences: latency means, tiers, losses, probabilities and credits by hand.

    I = 4, T = 3, 100 rounds in the frame: ⌈1.5 · 100 / 3⌉ = 50 credits each.
    """
    rule, times = TiFL(tiers=3, interval=4), dict[int, list[float]]()
    state, probability, left = first_state(rule, 10), [1 / 3] * 3, [50, 50, 50]
    known, before, leader = [math.nan] * 3, [math.nan] * 3, 0
    for number, view in enumerate(with_absences(np.random.default_rng(seed), 10, 40)):
        assert view.loss is not None
        latency_s = reference_latency_s(view, "tifl").tolist()
        slowest = max(t for t in latency_s if t < math.inf)
        for n, t in zip(view.client_id.tolist(), latency_s, strict=True):
            times.setdefault(n, []).append(min(t, slowest))
        ranking = sorted(times, key=lambda n: sum(times[n]) / len(times[n]))
        tier = {n: rank * 3 // len(ranking) for rank, n in enumerate(ranking)}
        for t in range(3):
            here = [float(x) for n, x in zip(view.client_id, view.loss, strict=True) if tier[int(n)] == t]
            known[t] = sum(here) / len(here) if here else known[t]
        if number and number % 4 == 0 and known[leader] >= before[leader]:
            order = sorted(range(3), key=lambda t: -known[t])
            probability = [(3 - order.index(t)) / 6 for t in range(3)]
        if number % 4 == 0:
            before = known.copy()
        schedule, state = choice_of(rule, view, np.random.default_rng(number), state)
        leader = tier[ids(view, schedule.clients)[0]]
        left[leader] -= 1
        assert state["probability"] == pytest.approx(probability)
        assert state["credits"].tolist() == left
        assert state["loss"] == pytest.approx(known)
    assert probability != [1 / 3] * 3


def test_a_new_frame_begins_with_new_credits_and_keeps_latencies() -> None:
    rule, rng = TiFL(tiers=2, credits=1.0), np.random.default_rng(0)
    _, state = choice_of(rule, made(4, fit=2), rng, first_state(rule, 4))
    state |= {"probability": np.array([0.9, 0.1]), "credits": np.array([1, 0])}
    _, after = choice_of(rule, made(4, fit=2, frame=1, rounds_in_frame=11), rng, state)
    assert after["probability"].tolist() == [0.5, 0.5]
    assert sorted(after["credits"]) == [5, 6]  # ⌈11 / 2⌉ each, one paid
    assert after["reports"].tolist() == [2, 2, 2, 2]


# --- energy queues


def test_greedy_minimises_drift_plus_penalty_where_all_need_the_same() -> None:
    """Every subset of 8 clients of which 3 fit: none has a lower Σ (q_n e_n − V u_n) than the chosen one."""
    rng = np.random.default_rng(1)
    for _ in range(50):
        compute_s, samples, queue = rng.uniform(0.1, 0.9, 8), rng.integers(1, 900, 8), rng.uniform(0, 8, 8)
        view = made(8, fit=3, compute_s=compute_s, num_samples=samples)
        cost = queue * 0.2 * (DEADLINE_S - compute_s) / 0.02 - 20 * samples / samples.mean()
        best = min(sum(cost[list(s)]) for size in range(4) for s in combinations(range(8), size))
        chosen = choice_of(LyapunovEnergy(), view, rng, queue)[0].clients
        assert sum(cost[list(chosen)]) == pytest.approx(best)


@pytest.mark.parametrize("spare_band", ["unused", "share"])
def test_queues_are_what_a_meter_reads(spare_band: Any) -> None:
    """Upload times from power, gain and noise directly; queues in joules by a plain loop, for absent clients too."""
    rule = LyapunovEnergy(energy_per_round_j=0.05, compute_power_w=0.3, power_w=0.2, spare_band=spare_band)
    rng, state, queue_j = np.random.default_rng(2), first_state(rule, 9), [0.0] * 9
    for _ in range(40):
        view, radio = cell(rng, 9)
        assert view.compute_s is not None
        power_w, noise = watts_from_dbm(radio.power_dbm), watts_from_dbm(radio.noise_dbm_per_hz)
        schedule, state = choice_of(rule, view, rng, state)
        spent_j = dict.fromkeys(range(9), 0.0)
        for n, hz in zip(schedule.clients, schedule.bandwidth_hz, strict=True):
            upload_s = MODEL_BITS / float(rate_bps(hz, power_w, view.channel_gain[n], noise))
            assert spare_band == "share" or upload_s == pytest.approx(DEADLINE_S - view.compute_s[n])
            spent_j[n] = 0.2 * upload_s + 0.3 * view.compute_s[n]
        queue_j = [max(queue_j[n] + spent_j[n] - 0.05, 0.0) for n in range(9)]
        assert state * 0.05 == pytest.approx(queue_j)


ROUNDS, CLIENTS, BUDGET_J = 2000, 12, 0.02


def test_every_client_keeps_its_budget_and_the_data_beat_a_static_rule() -> None:
    """Over K = 2,000 rounds the mean is at most Ē (1 + q_K / K), and q ≤ V max u / min e + max e at any time.

    With both at most a few dozen budgets this is 2 % or less; a client that is wanted more often than the budget
    allows spends nearly all of it. The static rule keeps the same budget by a coin: client n is a candidate
    with probability Ē / E[E_n], whatever its channel and queue, and candidates fill the band in random order.
    """
    rng, rule = np.random.default_rng(4), LyapunovEnergy(energy_per_round_j=BUDGET_J)
    views = [cell(rng, CLIENTS)[0] for _ in range(ROUNDS)]
    energy_j = np.array([0.2 * (DEADLINE_S - v.compute_s) for v in views if v.compute_s is not None])
    data = np.array([v.num_samples / v.num_samples.mean() for v in views])
    able = np.array([v.needed_hz <= v.total_hz for v in views])
    bound = 20 * data.max() / (energy_j[able].min() / BUDGET_J) + energy_j.max() / BUDGET_J
    state, spent_j, gained = first_state(rule, CLIENTS), np.zeros(CLIENTS), 0.0
    static_j, static_gained = np.zeros(CLIENTS), 0.0
    chance = BUDGET_J * ROUNDS / np.where(able, energy_j, 0.0).sum(axis=0)
    for k, view in enumerate(views):
        schedule, state = choice_of(rule, view, rng, state)
        chosen = list(schedule.clients)
        spent_j[chosen] += energy_j[k, chosen]
        gained += data[k, chosen].sum()
        assert state.max() <= bound
        left_hz = view.total_hz
        for n in rng.permutation(np.flatnonzero(able[k] & (rng.random(CLIENTS) < chance))):
            if view.needed_hz[n] > left_hz:
                break
            left_hz -= view.needed_hz[n]
            static_j[n] += energy_j[k, n]
            static_gained += data[k, n]
    mean_j = spent_j / ROUNDS
    assert (mean_j <= BUDGET_J * (1 + state / ROUNDS) + 1e-12).all()
    assert mean_j == pytest.approx(np.full(CLIENTS, BUDGET_J), rel=0.02)
    assert static_j / ROUNDS == pytest.approx(np.full(CLIENTS, BUDGET_J), rel=0.25)
    assert gained / spent_j.sum() > 1.1 * static_gained / static_j.sum()
    assert gained > 1.1 * static_gained


def test_a_budget_that_does_not_bind_changes_nothing() -> None:
    """With a budget above any energy the queues stay empty and the rule is data per hertz."""
    view, _ = cell(np.random.default_rng(5), 20)
    schedule, state = choice_of(
        LyapunovEnergy(energy_per_round_j=1.0), view, np.random.default_rng(0), np.zeros(20)
    )
    ranking = np.argsort(-view.num_samples / view.needed_hz)
    assert list(schedule.clients) == ranking[: len(schedule.clients)].tolist()
    assert not state.any()
