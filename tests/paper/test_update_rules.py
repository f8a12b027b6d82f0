"""DivFL and FedCor against second readings: plain loops, dense matrices, enumeration, statistics."""

import dataclasses
import math
from collections import Counter
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from scipy import optimize, stats
from scipy.spatial.distance import pdist, squareform

from fedteddi import InputError, RoundView, Schedule, make_scheduler
from fedteddi.schedulers.made_rounds import following, permuted, random_round
from fedteddi.schedulers.rules import divfl
from fedteddi.schedulers.rules.divfl import DivFL
from fedteddi.schedulers.rules.fedcor import FedCor, Losses, embeddings

RNG = np.random.default_rng


def equal_needs(clients: int, fit: int, seed: int = 0, **changes: Any) -> RoundView:
    """A round in which all need 1 Hz, and so many fit."""
    view = random_round(RNG(seed), clients=clients, classes=3)
    needs = {"needed_hz": np.ones(clients), "total_hz": float(fit), "compute_s": None}
    return dataclasses.replace(view, **needs | changes)


# DivFL


def uncovered(updates: np.ndarray, chosen: list[int]) -> float:
    """Σ_k min_{i∈S} ‖g_k − g_i‖, from its definition."""
    return math.fsum(min(math.dist(g, updates[i]) for i in chosen) for g in updates)


@pytest.mark.parametrize("on_no_fit", ["stop", "skip"])
def test_divfl_is_the_greedy_search_by_plain_loops(on_no_fit: str) -> None:
    """Each next client leaves as little as anybody could have left: two who are each other's nearest may tie."""
    sizes = []
    for seed in range(60):
        view = random_round(RNG(seed), clients=1 + seed % 20, classes=2)
        view = dataclasses.replace(view, total_hz=5 * view.total_hz)
        updates = np.asarray(view.update_sketch)
        found = DivFL(on_no_fit=on_no_fit).select(view, RNG(0)).clients  # type: ignore[arg-type]
        left, chosen, left_hz = set(view.schedulable.tolist()), list[int](), view.total_hz
        while True:
            if on_no_fit == "skip":
                left = {n for n in left if view.needed_hz[n] <= left_hz}
            leaving = {n: uncovered(updates, [*chosen, n]) for n in left}
            best = {n for n in left if leaving[n] <= min(leaving.values()) + 1e-12}
            if len(chosen) == len(found):
                # The end: with "stop", one of the best is too much for the band.
                assert not best or (on_no_fit == "stop" and any(view.needed_hz[n] > left_hz for n in best))
                break
            chosen.append(found[len(chosen)])
            assert chosen[-1] in best
            left.remove(chosen[-1])
            left_hz -= view.needed_hz[chosen[-1]]
        sizes.append(len(found))
    assert np.mean(sizes) > 2


