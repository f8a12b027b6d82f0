"""How figures are laid out: for a screen, or for a column of an IEEE journal."""

from dataclasses import dataclass
from typing import Any

SCREEN_LINE = 1.5  # points, of matplotlib's lines unless a style says otherwise


@dataclass(frozen=True)
class Style:
    """A panel's size, how panels lie, and matplotlib's settings meanwhile."""

    panel_in: tuple[float, float]  # width and height
    beside_in: float = 0.0  # height for a legend and a title
    one_row: bool = True  # what has one deadline lies in a row
    has_words: bool = True  # a title and notes; in print, the caption says them
    widths_in: tuple[float, float] | None = None  # of a figure with one panel across, and with several
    rc: Any = None  # a mapping; matplotlib's type names each key

    def size_in(self, across: int, down: int) -> tuple[float, float]:
        """Return the size of a figure with so many panels."""
        width, height = self.panel_in
        whole = width * across if self.widths_in is None else self.widths_in[across > 1]
        return whole, height * down + self.beside_in


SCREEN = Style((4.6, 3.4), beside_in=0.8)
# One column of an IEEE journal is 3.5 inches wide, two are 7.16. STIX, which comes with matplotlib, goes with Times.
PRINT = Style(
    (3.5, 1.9),
    beside_in=0.45,
    one_row=False,
    has_words=False,
    widths_in=(3.5, 7.16),
    rc={
        "font.family": "STIXGeneral",
        "mathtext.fontset": "stix",
        "font.size": 8,
        "axes.titlesize": 8,
        "xtick.labelsize": 7,
        "ytick.labelsize": 7,
        "axes.linewidth": 0.6,
        "grid.linewidth": 0.4,
        "lines.linewidth": 1.0,
        "xtick.major.width": 0.6,
        "ytick.major.width": 0.6,
        "legend.fontsize": 7,
    },
)
