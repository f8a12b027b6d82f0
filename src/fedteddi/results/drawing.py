"""What all figures share: a colour and a mark for each rule, panels, lines with their spread, a legend, files."""

import io
import re
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.ticker import MaxNLocator
from PIL import Image

from fedteddi.results.runs import REFERENCES
from fedteddi.results.styles import SCREEN, SCREEN_LINE, Style

# Okabe and Ito's palette, which colour-blind readers can tell apart; black for the paper's rule.
COLOURS = {
    "fedteddi": "#000000",
    "fedteddi-plus": "#B00020",
    "fedcgd": "#0072B2",
    "fed-cbs": "#D55E00",
    "random": "#999999",
    "pure-drift": "#009E73",
    "power-of-choice": "#CC79A7",
    "best-norm": "#E69F00",
    "best-channel": "#56B4E9",
    "everyone": "#8C7A00",  # the palette's yellow, dark enough for a line on white
    "centralised": "#882255",
}
BOLD = ("fedteddi", "fedteddi-sigma-literal", "fedteddi-plus")
STROKES = {"search": ":", "sigma": (0, (5, 1))}  # of the same rule with another of these options
SMOOTHED, WINDOW = 100, 9  # evaluations from which on a line is smoothed, and over how many
MARKS = {
    "fedteddi": "o",
    "fedteddi-plus": "P",
    "fedcgd": "s",
    "fed-cbs": "^",
    "random": "x",
    "pure-drift": "D",
    "power-of-choice": "v",
    "best-norm": "+",
    "best-channel": "*",
}
NAMELESS, AS_IT_IS, PALE = "_thin", "_as it is", "_pale"  # of lines that a legend leaves out
PALE_GREY = "#C9C9C9"
DATELESS: dict[str, dict[str, Any]] = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}
BOLD_EM, SMALL_EM = 0.66, 0.46  # a letter's width in titles and notes, in font sizes


class Picture(Figure):
    """A figure that a notebook shows without `%matplotlib inline`, which figures of pyplot ask for."""

    def _repr_png_(self) -> bytes:
        file = io.BytesIO()
        self.savefig(file, format="png")
        return file.getvalue()


def panels(rows: int, columns: int, style: Style = SCREEN) -> tuple[Figure, list[list[Axes]]]:
    """Return axes by row and column; a single column is laid out as a row, or in print as a column of the page."""
    across, down = (columns, rows) if columns > 1 else (rows, 1) if style.one_row else (1, rows)
    figure = Picture(figsize=style.size_in(across, down), layout="constrained")
    grid = figure.subplots(down, across, squeeze=False)
    FigureCanvasAgg(figure)
    flat = [ax for line in grid for ax in line]
    return figure, [flat[row * max(1, columns) : (row + 1) * max(1, columns)] for row in range(rows)]


