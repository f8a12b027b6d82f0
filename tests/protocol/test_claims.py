"""What one client claims is bounded by what the others claim; the rest stays as it came."""

from typing import Any

import numpy as np
import pytest

from fedteddi import Settings
from fedteddi.protocol.checks import ReceivedReports
from fedteddi.protocol.claims import bounded_gradients, bounded_reports
from fedteddi.protocol.messages import ALL_CLIENTS, ClassGradients, Report
from fedteddi.settings import on_fleet


def reports(part: str, values: list[float | None]) -> ReceivedReports:
    many = len(values)
    return ReceivedReports(
        clients=tuple(range(many)),
        num_samples=np.ones(many, dtype=np.int64),
        class_counts=np.ones((many, 1), dtype=np.int64),
        data_mix=np.ones((many, 1)),
        batch_mix=np.ones((many, 1)),
        reports={n: Report(**{part: value}) for n, value in enumerate(values)},
    )


@pytest.mark.parametrize(
    ("part", "values", "expected"),
    [
        ("gradient_variance", [1.0, 2.0, 4.0, 1e99], [1.0, 2.0, 4.0, 20.0]),  # the lower median is 2
        ("update_norm", [1.0, None, 50.0, 3.0], [1.0, None, 30.0, 3.0]),
        ("loss", [0.0, 0.0, 9.0], [0.0, 0.0, 9.0]),  # a median of 0 says nothing
        ("compute_s", [0.0, 2.0, 2.0, 500.0], [0.2, 2.0, 2.0, 500.0]),  # who is slow is believed
        ("channel_gain", [1.0, 1e-9, 1e-9], [1.0, 1e-9, 1e-9]),  # gains lie decades apart
    ],
)
def test_numbers_are_bounded_by_the_others(part: str, values: list[Any], expected: list[Any]) -> None:
    given = reports(part, values)
    found = bounded_reports(given, 10.0)
    assert found.told(part) == pytest.approx(expected)
    assert bounded_reports(given, 0.0) is given


def gradients(*rows: dict[int, float]) -> dict[int, ClassGradients]:
    """Sums over two images of each class, of these norms an image."""
    made = {}
    for client, own in enumerate(rows):
        counts = np.array([2 if c in own else 0 for c in range(3)])
        made[client] = ClassGradients(
            gradient_sum={c: np.array([0.0, 2 * norm]) for c, norm in own.items()}, counts=counts
        )
    return made


def test_gradients_are_shortened_to_the_others() -> None:
    """Class 0: of 1, 2, 3, 1e18 the lower median is 2. Class 1 has two holders: the 2 counts there, too."""
    parts = gradients({0: 1.0, 1: 7.0}, {0: 2.0}, {0: 3.0}, {0: 1e18, 1: 1e18})
    found = bounded_gradients(parts, 10.0)
    norms = {(n, c): float(row[1]) / 2 for n, part in found.items() for c, row in part.gradient_sum.items()}
    expected = {(0, 0): 1.0, (0, 1): 7.0, (1, 0): 2.0, (2, 0): 3.0, (3, 0): 20.0, (3, 1): 20.0}
    assert norms == pytest.approx(expected)


def test_what_is_not_finite_or_speaks_for_all_is_left_to_others() -> None:
    parts = gradients({0: 1.0}, {0: 1.0}, {0: 1.0}, {0: float("nan")})
    assert np.isnan(bounded_gradients(parts, 10.0)[3].gradient_sum[0][1])
    pooled = {ALL_CLIENTS: gradients({0: 1e18})[0]}
    assert bounded_gradients(pooled, 10.0) == pooled
    assert bounded_gradients({}, 10.0) == {}


def test_a_fleet_plays_its_own_defaults_where_nothing_else_is_said() -> None:
    plain, server = Settings(), on_fleet(Settings()).server
    assert plain.server.aggregation == "fedavg"
    assert (server.aggregation, server.max_sample_share) == ("norm-clipping", 0.2)
    assert (server.quarantine_rounds, server.claim_factor) == (10, 30.0)
    own = on_fleet(plain.changed(server__aggregation="median", server__max_sample_share=0.5)).server
    assert (own.aggregation, own.max_sample_share) == ("median", 0.5)
    trusting = plain.changed(
        fleet__aggregation="fedavg", fleet__max_sample_share=1.0, fleet__claim_factor=0.0
    )
    assert on_fleet(trusting.changed(fleet__quarantine_rounds=0)).server == plain.server
    assert on_fleet(on_fleet(plain)) == on_fleet(plain)
