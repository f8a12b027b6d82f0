"""A table of reports is checked as the same reports one by one."""

import math
from typing import Any

import numpy as np
import pytest

from fedteddi.protocol.checks import received_reports
from fedteddi.protocol.messages import Answers, ReportTable, Request
from fedteddi.settings import parse_settings

HELD = np.array([[30, 0], [10, 10], [0, 60]])  # D = 30, 20, 60
TRAINED = HELD * np.array([[2], [3], [1]])  # 60 each: 6 steps of 10
SKETCHES = {n: np.arange(1.0, 128.0) * n for n in range(3)}
NUMBERS: dict[str, Any] = {
    "gradient_variance": {0: 1.0, 1: 4.0, 2: 9.0},
    "loss": {0: 0.1, 1: 0.2, 2: 0.3},
    "update_sketch": SKETCHES,
}


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"numbers": {"loss": NUMBERS["loss"]}},
        {"numbers": NUMBERS | {"loss": {0: 0.1, 1: math.nan, 2: 0.3}}},
        {"numbers": NUMBERS | {"loss": {0: 0.1, 1: 1, 2: None}}},
        {"numbers": NUMBERS | {"update_sketch": SKETCHES | {1: np.full(127, math.nan)}}},
        {"numbers": NUMBERS | {"update_sketch": SKETCHES | {1: SKETCHES[1].astype(np.float32)}}},
        {"numbers": NUMBERS | {"update_sketch": SKETCHES | {0: SKETCHES[0] * 1e101, 2: np.ones(126)}}},
        {"batch_counts": TRAINED - 1},
        {"batch_counts": TRAINED.astype(float)},
        {"data_counts": HELD * np.array([[1], [0], [1]])},
        {"clients": (2, 0, 1)},
        {"clients": (0, 1), "data_counts": HELD[:2], "batch_counts": TRAINED[:2]},
    ],
)
@pytest.mark.parametrize("asked", [None, frozenset({1})])
def test_a_table_is_checked_as_its_reports_are(changes: dict[str, Any], asked: frozenset[int] | None) -> None:
    parts = {"clients": (0, 1, 2), "data_counts": HELD, "batch_counts": TRAINED, "numbers": NUMBERS} | changes
    table = ReportTable(**parts)
    request = Request(
        kind="report",
        frame=0,
        round=1,
        weights=np.zeros(4),
        clients=(0, 1, 2),
        needs=frozenset({"gradient_std", "loss", "update_sketch"}),
        variance_from=asked,
    )
    settings = parse_settings({"rounds": [3], "training": {"local_steps": 6, "batch_size": 10}})
    found, expected = (
        received_reports(Answers(given, {}), request, 2, settings) for given in (table, dict(table))
    )
    assert found[1] == expected[1]
    if found[0] is None or expected[0] is None:
        assert found[0] is expected[0]
        return
    for part in ("clients", "num_samples", "class_counts", "data_mix", "batch_mix"):
        np.testing.assert_array_equal(getattr(found[0], part), getattr(expected[0], part))
    for part in ("gradient_variance", "loss", "compute_s"):
        assert found[0].told(part) == expected[0].told(part)
    np.testing.assert_array_equal(found[0].numbers("update_sketch"), expected[0].numbers("update_sketch"))


WRONG_COUNTS = [-1, 0, 5, 64, 10**9, 10**9 + 1, 2**62, 2**63 - 1, -(2**63)]
WRONG_NUMBERS = [
    math.nan,
    math.inf,
    -math.inf,
    -1.0,
    1e101,
    None,
    True,
    3,
    10**400,
    "1",
    np.float64(2),
    1 + 0j,
]


def test_no_wrong_report_slips_through_a_table() -> None:
    """A thousand tables with up to two wrong counts, and some wrong numbers: as if looked at one by one."""
    rng = np.random.default_rng(0)
    settings = parse_settings({"rounds": [3], "training": {"local_steps": 2, "batch_size": 3}})
    outcomes = set()
    for _ in range(1000):
        held, trained = rng.integers(2, 20, (3, 2)), np.full((3, 2), 3)
        for counts in (held, trained):
            if rng.random() < 0.3:
                wrong = WRONG_COUNTS[rng.integers(len(WRONG_COUNTS))]
                counts[rng.integers(3), rng.integers(2)] = wrong
        losses: dict[int, Any] = dict(enumerate(rng.normal(size=3).tolist()))
        if rng.random() < 0.3:
            losses[int(rng.integers(3))] = WRONG_NUMBERS[rng.integers(len(WRONG_NUMBERS))]
        needs = frozenset({"loss"} if rng.random() < 0.7 else ())
        request = Request(
            kind="report", frame=0, round=1, weights=np.zeros(4), clients=(0, 1, 2), needs=needs
        )
        table = ReportTable(
            clients=(0, 1, 2), data_counts=held, batch_counts=trained, numbers={"loss": losses}
        )
        (found, why), (expected, why_not) = (
            received_reports(Answers(given, {}), request, 2, settings) for given in (table, dict(table))
        )
        assert why == why_not
        assert (None if found is None else found.clients) == (None if expected is None else expected.clients)
        outcomes |= {len(why.causes)}
    assert outcomes == {0, 1, 2, 3}


class NotSearched(tuple[int, ...]):
    """Clients in order; to look for one from the first on would take as long as there are clients, for each."""

    __slots__ = ()

    def index(self, *_: object) -> int:
        """Refuse."""
        raise AssertionError

    def __contains__(self, _: object) -> bool:
        raise AssertionError


def test_the_reports_of_many_are_found_without_a_search() -> None:
    """One client's NaN makes all reports be looked at one by one."""
    loss = dict.fromkeys(range(2000), 1.0) | {7: math.nan}
    counts = np.full((2000, 2), 30)
    clients = tuple(range(2000))
    table = ReportTable(
        clients=NotSearched(clients), data_counts=counts, batch_counts=counts, numbers={"loss": loss}
    )
    request = Request(
        kind="report", frame=0, round=1, weights=np.zeros(4), clients=clients, needs=frozenset({"loss"})
    )
    settings = parse_settings({"rounds": [3], "training": {"local_steps": 6, "batch_size": 10}})
    found, rejections = received_reports(Answers(table, {}), request, 2, settings)
    assert rejections.causes == {7: "loss=nan is not finite"}
    assert found is not None
    assert found.clients == tuple(n for n in clients if n != 7)
    assert 2000 not in table
    with pytest.raises(KeyError):
        table[2000]
