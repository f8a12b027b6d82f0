"""The figure of a study with factors: how every claim fares at every level."""

from collections.abc import Mapping
from typing import Any

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from fedteddi.studies.comparison import Mark, in_words
from fedteddi.studies.findings import Finding
from fedteddi.studies.study import BASELINE, StudyPlan

# Told apart by lightness too, so that a grey print still shows them; the sign says the same once more.
SHOWN: dict[Mark, tuple[str, str]] = {
    "ahead": ("#0072B2", "+"),
    "mixed": ("#E8E4D0", "±"),
    "behind": ("#D55E00", "−"),
    "not reached": ("#BBBBBB", "○"),
    "not run": ("#FFFFFF", "·"),
}


def overview(plan: StudyPlan, found: Mapping[str, Mapping[str, Finding]]) -> Figure:
    """Draw how every claim fares at every level: rows are levels, columns claims."""
    titles, marks, named = list(found[BASELINE]), list(SHOWN), plan.level_names
    figure = Figure(figsize=(2.2 + 0.62 * len(titles), 2.6 + 0.27 * len(named)), layout="constrained")
    FigureCanvasAgg(figure)
    ax = figure.subplots()
    colours = ListedColormap([colour for colour, _ in SHOWN.values()])
    indices = [[marks.index(own[title].mark) for title in titles] for own in found.values()]
    ax.imshow(indices, cmap=colours, vmin=-0.5, vmax=len(marks) - 0.5, aspect="auto")
    for row, own in enumerate(found.values()):
        for column, title in enumerate(titles):
            mark, decided = own[title].mark, own[title].verdict != "inconclusive"
            sign = f"({SHOWN[mark][1]})" if decided else SHOWN[mark][1]
            colour = "white" if mark in ("ahead", "behind") else "black"
            weight = "bold" if decided else "normal"
            ax.text(column, row, sign, ha="center", va="center", color=colour, fontsize=9, fontweight=weight)
    ax.set_xticks(range(len(titles)), [_broken(title) for title in titles], rotation=90, fontsize=8)
    ax.set_yticks(range(len(named)), list(named.values()), fontsize=8)
    ax.xaxis.tick_top()
    ax.tick_params(length=0)
    factors = [BASELINE, *(factor.name for factor, _ in plan.varied())]
    for row in range(1, len(factors)):
        ax.axhline(row - 0.5, color="black" if factors[row] != factors[row - 1] else "white", linewidth=0.8)
    there = {mark for row in indices for mark in row}
    handles: list[Any] = [
        Patch(facecolor=colour, edgecolor="#888888", label=f"{sign} {in_words(mark)}")
        for index, (mark, (colour, sign)) in enumerate(SHOWN.items())
        if index in there
    ]
    handles.append(Line2D([], [], linestyle="", label="( ) decided by the 95 % interval"))
    setting = f"{plan.settings.dataset}, {plan.settings.scenario.clients} clients, seeds {_seeds(plan.seeds)}"
    figure.suptitle(f"Every claim at every level: {setting}", fontweight="bold", fontsize="medium")
    figure.legend(handles=handles, loc="outside lower center", ncols=2, frameon=False, fontsize=8)
    return figure


def _seeds(seeds: list[int]) -> str:
    whole = seeds == list(range(seeds[0], seeds[-1] + 1)) and len(seeds) > 1
    return f"{seeds[0]} to {seeds[-1]}" if whole else ", ".join(map(str, seeds))


def _broken(title: str) -> str:
    """Break a title into two lines of about the same length."""
    words = title.split(" ")
    halves = [(" ".join(words[:cut]), " ".join(words[cut:])) for cut in range(1, len(words))]
    one, other = min(halves, key=lambda both: abs(len(both[0]) - len(both[1])))
    return f"{one}\n{other}"
