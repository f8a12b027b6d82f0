"""Made rounds for test_utility_rules.py and test_tiers_and_queues.py, in which only what a test names matters."""

import dataclasses
from collections.abc import Callable
from itertools import permutations
from typing import Any

import numpy as np
from scipy import stats

from fedteddi import RoundView
from fedteddi.schedulers.made_rounds import permuted
from fedteddi.schedulers.schedule import AnyScheduler, choice_of, first_state
from fedteddi.wireless.radio import Radio
from fedteddi.wireless.uplink import minimum_bandwidth_hz

DRAWS = 10_000
MODEL_BITS, DEADLINE_S = 1e6, 1.0


def made(clients: int, *, fit: int, slower: float = 0.0, **changes: Any) -> RoundView:
    """Clients that are alike in everything, and `fit` of them share the band.

    With `slower`, each next one needs that much more of the first one's bandwidth, and so has a larger latency.
    """
    compute_s = np.full(clients, 0.5)
    needed_hz = minimum_bandwidth_hz(MODEL_BITS, DEADLINE_S - compute_s, 1.0, np.full(clients, 1e7), 1.0)
    needed_hz = needed_hz * (1 + slower * np.arange(clients))
    fields: dict[str, Any] = {
        "frame": 0, "round": 1, "rounds_in_frame": 100, "batch_size": 1, "gradient_std": 0.0,
        "num_samples": np.full(clients, 100), "loss": np.ones(clients),
        **dict.fromkeys(("batch_mix", "data_mix", "previous_data_mix"), np.ones((clients, 1))),
        "class_norm": np.ones(1), "channel_gain": np.ones(clients), "times_scheduled": np.zeros(clients, dtype=int),
        "needed_hz": needed_hz, "total_hz": float(needed_hz[0]) * (fit + 0.9),
        "compute_s": compute_s, "deadline_s": DEADLINE_S, "model_bits": MODEL_BITS,
    }  # fmt: skip
    return RoundView(**(fields | changes))


def cell(rng: np.random.Generator, clients: int, *, total_hz: float = 2e6) -> tuple[RoundView, Radio]:
    """A round of clients with the default radio, unequal gains, delays, data and losses; a few cannot make it."""
    radio, gain = Radio(), 10.0 ** rng.uniform(-14, -9, size=clients)
    compute_s = 0.16 + rng.exponential(0.16, size=clients)
    needed_hz = radio.needed_hz(gain, compute_s, deadline_s=DEADLINE_S, model_bits=MODEL_BITS)
    view = made(
        clients, fit=1, total_hz=total_hz, channel_gain=gain, compute_s=compute_s, needed_hz=needed_hz,
        num_samples=rng.integers(100, 1000, size=clients), loss=rng.uniform(0.1, 3, size=clients),
    )  # fmt: skip
    return view, radio


def with_absences(rng: np.random.Generator, clients: int, count: int) -> list[RoundView]:
    """Rounds of one experiment: half the clients appear late, and a fifth is missing in each, in any order."""
    views = []
    for number in range(count):
        view, _ = cell(rng, clients)
        there = (rng.random(clients) < 0.8) & ((np.arange(clients) < clients // 2) | (number > count // 3))
        there[0] |= not there.any()
        changed = dataclasses.replace(view, round=number + 1)
        views.append(permuted(changed, rng.permutation(np.flatnonzero(there))))
    return views


def ids(view: RoundView, clients: tuple[int, ...]) -> list[int]:
    return [int(view.client_id[n]) for n in clients]


def counted(rule: AnyScheduler, view: RoundView, state: Any = None) -> dict[tuple[int, ...], int]:
    """How often each schedule comes out, over many draws from one state."""
    rng, counts = np.random.default_rng(0), dict[tuple[int, ...], int]()
    state = first_state(rule, view.num_clients) if state is None else state
    for _ in range(DRAWS):
        clients = choice_of(rule, view, rng, state)[0].clients
        counts[clients] = counts.get(clients, 0) + 1
    return counts


def assert_fits(counts: dict[tuple[int, ...], int], probability: dict[tuple[int, ...], float]) -> None:
    """Chi-square of the counts against probabilities that must cover every outcome and sum to 1."""
    possible = {outcome: p for outcome, p in probability.items() if p > 0}
    assert set(counts) <= set(possible)
    assert abs(sum(possible.values()) - 1) < 1e-9
    expected = [p * DRAWS for p in possible.values()]
    assert stats.chisquare([counts.get(outcome, 0) for outcome in possible], expected).pvalue > 0.001


def pairs(
    clients: int, first: Callable[[int], float], second: Callable[[int, int], float]
) -> dict[tuple[int, ...], float]:
    """P(a, b) = first(a) · second(a, b) for every ordered pair."""
    return {(a, b): first(a) * second(a, b) for a, b in permutations(range(clients), 2)}
