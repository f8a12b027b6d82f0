"""Round robin and age of update, against a second reading of each, and the cases that matter."""

import dataclasses
from typing import Any

import numpy as np
import pytest

from fedteddi import RoundView, example_round
from fedteddi.schedulers.made_rounds import permuted, random_round
from fedteddi.schedulers.rules.age_of_update import AgeOfUpdate
from fedteddi.schedulers.rules.round_robin import RoundRobin

# The readings below go on after somebody who does not fit.
SKIP: dict[str, Any] = {"on_no_fit": "skip"}


def made(needed_hz: list[float], total_hz: float, client_id: list[int] | None = None) -> RoundView:
    """A round in which only bandwidths and ids matter."""
    count = len(needed_hz)
    return RoundView(
        frame=0,
        round=1,
        rounds_in_frame=9,
        batch_size=1,
        total_hz=total_hz,
        num_samples=np.ones(count, dtype=int),
        batch_mix=np.ones((count, 1)),
        data_mix=np.ones((count, 1)),
        previous_data_mix=np.ones((count, 1)),
        needed_hz=np.array(needed_hz),
        channel_gain=np.ones(count),
        times_scheduled=np.zeros(count, dtype=int),
        gradient_std=0.0,
        class_norm=np.ones(1),
        client_id=np.arange(count) if client_id is None else np.array(client_id),
    )


def ids(view: RoundView, clients: tuple[int, ...]) -> list[int]:
    return [int(view.client_id[n]) for n in clients]


def random_rounds(seed: int, clients: int, count: int) -> list[RoundView]:
    """Rounds of one experiment: another channel each, somebody missing in most."""
    rng = np.random.default_rng(seed)
    views = []
    for _ in range(count):
        view = dataclasses.replace(random_round(rng, clients=clients, classes=3), total_hz=4e6)
        here = np.flatnonzero(rng.random(clients) < 0.8)
        views.append(permuted(view, rng.permutation(here if len(here) else np.arange(clients))))
    return views


# --- round robin


def test_turns_go_round_and_go_on_where_they_stopped() -> None:
    """Three of five fit at a time: 0 1 2, 3 4 0, 1 2 3."""
    rule, view = RoundRobin(**SKIP), made([1.0] * 5, 3.0)
    state, turns = rule.initial_state(5), []
    for _ in range(3):
        schedule, state = rule.select(view, np.random.default_rng(0), state)
        turns.append(list(schedule.clients))
    assert turns == [[0, 1, 2], [3, 4, 0], [1, 2, 3]]
    assert state == 4
    assert type(state) is int


def test_a_missing_or_unable_client_is_passed_over_and_ids_are_not_positions() -> None:
    """Clients 7, 2 and 5 report, 2 cannot upload, one fits: from turn 3 it is 5's, then 7's, then 5's again."""
    rule, view = RoundRobin(**SKIP), made([1.0, np.inf, 1.0], 1.0, [7, 2, 5])
    state, turns = 3, []
    for _ in range(3):
        schedule, state = rule.select(view, np.random.default_rng(0), state)
        turns += ids(view, schedule.clients)
    assert turns == [5, 7, 5]


def test_if_all_fit_the_next_turn_is_after_the_last_and_nobody_able_changes_nothing() -> None:
    rule = RoundRobin(**SKIP)
    assert rule.select(made([1.0, 1.0], 9.0), np.random.default_rng(0), 1)[1] == 1  # 1, then 0: 1 is next
    assert rule.select(made([np.inf], 9.0), np.random.default_rng(0), 5) == (
        rule.select(made([np.inf], 9.0), np.random.default_rng(0), 0)[0],
        5,
    )


