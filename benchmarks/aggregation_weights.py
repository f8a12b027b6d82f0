"""What solved weights (`server.aggregation = target-weights`) change: accuracy with and without, by scheduler and ν.

    python benchmarks/aggregation_weights.py [--write docs/results/target-weights.md] [--rounds 30] [--seeds 2]

The experiments `fashion` and `evolving` on the embedded Fashion-MNIST, seeds 0, 1, …: those on which the rule may be
developed. Every seed has the same data, channels and batches in all rows; so differences are taken seed by seed.
"""

import argparse
import multiprocessing
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch

from fedteddi import compare
from fedteddi.results.runs import ACCURACIES, Accuracy, RunRecord
from fedteddi.settings import load_experiment
from growth import markdown

BEGINS, ENDS = (f"<!-- benchmarks/aggregation_weights.py {part} -->\n" for part in ("begins", "ends"))
RULES = ("random", "fedteddi", "fed-cbs", "fedteddi-plus")
SOME = ("random", "fedteddi-plus")
EXPERIMENTS = {"fashion": RULES, "evolving": SOME}
DEFAULT_NU, OTHER_NU = 0.3, {"fashion": (0.1, 1.0), "evolving": ()}  # those of SOME

Row = tuple[str, str, float | None]  # experiment, scheduler, ν; None: α_n ∝ D_n
Found = Mapping[Row, Sequence[RunRecord]]


def row(what: Row, rounds: int, seeds: int, epochs: int, out: Path | None) -> list[RunRecord]:
    """Play one row of the tables on one core; `out` keeps its runs, and goes on with what is there."""
    torch.set_num_threads(1)
    experiment, rule, size_weight = what
    base = load_experiment(experiment)
    frames = sum(count > 0 for count in base.rounds)
    chosen = base.changed(
        rounds=[count and rounds // frames for count in base.rounds],
        training__pretrain_epochs=min(epochs, base.training.pretrain_epochs),
        evaluation__every=2,
        evaluation__test_images=1000,
    )
    if size_weight is not None:
        chosen = chosen.changed(
            server__aggregation="target-weights", server__aggregation_options={"size_weight": size_weight}
        )
    folder = None if out is None else out / f"{experiment}-{rule}-{size_weight}"
    study = compare(chosen, schedulers=[rule], seeds=range(seeds), out=folder, resume=folder is not None)
    return study.of(rule)


def play(rounds: int, seeds: int, epochs: int, out: Path | None, rules: Sequence[str]) -> Found:
    """Play every row, two at a time."""
    rows: list[Row] = []
    for experiment, own in EXPERIMENTS.items():
        for rule in (rule for rule in own if rule in rules):
            tried = (DEFAULT_NU, *(OTHER_NU[experiment] if rule in SOME else ()))
            rows += [(experiment, rule, nu) for nu in (None, *sorted(tried))]
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        found = pool.starmap(row, [(what, rounds, seeds, epochs, out) for what in rows], chunksize=1)
    return dict(zip(rows, found, strict=True))


def over_the_rounds(run: RunRecord, kind: Accuracy) -> float:
    """Return the mean over the evaluations of all frames that have rounds, those of their first models among them."""
    lengths = run.settings.rounds
    return statistics.mean(r.accuracy(kind) for r in run.records if r.is_evaluated and lengths[r.frame])


def gains(found: Found, what: Row, kind: Accuracy) -> list[float]:
    """Return by how much a row is above that of its scheduler without solved weights, seed by seed."""
    plain = found[what[0], what[1], None]
    return [
        over_the_rounds(one, kind) - over_the_rounds(other, kind)
        for one, other in zip(found[what], plain, strict=True)
    ]


def verdict(found: Found, kind: Accuracy) -> str:
    """Say where the default ν is above and below no solved weights on every seed."""
    said: dict[str, list[str]] = {"higher": [], "lower": [], "mixed": []}
    for experiment, rule, nu in found:
        if nu == DEFAULT_NU:
            own = gains(found, (experiment, rule, nu), kind)
            how = "higher" if min(own) > 0 else "lower" if max(own) < 0 else "mixed"
            said[how].append(f"{rule} ({experiment})")
    words = [f"{how}: {', '.join(rows) or 'none'}" for how, rows in said.items()]
    return f"- *{kind}*, ν = {DEFAULT_NU}, on every seed {'; '.join(words)}.\n"


def table(found: Found, experiment: str) -> str:
    """Return the rows of one experiment: means over seeds, and the differences by seed."""
    lines = []
    for what, runs in found.items():
        if what[0] == experiment:
            played = [record for run in runs for record in run.records if record.round]
            cells = [what[1], "α ∝ D" if what[2] is None else f"ν = {what[2]:g}"]
            cells.append(f"{statistics.mean(len(record.clients) for record in played):.1f}")
            for kind in ACCURACIES:
                own = [] if what[2] is None else gains(found, what, kind)
                cells.append(f"{statistics.mean(over_the_rounds(run, kind) for run in runs):.3f}")
                cells.append(", ".join(f"{gain:+.3f}" for gain in own))
            lines.append(cells)
    columns = [column for kind in ACCURACIES for column in (kind, "gain, by seed")]
    return markdown(["scheduler", "weights", "clients a round", *columns], lines)


def report(found: Found) -> str:
    """Return the marked part of the page."""
    verdicts = "".join(verdict(found, kind) for kind in ACCURACIES)
    tables = [f"`{experiment}`:\n\n{table(found, experiment)}" for experiment in EXPERIMENTS]
    return "\n".join([verdicts, *tables])


def main() -> None:
    """Print the tables, or put them into a page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--write", type=Path, help="replace the marked part of this page")
    parser.add_argument("--rounds", type=int, default=30, help="shared equally among an experiment's frames")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--out", type=Path, help="keep the runs here, and go on with those that are there")
    parser.add_argument("--epochs", type=int, default=10, help="of fashion's pre-training, at most")
    parser.add_argument("--scheduler", nargs="+", default=RULES)
    options = parser.parse_args()
    text = report(play(options.rounds, options.seeds, options.epochs, options.out, options.scheduler))
    print(text)
    if options.write:
        page = options.write.read_text(encoding="utf-8")
        before, after = page.split(BEGINS)[0], page.split(ENDS)[1]
        options.write.write_text(f"{before}{BEGINS}{text}{ENDS}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
