"""What CIFAR-100 gives if every client uploads in every round: the rules beside that bound, from summaries.

    python benchmarks/bound.py [--write docs/results/bound.md]

It trains nothing. The bound's runs, and their summaries, come from

    fedteddi reproduce cifar100-first --scheduler everyone --seeds 10-14 --out runs/bound
    fedteddi reproduce cifar100-first --out runs/bound --summarise docs/results/bound-everyone
"""

import argparse
from pathlib import Path

import numpy as np
import pandas as pd

from fedteddi.errors import InputError
from fedteddi.results import drawing, figures, measures, tables
from fedteddi.results.runs import ACCURACIES, Accuracy, RunRecord, Study
from fedteddi.studies.caveats import machines, starts
from fedteddi.studies.cells import MEASURES
from fedteddi.studies.comparison import points, verdict_of
from fedteddi.studies.outcomes import METRICS
from fedteddi.studies.page import DPI, PALETTE
from fedteddi.studies.study import load_study
from fedteddi.studies.summaries import Summaries, merged, ordered
from fedteddi.studies.summary_files import read_summaries

RESULTS = Path(__file__).parents[1] / "docs" / "results"
BOUND = "everyone"
PLAN = load_study("plus-cifar100")


def beside_the_bound(rules: Summaries, bound: Summaries) -> Summaries:
    """Return the bound's runs and, with the same seeds, those of the rules that have them all, from the same models."""
    seeds = {one.run.settings.seed for one in bound.runs}
    if not seeds or any(one.run.scheduler != BOUND for one in bound.runs):
        raise InputError(f"the bound's summaries must hold runs of {BOUND}, and no others")
    if len(rules.study.deadlines_s) > 1:
        raise InputError("rules are set beside the bound at one deadline")
    own = tuple(
        one
        for one in rules.runs
        if one.run.settings.seed in seeds
        and seeds <= {run.settings.seed for run in rules.study.of(one.run.scheduler)}
    )
    both = merged(Summaries(rules.name, own), bound)
    if apart := starts(PLAN, both):
        raise InputError(apart)
    return both


def differences(study: Study, measure: str, frame: int, accuracy: Accuracy) -> dict[str, np.ndarray]:
    """Return rule − bound for every rule, seed by seed."""
    bound = _values(study, BOUND, measure, frame, accuracy)
    return {
        rule: _values(study, rule, measure, frame, accuracy) - bound
        for rule in study.schedulers
        if rule != BOUND
    }


def _values(study: Study, rule: str, measure: str, frame: int, accuracy: Accuracy) -> np.ndarray:
    return np.array([METRICS[measure](run, frame, accuracy) for run in study.of(rule)])


def _best(run: RunRecord, frame: int, accuracy: Accuracy) -> float:
    """Return the best accuracy of a frame, the model that enters it included."""
    return max(record.accuracy(accuracy) for record in run.evaluated(frame))


def reached_by_the_bound(study: Study) -> list[str]:
    """Say what the bound reaches."""
    bound = study.of(BOUND)
    found = []
    for accuracy in ACCURACIES:
        words = []
        for frame in study.frames:
            best = [_best(run, frame, accuracy) for run in bound]
            lowest, highest = (tables.percent(round(value, 3)) for value in (min(best), max(best)))
            reached = ", ".join(
                f"{tables.percent(target)} with {sum(r.rounds_to(frame, target, accuracy) is not None for r in bound)}"
                for target in PLAN.targets[accuracy]
            )
            words.append(
                f"in frame {frame} a run's best evaluation is {lowest} to {highest}, and it gets to {reached} of"
                f" {len(bound)} seeds"
            )
        found.append(f"- **{accuracy}**, with all clients uploading in every round: {'; '.join(words)}.")
    return found


def standing_beside(study: Study) -> pd.DataFrame:
    """Return, for each frame, accuracy and measure, the first rule, and whom a 95 % interval tells from the bound."""
    rows = []
    for frame in study.frames:
        for accuracy in ACCURACIES:
            for measure in MEASURES:
                beside = differences(study, measure, frame, accuracy)
                first = max(beside, key=lambda rule: float(beside[rule].mean()))
                ahead = [rule for rule in beside if _is_above(beside[rule])]
                behind = [rule for rule in beside if _is_above(-beside[rule])]
                rows.append(
                    {
                        "frame": frame,
                        "accuracy": accuracy,
                        "measure": MEASURES[measure],
                        "bound": tables.spread(_values(study, BOUND, measure, frame, accuracy).tolist()),
                        "first rule": first,
                        "first rule − bound (95 %)": points(beside[first]),
                        "clearly ahead of the bound": ", ".join(ahead) or "none",
                        "clearly behind it": f"{len(behind)} of {len(beside)}",
                    }
                )
    return pd.DataFrame(rows)