def line(
    ax: Axes, scheduler: str, x: np.ndarray, y: np.ndarray, colour: str | None = None, steps: bool = False
) -> None:
    """Draw the mean over seeds of y [seeds, points], the deviation shaded; a long line smoothed, and pale as it is.

    Without a colour all is pale. As `steps`, each point's value holds from the point before.
    """
    mean = y.mean(axis=0)
    smooth = len(x) > SMOOTHED
    shape = "steps-pre" if steps else "default"
    if colour is None:
        shown = running_mean(mean) if smooth else mean
        ax.plot(x, shown, color=PALE_GREY, linewidth=_width(0.8), label=PALE, zorder=1, drawstyle=shape)
        return
    stroke = _stroke(scheduler, colour) | {"drawstyle": shape}
    if smooth:
        ax.plot(x, mean, **stroke | {"label": AS_IT_IS}, linewidth=_width(0.6), alpha=0.3, zorder=1.2)
    ax.plot(
        x,
        running_mean(mean) if smooth else mean,
        **stroke,
        linewidth=_width(2.0 if scheduler in BOLD else 1.3),
        marker=MARKS.get(scheduler, "." if len(x) == 1 else None),  # or a single point would not show
        markersize=_width(3.5),
        markevery=max(1, len(x) // 8),
        zorder=3 if scheduler in BOLD else 2,
    )
    if len(y) > 1:
        std = y.std(axis=0, ddof=1)
        low, high = np.maximum(mean - std, 0), mean + std
        step: Literal["pre"] | None = "pre" if steps else None
        ax.fill_between(x, low, high, step=step, color=colour, alpha=0.12, linewidth=0)


def running_mean(y: np.ndarray, window: int = WINDOW) -> np.ndarray:
    """Return the mean over the points around each, fewer near an end or a gap (NaN), and never across one, [points]."""
    mean, known, half = np.full(len(y), np.nan), np.flatnonzero(np.isfinite(y)), window // 2
    for part in np.split(known, np.flatnonzero(np.diff(known) > 1) + 1):
        for position, point in enumerate(part):
            mean[point] = y[part[max(0, position - half) : position + half + 1]].mean()
    return mean


def thin_line(ax: Axes, scheduler: str, x: np.ndarray, y: np.ndarray, colour: str | None) -> None:
    """Draw y [points] as steps that say less than a full line would: with hollow marks, and not in the legend."""
    if colour is None:
        ax.plot(x, y, color=PALE_GREY, linewidth=_width(0.5), label=PALE, zorder=1, drawstyle="steps-pre")
        return
    ax.plot(
        x,
        y,
        **_stroke(scheduler, colour) | {"label": NAMELESS, "drawstyle": "steps-pre"},
        linewidth=_width(1.0 if scheduler in BOLD else 0.6),
        marker=MARKS.get(scheduler, "."),
        markersize=_width(3.0),
        markerfacecolor="white",
        markeredgewidth=_width(0.7),
        zorder=1.5,
    )


def has_lines(figure: Figure, label: str) -> bool:
    """Say whether one of a figure's panels has a line of this label."""
    return any(drawn.get_label() == label for ax in figure.axes for drawn in ax.get_lines())


def _width(points: float) -> float:
    """Return a line's width, as much thinner as the style's lines are."""
    return points * float(mpl.rcParams["lines.linewidth"]) / SCREEN_LINE


def _stroke(scheduler: str, colour: str) -> dict[str, Any]:
    """Return by what a rule's lines are known: with another search or σ̂ it has its colour, and another stroke."""
    _, option = _varied(scheduler)
    stroke = "--" if scheduler in REFERENCES else STROKES.get(option, "-")
    return {"label": scheduler, "color": colour, "linestyle": stroke}


def _varied(scheduler: str) -> tuple[str, str]:
    """Return a rule without the option that makes it a variant, and that option's name."""
    rule, option = [*re.split(rf"-({'|'.join(STROKES)})-", scheduler, maxsplit=1), ""][:2]
    return rule, option


def colours_of(rules: Sequence[str]) -> dict[str, str]:
    """Return each rule's colour: its own, or the next that none of the others has, as long as there are any."""
    own = {rule: COLOURS[_varied(rule)[0]] for rule in rules if _varied(rule)[0] in COLOURS}
    free = [colour for colour in list(COLOURS.values())[2:] if colour not in own.values()] or [
        *COLOURS.values()
    ]
    others = [rule for rule in rules if rule not in own]
    return own | {rule: free[place % len(free)] for place, rule in enumerate(others)}


def finished(
    figure: Figure,
    axes: list[list[Axes]],
    rules: Sequence[str] = (),
    notes: Sequence[str] = (),
    title: str = "",
) -> Figure:
    """Add what all figures have: a title, a grid, one legend, in the order of `rules` where panels lack some of them.

    `notes` stand above the legend.
    """
    if title:
        shown = [_fitting(part, figure, BOLD_EM) for part in title.split("\n")]
        figure.suptitle("\n".join(shown), fontweight="bold", fontsize="medium")
        for ax in figure.axes:
            ax.title.set_fontsize("medium")
    for row in axes:
        for ax in row:
            ax.grid(alpha=0.25)
            for side in ("top", "right"):
                ax.spines[side].set_visible(False)
    entries: dict[str, Any] = {}  # a rule that one panel lacks may be in another
    for ax in (ax for row in axes for ax in row):
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True):
            entries.setdefault(label, handle)
    if entries:
        labels = [rule for rule in dict.fromkeys(rules) if rule in entries] or list(entries)
        # The longest name, its line and the space between columns; "power-of-choice" takes 1.7 inches.
        scale = FontProperties(size=mpl.rcParams["legend.fontsize"]).get_size_in_points() / 10
        inches = scale * max(1.7, 0.35 + 0.09 * max(map(len, labels)))
        lines = -(-len(labels) // max(1, int(figure.get_figwidth() // inches)))
        legend = figure.legend(
            [entries[label] for label in labels],
            labels,
            loc="outside lower center",
            ncols=-(-len(labels) // lines),
            frameon=False,
            title="\n".join(_fitting(note, figure, SMALL_EM) for note in notes),
            title_fontsize="small",
        )
        legend.get_title().set_multialignment("center")
    return figure


def _fitting(text: str, figure: Figure, letter_em: float) -> str:
    """Break a text into lines that a figure has room for."""
    letter_in = letter_em * float(mpl.rcParams["font.size"]) / 72
    return textwrap.fill(text, int(figure.get_figwidth() / letter_in), break_on_hyphens=False)


def whole_numbers() -> MaxNLocator:
    """Ticks at round whole numbers; an axis needs a locator of its own."""
    return MaxNLocator(integer=True, steps=[1, 2, 5, 10])


def save(
    figure: Figure,
    path: Path,
    endings: Sequence[str] = (".png", ".svg"),
    dpi: int = 150,
    colours: int | None = None,
) -> list[Path]:
    """Write a figure as PNG and SVG, or as `endings` say; with so many `colours` a PNG takes a third of the space."""
    written = []
    # The same figure gives the same file; PDFs embed their fonts as TrueType, which journals ask for.
    with mpl.rc_context({"svg.hashsalt": "fedteddi", "pdf.fonttype": 42}):
        for ending in endings:
            target = path.with_suffix(ending)
            figure.savefig(target, dpi=dpi, metadata=DATELESS.get(ending))
            if colours is not None and ending == ".png":
                with Image.open(target) as image:
                    image.convert("RGB").quantize(colours, Image.Quantize.FASTOCTREE).save(
                        target, optimize=True
                    )
            written.append(target)
    return written
