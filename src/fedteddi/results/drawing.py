"""What all figures share: a colour and a mark for each rule, panels, a line with its spread, a legend, files."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from PIL import Image

from fedteddi.results.runs import REFERENCES

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
PANEL_IN = (4.6, 3.4)
NAMELESS, AS_IT_IS = "_thin", "_as it is"  # of lines that a legend leaves out


def panels(rows: int, columns: int) -> tuple[Figure, list[list[Axes]]]:
    """Return axes by row and column; a single column is laid out as a row."""
    width, height = PANEL_IN
    across, down = (rows, 1) if columns <= 1 else (columns, rows)
    figure = Figure(figsize=(width * across, height * down + 0.5), layout="constrained")
    grid = figure.subplots(down, across, squeeze=False)
    FigureCanvasAgg(figure)
    if columns <= 1:
        return figure, [[grid[0][r]] for r in range(rows)]
    return figure, [[grid[r][c] for c in range(columns)] for r in range(rows)]


def line(ax: Axes, scheduler: str, x: np.ndarray, y: np.ndarray) -> None:
    """Draw the mean over seeds of y [seeds, points], the deviation shaded; a long line smoothed, and pale as it is."""
    mean = y.mean(axis=0)
    smooth = len(x) > SMOOTHED
    if smooth:
        ax.plot(x, mean, **_stroke(ax, scheduler) | {"label": AS_IT_IS}, linewidth=0.6, alpha=0.3, zorder=1)
    (drawn,) = ax.plot(
        x,
        running_mean(mean) if smooth else mean,
        **_stroke(ax, scheduler),
        linewidth=2.0 if scheduler in BOLD else 1.3,
        marker=MARKS.get(scheduler, "." if len(x) == 1 else None),  # or a single point would not show
        markersize=3.5,
        markevery=max(1, len(x) // 8),
        zorder=3 if scheduler in BOLD else 2,
    )
    if len(y) > 1:
        std = y.std(axis=0, ddof=1)
        ax.fill_between(
            x, np.maximum(mean - std, 0), mean + std, color=drawn.get_color(), alpha=0.12, linewidth=0
        )


def running_mean(y: np.ndarray, window: int = WINDOW) -> np.ndarray:
    """Return the mean over the points around each, fewer near an end or a gap (NaN), and never across one, [points]."""
    mean, known, half = np.full(len(y), np.nan), np.flatnonzero(np.isfinite(y)), window // 2
    for part in np.split(known, np.flatnonzero(np.diff(known) > 1) + 1):
        for position, point in enumerate(part):
            mean[point] = y[part[max(0, position - half) : position + half + 1]].mean()
    return mean


def thin_line(ax: Axes, scheduler: str, x: np.ndarray, y: np.ndarray) -> None:
    """Draw y [points], which says less than a full line would: with hollow marks, and not in the legend."""
    ax.plot(
        x,
        y,
        **_stroke(ax, scheduler) | {"label": NAMELESS},
        linewidth=1.0 if scheduler in BOLD else 0.6,
        marker=MARKS.get(scheduler, "."),
        markersize=3.0,
        markerfacecolor="white",
        markeredgewidth=0.7,
        zorder=1.5,
    )


def has_lines(figure: Figure, label: str) -> bool:
    """Say whether one of a figure's panels has a line of this label."""
    return any(drawn.get_label() == label for ax in figure.axes for drawn in ax.get_lines())


def _stroke(ax: Axes, scheduler: str) -> dict[str, Any]:
    """Return by what a rule's lines are known: with another search or σ̂ it has its colour, and another stroke."""
    rule, option = _varied(scheduler)
    return {
        "label": scheduler,
        "color": COLOURS.get(rule) or _colour_of_another(ax, scheduler),
        "linestyle": "--" if scheduler in REFERENCES else STROKES.get(option, "-"),
    }


def _varied(scheduler: str) -> tuple[str, str]:
    """Return a rule without the option that makes it a variant, and that option's name."""
    rule, option = [*re.split(rf"-({'|'.join(STROKES)})-", scheduler, maxsplit=1), ""][:2]
    return rule, option


def _colour_of_another(ax: Axes, scheduler: str) -> str:
    """Return the colour of a rule that has none of its own: the same in all panels of a figure."""
    figure = ax.get_figure(root=True)
    others = {
        str(drawn.get_label()): str(drawn.get_color())
        for panel in (figure.axes if figure else [ax])
        for drawn in panel.get_lines()
        if drawn.get_label() not in (NAMELESS, AS_IT_IS) and _varied(str(drawn.get_label()))[0] not in COLOURS
    }
    palette = list(COLOURS.values())[2:]
    return others.get(scheduler, palette[len(others) % len(palette)])


def finished(
    figure: Figure, axes: list[list[Axes]], rules: Sequence[str] = (), note: str | None = None
) -> Figure:
    """Add what all figures have: a grid, and one legend, in the order of `rules` where panels lack some of them.

    `note` stands above the legend.
    """
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
        labels = [rule for rule in rules if rule in entries] or list(entries)
        # The longest name, its line and the space between columns; "power-of-choice" takes 1.7 inches.
        inches = max(1.7, 0.35 + 0.09 * max(map(len, labels)))
        fitting = max(1, int(figure.get_figwidth() // inches))
        legend = figure.legend(
            [entries[label] for label in labels],
            labels,
            loc="outside lower center",
            ncols=min(len(labels), fitting),
            frameon=False,
            title=note,
            title_fontsize="small",
        )
        legend.get_title().set_multialignment("center")
    return figure


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
    """Write a figure as PNG and SVG, or as one of them; with so many `colours` a PNG takes a third of the space."""
    written = []
    with mpl.rc_context({"svg.hashsalt": "fedteddi"}):  # the same figure gives the same file
        for ending in endings:
            target = path.with_suffix(ending)
            figure.savefig(target, dpi=dpi, metadata={"Date": None} if ending == ".svg" else None)
            if colours is not None and ending == ".png":
                with Image.open(target) as image:
                    image.convert("RGB").quantize(colours, Image.Quantize.FASTOCTREE).save(
                        target, optimize=True
                    )
            written.append(target)
    return written
