"""How much of long or many runs goes into the page: no more than a screen shows, within a budget of numbers."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Detail:
    """Budgets for the whole page; `scale` shrinks all of them together."""

    scale: float = 1.0

    def points(self, series: int) -> int:
        """Return how many evaluations of a frame are drawn, with so many lines (runs × frames) in all."""
        return self._share(60_000, series, 24, 240)

    def class_points(self, series: int) -> int:
        """Return how many evaluations of a frame are drawn class by class, with so many lines in all."""
        return self._share(150_000, series, 8, 120)

    def rounds(self, per_round: int) -> int:
        """Return how many rounds of a condition are shown one by one, if each takes so many numbers."""
        return self._share(500_000, per_round, 12, 240)

    def bins(self, rows: int) -> int:
        """Return how many columns the timelines have, with so many rows (runs × clients) in all."""
        return self._share(1_200_000, rows, 24, 240)

    def decisions(self, runs: int) -> int:
        """Return how many decisions of each run are told."""
        return self._share(2_400, runs, 4, 60)

    def clients(self, runs: int) -> int:
        """Return how many clients have a row, or a place in the cell."""
        return self._share(12_000, runs, 30, 200)

    def _share(self, budget: int, among: int, least: int, most: int) -> int:
        return max(least, min(most, int(self.scale * budget / max(1, among))))


def spaced(count: int, most: int) -> list[int]:
    """Return at most so many indices below `count`, evenly spaced, with the first and, of two or more, the last."""
    if count <= most:
        return list(range(count))
    return sorted({round(float(x)) for x in np.linspace(0, count - 1, most)})


def thinned_rounds(rounds: Sequence[int], most: int) -> list[tuple[int, int]]:
    """Return at most about so many (frame, round) of all, evenly in every frame, its first and last among them."""
    total, found = sum(rounds), []
    for frame, length in enumerate(rounds):
        if length:
            found += [(frame, index + 1) for index in spaced(length, max(2, round(most * length / total)))]
    return found
