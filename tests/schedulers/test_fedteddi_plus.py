"""FedTeddi-plus: its objective against plain loops, its target, and its search against enumeration."""

import dataclasses
import math
from itertools import combinations

import numpy as np
import pytest

from fedteddi import InputError, RoundView, example_round, make_scheduler
from fedteddi.heterogeneity.target import uniform_share
from fedteddi.schedulers.made_rounds import permuted, random_round
from fedteddi.schedulers.rules.fedteddi_plus import FedTeddiPlus


def slow_objective(view: RoundView, members: tuple[int, ...], rule: FedTeddiPlus) -> float:
    """‖mix − target‖ + ν/√|S| − λ_k drift in plain loops, straight from docs/fedteddi-plus.md."""
    done = view.round / view.rounds_in_frame
    uniform = rule.uniform_first + (rule.uniform_last - rule.uniform_first) * done
    held = sum(int(view.num_samples[n]) for n in members)
    everyone = sum(int(d) for d in view.num_samples)
    seen = sum(bool(s) for s in view.classes_seen)
    gaps = []
    for c in range(view.num_classes):
        mix = sum(int(view.num_samples[n]) * float(view.batch_mix[n, c]) for n in members) / held
        pooled = sum(int(d) * float(p) for d, p in zip(view.num_samples, view.batch_mix[:, c], strict=True))
        wanted = uniform * float(view.classes_seen[c]) / seen + (1 - uniform) * pooled / everyone
        gaps.append(mix - wanted)
    distance = math.sqrt(sum(g * g for g in gaps)) if rule.distance == "euclidean" else sum(map(abs, gaps))
    drift = 0.0
    for n in members:
        changed = sum(abs(float(now) - float(was)) for now, was in zip(*mixes(view, n), strict=True))
        drift += int(view.num_samples[n]) / held * changed
    return distance + rule.size_weight / math.sqrt(len(members)) - rule.lambda0 * (1 - done) * drift


def mixes(view: RoundView, client: int) -> tuple[np.ndarray, np.ndarray]:
    return view.data_mix[client], view.previous_data_mix[client]


RULES = [
    FedTeddiPlus(),
    FedTeddiPlus(distance="absolute", lambda0=0.5),
    FedTeddiPlus(uniform_first=0.3, uniform_last=0.8, size_weight=0.0),
]


@pytest.mark.parametrize("rule", RULES)
def test_objective_is_the_one_of_the_page(rule: FedTeddiPlus) -> None:
    for seed in range(10):
        view = random_round(np.random.default_rng(seed), clients=8, classes=5)
        rng = np.random.default_rng(seed)
        members = tuple(map(int, rng.permutation(view.num_clients)[: rng.integers(1, view.num_clients + 1)]))
        total = rule.objective(view).terms(members).total
        assert total == pytest.approx(slow_objective(view, members, rule), rel=1e-9, abs=1e-12)


def test_uniform_share_goes_from_first_to_last() -> None:
    """θ_k = 1 − 0.75 k/K: 1 before the first round, 0.625 half-way, 0.25 in the last; ν = 0.3, no drift term."""
    rule = FedTeddiPlus()
    assert [uniform_share(rule.uniform_first, rule.uniform_last, k, 200) for k in (0, 100, 200)] == [
        1.0,
        0.625,
        0.25,
    ]
    assert (rule.size_weight, rule.lambda0, rule.distance, rule.search) == (0.3, 0.0, "euclidean", "refined")


def test_classes_that_never_appeared_have_no_share_in_the_target() -> None:
    """Frame 0 of the CIFAR-10 study knows classes 0 to 5: equal shares are sixths, and classes 6 to 9 get none."""
    view = example_round(0)
    old = view.data_mix[:, 6:].sum(axis=1) == 0
    view = dataclasses.replace(
        permuted(view, np.flatnonzero(old)),
        classes_seen=np.arange(10) < 6,
        round=0 + 1,
        rounds_in_frame=10**6,
    )
    target = FedTeddiPlus(uniform_last=1.0).objective(view).target_mix
    np.testing.assert_allclose(target, [1 / 6] * 6 + [0] * 4)


