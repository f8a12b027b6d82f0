"""The leaderboard's figure: every rule's mean balanced accuracy with its interval, a panel per scenario."""

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from fedteddi.results.drawing import COLOURS, finished, panels
from fedteddi.studies.benchmark.matrix import Numbers, in_order
from fedteddi.studies.benchmark.standings import Standings

OTHERS = "#555555"  # of rules without a colour of their own


def overview(found: Standings, made: Numbers) -> Figure:
    """Draw the rules from the first down, as the ranking has them."""
    figure, axes = panels(1, len(found.scenarios))
    rules = in_order(found, dict.fromkeys(rule for _, rule in made))
    figure.set_figheight(1.2 + 0.22 * len(rules))
    for column, one in enumerate(found.scenarios):
        ax = axes[0][column]
        for place, rule in enumerate(rules):
            own = made.get((one.scenario.name, rule), {}).get("mean balanced")
            if own is None:
                continue
            half = 0.0 if np.isnan(own.high) else own.high - own.mean
            colour = COLOURS.get(rule, OTHERS)
            ax.errorbar(own.mean, place, xerr=half, fmt="o", color=colour, markersize=4, linewidth=1.2)
        ax.set_yticks(range(len(rules)), rules if column == 0 else [""] * len(rules), fontsize=8)
        ax.set_ylim(len(rules) - 0.5, -0.5)  # the first on top
        ax.xaxis.set_major_locator(MaxNLocator(nbins=5))
        ax.set_title(one.scenario.title)
        ax.set_xlabel("balanced accuracy, mean over the rounds")
    return finished(figure, axes)
