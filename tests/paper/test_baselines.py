"""The baselines against their formulas: rankings by hand, probabilities by chi-square on many draws."""

import dataclasses
import math
from itertools import permutations

import numpy as np
import pytest
from scipy import stats

from fedteddi import InputError, RoundView, make_scheduler
from fedteddi.schedulers.made_rounds import random_round
from fedteddi.schedulers.rules.fed_cbs import QCID_FLOOR, imbalance
from fedteddi.schedulers.rules.power_of_choice import draw_order

DRAWS = 20_000


def qcid(num_samples: np.ndarray, mix: np.ndarray) -> float:
    """Return QCID of a set of clients, [n] and [n, C]."""
    return float(imbalance(num_samples @ mix / num_samples.sum()))


def four_clients(**changes: object) -> RoundView:
    """Four feasible clients, each needing 1 Hz of 2: exactly two fit."""
    view = random_round(np.random.default_rng(5), clients=4, classes=3)
    fixed = {
        "needed_hz": np.ones(4),
        "total_hz": 2.0,
        "compute_s": None,
        "num_samples": np.array([10, 20, 30, 40]),
        "classes_seen": np.zeros(0, dtype=bool),  # to be derived from the mixes given here
    }
    return dataclasses.replace(view, **(fixed | changes))  # type: ignore[arg-type]


def order_counts(name: str, view: RoundView, **options: object) -> dict[tuple[int, ...], int]:
    rule, rng = make_scheduler(name, **options), np.random.default_rng(0)
    counts: dict[tuple[int, ...], int] = {}
    for _ in range(DRAWS):
        clients = rule.select(view, rng).clients
        counts[clients] = counts.get(clients, 0) + 1
    return counts


def assert_fits(counts: dict[tuple[int, ...], int], probability: dict[tuple[int, ...], float]) -> None:
    """Chi-square of the counts against the probabilities, which must cover every outcome.

    Outcomes expected fewer than 5 times are pooled, as is usual for this test.
    """
    assert set(counts) <= set(probability)
    assert sum(probability.values()) == pytest.approx(1.0)
    common = [outcome for outcome, p in probability.items() if p * DRAWS >= 5]
    expected = [probability[outcome] * DRAWS for outcome in common]
    observed = [counts.get(outcome, 0) for outcome in common]
    if len(common) < len(probability):
        expected.append(DRAWS - sum(expected))
        observed.append(DRAWS - sum(observed))
    assert stats.chisquare(observed, expected).pvalue > 0.001


def test_random_draws_every_order_equally_often() -> None:
    pairs = list(permutations(range(4), 2))
    assert_fits(order_counts("random", four_clients()), dict.fromkeys(pairs, 1 / 12))


def test_best_channel_and_best_norm_rank() -> None:
    view = four_clients(
        channel_gain=np.array([0.1, 0.4, 0.3, 0.2]), update_norm=np.array([4.0, 1.0, 2.0, 3.0])
    )
    assert make_scheduler("best-channel").select(view, np.random.default_rng(0)).clients == (1, 2)
    assert make_scheduler("best-norm").select(view, np.random.default_rng(0)).clients == (0, 3)


@pytest.mark.parametrize(("on_no_fit", "expected"), [("stop", (1,)), ("skip", (1, 3))])
def test_ranking_stops_at_who_does_not_fit_or_skips_it(on_no_fit: str, expected: tuple[int, ...]) -> None:
    """Gains rank 4, 1, 2, 3, 0. No bandwidth serves client 4 in time: it never ends a round (docs/paper.md D1).

    Of 10 Hz client 1 takes 6, client 2 (5) does not fit, client 3 (4) does.
    """
    gain, needed = np.array([0.1, 0.4, 0.3, 0.2, 0.9]), np.array([1.0, 6.0, 5.0, 4.0, np.inf])
    view = dataclasses.replace(
        random_round(np.random.default_rng(5), clients=5, classes=3),
        channel_gain=gain,
        update_norm=gain,
        loss=gain,
        needed_hz=needed,
        total_hz=10.0,
        compute_s=None,
    )
    for name in (
        "best-channel",
        "best-norm",
        "power-of-choice",
    ):  # with five clients, all of them are candidates
        rule = make_scheduler(name, on_no_fit=on_no_fit)
        assert rule.select(view, np.random.default_rng(0)).clients == expected, name


