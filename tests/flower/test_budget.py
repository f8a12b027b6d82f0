"""What a plain app's links allow in a round, against the formulas done by hand."""

from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from flwr.app import ConfigRecord, MetricRecord, RecordDict

from fedteddi import InputError, minimum_bandwidth_hz
from fedteddi.flower.budget import Budget, Link
from fedteddi.flower.nodes import MEASURED_FOR, Node
from fedteddi.flower.server import _on_our_clock
from fedteddi.flower.told import Told, bytes_of


def links(**columns: list[float | None]) -> list[Link]:
    count = len(next(iter(columns.values())))
    return [Link(client=n, **{name: values[n] for name, values in columns.items()}) for n in range(count)]


@pytest.mark.parametrize(
    ("uploads", "asked", "most"), [(None, 5, 3), (0.2, 5, 1), (0.5, 6, 3), (4, 10, 4), (1, 9, 1)]
)
def test_so_many_uploads(uploads: float | None, asked: int, most: int) -> None:
    """A share is of those asked, rounded up; a number is that number. Everyone needs one of it."""
    limits = Budget(uploads=uploads).limits(links(compute_s=[1.0] * asked), 1, 1e6)
    assert limits.total_hz == most
    assert limits.needed_hz.tolist() == [1.0] * asked
    assert limits.channel_gain.tolist() == [1.0] * asked
    assert limits.deadline_s is None


def test_a_deadline_leaves_out_who_would_miss_it() -> None:
    """1 Mbit at 1 Mbit/s is 1 s: after 1 s of training it is in time for 2 s, after 1.5 s not; unmeasured is tried."""
    some = links(compute_s=[1.0, 1.5, 1.5, 2.5], rate_bps=[1e6, 1e6, None, None])
    limits = Budget(uploads=2, deadline_s=2.0).limits(some, 1, 1e6)
    assert limits.needed_hz.tolist() == [1.0, np.inf, 1.0, np.inf]


def test_a_band_with_gains_is_the_papers() -> None:
    """B* of (17) at 23 dBm and −174 dBm/Hz, for the time that training leaves."""
    budget = Budget(band_hz=1e6, deadline_s=2.0, channel_gain=lambda client, round: 1e-11 * (client + round))
    limits = budget.limits(links(compute_s=[0.5, 1.0, 2.0]), 3, 1e6)
    expected = minimum_bandwidth_hz(1e6, [1.5, 1.0], 10**-0.7, [3e-11, 4e-11], 10**-20.4)
    assert limits.needed_hz[:2] == pytest.approx(expected, rel=1e-9)
    assert limits.needed_hz[2] == np.inf
    assert limits.channel_gain == pytest.approx([3e-11, 4e-11, 5e-11])
    assert (limits.deadline_s, limits.model_bits, limits.total_hz) == (2.0, 1e6, 1e6)


def test_a_band_without_gains_is_shared_in_time() -> None:
    """4 Mbit/s of the whole band: 1 Mbit takes 0.25 s, a quarter of the 1 s that is left. Nothing known: 1/N."""
    some = links(compute_s=[1.0, 1.0, 1.0], rate_bps=[4e6, None, None], channel_gain=[None, None, 1e-10])
    limits = Budget(band_hz=1e6, deadline_s=2.0).limits(some, 1, 1e6)
    assert limits.needed_hz[:2] == pytest.approx([0.25e6, 1e6 / 3])
    expected = minimum_bandwidth_hz(1e6, 1.0, 10**-0.7, 1e-10, 10**-20.4)
    assert limits.needed_hz[2] == pytest.approx(float(expected), rel=1e-9)
    given = Budget(band_hz=1e6, deadline_s=2.0, rate_bps=lambda client, _: 1e6 * (client + 1))
    assert given.limits(some[:2], 1, 1e6).needed_hz == pytest.approx([1e6, 0.5e6])


def test_a_callable_that_gives_nonsense_is_named() -> None:
    budget = Budget(uploads=1, deadline_s=1.0, rate_bps=lambda *_: -1.0)
    with pytest.raises(InputError, match="rate_bps of client 0=-1"):
        budget.limits(links(compute_s=[0.1]), 1, 1e6)


def test_measured_rates_are_smoothed_and_age() -> None:
    """8 Mbit in 2 s, then in 4 s: 4, then (4 + 2)/2 = 3 Mbit/s; after twenty rounds it is not known any more."""
    node = Node(0)
    assert node.measured_bps(1) is None
    node.measure(8e6, 2.0, 1)
    assert node.measured_bps(1) == pytest.approx(4e6)
    node.measure(8e6, 4.0, 2)
    assert node.measured_bps(2 + MEASURED_FOR) == pytest.approx(3e6)
    assert node.measured_bps(3 + MEASURED_FOR) is None


def test_a_slow_first_training_is_forgotten_in_time() -> None:
    """Like a rate: with `select_first` nobody would measure it again."""
    node, told = Node(client_id=7), Told(counts=Counter({0: 5}), compute_s=100.0)
    node.hear(told, 1, "num-examples")
    node.hear(Told(counts=Counter({0: 5})), 5, "num-examples")  # asked for its labels only
    assert node.link(7, 1 + MEASURED_FOR).compute_s == 100.0
    assert node.link(7, 2 + MEASURED_FOR).compute_s is None


def test_text_and_lists_without_content_weigh_nothing() -> None:
    """Flower's own count raises there, and an app may well send an empty note."""
    content = RecordDict({"c": ConfigRecord({"note": "", "list": []}), "m": MetricRecord({"loss": 1.0})})
    assert bytes_of(content) == bytes_of(RecordDict({"m": MetricRecord({"loss": 1.0})}))
    assert bytes_of(content) > 0


def test_a_time_above_the_servers_own_is_cut_whatever_its_type() -> None:
    @dataclass(frozen=True)
    class Said:
        compute_s: object

    said: Any = {1: Said(10**9), 2: Said(1e9), 3: Said(0.5), 4: Said(None)}
    assert [one.compute_s for one in _on_our_clock(said, 2.0).values()] == [2.0, 2.0, 0.5, None]
