"""Whether accuracy in bf16 stays within the seeds' spread of that in TF32: the CIFAR-10 study in both, from summaries.

    python benchmarks/precision.py [--write docs/results/precision.md]

It trains nothing. The runs in TF32, and their summaries, come from

    fedteddi reproduce cifar10-first --scheduler fedteddi --scheduler random --deadline 1.2 \
        --set training.precision=tf32 --device cuda --out runs/tf32
    fedteddi reproduce cifar10-first --out runs/tf32 --summarise docs/results/precision-tf32
"""

import argparse
import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from scipy import stats

from fedteddi.errors import InputError
from fedteddi.results import drawing, measures, styles, tables
from fedteddi.results.runs import ACCURACIES, Accuracy, RunRecord
from fedteddi.studies.caveats import machines
from fedteddi.studies.comparison import points
from fedteddi.studies.outcomes import mean_over_frame
from fedteddi.studies.page import DPI, PALETTE
from fedteddi.studies.study import load_study
from fedteddi.studies.summaries import Summaries, Summarised, ordered, shared_settings
from fedteddi.studies.summary_files import read_summaries

RESULTS = Path(__file__).parents[1] / "docs" / "results"
PLAN = load_study("cifar10-first")
FRAME = 1  # frame 0 is pre-training
COLOURS = {"TF32": "#0072B2", "bf16": "#D55E00"}


@dataclass(frozen=True, eq=False)
class Pair:
    """The runs of one rule at one deadline in both precisions, seed by seed."""

    rule: str
    deadline_s: float
    runs: dict[str, list[RunRecord]]  # by precision

    @property
    def title(self) -> str:
        """The rule and its deadline."""
        return f"{self.rule}, {self.deadline_s:g} s"

    @property
    def rounds(self) -> np.ndarray:
        """The evaluated rounds of the frame, 0 included."""
        return np.array([record.round for record in self.runs["TF32"][0].evaluated(FRAME)])

    def curves(self, precision: str, accuracy: Accuracy) -> np.ndarray:
        """Return the accuracy by seed and evaluated round, round 0 included, [seeds, evaluations]."""
        return np.array(
            [[r.accuracy(accuracy) for r in run.evaluated(FRAME)] for run in self.runs[precision]]
        )


@dataclass(frozen=True, eq=False)
class Gap:
    """How far two mean curves lie apart, beside the spread of their seeds; round 0 is left out."""

    pair: Pair
    accuracy: Accuracy
    apart: np.ndarray  # |difference of the mean curves|, [evaluations]
    deviation: dict[str, np.ndarray]  # over seeds, by precision, [evaluations]
    mean_differences: np.ndarray  # of the mean accuracy over the frame, bf16 − TF32, [seeds]
    first_differences: np.ndarray  # at round 0, bf16 − TF32, [seeds]

    @property
    def within(self) -> np.ndarray:
        """At which rounds the difference is at most the pooled deviation, [evaluations]."""
        pooled = np.sqrt((self.deviation["TF32"] ** 2 + self.deviation["bf16"] ** 2) / 2)
        return np.asarray(self.apart <= pooled)

    @property
    def name(self) -> str:
        """The rule, its deadline and the accuracy."""
        return f"{self.pair.title}, {self.accuracy}"


def pairs(tf32: Summaries, bf16: Summaries) -> list[Pair]:
    """Return what was run in TF32 beside the same in bf16, refusing studies that differ in more than precision."""
    found = []
    study = ordered(PLAN.rule_names, tf32.study)
    for deadline_s, rule, _ in tables.groups(study):
        one, other = (
            {run.settings.seed: run for run in summaries.study.of(rule, deadline_s)}
            for summaries in (tf32, bf16)
        )
        if set(one) - set(other) or len(one) < 2:
            raise InputError(f"{rule} at {deadline_s:g} s: give two seeds or more, each in both precisions")
        seeds = sorted(one)
        runs = {"TF32": [one[seed] for seed in seeds], "bf16": [other[seed] for seed in seeds]}
        for precision, own in runs.items():
            settings = own[0].settings
            if settings.training.precision != precision.lower():
                raise InputError(f"{rule} ran in {settings.training.precision}, not in {precision}")
        plain = [
            shared_settings(own[0].settings.changed(training__precision="float32")) for own in runs.values()
        ]
        if plain[0] != plain[1]:
            raise InputError(f"{rule}: the two studies differ in more than their precision")
        found.append(Pair(rule, deadline_s, runs))
    return found


def gap(pair: Pair, accuracy: Accuracy) -> Gap:
    """Measure how far a rule's two mean curves lie apart."""
    own = {precision: pair.curves(precision, accuracy) for precision in pair.runs}  # [seeds, evaluations]
    mean = {
        precision: np.array([mean_over_frame(run, FRAME, accuracy) for run in runs])
        for precision, runs in pair.runs.items()
    }
    return Gap(
        pair,
        accuracy,
        np.abs(own["bf16"].mean(axis=0) - own["TF32"].mean(axis=0))[1:],
        {precision: curves.std(axis=0, ddof=1)[1:] for precision, curves in own.items()},
        mean["bf16"] - mean["TF32"],
        own["bf16"][:, 0] - own["TF32"][:, 0],
    )


