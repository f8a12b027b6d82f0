"""What is said on the way: how far it is, and how long the rest takes."""

import pytest

from fedteddi.cli_progress import time_left


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ([(100.0, 0)], ""),  # no pace yet
        ([(0.0, 0), (90.0, 1)], ""),  # the first round: compilation says nothing about the pace
        ([(0.0, 0), (90.0, 30), (160.0, 30)], ""),  # a round that takes long
        ([(0.0, 0), (90.0, 1), (100.0, 51)], ", 10 s left"),  # five a second, 49 to go
        ([(0.0, 20), (60.0, 40), (120.0, 50)], ", 5 min left"),  # resumed; ten in a minute, fifty to go
        ([(0.0, 0), (5.0, 1), (3605.0, 2)], ", 98.0 h left"),
        ([(0.0, 0), (5.0, 1), *((65.0 + 5 * i, 10 + i) for i in range(12))], ", 7 min left"),  # only of late
        ([(0.0, 0), (5.0, 50), (10.0, 100)], ""),
    ],
)
def test_time_left(lines: list[tuple[float, int]], said: str) -> None:
    assert time_left(lines, 100) == said
