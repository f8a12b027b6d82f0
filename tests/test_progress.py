"""What is said on the way: how far it is, and how long the rest takes."""

import pytest

from fedteddi.cli_progress import time_left


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ([(100.0, 0)], ""),  # no pace yet
        ([(100.0, 30), (160.0, 30)], ""),  # pre-training, or a round that takes long
        ([(0.0, 0), (10.0, 50)], ", 10 s left"),  # five a second, fifty to go
        (
            [(0.0, 20), (60.0, 40), (120.0, 60)],
            ", 2 min left",
        ),  # resumed at 20; forty in two minutes, forty to go
        ([(0.0, 0), (600.0, 1)], ", 16.5 h left"),
        ([(0.0, 0), (10.0, 100)], ""),
    ],
)
def test_time_left(lines: list[tuple[float, int]], said: str) -> None:
    assert time_left(lines, 100) == said
