"""No client's share of an average above the bound, by hand and as a property."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedteddi.heterogeneity.sharing import bounded_class_counts, bounded_counts


@pytest.mark.parametrize(
    ("counts", "bound", "expected"),
    [
        ([10, 10, 80], 1.0, [10, 10, 80]),  # no bound
        ([10, 10, 80], 0.8, [10, 10, 80]),  # just kept
        ([10, 10, 80], 0.5, [10, 10, 20]),  # x = (x + 20)/2: 20
        ([10, 10, 80], 0.4, [10, 10, 13]),  # x = 0.4 (x + 20): 13.3, rounded down: 13/33 < 0.4
        ([10, 50, 80, 80], 0.3, [10, 30, 30, 30]),  # three above: x = 0.3 (3x + 10): 30
        ([10, 10, 80], 0.3, [10, 10, 10]),  # three clients cannot each stay below 0.3
        ([5, 20], 0.5, [5, 5]),
        ([7], 0.2, [7]),
        ([10**9, 100, 100, 100], 0.4, [200, 100, 100, 100]),  # x = 0.4 (x + 300): 200
    ],
)
def test_by_hand(counts: list[int], bound: float, expected: list[int]) -> None:
    assert bounded_counts(np.array(counts), bound).tolist() == expected


@given(
    st.lists(st.integers(1, 10**9), min_size=1, max_size=40),
    st.floats(0.01, 1.0, exclude_min=True),
)
def test_the_bound_holds_and_nobody_is_cut_more_than_needed(claimed: list[int], bound: float) -> None:
    counts = np.array(claimed)
    found = bounded_counts(counts, bound)
    assert (found <= counts).all()
    assert found.min() >= 1
    cut = found < counts
    if len(counts) * bound <= 1.0 and bound < 1.0:
        assert len(set(found.tolist())) == 1
        return
    assert found.max() / found.sum() <= bound * (1 + 1e-9)
    if cut.any():  # one common level, and one sample more would break the bound
        level = set(found[cut].tolist())
        assert len(level) == 1
        higher = np.minimum(counts, level.pop() + 1)
        assert higher.max() / higher.sum() > bound * (1 - 1e-9)


def test_without_a_bound_nothing_is_touched() -> None:
    counts, table = np.array([1, 2]), np.array([[1, 0], [1, 1]])
    assert bounded_counts(counts, 1.0) is counts
    assert bounded_class_counts(table, counts, 1.0) is table


def test_class_counts_shrink_with_their_total() -> None:
    """Client 0 counts as 20 of its 80 samples: a quarter of each class, rounded down."""
    table = np.array([[50, 30], [10, 0], [0, 10]])
    found = bounded_class_counts(table, table.sum(axis=1), 0.5)
    assert found.tolist() == [[12, 7], [10, 0], [0, 10]]
