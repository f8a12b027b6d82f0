"""fedteddi-plus beside the paper's rules on the seeds it was developed on, from committed summaries.

python benchmarks/plus_development.py [--write docs/fedteddi-plus.md]

Runs of fedteddi-plus come from docs/results/plus-ablation, those of the paper's rules from docs/results/cifar10-first.
This is how the rule was made, not evidence that it is better: for that see `fedteddi reproduce plus-cifar10`.
"""

import argparse
from pathlib import Path

from fedteddi.results.runs import Study
from fedteddi.results.tables import markdown
from fedteddi.studies.cells import Cell, cells, cells_in_short, cells_table
from fedteddi.studies.page import put_between_marks
from fedteddi.studies.study import load_study
from fedteddi.studies.summaries import ordered
from fedteddi.studies.summary_files import read_summaries

PLAN = load_study("plus-ablation")
RESULTS = Path(__file__).parents[1] / "docs" / "results"


def development_runs() -> Study:
    """Return the runs of all rules on the seeds and at the deadlines of the development."""
    ours = [run for run in read_summaries(RESULTS / "plus-ablation").study.runs if run.scheduler == PLAN.ours]
    theirs = [
        run
        for run in read_summaries(RESULTS / "cifar10-first").study.runs
        if run.settings.seed in PLAN.seeds and run.settings.radio.deadline_s in PLAN.deadlines_s
    ]
    return ordered(load_study("cifar10-first").rule_names, Study((*ours, *theirs)))


def _cells() -> list[Cell]:
    found = PLAN.outcomes(development_runs())
    return cells(found, found.rules, PLAN.deadlines_s)


def text() -> str:
    """Return the table and, in a sentence, what it shows."""
    found = _cells()
    seeds = " and ".join(map(str, PLAN.seeds))
    return f"On seeds {seeds}, fedteddi-plus {cells_in_short(found)}.\n\n{markdown(cells_table(found))}"


def main() -> None:
    """Print the table, or put it between the marks of a page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--write", type=Path, help="the page that has its place")
    options = parser.parse_args()
    if options.write is None:
        print(text())
        return
    page = options.write.read_text(encoding="utf-8")
    options.write.write_text(put_between_marks(page, "development", text()), encoding="utf-8")


if __name__ == "__main__":
    main()