def test_passing_over_what_cannot_be_best_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether candidates are looked at one by one, or all of them anew in every step."""
    view = equal_needs(80, 20)
    expected = DivFL().select(view, RNG(0)).clients
    assert len(expected) == 20
    monkeypatch.setattr(divfl, "MOST_DISTANCES", 1)
    assert DivFL().select(view, RNG(0)).clients == expected
    monkeypatch.setattr(divfl, "MOST_DISTANCES", 2**21)
    monkeypatch.setattr(divfl, "FEW", 80)
    assert DivFL().select(view, RNG(0)).clients == expected


def test_greedy_reaches_its_guarantee_and_not_always_the_optimum() -> None:
    """f(S) = N·L − Σ_k min(L, min_{i∈S} ‖g_k − g_i‖), L twice the radius; f(greedy) ≥ (1 − 1/e) max f over triples."""
    ratios = []
    for seed in range(40):
        view = equal_needs(9, 3, seed)
        updates = np.asarray(view.update_sketch)
        limit = 2 * np.linalg.norm(updates - updates.mean(axis=0), axis=1).max()
        best = min(uncovered(updates, list(chosen)) for chosen in combinations(range(9), 3))
        found = uncovered(updates, list(DivFL().select(view, RNG(0)).clients))
        ratios.append((9 * limit - found) / (9 * limit - best))
    assert min(ratios) >= 1 - 1 / math.e
    assert min(ratios) < 1 - 1e-9
    assert max(ratios) == pytest.approx(1, abs=1e-12)


def test_who_cannot_upload_is_represented_all_the_same() -> None:
    """Updates at 0, 1, 9, 10, 10, the last two unable.

    Sums of distances: 1 + 9 + 10 + 10 = 30 from 0, 1 + 8 + 9 + 9 = 27 from 1, 9 + 8 + 1 + 1 = 19 from 9: that is first.
    Then 0 would leave 0 + 1 + 0 + 1 + 1 = 3, and 1 would leave 1 + 0 + 0 + 1 + 1 = 3: a tie. Without those who cannot
    upload, 1 would be first: 9 in all, against 10 from 0 and 17 from 9.
    """
    updates = np.array([[0.0], [1.0], [9.0], [10.0], [10.0]])
    view = equal_needs(5, 2, update_sketch=updates, needed_hz=np.array([1.0, 1.0, 1.0, np.inf, np.inf]))
    found = Counter(DivFL().select(view, RNG(seed)).clients for seed in range(400))
    assert set(found) == {(2, 0), (2, 1)}
    assert stats.binomtest(found[2, 0], 400).pvalue > 0.001


def test_identical_updates_are_chosen_at_random() -> None:
    view = equal_needs(3, 1, update_sketch=np.full((3, 2), 0.1))
    found = Counter(DivFL().select(view, RNG(seed)).clients[0] for seed in range(600))
    assert stats.chisquare([found[n] for n in range(3)]).pvalue > 0.001


@pytest.mark.parametrize(
    ("subset", "shares"), [(1, (1, 1, 1)), (2, (2, 1, 0)), (3, (1, 0, 0)), (9, (1, 0, 0))]
)
def test_stochastic_greedy_tries_so_many(subset: int, shares: tuple[int, ...]) -> None:
    """Updates at 0, 1, −2: sums of distances are 3, 4, 5. Of two random ones the better is 0 in two of three pairs."""
    view = equal_needs(3, 1, update_sketch=np.array([[0.0], [1.0], [-2.0]]))
    found = Counter(DivFL(subset=subset).select(view, RNG(seed)).clients[0] for seed in range(600))
    assert set(found) == {n for n, share in enumerate(shares) if share}
    expected = [600 * share / sum(shares) for share in shares if share]
    if len(found) > 1:
        assert stats.chisquare([found[n] for n in sorted(found)], expected).pvalue > 0.001


def test_sketches_choose_nearly_as_well_as_updates() -> None:
    """Sketched as in a run, to 127 numbers of 50,000: the distances left are 1 % more in the mean; at random 15 %.

    An update is a random direction of each class by the client's shares, and noise of a third of its length. A sketch
    keeps a squared distance with a standard deviation of √(2/127), so the distance within 6 %.
    """
    more, at_random = [], []
    for seed in range(10):
        rng = RNG(seed)
        mixes = rng.dirichlet(np.full(10, 0.2), size=30)
        updates = mixes @ rng.normal(size=(10, 50_000)) + 0.15 * rng.normal(size=(30, 50_000))
        signs = rng.choice([-1.0, 1.0], size=50_000)
        padded = np.pad(updates * signs, ((0, 0), (0, -50_000 % 127)))
        sketches = padded.reshape(30, -1, 127).sum(axis=1)
        chosen = [
            list(DivFL().select(equal_needs(30, 8, update_sketch=own), RNG(0)).clients)
            for own in (updates, sketches)
        ]
        distance = squareform(pdist(updates))
        true, sketched, chance = (
            distance[:, own].min(axis=1).sum() for own in (*chosen, rng.permutation(30)[:8])
        )
        more.append(sketched / true - 1)
        at_random.append(chance / true - 1)
    assert np.mean(more) < 0.03
    assert np.mean(at_random) > 0.1


# FedCor


def told_changes(seed: int = 0, clients: int = 5, rounds: int = 8) -> np.ndarray:
    """Loss changes that go together, [T, N]."""
    rng = RNG(seed)
    return rng.normal(size=(rounds, 2)) @ rng.normal(size=(2, clients)) + 0.2 * rng.normal(
        size=(rounds, clients)
    )


def minus_log_likelihood(x: np.ndarray, changes: np.ndarray, weights: np.ndarray, noise: float) -> float:
    """−Σ_t γ_t log N(Δ_t; 0, X Xᵀ + noise² I), dense."""
    covariance = x @ x.T + noise**2 * np.eye(len(x))
    each = stats.multivariate_normal(np.zeros(len(x)), covariance).logpdf(changes)
    return -float(weights @ np.atleast_1d(each))


def test_embeddings_are_the_likeliest() -> None:
    """Against minimisation from ten random starts, on the dense likelihood: none finds a better one."""
    changes, weights, noise = told_changes(), 0.9 ** np.arange(8.0), 0.3
    x = embeddings(changes, weights, 2, noise, "zero")
    assert x.shape == (5, 2)
    found = minus_log_likelihood(x, changes, weights, noise)

    def cost(flat: np.ndarray) -> float:
        return minus_log_likelihood(flat.reshape(5, 2), changes, weights, noise)

    reached = [optimize.minimize(cost, RNG(seed).normal(size=10)).fun for seed in range(10)]
    assert min(reached) == pytest.approx(found, abs=1e-5)
    assert optimize.approx_fprime(x.ravel(), cost, 1e-6) == pytest.approx(np.zeros(10), abs=1e-3)


def test_the_estimated_mean_is_the_likeliest_too() -> None:
    """With μ free, its maximum-likelihood value is the weighted mean: 2 and 4, weights 1 and 3, have 3.5."""
    changes = told_changes() + np.array([0.0, 1.0, 2.0, 3.0, -4.0])
    weights = 0.9 ** np.arange(8.0)
    middle = (weights[:, None] * changes).sum(axis=0) / weights.sum()
    x, y = (
        embeddings(own, weights, 3, 0.1, mean)
        for own, mean in ((changes, "estimated"), (changes - middle, "zero"))
    )
    np.testing.assert_allclose(x @ x.T, y @ y.T, atol=1e-12)
    two = embeddings(np.array([[2.0], [4.0]]), np.array([1.0, 3.0]), 1, 0.1, "estimated")
    assert two[0, 0] ** 2 == pytest.approx((1.5**2 + 3 * 0.5**2) / 4 - 0.01)


def test_a_change_that_was_not_told_counts_as_the_mean() -> None:
    changes = told_changes()
    changes[2, 1] = np.nan
    weights = np.ones(8)
    filled = np.where(np.isnan(changes), np.nanmean(changes, axis=0), changes)
    x, y = (embeddings(own, weights, 3, 0.1, "estimated") for own in (changes, filled))
    np.testing.assert_allclose(x @ x.T, y @ y.T, atol=1e-12)
    never = embeddings(np.full((8, 5), np.nan), weights, 3, 0.1, "estimated")
    assert never.shape == (5, 0)


def test_without_correlation_beyond_the_noise_there_are_no_embeddings() -> None:
    assert embeddings(told_changes() * 1e-3, np.ones(8), 3, 0.1, "zero").shape == (5, 0)


def test_the_posterior_is_that_of_dense_conditioning() -> None:
    """K_RR − K_RC K_CC⁻¹ K_CR over the others R, given the chosen C, whatever the order of the choices."""
    x, shares, noise = RNG(1).normal(size=(7, 3)), RNG(2).dirichlet(np.ones(7)), 0.4
    covariance = x @ x.T + noise**2 * np.eye(7)
    losses, chosen = Losses(x, noise**2, shares), list[int]()
    for client in (4, 0, 6, 2):
        rest = [n for n in range(7) if n not in chosen]
        given = np.linalg.solve(covariance[np.ix_(chosen, chosen)], covariance[np.ix_(chosen, rest)])
        posterior = covariance[np.ix_(rest, rest)] - covariance[np.ix_(rest, chosen)] @ given
        expected = shares[rest] @ posterior / np.sqrt(posterior.diagonal())
        np.testing.assert_allclose(losses.decrease()[rest], expected, rtol=1e-10)
        losses.condition_on(client)
        chosen.append(client)


def dense_fedcor(rule: FedCor, view: RoundView, state: dict[str, Any]) -> list[int]:
    """FedCor's greedy choice from its definition, all matrices dense, ids known to be positions.

    If n's loss changes by −α_n √K_nn, the expected change of the others is K_in / K_nn times that.
    """
    weights = np.array([rule.forget ** int(view.round - k) for k in state["sampled"]])
    weights /= weights.sum()
    centred = state["changes"] - weights @ state["changes"]
    value, vector = np.linalg.eigh((centred.T * weights) @ centred)
    covariance = rule.noise**2 * np.eye(view.num_clients)
    for j in np.argsort(-value)[: rule.dimension]:
        covariance += max(value[j] - rule.noise**2, 0) * np.outer(vector[:, j], vector[:, j])
    chosen, left_hz = list[int](), view.total_hz
    while True:
        best, best_change = -1, math.inf
        for n in set(view.schedulable.tolist()) - set(chosen):
            if rule.on_no_fit == "skip" and view.needed_hz[n] > left_hz:
                continue
            given = covariance.copy()
            for m in chosen:
                given -= np.outer(given[:, m], given[m]) / given[m, m]
            observed = -(rule.discount ** int(state["uploads"][n])) * math.sqrt(given[n, n])
            change = float(view.num_samples @ given[:, n]) / given[n, n] * observed
            if change < best_change:
                best, best_change = n, change
        if best < 0 or view.needed_hz[best] > left_hz:
            return chosen
        chosen.append(best)
        left_hz -= view.needed_hz[best]


def learned(rule: FedCor, clients: int, seed: int) -> tuple[RoundView, dict[str, Any]]:
    """Play random losses until the covariance has been learned and some have uploaded since: a round, and the state.

    Half of what all need is there, so that somebody uploads in every round, unless nobody can.
    """
    rng, state = RNG(seed), rule.initial_state(clients)
    view = random_round(rng, clients=clients, classes=3)
    needed_hz = np.where(np.isfinite(view.needed_hz), view.needed_hz, 0.0)
    total_hz = max(float(needed_hz.max()), float(needed_hz.sum()) / 2, 1.0)
    view = dataclasses.replace(view, rounds_in_frame=50, total_hz=total_hz)
    losses = 2 + told_changes(seed, clients, 12).cumsum(axis=0)
    for k in range(1, 12):
        view = dataclasses.replace(view, round=k, loss=losses[k])
        _, state = rule.select(view, rng, state)
    return dataclasses.replace(view, round=12, loss=losses[0]), state


@pytest.mark.parametrize("on_no_fit", ["stop", "skip"])
def test_fedcor_is_the_greedy_search_on_dense_matrices(on_no_fit: str) -> None:
    """Rounds 1 to 6 and 10 are random; round 12, in which the readings are compared, follows what they did."""
    rule = FedCor(warm_up=6, interval=4, dimension=3, noise=0.3, on_no_fit=on_no_fit)  # type: ignore[arg-type]
    sizes, discounted = [], 0
    for seed in range(40):
        view, state = learned(rule, 3 + seed % 10, seed)
        found, after = rule.select(view, RNG(0), state)
        assert state["sampled"].tolist() == ([1, 2, 3, 4, 5, 6, 10] if len(view.schedulable) else [])
        if len(view.schedulable):
            assert list(found.clients) == dense_fedcor(rule, view, state)
            assert after["uploads"].sum() == state["uploads"].sum() + len(found.clients)
            discounted += state["uploads"].any()
        sizes.append(len(found.clients))
    assert np.mean(sizes) > 1.5
    assert discounted > 20


def test_who_was_told_by_another_is_not_chosen() -> None:
    """Losses of 0, 1, 2 move together and most, those of 3 and 4 together, 5 alone: one of each, in this order.

    Changes ±2, ±1.5 and ±1 with orthogonal signs, mean 0. In a group of m clients with change c a client scores m·c/6;
    given one, the others keep only the noise. Twins tie.
    """
    signs = np.array([[1, 1, 1], [1, -1, -1], [-1, 1, -1], [-1, -1, 1]]) * [2.0, 1.5, 1.0]
    state = FedCor().initial_state(6) | {
        "frame": 1,
        "sampled": np.array([1, 2, 3, 4]),
        "changes": signs[:, [0, 0, 0, 1, 1, 2]],
    }
    rule = FedCor(warm_up=4, forget=1.0)
    view = equal_needs(6, 3, round=6, rounds_in_frame=9, num_samples=np.full(6, 10))
    found = Counter(
        rule.select(view, RNG(seed), rule.initial_state(6) | state)[0].clients for seed in range(300)
    )
    assert {tuple([0, 0, 0, 1, 1, 2][n] for n in clients) for clients in found} == {(0, 1, 2)}
    first = Counter(clients[0] for clients in found.elements())
    assert stats.chisquare([first[n] for n in range(3)]).pvalue > 0.001


def test_the_youngest_sample_counts_however_much_is_forgotten() -> None:
    """0.001^400 is 0 as a float. Of two samples, a round apart, the younger weighs 99.9 %: client 2 moved."""
    state = FedCor().initial_state(3) | {
        "frame": 1,
        "sampled": np.array([1, 2]),
        "changes": np.array([[0.0, 5.0, 0.0], [0.0, 0.0, 5.0]]),
    }
    rule = FedCor(warm_up=0, interval=1000, history=1000, forget=1e-3, mean="zero")
    view = equal_needs(3, 1, round=402, rounds_in_frame=999, num_samples=np.full(3, 10), loss=np.ones(3))
    assert rule.select(view, RNG(0), state)[0].clients == (2,)


def test_losses_that_dwarf_the_noise_end_no_round() -> None:
    """Reports may say ±1e100. With σ_n of 0.01 K_nn of a twin of a chosen client would be rounding alone, or NaN."""
    for seed in range(12):
        rng, rule = RNG(seed), FedCor(warm_up=5)
        view, state = random_round(rng, clients=12, classes=2), rule.initial_state(12)
        for k in range(1, 30):
            loss = rng.choice([-1e100, 1e100], 12) * rng.random(12)
            asked = dataclasses.replace(view, round=k, rounds_in_frame=50, loss=loss)
            found, state = rule.select(asked, rng, state)
            assert len(set(found.clients)) == len(found.clients)


def test_uploads_lower_a_score_until_the_next_random_round() -> None:
    """Of two alike, one is chosen in every round: they take turns, for 0.9^τ tells. A random round counts anew."""
    rule = FedCor(warm_up=2, interval=4)
    changes = np.array([[1.0, 1.0], [-1.0, -1.0]])
    state = rule.initial_state(2) | {"frame": 1, "sampled": np.array([1, 2]), "changes": changes}
    view = equal_needs(2, 1, rounds_in_frame=9, num_samples=np.full(2, 10), loss=np.ones(2))
    counts = list[list[int]]()
    for k in (3, 4, 5, 6, 7):
        chosen, state = rule.select(dataclasses.replace(view, round=k), RNG(k), state)
        counts.append(sorted(state["uploads"].tolist()))
        assert len(chosen.clients) == 1
    assert counts == [[0, 1], [1, 1], [1, 2], [0, 0], [0, 1]]


def test_only_random_rounds_are_sampled_by_id_and_old_ones_are_dropped() -> None:
    """Warm-up 2, every third round after it; clients 0 to 3, of whom 1 does not report in round 2."""
    rule, state = FedCor(warm_up=2, interval=3, history=4), FedCor().initial_state(4)
    view = equal_needs(4, 2, rounds_in_frame=20)
    sampled = []
    for k in range(1, 11):
        here = np.array([0, 2, 3]) if k == 2 else np.arange(4)
        own = permuted(dataclasses.replace(view, round=k, loss=np.arange(4) + 10.0 * k * k), here)
        _, state = rule.select(own, RNG(k), state)
        sampled.append(state["sampled"].tolist())
        if k == 3:  # of round 1, 40 − 10, and of round 2, 90 − 40
            np.testing.assert_array_equal(state["changes"], [[30, np.nan, 30, 30], [50, np.nan, 50, 50]])
    # Rounds 1, 2, 5 and 8 are random. What they did is known with the next report, and dropped when five rounds old.
    # From round 7 on, one sample is left: too few, so that round is random, too.
    assert sampled[:7] == [[], [1], [1, 2], [1, 2], [1, 2], [2, 5], [5]]
    assert sampled[7:] == [[5, 7], [5, 7, 8], [7, 8]]


def test_a_new_frame_begins_anew() -> None:
    rule = FedCor(warm_up=6, interval=4)
    view, state = learned(rule, 6, 1)
    assert len(state["sampled"])
    now = dataclasses.replace(view, frame=2, round=1)
    schedule, after = rule.select(now, RNG(5), state)
    assert len(after["sampled"]) == 0
    assert schedule == make_scheduler("random").select(now, RNG(5))


def test_a_round_without_uploads_is_no_sample() -> None:
    rule, state = FedCor(), FedCor().initial_state(3)
    nobody = equal_needs(3, 1, round=1, rounds_in_frame=9, needed_hz=np.full(3, np.inf))
    _, state = rule.select(nobody, RNG(0), state)
    _, state = rule.select(equal_needs(3, 1, round=2, rounds_in_frame=9), RNG(0), state)
    assert state["sampled"].tolist() == []


def test_the_order_of_clients_does_not_matter_once_it_has_learned() -> None:
    rule = FedCor(warm_up=6, interval=4)
    for seed in range(20):
        view, state = learned(rule, 8, seed)
        shuffled = permuted(view, RNG(seed).permutation(8))
        chosen: list[list[int]] = []
        for own in (view, shuffled):
            schedule: Schedule = rule.select(own, RNG(0), state)[0]
            chosen.append(own.client_id[list(schedule.clients)].tolist())
        assert chosen[0] == chosen[1]


def test_rounds_with_other_reporters_are_decided() -> None:
    rule, rng = FedCor(warm_up=1, interval=2), RNG(3)
    state = rule.initial_state(7)
    view = dataclasses.replace(
        random_round(rng, clients=7, classes=2), round=1, rounds_in_frame=40, total_hz=1e9
    )
    for own in following(view, 12):
        told = dataclasses.replace(own, loss=rng.random(own.num_clients))
        schedule, state = rule.select(told, rng, state)
        assert len(schedule.clients) == len(own.schedulable)


# Both


@pytest.mark.parametrize(("name", "field"), [("divfl", "update_sketch"), ("fedcor", "loss")])
def test_a_rule_says_what_it_needs(name: str, field: str) -> None:
    rule: Any = make_scheduler(name)
    assert rule.needs == {field}
    given = [rule.initial_state(4)] if name == "fedcor" else []
    with pytest.raises(InputError, match=f"{name} ranks clients by {field}, which is missing"):
        rule.select(equal_needs(4, 2, **{field: None}), RNG(0), *given)


@pytest.mark.parametrize(
    ("name", "option", "value"),
    [
        ("divfl", "subset", 0),
        ("divfl", "subset", "some"),
        ("fedcor", "warm_up", -1),
        ("fedcor", "interval", 0),
        ("fedcor", "discount", 0),
        ("fedcor", "forget", 1.5),
        ("fedcor", "noise", 0),
        ("fedcor", "noise", 1e-200),  # its square is 0
        ("fedcor", "mean", "median"),
    ],
)
def test_options_that_cannot_be_are_refused(name: str, option: str, value: Any) -> None:
    with pytest.raises(InputError, match=f"{option}="):
        make_scheduler(name, **{option: value})