def test_a_client_that_needs_more_than_the_band_ends_a_ranking() -> None:
    """As in the code of the paper's first author (docs/paper.md D1): client 1 ranks second and needs 11 of 10 Hz."""
    view = four_clients(
        channel_gain=np.array([0.9, 0.4, 0.3, 0.2]), needed_hz=np.array([1.0, 11.0, 1.0, 1.0]), total_hz=10.0
    )
    assert make_scheduler("best-channel").select(view, np.random.default_rng(0)).clients == (0,)
    skipping = make_scheduler("best-channel", on_no_fit="skip")
    assert skipping.select(view, np.random.default_rng(0)).clients == (0, 2, 3)


def test_pure_drift_ranks_and_breaks_ties_at_random() -> None:
    """Client 2 moved by 2, clients 0 and 3 by 1 up to rounding (0.1 + 0.2 ≠ 0.3), client 1 not at all."""
    now = np.array([[0.5, 0.5, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0], [0.3, 0.2 + 1e-16, 0.5]])
    before = np.array([[1.0, 0.0, 0.0], [1.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.1 + 0.2, 0.7, 0.0]])
    view = four_clients(data_mix=now, previous_data_mix=before)
    assert_fits(order_counts("pure-drift", view), {(2, 0): 0.5, (2, 3): 0.5})


def test_power_of_choice_draws_candidates_in_proportion_to_data() -> None:
    """P(a then b) = D_a/D · D_b/(D − D_a), the formula of drawing without replacement."""
    held, rng = np.array([10, 20, 30, 40]), np.random.default_rng(0)
    counts: dict[tuple[int, ...], int] = {}
    for _ in range(DRAWS):
        pair = tuple(int(n) for n in draw_order(held, rng)[:2])
        counts[pair] = counts.get(pair, 0) + 1
    assert_fits(
        counts, {(a, b): held[a] / 100 * held[b] / (100 - held[a]) for a, b in permutations(range(4), 2)}
    )


def test_power_of_choice_takes_the_highest_losses_among_its_candidates() -> None:
    """With d = 2 and room for two, both candidates are taken, the higher loss first: pairs are unordered draws."""
    loss = np.array([0.4, 0.1, 0.3, 0.2])
    held = np.array([10, 20, 30, 40])
    expected: dict[tuple[int, ...], float] = {}
    for a, b in permutations(range(4), 2):
        ranked = tuple(sorted((a, b), key=lambda n: -loss[n]))
        expected[ranked] = expected.get(ranked, 0.0) + held[a] / 100 * held[b] / (100 - held[a])
    assert_fits(order_counts("power-of-choice", four_clients(loss=loss), candidates=2), expected)


def test_power_of_choice_draws_further_candidates_where_all_fit() -> None:
    """With d = 2 and room for three, the two candidates come by loss, then a third is drawn ∝ D_n (SPEC section 5).

    P(first two in any order, then c) = Σ over both orders of D_a/D · D_b/(D − D_a), times D_c/(D − D_a − D_b).
    """
    loss, held = np.array([0.4, 0.1, 0.3, 0.2]), np.array([10, 20, 30, 40])
    expected: dict[tuple[int, ...], float] = {}
    for a, b, c in permutations(range(4), 3):
        outcome = (*sorted((a, b), key=lambda n: -loss[n]), c)
        drawn = held[a] / 100 * held[b] / (100 - held[a]) * held[c] / (100 - held[a] - held[b])
        expected[outcome] = expected.get(outcome, 0.0) + drawn
    assert_fits(
        order_counts("power-of-choice", four_clients(loss=loss, total_hz=3.0), candidates=2), expected
    )


def test_power_of_choice_keeps_to_its_candidates_where_one_does_not_fit() -> None:
    """d = 2, 2 Hz, the candidates need 1.5 Hz each: "skip" must not fill up with clients who were not drawn."""
    view = four_clients(needed_hz=np.array([1.5, 1.5, 0.1, 0.1]), num_samples=np.array([10**9, 10**9, 1, 1]))
    rule = make_scheduler("power-of-choice", candidates=2, on_no_fit="skip")
    chosen = {rule.select(view, np.random.default_rng(seed)).clients for seed in range(50)}
    assert len(chosen) == 1
    assert chosen <= {(0,), (1,)}