@pytest.mark.parametrize("rule", RULES)
def test_refined_search_finds_the_best_set_of_twelve_clients(rule: FedTeddiPlus) -> None:
    """Against all 4,095 sets: nearly always the best, never worse than greedy."""
    found = 0
    for seed in range(8):
        full = example_round(seed, round=1 + 40 * seed)
        few = permuted(full, np.random.default_rng(seed).permutation(30)[:12])
        view = dataclasses.replace(few, total_hz=8e6)
        objective = rule.objective(view)
        able = list(map(int, view.schedulable))
        sets = [
            clients
            for size in range(1, len(able) + 1)
            for clients in combinations(able, size)
            if view.needed_hz[list(clients)].sum() <= view.total_hz
        ]
        best = min(objective.terms(clients).total for clients in sets)
        chosen = rule.select(view, np.random.default_rng(seed)).clients
        greedy = dataclasses.replace(rule, search="greedy").select(view, np.random.default_rng(seed)).clients
        own = objective.terms(chosen).total
        assert best - 1e-9 <= own <= objective.terms(greedy).total + 1e-9
        found += own <= best + 1e-9
    assert found >= 7


def test_a_missing_class_weighs_more_than_many_small_gaps() -> None:
    """Equal shares of four classes are wanted, and one of two clients fits.

    (0.35, 0.35, 0.15, 0.15) has gaps of 0.1 each, (0.95/3, 0.95/3, 0.95/3, 0.05) three of 0.2/3 and one of 0.2: both
    add up to 0.4. Their squares add up to 0.04 and to 3 · 0.04/9 + 0.04 = 0.16/3, so that only the Euclidean distance
    minds that class 3 is nearly missing.
    """
    spread_out, one_missing = np.array([0.35, 0.35, 0.15, 0.15]), np.array([0.95, 0.95, 0.95, 0.15]) / 3
    view = dataclasses.replace(
        example_round(0),
        num_samples=np.array([100, 100]),
        batch_mix=np.stack([spread_out, one_missing]),
        data_mix=np.stack([spread_out, one_missing]),
        previous_data_mix=np.stack([spread_out, one_missing]),
        needed_hz=np.array([1e6, 1e6]),
        total_hz=1e6,
        channel_gain=np.ones(2),
        times_scheduled=np.zeros(2, dtype=np.int64),
        class_norm=np.ones(4),
        classes_seen=np.ones(4, dtype=bool),
        compute_s=None,
        deadline_s=None,
        model_bits=None,
        loss=None,
        update_norm=None,
        update_sketch=None,
        client_id=np.arange(2),
    )
    rule = FedTeddiPlus(uniform_first=1.0, uniform_last=1.0)
    by_sum = dataclasses.replace(rule, distance="absolute")
    sums = [by_sum.objective(view).terms([n]).divergence for n in (0, 1)]
    assert sums == pytest.approx([0.4, 0.4])
    squares = [rule.objective(view).terms([n]).divergence for n in (0, 1)]
    assert squares == pytest.approx([0.2, math.sqrt(0.16 / 3)])
    assert rule.select(view, np.random.default_rng(0)).clients == (0,)


def test_it_needs_no_gradients() -> None:
    """Whatever σ and L^(c) are, the schedule is the same."""
    view = example_round(3)
    other = dataclasses.replace(view, gradient_std=9.0, class_norm=np.linspace(0, 5, view.num_classes))
    rule = make_scheduler("fedteddi-plus")
    assert rule.needs == frozenset()
    assert rule.select(view, np.random.default_rng(1)) == rule.select(other, np.random.default_rng(1))


@pytest.mark.parametrize(
    ("option", "value", "words"),
    [
        ("uniform_first", 1.5, "uniform_first"),
        ("uniform_last", -0.1, "uniform_last"),
        ("size_weight", -1.0, "size_weight"),
        ("distance", "manhattan", "absolute"),
        ("search", "exact", "refined"),
    ],
)
def test_options_out_of_range_are_refused(option: str, value: object, words: str) -> None:
    with pytest.raises(InputError, match=words):
        make_scheduler("fedteddi-plus", **{option: value})