@pytest.mark.parametrize("seed", range(5))
def test_round_robin_is_what_a_list_of_waiting_clients_does(seed: int) -> None:
    """Second reading: walk over ids n, n+1, … around the circle, admit who reports and fits.

    The first that reports and could upload alone, but does not fit any more, is first in the next round.
    """
    rule, turn, state = RoundRobin(**SKIP), 0, RoundRobin(**SKIP).initial_state(9)
    for view in random_rounds(seed, 9, 12):
        where = {int(n): place for place, n in enumerate(view.client_id)}
        left_hz, admitted, passed = view.total_hz, [], []
        for n in [(turn + step) % 9 for step in range(9)]:
            if n not in where or view.needed_hz[where[n]] > view.total_hz:
                continue
            if view.needed_hz[where[n]] <= left_hz:
                admitted.append(n)
                left_hz -= view.needed_hz[where[n]]
            else:
                passed.append(n)
        schedule, state = rule.select(view, np.random.default_rng(0), state)
        assert ids(view, schedule.clients) == admitted
        turn = passed[0] if passed else (admitted[-1] + 1) % 9 if admitted else turn


# --- age of update


def test_the_oldest_comes_first_and_least_bandwidth_decides_between_equals() -> None:
    """Two fit. All are of age 0: 3 and 1 need least. Then 0 and 2 are of age 1, and 0 needs less."""
    rule, view = AgeOfUpdate(**SKIP), made([3.0, 2.0, 4.0, 1.0], 7.0)
    first, state = rule.select(view, np.random.default_rng(0), rule.initial_state(4))
    assert first.clients[:2] == (3, 1)
    assert state.tolist() == [0, 0, 1, 0]  # 0 fitted as well: 1 + 2 + 3 = 6 of 7
    second, state = rule.select(view, np.random.default_rng(0), state)
    assert second.clients == (2, 3, 1)
    assert state.tolist() == [1, 0, 0, 0]


def test_ages_belong_to_ids_and_grow_while_a_client_is_away() -> None:
    """Client 2 is away for two rounds and is then older than 0 and 1, which took turns."""
    rule = AgeOfUpdate(**SKIP)
    state = np.array([0, 1, 0])
    for _ in range(2):
        _, state = rule.select(made([1.0, 1.0], 1.0, [1, 0]), np.random.default_rng(0), state)
    assert state.tolist() == [0, 1, 2]
    back = made([1.0, 1.0, 1.0], 1.0, [2, 0, 1])
    schedule, state = rule.select(back, np.random.default_rng(0), state)
    assert ids(back, schedule.clients) == [2]
    assert state.tolist() == [1, 2, 0]


@pytest.mark.parametrize("seed", range(5))
def test_age_of_update_is_what_a_diary_says(seed: int) -> None:
    """Second reading: note the round of each client's last schedule, and go by who has waited longest since."""
    rule, last = AgeOfUpdate(**SKIP), dict.fromkeys(range(9), -1)
    state = rule.initial_state(9)
    for number, view in enumerate(random_rounds(seed, 9, 12)):
        left_hz, expected = view.total_hz, []
        for place in sorted(
            range(view.num_clients), key=lambda n: (last[int(view.client_id[n])], view.needed_hz[n])
        ):
            if view.needed_hz[place] <= left_hz:
                expected.append(place)
                left_hz -= view.needed_hz[place]
        schedule, state = rule.select(view, np.random.default_rng(seed), state)
        assert list(schedule.clients) == expected
        last |= {int(view.client_id[place]): number for place in expected}
        assert state.tolist() == [number - last[n] for n in range(9)]


def test_everyone_has_had_a_turn_before_anyone_is_left_waiting_for_long() -> None:
    """On a real round that fits at least k of its n able clients, nobody waits longer than n/k rounds or so."""
    view = example_round(0)
    for rule in (RoundRobin(**SKIP), AgeOfUpdate(**SKIP)):
        state, seen = rule.initial_state(30), np.zeros(30, dtype=int)
        for _ in range(12):
            schedule, state = rule.select(view, np.random.default_rng(0), state)  # type: ignore[arg-type]
            seen[list(schedule.clients)] += 1
        able = view.schedulable
        assert seen[able].min() >= 1
        assert seen.sum() == seen[able].sum()
