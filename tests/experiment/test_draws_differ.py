"""Draws that must differ: by frame, round and client, in what a run really uses."""

from itertools import combinations
from typing import Any

import numpy as np
import pytest

from fedteddi import simulate
from fedteddi.learning.datasets.dataset import Dataset
from seed_draws import SeedDraws
from small_world import tiny_data, tiny_settings

TIMES = [(0, 1), (0, 2), (1, 1), (1, 2), (2, 1), (2, 2)]  # frame and round


def all_differ(values: list[Any]) -> bool:
    """Tell whether no two arrays are equal."""
    return not any(np.array_equal(one, other) for one, other in combinations(values, 2))


def test_gains_and_delays_differ_by_frame_and_round() -> None:
    draws = SeedDraws(tiny_settings(), tiny_data())
    assert all_differ([draws.gain(*time) for time in TIMES])
    assert all_differ([draws.compute_s(*time) for time in TIMES])
    static = SeedDraws(tiny_settings(radio__shadowing="static"), tiny_data())
    assert not all_differ([static.gain(*time) for time in TIMES])


def test_batches_and_dropout_differ_by_frame_round_and_client() -> None:
    """Positions among what a client holds, not images: clients and frames hold different images anyway.

    8 of 24 in each of two steps: two draws agree by chance once in 5e11 pairs.
    """
    draws = SeedDraws(tiny_settings(), tiny_data())
    positions, keys = [], []
    for frame, round in TIMES:
        for client in range(6):
            samples, own_keys = draws.batches(frame, round, client)
            positions.append([[*draws.held(frame)[client]].index(image) for image in samples.ravel()])
            keys.append(own_keys)
    assert all_differ(positions)
    assert all_differ(keys)


def test_the_schedulers_draws_differ_by_frame_and_round() -> None:
    """With band for all, Random's order is its draw: one of 8! = 40,320, so six of them agree once in 2,700."""
    run = simulate(
        tiny_settings(scheduler="random", rounds=[2, 2, 2], scenario__clients=8),
        data=tiny_data(),
        radio__total_hz=1e12,
        radio__deadline_s=100.0,
    )
    orders = [record.clients for record in run.records if record.round]
    assert [len(order) for order in orders] == [8] * 6
    assert all_differ(orders)


def test_replay_differs_by_client_and_frame() -> None:
    """In frames 1 and 2 every client gets 12 new images and keeps 12 of its 24: which positions, differs."""
    arrivals = [
        {"frame": frame, "clients": [*range(6)], "classes": [c], "samples": 12}
        for frame, c in ((1, 3), (2, 4))
    ]
    draws = SeedDraws(tiny_settings(scenario__arrivals=arrivals), tiny_data(per_class=100))
    kept = []
    for frame in (1, 2):
        for before, now in zip(draws.held(frame - 1), draws.held(frame), strict=True):
            kept.append(np.flatnonzero(np.isin(before, now)))
            assert len(kept[-1]) == 12
    assert all_differ(kept)


@pytest.mark.parametrize("layout", ["paper-cifar100", "classes"])
def test_other_clients_change_in_frame_2_than_in_frame_1(layout: str) -> None:
    """12 of 30 random clients change in each frame: the same ones by chance once in 86,493,225."""
    labels = np.repeat(np.arange(60), 20)
    images = np.zeros((len(labels), 8, 8), dtype=np.uint8)
    data = Dataset.from_arrays("many", images, labels, images[::20], labels[::20])
    arrivals = [{"frame": frame, "clients": 12, "classes": [50], "samples": 3} for frame in (1, 2)]
    settings = tiny_settings(
        training__batch_size=2,
        scenario__layout=layout,
        scenario__clients=30,
        scenario__samples_per_client=6,
        scenario__arrivals=[] if layout == "paper-cifar100" else arrivals,
    )
    draws = SeedDraws(settings, data)
    changed = [
        [not np.array_equal(*own) for own in zip(draws.held(f - 1), draws.held(f), strict=True)]
        for f in (1, 2)
    ]
    assert [sum(own) for own in changed] == [12, 12]
    assert all_differ(changed)
