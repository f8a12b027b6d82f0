"""Figures of a sensitivity study: one per factor, a dot for every seed, and one of all claims at all levels."""

from collections.abc import Callable
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from fedteddi.results.comparisons import final
from fedteddi.results.drawing import COLOURS, MARKS
from fedteddi.results.runs import ACCURACIES, Accuracy, RunRecord
from fedteddi.results.sensitivity_claims import Mark, in_words
from fedteddi.results.sensitivity_grid import Factor, Played, Sensitivity
from fedteddi.results.sensitivity_tables import Outcomes, names
from fedteddi.results.tables import percent

PANEL_IN = (2.9, 2.9)
APART = 0.13  # between the rules at one level, of the distance between levels
NOT_REACHED: dict[str, Any] = {
    "marker": r"$\uparrow$",
    "markersize": 7,
    "linestyle": "",
}  # at K: it needs more
# Told apart by lightness too, so that a grey print still shows them; the sign says the same once more.
ASIDE: dict[str, Any] = {"rotation": 90, "ha": "center", "va": "center", "color": "#777777"}
SHOWN: dict[Mark, tuple[str, str]] = {
    "ahead": ("#0072B2", "+"),
    "mixed": ("#E8E4D0", "±"),
    "behind": ("#D55E00", "−"),
    "not reached": ("#BBBBBB", "○"),
    "not run": ("#FFFFFF", "·"),
}


def levels(played: Played, factor: Factor) -> Figure:
    """Draw rounds to one target and final accuracy, of both kinds, over the levels of a factor."""
    width, height = PANEL_IN
    figure = Figure(figsize=(4 * width, height + 0.4), layout=ConstrainedLayoutEngine(w_pad=0.09))
    FigureCanvasAgg(figure)
    axes = figure.subplots(1, 4, squeeze=False)[0]
    for ax, accuracy in zip(axes[:2], ACCURACIES, strict=True):
        target = played.grid.drawn[accuracy]
        _over_levels(ax, played, factor, _rounds_to(accuracy, target, played.grid.frame))
        ax.set_ylabel(f"rounds to {percent(target)} {accuracy}")
        ax.set_ylim(bottom=0)
        ax.yaxis.set_major_locator(MaxNLocator(integer=True, steps=[1, 2, 5, 10], nbins=6))
    for ax, accuracy in zip(axes[2:], ACCURACIES, strict=True):
        _over_levels(ax, played, factor, _final(accuracy, played.grid.frame))
        ax.set_ylabel(f"final {accuracy} accuracy")
        ax.yaxis.set_major_locator(MaxNLocator(nbins=6))
    handles = [_key(rule, dashed=rule not in factor.schedulers) for rule in played.grid.schedulers]
    handles.append(Line2D([], [], color="#444444", **NOT_REACHED, label="not reached within K"))
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles), frameon=False)
    return figure


Measured = Callable[[RunRecord], tuple[float, bool]]  # a number, and whether it is only a lower bound


def _rounds_to(accuracy: Accuracy, target: float, frame: int) -> Measured:
    def measure(run: RunRecord) -> tuple[float, bool]:
        found = run.rounds_to(frame, target, accuracy)
        return (run.settings.rounds[frame], True) if found is None else (found, False)

    return measure


def _final(accuracy: Accuracy, frame: int) -> Measured:
    return lambda run: (final(run, frame, accuracy), False)


def _over_levels(ax: Axes, played: Played, factor: Factor, measure: Measured) -> None:
    """Draw a dot for every seed and a line of means; rules that the factor does not concern as a level line."""
    places, drawn = np.arange(len(factor.levels)), np.zeros(len(factor.levels), dtype=bool)
    for rule in played.grid.schedulers:
        colour = COLOURS.get(rule)
        if rule not in factor.schedulers:
            measured = [measure(run) for run in played.baseline.of(rule)]
            if measured:
                mean = float(np.mean([value for value, _ in measured]))
                ax.axhline(mean, color=colour, linestyle="--", linewidth=1.1, zorder=1)
            if any(bound for _, bound in measured):
                ax.plot(places[-1] + 0.4, mean, color=colour, **_dot(rule, True))
            continue
        shift = (factor.schedulers.index(rule) - (len(factor.schedulers) - 1) / 2) * APART
        means = np.full(len(places), np.nan)
        for place, level in zip(places, factor.levels, strict=True):
            measured = [measure(run) for run in played.study(factor, level).of(rule)]
            if measured:
                means[place], drawn[place] = np.mean([value for value, _ in measured]), True
            for value, bound in measured:
                ax.plot(place + shift, value, color=colour, **_dot(rule, bound))
        ax.plot(places + shift, means, color=colour, linewidth=1.6 if rule == "fedteddi" else 1.0, zorder=2)
    for place in places[~drawn]:
        ax.text(place, 0.5, "not run", transform=ax.get_xaxis_transform(), **ASIDE)
    base = next(place for place, level in zip(places, factor.levels, strict=True) if level.is_baseline)
    ax.axvspan(base - 0.4, base + 0.4, color="#000000", alpha=0.05, linewidth=0, zorder=0)
    ax.set_xticks(places, [level.label for level in factor.levels])
    ax.set_xlim(-0.5, len(places) - 0.5)
    ax.set_xlabel(f"{factor.symbol} (baseline shaded)")
    ax.grid(axis="y", alpha=0.25)
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)


