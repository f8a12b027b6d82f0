"""The refined search: what it promises, against plain loops, enumeration and the proven optimum."""

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from scipy import stats

from fedteddi import RoundView, example_round, make_scheduler
from fedteddi.schedulers.made_rounds import permuted, random_round
from fedteddi.schedulers.rules.fedteddi import FedTeddi
from fedteddi.schedulers.search import refined as search
from fedteddi.schedulers.search.exchanges import NOBODY, Pool
from fedteddi.schedulers.search.greedy import Found, OnNoFit, greedy
from fedteddi.schedulers.search.problem import SearchProblem
from strategies import rounds


def problem_of(view: RoundView) -> SearchProblem:
    return SearchProblem.build(
        FedTeddi().objective(view),
        clients=view.schedulable,
        needed_hz=view.needed_hz,
        total_hz=view.total_hz,
    )


def p3(view: RoundView, clients: list[int]) -> float:
    """P3 by its definition; the empty set is worse than any other."""
    return FedTeddi().objective(view).terms(clients).total if clients else np.inf


def chosen(view: RoundView, seed: int = 0) -> list[int]:
    return list(
        make_scheduler("fedteddi", search="refined").select(view, np.random.default_rng(seed)).clients
    )


def neighbours(view: RoundView, clients: list[int]) -> Iterator[list[int]]:
    """Every set that fits and differs by one client added, dropped or swapped."""
    outside = [int(n) for n in view.schedulable if n not in clients]
    for leaver, joiner in product([None, *clients], [None, *outside]):
        other = [n for n in clients if n != leaver] + ([] if joiner is None else [joiner])
        if set(other) != set(clients) and view.needed_hz[other].sum() <= view.total_hz:
            yield other


def rounding(view: RoundView) -> float:
    return 1e-9 * (float(view.class_norm.max()) + view.gradient_std + 1)


@contextmanager
def greedy_watched() -> Iterator[list[np.ndarray]]:
    """Collect the greedy sets, as client numbers, from which refined searches start meanwhile."""
    started_from: list[np.ndarray] = []

    def watched(problem: SearchProblem, on_no_fit: OnNoFit, rng: np.random.Generator) -> Found:
        found = greedy(problem, on_no_fit, rng)
        started_from.append(problem.clients[found.members])
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(search, "greedy", watched)
        yield started_from


