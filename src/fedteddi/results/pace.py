"""How long the rest takes, from what was done when."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

LINES_LOOKED_BACK = 12  # a minute, where one is noted every 5 s


class Pretrains(Protocol):
    """What tells one pre-training from the next."""

    @property
    def seed(self) -> int:
        """Whose model it is; a seed may have several."""

    @property
    def step(self) -> int:
        """How many steps are done."""


@dataclass
class Pace:
    """Says how long the rest takes; the pre-training of each model has a pace of its own, and so have the rounds."""

    lines: list[tuple[float, int]] = field(default_factory=list)
    _last: Pretrains | None = None

    def begins(self, now: Pretrains | None) -> bool:
        """Tell whether something with a pace of its own begins, which forgets that of before; None: the rounds."""
        last, self._last = self._last, now
        if now is None or last is None:
            new = (now is None) != (last is None)
        else:
            new = now.seed != last.seed or now.step < last.step
        if new:
            self.lines.clear()
        return new

    def left(self, now_s: float, done: int, in_all: int) -> str:
        """Note how much is done by now, and say how long the rest takes."""
        self.lines.append((now_s, done))
        return time_left(self.lines, in_all)


def time_left(lines: Sequence[tuple[float, int]], rounds_in_all: int) -> str:
    """Say how long the rest takes at the pace of late, as ", 3 min left"; nothing where there is no pace yet.

    What lies before the second line does not count: on a GPU, the first round is mostly compilation.
    """
    late = lines[1:][-LINES_LOOKED_BACK:]
    if not late or late[-1][1] in (late[0][1], rounds_in_all):
        return ""
    (first_s, first_done), (last_s, last_done) = late[0], late[-1]
    seconds = (rounds_in_all - last_done) * (last_s - first_s) / (last_done - first_done)
    if seconds < 90:
        return f", {seconds:.0f} s left"
    return f", {seconds / 60:.0f} min left" if seconds < 5400 else f", {seconds / 3600:.1f} h left"