def conclusion(gaps: list[Gap]) -> str:
    """Answer the question, whichever way it came out: "within" means at every evaluated round of every curve."""
    within, judged = sum(int(g.within.sum()) for g in gaps), sum(len(g.within) for g in gaps)
    left = [f"{g.name} ({int((~g.within).sum())} of {len(g.within)})" for g in gaps if not g.within.all()]
    if left:
        answer = (
            f"No: the accuracy curves in bf16 are not within the seeds' spread of those in TF32 at every evaluated"
            f" round, but at {within} of {judged} ({within / judged:.1%}); outside lie rounds of {'; '.join(left)}."
        )
    else:
        answer = (
            "Yes: the accuracy curves in bf16 stay within the seeds' spread of those in TF32, at all"
            f" {judged} evaluated rounds of the {len(gaps)} curves."
        )
    largest = max(float(g.apart.max()) for g in gaps)
    means = sorted(float(g.mean_differences.mean()) for g in gaps)
    answer += (
        f" The mean curves are at most {largest:.3f} apart. Seed by seed, the mean accuracy over the frame in bf16"
        f" minus that in TF32 is {means[0]:+.4f} to {means[-1]:+.4f}, and"
    )
    told = [g.name for g in gaps if _tells_apart(g.mean_differences)]
    if told:
        return f"{answer} the 95 % interval leaves out zero for {'; '.join(told)}."
    return f"{answer} every 95 % interval holds zero."


def _tells_apart(differences: np.ndarray) -> bool:
    _, low, high = measures.mean_interval(differences)
    return low > 0 or high < 0


def gaps_table(gaps: list[Gap]) -> pd.DataFrame:
    """Return a row per rule and accuracy."""
    return pd.DataFrame(
        [
            {
                "rule": g.pair.title,
                "accuracy": g.accuracy,
                "apart: mean": f"{g.apart.mean():.4f}",
                "largest": f"{g.apart.max():.4f}",
                "deviation, TF32": f"{g.deviation['TF32'].mean():.4f}",
                "deviation, bf16": f"{g.deviation['bf16'].mean():.4f}",
                "rounds within": f"{int(g.within.sum())} of {len(g.within)} ({g.within.mean():.0%})",
                "mean over the frame, bf16 − TF32": points(g.mean_differences, 4),
                "at round 0, bf16 − TF32": points(g.first_differences, 4),
            }
            for g in gaps
        ]
    )


def reached_table(found: list[Pair]) -> pd.DataFrame:
    """Return the final accuracies and the rounds to the study's targets, a row per rule and precision."""
    rows = []
    for pair in found:
        for precision, runs in pair.runs.items():
            row = {"rule": pair.title, "precision": precision}
            for accuracy in ACCURACIES:
                finals = [float(last) for last in pair.curves(precision, accuracy)[:, -1]]
                row[f"final {accuracy}"] = tables.spread(finals)
            for accuracy in ACCURACIES:
                for target in PLAN.targets[accuracy]:
                    reached = measures.rounds_to(runs, FRAME, target, accuracy)
                    row[f"{accuracy} {tables.percent(target)}"] = str(reached)
            rows.append(row)
    return pd.DataFrame(rows)


def draw(found: list[Pair]) -> Figure:
    """Draw the mean curves of both precisions, the seeds' deviation shaded: a row per rule, a panel per accuracy.

    Strokes at the bottom mark the rounds at which the curves are further apart than the seeds' spread.
    """
    width, height = styles.SCREEN.panel_in
    figure = Figure(figsize=(width * len(ACCURACIES), height * len(found) + 0.4), layout="constrained")
    FigureCanvasAgg(figure)
    grid = figure.subplots(len(found), len(ACCURACIES), squeeze=False, sharex=True)
    for row, pair in zip(grid, found, strict=True):
        for ax, accuracy in zip(row, ACCURACIES, strict=True):
            for precision, colour in COLOURS.items():
                curves = pair.curves(precision, accuracy)
                mean, deviation = curves.mean(axis=0), curves.std(axis=0, ddof=1)
                style = "-" if precision == "TF32" else "--"
                ax.plot(pair.rounds, mean, style, color=colour, linewidth=1.4, label=precision)
                ax.fill_between(
                    pair.rounds, mean - deviation, mean + deviation, color=colour, alpha=0.18, linewidth=0
                )
            outside = pair.rounds[1:][~gap(pair, accuracy).within]
            low = np.full(len(outside), 0.02)  # of the panel's height
            ax.plot(outside, low, "k|", markersize=7, transform=ax.get_xaxis_transform(), label="not within")
            ax.set_title(pair.title)
            ax.set_ylabel(f"{accuracy} test accuracy")
            ax.tick_params(labelbottom=True)
            ax.set_xlabel(f"round of frame {FRAME}")
            ax.grid(alpha=0.25)
            for side in ("top", "right"):
                ax.spines[side].set_visible(False)
    figure.legend(*grid[0][0].get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False)
    return figure