@pytest.mark.parametrize(("clients", "most"), [(20, 15), (50, 25)])
def test_power_of_choice_draws_half_of_the_schedulable_but_at_least_15(clients: int, most: int) -> None:
    """Losses rank clients 0, 1, 2, …; room for one. All are drawn alike, so P(client 0 is in) = d/N, else 1, …"""
    view = dataclasses.replace(
        random_round(np.random.default_rng(5), clients=clients, classes=3),
        needed_hz=np.ones(clients),
        total_hz=1.0,
        compute_s=None,
        num_samples=np.full(clients, 100),
        loss=-np.arange(clients, dtype=np.float64),
    )
    counts = order_counts("power-of-choice", view)
    expected, missed = {}, 1.0
    for n in range(clients - most + 1):  # the first n are all missed, then n is drawn
        expected[(n,)] = missed * most / (clients - n)
        missed *= 1 - most / (clients - n)
    assert_fits(counts, expected)


def test_power_of_choice_may_keep_to_its_candidates() -> None:
    """Room for all four, d = 2: without `further` nobody else is drawn, as in our first study."""
    view = four_clients(loss=np.arange(4.0), total_hz=9.0)
    rule = make_scheduler("power-of-choice", candidates=2, further=False)
    assert {len(rule.select(view, np.random.default_rng(seed)).clients) for seed in range(20)} == {2}
    with pytest.raises(InputError, match="further='no'"):
        make_scheduler("power-of-choice", further="no")


def test_power_of_choice_takes_a_number_or_half() -> None:
    for wrong in (0, 1.5, "all"):
        with pytest.raises(InputError, match="candidates="):
            make_scheduler("power-of-choice", candidates=wrong)


def test_power_of_choice_draws_only_among_the_schedulable() -> None:
    view = four_clients(needed_hz=np.array([1.0, np.inf, 1.0, 3.0]))
    chosen = make_scheduler("power-of-choice", candidates=2).select(view, np.random.default_rng(0))
    assert sorted(chosen.clients) == [0, 2]


def test_qcid_in_both_of_its_forms() -> None:
    """Σ_c (Σ D_n p_n/ΣD − 1/C)² = Σ_{n,m} D_n D_m ⟨p_n, p_m⟩/(ΣD)² − 1/C; by hand for (1, 0) alone: ½."""
    assert qcid(np.array([5]), np.array([[1.0, 0.0]])) == pytest.approx(0.5)
    rng = np.random.default_rng(0)
    for _ in range(50):
        mix, held = rng.dirichlet(np.full(6, 0.4), size=5), rng.integers(1, 100, size=5)
        pairs = sum(held[n] * held[m] * float(mix[n] @ mix[m]) for n in range(5) for m in range(5))
        assert qcid(held, mix) == pytest.approx(pairs / held.sum() ** 2 - 1 / 6)


@pytest.mark.parametrize(("number", "times"), [(1, [0, 0, 0, 0]), (9, [0, 4, 1, 2])])
def test_fed_cbs_draws_with_its_probabilities(number: int, times: list[int]) -> None:
    """First draw ∝ 1/QCID({n}) + 10 √(3 ln k/(2 T_n)), second ∝ 1/QCID({first, n})²; two fit.

    Class 2 has not been seen, so C = 2 and it counts for nothing. In round 1 the bonus is 0.
    """
    mix = np.array([[0.9, 0.1, 0.0], [0.2, 0.8, 0.0], [0.4, 0.6, 0.0], [1.0, 0.0, 0.0]])
    view = four_clients(
        batch_mix=mix,
        data_mix=mix,
        previous_data_mix=mix,
        round=number,
        rounds_in_frame=20,
        times_scheduled=np.array(times),
    )
    held, shares = view.num_samples, mix[:, :2]
    first = [
        1 / qcid(held[[n]], shares[[n]]) + 10 * math.sqrt(3 * math.log(number) / (2 * max(times[n], 1)))
        for n in range(4)
    ]
    probability = {}
    for a in range(4):
        second = {b: 1 / qcid(held[[a, b]], shares[[a, b]]) ** 2 for b in range(4) if b != a}
        for b, weight in second.items():
            probability[(a, b)] = first[a] / sum(first) * weight / sum(second.values())
    assert_fits(order_counts("fed-cbs", view), probability)


