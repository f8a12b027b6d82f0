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