def chance_outside(seeds: int) -> float:
    """Return how often a round lies outside if precision does nothing and no run shares a seed with another.

    The mean curves then differ by s·√(2/n)·t with t of Student's distribution with 2n − 2 degrees of freedom.
    """
    return float(2 * stats.t.sf(math.sqrt(seeds / 2), 2 * seeds - 2))


def text(found: list[Pair], runs: list[Summarised], name: str) -> str:
    """Return the page."""
    gaps = [gap(pair, accuracy) for pair in found for accuracy in ACCURACIES]
    seeds = len(found[0].runs["TF32"])
    how = HOW.format(chance=f"{chance_outside(seeds):.0%}", seeds=seeds)
    lines = ["# bf16 beside TF32", "", WHAT, "", f"**{conclusion(gaps)}**", ""]
    lines += ["## How far apart", "", tables.markdown(gaps_table(gaps)), "", how, ""]
    lines += ["## What was reached", "", tables.markdown(reached_table(found)), "", REACHED, ""]
    lines += ["## Figure", "", f"![curves of both precisions]({name}/curves.png)", "", FIGURE, ""]
    lines += ["## What else differs", "", ELSE, "", "## How it was run", "", tables.markdown(machines(runs))]
    lines += ["", COMMANDS]
    return "\n".join(lines) + "\n"


WHAT = """\
Do the accuracy curves in bf16 stay within the seeds' spread of those in TF32? Written by
`python benchmarks/precision.py --write docs/results/precision.md` from the summaries in `docs/results/cifar10-first`
(bf16) and `docs/results/precision-tf32`; no number on this page is typed by hand."""

HOW = """\
Over the evaluated rounds of frame 1 after round 0. *Apart* is the difference, without its sign, of the mean curves over
{seeds} seeds; *deviation* is the seeds' standard deviation, averaged over the rounds. A round is *within* if its
difference is at most the seeds' deviation at that round, pooled from both precisions (root of the mean variance). To
read it: if precision did nothing and no two runs shared a seed, about {chance} of the rounds would lie outside; but
runs do share seeds, and the rounds of a curve are not independent. The sharper test is the difference seed by seed,
with its 95 % interval (Student's t, not corrected for the number of rows): of the mean accuracy over the frame's
evaluations, round 0 among them, and at round 0, where only the pre-training differs."""

REACHED = """\
Mean ± deviation over seeds, at the frame's end; then rounds to an accuracy. `>` marks targets that not every seed
reached; 0 means that the model which entered the frame was there already."""

FIGURE = (
    "Mean over seeds, the seeds' deviation shaded; strokes at the bottom mark rounds that are not within."
)

ELSE = """\
- Pre-training was done anew in each precision: on a GPU the name under which a pre-trained model is kept holds the
  device and the precision (`pretrained.py`). So the curves start from different models, and what is compared is the
  whole study in one precision with the whole study in the other.
- Runs of one seed share data, channels, delays, batches, mirrors and dropout in both precisions.
- Runs on a GPU do not repeat to the bit, and training magnifies rounding. No run was repeated in its own precision, so
  this page cannot say how much of a difference is due to precision and how much any second run would show.
- Revisions are listed below. Minutes are no measure of speed: runs that are played together share them."""

COMMANDS = """\
Runs and summaries in TF32, on a GPU:

    fedteddi reproduce cifar10-first --scheduler fedteddi --scheduler random --deadline 1.2 \\
        --set training.precision=tf32 --device cuda --out runs/tf32
    fedteddi reproduce cifar10-first --out runs/tf32 --summarise docs/results/precision-tf32"""


def main() -> None:
    """Print the page, or write it with its figure."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--write", type=Path, help="write PAGE.md, and its figure into PAGE/ beside it")
    parser.add_argument("--bf16", type=Path, default=RESULTS / "cifar10-first", help="summaries of the study")
    parser.add_argument("--tf32", type=Path, default=RESULTS / "precision-tf32", help="those in TF32")
    options = parser.parse_args()
    tf32, bf16 = read_summaries(options.tf32), read_summaries(options.bf16)
    found = pairs(tf32, bf16)
    keys = {one.key for one in tf32.runs}
    compared = [*tf32.runs, *(one for one in bf16.runs if one.key in keys)]
    name = options.write.stem if options.write else "precision"
    page = text(found, compared, name)
    print(page)
    if options.write:
        folder = options.write.with_suffix("")
        folder.mkdir(parents=True, exist_ok=True)
        drawing.save(draw(found), folder / "curves", (".png",), DPI, PALETTE)
        options.write.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