def test_fed_cbs_third_draw_has_exponent_three_and_uses_data_mixes() -> None:
    """Room for three of four: P(a, b, c) ∝ first · second² · third³; batches say something else and are ignored."""
    mix = np.array([[0.9, 0.1, 0.0], [0.2, 0.7, 0.1], [0.3, 0.3, 0.4], [0.6, 0.0, 0.4]])
    view = four_clients(
        total_hz=3.0,
        batch_mix=mix[::-1].copy(),
        data_mix=mix,
        previous_data_mix=mix,
        round=1,
        rounds_in_frame=9,
    )
    held = view.num_samples

    def weight(members: tuple[int, ...]) -> float:
        return float(1 / qcid(held[list(members)], mix[list(members)]) ** len(members))

    probability = {}
    for a, b, c in permutations(range(4), 3):
        first = weight((a,)) / sum(weight((n,)) for n in range(4))
        second = weight((a, b)) / sum(weight((a, n)) for n in range(4) if n != a)
        third = weight((a, b, c)) / sum(weight((a, b, n)) for n in range(4) if n not in (a, b))
        probability[(a, b, c)] = first * second * third
    assert_fits(order_counts("fed-cbs", view), probability)


@pytest.mark.parametrize("on_no_fit", ["stop", "skip"])
def test_fed_cbs_ends_with_a_draw_that_does_not_fit_or_leaves_it_out(on_no_fit: str) -> None:
    """Client 3 needs the whole band of 2 Hz, the others 1 Hz each; the third draw never fits.

    With "stop" client 3 may be drawn second, and then nobody joins the first; with "skip" it is no candidate then.
    """
    mix = np.array([[0.9, 0.1, 0.0], [0.2, 0.7, 0.1], [0.3, 0.3, 0.4], [0.6, 0.0, 0.4]])
    view = four_clients(
        needed_hz=np.array([1.0, 1.0, 1.0, 2.0]),
        batch_mix=mix,
        data_mix=mix,
        previous_data_mix=mix,
        round=1,
        rounds_in_frame=9,
    )
    held = view.num_samples

    def weight(*members: int) -> float:
        return float(1 / qcid(held[list(members)], mix[list(members)]) ** len(members))

    first = {a: weight(a) / sum(weight(n) for n in range(4)) for a in range(4)}
    probability: dict[tuple[int, ...], float] = {(3,): first[3]}
    for a in range(3):
        others = [n for n in range(4) if n != a and (on_no_fit == "stop" or n != 3)]
        for b in others:
            outcome = (a,) if b == 3 else (a, b)
            probability[outcome] = first[a] * weight(a, b) / sum(weight(a, n) for n in others)
    assert_fits(order_counts("fed-cbs", view, on_no_fit=on_no_fit), probability)


def test_defaults_are_the_papers() -> None:
    """Exploration 10, λ0 = 2."""
    assert make_scheduler("fed-cbs").exploration == 10  # type: ignore[attr-defined]
    assert make_scheduler("fedteddi").lambda0 == 2  # type: ignore[attr-defined]


def test_pure_drift_tells_small_differences_apart() -> None:
    """Drifts 0.0002 and 0.0004 are no tie."""
    before = np.tile([0.5, 0.5, 0.0], (4, 1))
    now = before + np.array([[0.0], [1e-4], [2e-4], [0.0]]) * [1, -1, 0]
    counts = order_counts("pure-drift", four_clients(data_mix=now, previous_data_mix=before))
    assert set(counts) == {(2, 1)}


@pytest.mark.parametrize(("name", "field"), [("best-channel", "channel_gain"), ("best-norm", "update_norm")])
def test_equal_scores_are_ranked_at_random(name: str, field: str) -> None:
    counts = order_counts(name, four_clients(**{field: np.full(4, 0.5)}))
    assert_fits(counts, dict.fromkeys(permutations(range(4), 2), 1 / 12))


def test_fed_cbs_survives_perfect_balance() -> None:
    """QCID = 0 is floored: all four clients are uniform, so every pair is as likely as any."""
    uniform = np.full((4, 3), 1 / 3)
    view = four_clients(batch_mix=uniform, data_mix=uniform, previous_data_mix=uniform)
    assert qcid(np.array([1]), uniform[:1]) < QCID_FLOOR
    pairs = list(permutations(range(4), 2))
    assert_fits(order_counts("fed-cbs", view), dict.fromkeys(pairs, 1 / 12))


@pytest.mark.parametrize(("name", "field"), [("best-norm", "update_norm"), ("power-of-choice", "loss")])
def test_a_rule_says_what_it_needs(name: str, field: str) -> None:
    rule = make_scheduler(name)
    assert rule.needs == {field}  # type: ignore[attr-defined]
    with pytest.raises(InputError, match=f"{name} ranks clients by {field}, which is missing"):
        rule.select(four_clients(**{field: None}), np.random.default_rng(0))
