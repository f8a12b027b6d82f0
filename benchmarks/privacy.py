"""What `privacy.epsilon` costs in rounds: FedTeddi on the embedded Fashion-MNIST with ever more noise, beside Random.

    python benchmarks/privacy.py [--write docs/privacy.md] [--seeds 3] [--rounds 30]

Random looks at no histogram, so it bounds what noise can cost. Every seed has the same data, channels and batches in
all rows; so differences are taken seed by seed.
"""

import argparse
import multiprocessing
import statistics
from pathlib import Path

import torch

from fedteddi import Settings, compare
from fedteddi.results.runs import ACCURACIES, Accuracy, RunRecord

EPSILONS = (1.0, 0.1, 0.01)
BEGINS, ENDS = "<!-- benchmarks/privacy.py begins -->\n", "<!-- benchmarks/privacy.py ends -->\n"


def row(rule: str, epsilon: float, rounds: int, seeds: int, epochs: int) -> list[RunRecord]:
    """Run one row of the table, on one core."""
    torch.set_num_threads(1)
    base = Settings().changed(
        rounds=[0, rounds],
        training__pretrain_epochs=epochs,
        evaluation__every=1,
        evaluation__test_images=1000,
    )
    return compare(base, schedulers=[rule], seeds=range(seeds), privacy__epsilon=epsilon).of(rule)


def play(rounds: int, seeds: int, epochs: int) -> dict[str, list[RunRecord]]:
    """Run every row of the table, two at a time, by its name."""
    rows = {"FedTeddi, no noise": ("fedteddi", 0.0), "Random": ("random", 0.0)}
    rows |= {f"FedTeddi, ε = {epsilon:g}": ("fedteddi", epsilon) for epsilon in EPSILONS}
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        found = pool.starmap(row, [(*what, rounds, seeds, epochs) for what in rows.values()], chunksize=1)
    return dict(zip(rows, found, strict=True))


def curve(run: RunRecord, measure: Accuracy) -> list[float]:
    """Return an accuracy in rounds 0, 1, … of the last frame."""
    last = len(run.settings.rounds) - 1
    return [record.accuracy(measure) for record in run.records if record.frame == last]


def rounds_to(run: RunRecord, target: float) -> int | None:
    """Return the first round whose balanced accuracy reaches the target."""
    return next((k for k, reached in enumerate(curve(run, "balanced")) if reached >= target), None)


def late(run: RunRecord, measure: Accuracy) -> float:
    """Return the mean accuracy of the last ten rounds: one round alone says little."""
    return statistics.mean(curve(run, measure)[-10:])


def spread(values: list[float]) -> str:
    """Write a mean with its standard deviation over seeds."""
    return (
        f"{statistics.mean(values):.3f} ± {statistics.stdev(values):.3f}"
        if len(values) > 1
        else f"{values[0]:.3f}"
    )


def table(found: dict[str, list[RunRecord]], target: float) -> str:
    """Return the rows as Markdown."""
    plain = found["FedTeddi, no noise"]
    lines = [
        f"| | rounds to balanced {target:.0%}, by seed | balanced | minus no noise | global | minus no noise |",
        "|---|---|---|---|---|---|",
    ]
    for name, runs in found.items():
        rounds = ", ".join("–" if (k := rounds_to(run, target)) is None else str(k) for run in runs)
        cells = [name, rounds]
        for measure in ACCURACIES:
            own, theirs = ([late(run, measure) for run in side] for side in (runs, plain))
            less = spread([a - b for a, b in zip(own, theirs, strict=True)]) if runs is not plain else ""
            cells += [spread(own), less]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Print the table, or put it into a page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--write", type=Path, help="replace the table in this page")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--target", type=float, default=0.65, help="balanced accuracy to be reached")
    parser.add_argument("--epochs", type=int, default=10, help="of the pre-training that stands for frame 0")
    options = parser.parse_args()
    text = table(play(options.rounds, options.seeds, options.epochs), options.target)
    print(text)
    if options.write:
        page = options.write.read_text(encoding="utf-8")
        before, after = page.split(BEGINS)[0], page.split(ENDS)[1]
        options.write.write_text(f"{before}{BEGINS}{text}{ENDS}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