def _dot(rule: str, bound: bool) -> dict[str, Any]:
    if bound:
        return {**NOT_REACHED, "zorder": 3}
    return {"marker": MARKS.get(rule, "o"), "markersize": 4, "alpha": 0.8, "linestyle": "", "zorder": 3}


def _key(rule: str, dashed: bool) -> Line2D:
    marker = None if dashed else MARKS.get(rule, "o")
    label = f"{rule} (not concerned)" if dashed else rule
    return Line2D(
        [],
        [],
        color=COLOURS.get(rule),
        marker=marker,
        markersize=4,
        linestyle="--" if dashed else "-",
        label=label,
    )


def overview(grid: Sensitivity, outcomes: Outcomes) -> Figure:
    """Draw how every claim fares at every level: rows are levels, columns claims."""
    titles, marks = [claim.title for claim in grid.claims], list(SHOWN)
    named = names(grid)
    found = np.array([[marks.index(own[title].mark) for title in titles] for own in outcomes.values()])
    figure = Figure(figsize=(2.2 + 0.62 * len(titles), 2.6 + 0.27 * len(named)), layout="constrained")
    FigureCanvasAgg(figure)
    ax = figure.subplots()
    colours = ListedColormap([SHOWN[mark][0] for mark in marks])
    ax.imshow(found, cmap=colours, vmin=-0.5, vmax=len(marks) - 0.5, aspect="auto")
    for row, own in enumerate(outcomes.values()):
        for column, title in enumerate(titles):
            outcome = own[title]
            sign = SHOWN[outcome.mark][1]
            judged = outcome.verdict != "cannot be judged"
            dark = outcome.mark in ("ahead", "behind")
            ax.text(
                column,
                row,
                f"({sign})" if judged else sign,
                ha="center",
                va="center",
                color="white" if dark else "black",
                fontsize=9,
                fontweight="bold" if judged else "normal",
            )
    ax.set_xticks(range(len(titles)), [_broken(title) for title in titles], rotation=90, fontsize=8)
    ax.set_yticks(range(len(named)), list(named.values()), fontsize=8)
    ax.xaxis.tick_top()
    ax.tick_params(length=0)
    for row in _first_rows(grid):
        ax.axhline(row - 0.5, color="black", linewidth=0.8)
    ax.set_xticks(np.arange(len(titles) + 1) - 0.5, minor=True)
    ax.set_yticks(np.arange(len(named) + 1) - 0.5, minor=True)
    ax.grid(which="minor", color="white", linewidth=1)
    ax.tick_params(which="minor", length=0)
    handles: list[Any] = [
        Patch(facecolor=colour, edgecolor="#888888", label=f"{sign} {in_words(mark)}".strip())
        for place, (mark, (colour, sign)) in enumerate(SHOWN.items())
        if place in found
    ]
    handles.append(Line2D([], [], linestyle="", label="( ) decided by the 95 % interval"))
    figure.legend(handles=handles, loc="outside lower center", ncols=2, frameon=False, fontsize=8)
    return figure


def _first_rows(grid: Sensitivity) -> list[int]:
    """Return the rows at which a factor begins."""
    factors = [factor.name for factor, _ in grid.varied()]
    return [row + 1 for row, name in enumerate(factors) if row == 0 or factors[row - 1] != name]


def _broken(title: str) -> str:
    """Break a title into two lines of about the same length."""
    words = title.split(" ")
    cuts = range(1, len(words))
    cut = min(
        cuts, key=lambda place: abs(len(" ".join(words[:place])) - len(" ".join(words[place:]))), default=1
    )
    return " ".join(words[:cut]) + "\n" + " ".join(words[cut:])