def _is_above(differences: np.ndarray) -> bool:
    return verdict_of(measures.mean_interval(differences)) == "holds"


def table(study: Study, frame: int, accuracy: Accuracy) -> pd.DataFrame:
    """Return a row per rule, the bound last: best, mean and final accuracy, and the differences from the bound."""
    rows = []
    for rule in study.schedulers:
        runs = study.of(rule)
        row = {"rule": rule}
        row["clients a round"] = f"{tables.scheduled_a_round(runs, frame)[0]:.1f}"
        row["best"] = tables.spread([_best(run, frame, accuracy) for run in runs])
        for measure in MEASURES:
            beside = differences(study, measure, frame, accuracy)
            row[MEASURES[measure]] = tables.spread(_values(study, rule, measure, frame, accuracy).tolist())
            row[f"{MEASURES[measure]}, rule − bound (95 %)"] = "–" if rule == BOUND else points(beside[rule])
        rows.append(row)
    return pd.DataFrame(rows)


def text(both: Summaries, name: str) -> str:
    """Return the page."""
    study = ordered(PLAN.rule_names, both.study)
    seeds = ", ".join(str(run.settings.seed) for run in study.of(BOUND))
    lines = [
        "# CIFAR-100 if everyone uploads",
        "",
        WHAT.format(seeds=seeds),
        "",
        *reached_by_the_bound(study),
        "",
    ]
    lines += [tables.markdown(standing_beside(study)), ""]
    for frame in study.frames:
        for accuracy in ACCURACIES:
            lines += [f"## Frame {frame}, {accuracy}", "", tables.markdown(table(study, frame, accuracy)), ""]
    lines += [HOW, "", "## Figure", "", f"![accuracy over both frames]({name}/curves.png)", "", FIGURE, ""]
    lines += ["## How it was run", "", tables.markdown(machines(both.runs)), "", COMMANDS]
    return "\n".join(lines) + "\n"


WHAT = """\
How far would it get if all could upload? `everyone` has no limit of band or time: all clients upload in every round
(docs/metrics.md). Here it stands beside every rule, on the seeds that it was run with ({seeds}), from the same
pre-trained models. Written by `python benchmarks/bound.py --write docs/results/bound.md` from the summaries in
`docs/results/plus-cifar100` and `docs/results/bound-everyone`; no result on this page is typed by hand."""

HOW = """\
Mean ± deviation over the seeds; *mean* and *best* are over all evaluations of a frame, that of the model which enters
it among them; its *end* is one evaluation, which jumps from round to round. *Rule − bound* is the mean of the per-seed
differences with its 95 % interval (Student's t); *clearly* means that the interval lies on one side of zero. Intervals
are not corrected for the number of comparisons. The bound is no ceiling: a rule that favours new classes may be ahead
of it."""

FIGURE = (
    "Mean over these seeds, their deviation shaded; the bound is dashed. Rounds count on over the frames."
)

COMMANDS = """\
The bound's runs and their summaries, on a GPU:

    fedteddi reproduce cifar100-first --scheduler everyone --seeds 10-14 --out runs/bound
    fedteddi reproduce cifar100-first --out runs/bound --summarise docs/results/bound-everyone"""


def main() -> None:
    """Print the page, or write it with its figure."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--write", type=Path, help="write PAGE.md, and its figure into PAGE/ beside it")
    parser.add_argument(
        "--rules", type=Path, default=RESULTS / "plus-cifar100", help="summaries of the rules"
    )
    parser.add_argument("--bound", type=Path, default=RESULTS / "bound-everyone", help="those of the bound")
    options = parser.parse_args()
    both = beside_the_bound(read_summaries(options.rules), read_summaries(options.bound))
    name = options.write.stem if options.write else "bound"
    page = text(both, name)
    print(page)
    if options.write:
        folder = options.write.with_suffix("")
        folder.mkdir(parents=True, exist_ok=True)
        figure = figures.accuracy_over_frames(ordered(PLAN.rule_names, both.study))
        drawing.save(figure, folder / "curves", (".png",), DPI, PALETTE)
        options.write.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