@settings(max_examples=120, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(view=rounds())
def test_never_worse_than_greedy_within_the_band_and_no_exchange_helps(view: RoundView) -> None:
    """Greedy leaves ties to chance, so what counts is the greedy set from which this very search started."""
    with greedy_watched() as started_from:
        clients = chosen(view)
    if len(view.schedulable) == 0:
        assert clients == []
        return
    assert len(set(clients)) == len(clients) > 0
    assert view.needed_hz[clients].sum() <= view.total_hz
    assert p3(view, clients) <= p3(view, [int(n) for n in started_from[0]]) + rounding(view)
    assert all(p3(view, other) >= p3(view, clients) - rounding(view) for other in neighbours(view, clients))


@pytest.mark.parametrize("staying", [0, 3])
def test_exchanges_against_the_definition(staying: int) -> None:
    """Every exchange of four sets, with D_n from 1 to 10^15, where subtracting a leaver would leave only rounding."""
    rng = np.random.default_rng(0)
    view = random_round(rng, clients=12, classes=4)
    view = dataclasses.replace(
        view,
        num_samples=10 ** rng.integers(0, 16, size=12),
        needed_hz=rng.uniform(1, 2, size=12),
        total_hz=9.0,
        compute_s=None,
    )
    problem = problem_of(view)
    kept, pooled = np.arange(staying), np.arange(staying, 12)
    pool = Pool(problem, pooled, kept)
    inside = np.c_[np.ones(4, dtype=bool), rng.random((4, len(pooled))) < 0.3]
    inside[0, 1:] = False  # nobody beside those who stay
    exchanges = pool.exchanges(inside)
    seen = 0
    for column, (k, leaver) in enumerate(zip(exchanges.of_set, exchanges.leaver, strict=True)):
        members = [int(n) for n in pool.members(inside[k])]
        for joiner, reached in enumerate(exchanges.total[:, column]):
            gone = None if leaver == NOBODY else int(pooled[leaver - 1])
            come = [] if joiner == NOBODY else [int(pooled[joiner - 1])]
            other = [n for n in members if n != gone] + come
            pointless = not set(other) ^ set(members) or (joiner != NOBODY and bool(inside[k, joiner]))
            if pointless or view.needed_hz[other].sum() > view.total_hz:
                assert reached == np.inf
            else:
                assert reached == pytest.approx(p3(view, other), rel=1e-9)
                seen += 1
    assert seen > 50


def enumerated_optimum(view: RoundView) -> float:
    """The lowest P3 over every set that fits."""
    sets = [np.flatnonzero(bits) for bits in product((0, 1), repeat=view.num_clients) if any(bits)]
    return min(p3(view, list(s)) for s in sets if view.needed_hz[s].sum() <= view.total_hz)


def paper_round(seed: int) -> RoundView:
    return example_round(70_000 + seed, round=1 + 9 * seed, deadline_s=(0.8, 1.0, 1.2)[seed % 3])


def test_finds_most_enumerated_optima_of_ten_clients() -> None:
    """Ten of the paper's clients in 8 MHz, equal and unequal D_n in turn: 30 rounds, at most 1,023 sets each."""
    optimal = 0
    for seed in range(30):
        rng = np.random.default_rng(seed)
        view = permuted(paper_round(seed), rng.permutation(30)[:10])
        samples = rng.integers(100, 1000, size=10) if seed % 2 else view.num_samples
        view = dataclasses.replace(view, total_hz=8e6, num_samples=samples)
        optimal += p3(view, chosen(view)) <= enumerated_optimum(view) + 1e-6
    assert optimal >= 27


def test_finds_most_proven_optima_of_thirty_clients() -> None:
    """The promise is 80 %; docs/optimality.md has the share over 300 other rounds."""
    proven = make_scheduler("fedteddi", search="exact")
    optimal = 0
    for seed in range(15):
        view = paper_round(seed)
        optimum = p3(view, list(proven.select(view, np.random.default_rng(0)).clients))
        optimal += p3(view, chosen(view, seed=1)) <= optimum + 1e-5 * float(view.class_norm.mean())
    assert optimal >= 12


@pytest.mark.parametrize("clients", [30, 400])
def test_same_seed_same_schedule_whatever_was_searched_before(clients: int) -> None:
    view = dataclasses.replace(
        random_round(np.random.default_rng(3), clients=clients, classes=5), total_hz=2e7
    )
    first = chosen(view, seed=5)
    chosen(view, seed=6)
    assert chosen(view, seed=5) == first
    assert len(first) > 3


@pytest.mark.parametrize("seed", range(4))
def test_among_hundreds_no_exchange_with_anybody_helps(seed: int) -> None:
    """Only 128 are exchanged at a time, yet with few members the best joiner of all is always among them."""
    view = random_round(np.random.default_rng(seed), clients=300, classes=4)
    view = dataclasses.replace(view, total_hz=1.5e6)
    with greedy_watched() as started_from:
        clients = chosen(view)
    assert len(view.schedulable) > search.POOL_SIZE
    assert 2 <= len(clients) <= search.TRIED_LEAVERS
    assert p3(view, clients) <= p3(view, [int(n) for n in started_from[0]]) + rounding(view)
    assert all(p3(view, other) >= p3(view, clients) - rounding(view) for other in neighbours(view, clients))


def test_what_each_candidate_promises_against_the_definition() -> None:
    """P3 of the members with a candidate, or with it in place of one of three: the lowest that fits; members have none.

    B* from 1 to 2, and a band with 0.3 left beside six members: some fit in nobody's place, some in one's, some in all.
    """
    rng = np.random.default_rng(0)
    view = random_round(rng, clients=40, classes=4)
    needed_hz = rng.uniform(1, 2, size=40)
    members = np.argsort(needed_hz)[[3, 0, 15, 20, 8, 31]]
    total_hz = needed_hz[members].sum() + 0.3
    view = dataclasses.replace(view, needed_hz=needed_hz, total_hz=total_hz, compute_s=None)
    promise = search.lowest_with_each(problem_of(view), members, members[:3])
    left: list[int | None] = [None, *members[:3].tolist()]
    places = set()
    for n in np.setdiff1d(np.arange(40), members).tolist():
        sets = [[m for m in members.tolist() if m != leaver] + [n] for leaver in left]
        fitting = [one for one in sets if needed_hz[one].sum() <= view.total_hz]
        expected = min((p3(view, one) for one in fitting), default=np.inf)
        assert promise[n] == pytest.approx(expected, rel=1e-12)
        places.add(len(fitting))
    assert {0, 1, 3} <= places
    assert np.isinf(promise[members]).all()


@pytest.mark.parametrize("seed", range(10))
def test_a_small_pool_in_which_most_members_stay(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Six in the pool, three of them members: never worse than greedy, within the band, nobody twice."""
    monkeypatch.setattr(search, "POOL_SIZE", 6)
    monkeypatch.setattr(search, "TRIED_LEAVERS", 2)
    view = dataclasses.replace(example_round(seed, deadline_s=1.2), total_hz=4e7)
    with greedy_watched() as started_from:
        clients = chosen(view, seed)
    assert len(set(clients)) == len(clients) > 3
    assert view.needed_hz[clients].sum() <= view.total_hz
    assert p3(view, clients) <= p3(view, [int(n) for n in started_from[0]]) + rounding(view)


def test_ties_are_broken_evenly_in_a_small_pool(monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight clients alike, a band for one and a pool of four: each is chosen in an eighth of 800 draws."""
    monkeypatch.setattr(search, "POOL_SIZE", 4)
    view = dataclasses.replace(
        random_round(np.random.default_rng(0), clients=8, classes=2),
        num_samples=np.full(8, 10),
        batch_mix=np.full((8, 2), 0.5),
        data_mix=np.full((8, 2), 0.5),
        previous_data_mix=np.full((8, 2), 0.5),
        needed_hz=np.ones(8),
        total_hz=1.5,
        compute_s=None,
    )
    rng, rule = np.random.default_rng(0), make_scheduler("fedteddi", search="refined")
    times = np.bincount([rule.select(view, rng).clients[0] for _ in range(800)], minlength=8)
    assert stats.chisquare(times).pvalue > 0.001


def test_a_band_that_is_filled_to_the_last_hertz_is_not_overspent() -> None:
    """Needs of a tenth, whose sums round both ways: the set fits by the very sum that checks a schedule."""
    for seed in range(20):
        rng = np.random.default_rng(seed)
        view = dataclasses.replace(
            random_round(rng, clients=20, classes=3),
            needed_hz=rng.integers(1, 8, size=20) / 10,
            total_hz=2.1,
            compute_s=None,
        )
        assert view.needed_hz[chosen(view)].sum() <= view.total_hz


def test_the_number_of_sets_follows_the_size_of_a_step() -> None:
    """A hundred classes and a wide band: fewer sets, never none."""
    for classes in (5, 100, 2000):
        view = dataclasses.replace(
            random_round(np.random.default_rng(0), clients=60, classes=classes), total_hz=1e8
        )
        problem = problem_of(view)
        pool = search.pool_around(problem, np.arange(3), np.random.default_rng(0))
        sets = search.starting_sets(pool, np.arange(3), np.random.default_rng(0))
        assert sets[0].sum() == 1 + 3
        assert len(sets) == 1 or pool.pull.size * sets.sum() <= search.STEP_ELEMENTS
        assert (sets @ pool.needed_hz <= view.total_hz * (1 + 1e-12)).all()
