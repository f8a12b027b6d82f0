"""The progress bar that Python users see, in notebooks and terminals; the command line has its own (cli/progress.py).

Where neither is there, such as in a script's log, nothing is shown.
"""

import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from fedteddi.results.pace import Pace
from fedteddi.simulation.progress import Progress, Watch

EVERY_S = 0.2  # how often it is drawn
NOTE_EVERY_S = 5.0  # how often the pace is noted
BAR = 20  # characters
NOTEBOOK_WIDTH = 100

Draw = Callable[[Sequence[str]], None]


@contextmanager
def showing(watch: Watch | None, progress: bool) -> Iterator[Watch | None]:
    """Yield what is to be told of progress: `watch`, or else a bar where one can be seen."""
    if watch is not None or not progress:
        yield watch
    elif (notebook := _notebook()) is not None:
        bar = Bar(_in_notebook(notebook), lambda: NOTEBOOK_WIDTH)
        try:
            yield bar.show
        finally:
            bar.finish()
    elif sys.stderr is not None and sys.stderr.isatty() and os.environ.get("TERM") != "dumb":
        screen = Screen()
        bar = Bar(screen.draw, screen.width)
        try:
            yield bar.show
        finally:
            bar.finish()
            screen.leave()
    else:
        yield None


class Bar:
    """Draws progress as lines of text, a few times a second: a bar, and below it every rule's accuracy."""

    def __init__(
        self, draw: Draw, width: Callable[[], int], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._draw, self._width, self._clock = draw, width, clock
        self._pace = Pace()
        self._last: Progress | None = None
        self._drawn_at = self._noted_at = float("-inf")
        self._left = ""

    def show(self, state: Progress) -> None:
        """Hear how far it is, and draw it if it is time to."""
        begins, self._last = self._pace.begins(state.pretraining), state
        now, (done, in_all) = self._clock(), state.counted
        if begins or now - self._noted_at >= NOTE_EVERY_S:
            self._noted_at = now
            self._left = self._pace.left(now, done, in_all)
        if now - self._drawn_at >= EVERY_S:
            self._drawn_at = now
            self._draw(self._lines(state))

    def finish(self) -> None:
        """Draw what was heard last."""
        if self._last is not None:
            self._left = ""
            self._draw(self._lines(self._last))

    def _lines(self, state: Progress) -> list[str]:
        done, in_all = state.counted
        full = BAR * done // in_all if in_all else BAR
        first, *others = state.lines(self._width(), self._left)
        return [f"{'█' * full}{'░' * (BAR - full)} {first}", *others]


class Screen:
    """A few lines of a terminal that are drawn again and again.

    The cursor waits at their beginning, so that what others print comes before them and is not lost.
    """

    def __init__(self) -> None:
        self._drawn: list[str] = []

    def width(self) -> int:
        """Return how many characters fit on a line."""
        return shutil.get_terminal_size().columns - 1

    def draw(self, lines: Sequence[str]) -> None:
        """Draw lines in place of those before, as many as fit."""
        columns, rows = shutil.get_terminal_size()
        fit = list(lines) if len(lines) < rows else [*lines[: rows - 2], "  …"]
        self._drawn = [line if len(line) < columns else f"{line[: columns - 2]}…" for line in fit]
        self._write("\x1b[J" + "\n".join(self._drawn) + f"\r{_up(len(self._drawn) - 1)}")

    def leave(self) -> None:
        """Go on below the lines, which stay."""
        if self._drawn:
            self._write("\x1b[J" + "\n".join(self._drawn) + "\n")

    def _write(self, text: str) -> None:
        encoding = sys.stderr.encoding or "utf-8"
        sys.stderr.write(text.encode(encoding, "replace").decode(encoding))
        sys.stderr.flush()


def _up(lines: int) -> str:
    return f"\x1b[{lines}A" if lines else ""


def _notebook() -> Any | None:
    """Return what displays things in a notebook; None where there is no notebook."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    if shell is None or not hasattr(shell, "kernel"):  # IPython in a terminal has no kernel
        return None
    from IPython.display import display

    return display


def _in_notebook(display: Callable[..., Any]) -> Draw:
    """Return what draws lines into a cell's output, in place of those before."""
    shown: list[Any] = []

    def draw(lines: Sequence[str]) -> None:
        data = {"text/plain": "\n".join(lines)}
        if shown:
            shown[0].update(data, raw=True)
        else:
            shown.append(display(data, raw=True, display_id=True))

    return draw
