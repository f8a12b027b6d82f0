"""Draw the picture at the top of the README: one decision, and what such decisions lead to.

    python scripts/hero.py --write docs/hero.svg

Left, FedTeddi schedules a round of `fedteddi.example_round`. Right, the mean curves of the study cifar10 (1.2 s, seeds
20 to 22), from the summaries in docs/results/cifar10; a dot is the mean of the first rounds at 75 %. No background, and
mid-tones only: it is read on white and on black.
"""

import argparse
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

import fedteddi
from fedteddi.results.drawing import DATELESS, running_mean
from fedteddi.results.runs import Study
from fedteddi.schedulers.rules.fedteddi import FedTeddi
from fedteddi.studies.play import read_kept, study_at
from fedteddi.studies.study import load_study
from fedteddi.wireless.cell import PAPERS_RADIUS_M, positions_of

ROOT = Path(__file__).parents[1]
GREY, ORANGE, BLUE, RED, GREEN = "#7F8791", "#E07B1A", "#3B82F6", "#E5484D", "#1FA971"
LINES = {  # the study's name of a rule, the one that is shown, colour
    "fedteddi-plus": ("fedteddi-plus", RED),
    "fed-cbs": ("Fed-CBS", GREEN),
    "fedteddi-sigma-literal": ("FedTeddi", BLUE),
    "random": ("Random", GREY),
}
TARGET, ROUNDS = 0.75, 1400


def cell(ax: Axes) -> None:
    """Draw who is where, who met a new class, and who is scheduled with how much bandwidth."""
    view = fedteddi.example_round(seed=0)
    schedule = FedTeddi().select(view, np.random.default_rng(0))
    where = positions_of(0, view.num_clients)
    new = np.abs(view.data_mix - view.previous_data_mix).sum(axis=1) > 0  # [N]
    ax.add_patch(mpl.patches.Circle((0, 0), PAPERS_RADIUS_M, fill=False, color=GREY, alpha=0.6, linewidth=1))
    ax.plot(0, 0, "^", color=GREY, markersize=7)
    for client, hz in zip(schedule.clients, schedule.bandwidth_hz, strict=True):
        ax.plot(*zip((0, 0), where[client], strict=True), color=BLUE, linewidth=0.8, alpha=0.7)
        area = 90 + 900 * hz / view.total_hz
        ax.scatter(*where[client], s=area, facecolors="none", edgecolors=BLUE, linewidths=1.6)
    for chosen, colour in ((~new, GREY), (new, ORANGE)):
        ax.scatter(*where[chosen].T, s=34, color=colour, zorder=3)
    ax.set_title(f"A round: {len(schedule.clients)} of {view.num_clients} clients upload", color=GREY)
    ax.set_aspect("equal")
    ax.axis("off")
    marks = [(ORANGE, "met a new class"), (GREY, "did not"), (BLUE, "uploads; wider: more MHz")]
    for row, (colour, text) in enumerate(marks):
        at = (0.0, -0.03 - 0.065 * row)
        ax.annotate("●" if colour != BLUE else "○", at, xycoords="axes fraction", color=colour, va="center")
        ax.annotate(text, (0.06, at[1]), xycoords="axes fraction", color=GREY, va="center")


def curves(ax: Axes, study: Study) -> None:
    """Draw balanced accuracy over the rounds, and when each rule gets to the target."""
    for row, (rule, (name, colour)) in enumerate(LINES.items()):
        runs = study.of(rule)
        rounds = np.array([one.round for one in runs[0].evaluated(1)])
        mean = np.mean([[one.balanced for one in run.evaluated(1)] for run in runs], axis=0)  # [evaluations]
        ax.plot(rounds, 100 * running_mean(mean), color=colour, linewidth=2)
        reached = [run.rounds_to(1, TARGET, "balanced") for run in runs]
        there = np.mean([one for one in reached if one is not None])
        assert None not in reached
        assert there < ROUNDS
        ax.plot(there, 100 * TARGET, "o", color=colour, markersize=6)
        at = {"xycoords": "axes fraction", "color": colour, "fontweight": "bold", "va": "center"}
        ax.annotate(name, (0.57, 0.42 - 0.085 * row), **at)
        ax.annotate(f"{there:.0f} rounds", (1.0, 0.42 - 0.085 * row), ha="right", **at)
    ax.axhline(100 * TARGET, color=GREY, linewidth=1, linestyle=":")
    ax.set_xlim(0, ROUNDS)
    ax.set_ylim(55, 79)
    ax.set_xlabel("rounds since four new classes appeared", color=GREY)
    ax.set_title("CIFAR-10: balanced accuracy, and rounds until it is 75 %", color=GREY)
    ax.yaxis.set_major_formatter("{x:.0f} %")
    ax.tick_params(colors=GREY)
    for name, spine in ax.spines.items():
        spine.set_visible(name in ("left", "bottom"))
        spine.set_color(GREY)


def main() -> None:
    """Write the picture."""
    parser = argparse.ArgumentParser(description="Draw the README's picture.")
    parser.add_argument("--write", type=Path, required=True, metavar="FILE", help="an .svg file")
    target = parser.parse_args().write
    plan = load_study("cifar10")
    study = study_at(plan, read_kept(plan, ROOT / "docs" / "results" / "cifar10"))
    settings = {"svg.hashsalt": "fedteddi", "font.size": 11, "axes.titlesize": 12, "path.simplify": True}
    with mpl.rc_context(settings):
        figure = Figure(figsize=(10.5, 4.1), layout="constrained")
        FigureCanvasAgg(figure)
        left, right = figure.subplots(1, 2, width_ratios=(1, 1.5))
        cell(left)
        curves(right, study)
        figure.savefig(target, transparent=True, metadata=DATELESS[".svg"])


if __name__ == "__main__":
    main()
