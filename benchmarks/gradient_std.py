"""What it costs to measure σ̂ by some of the clients (`estimates.gradient_std_clients`): its error, sets, accuracy.

    python benchmarks/gradient_std.py [--write docs/scale.md] [--seeds 3] [--rounds 20]

The default experiment on the embedded Fashion-MNIST: all 30 clients beside fewer, with the same data, channels and
batches; and the error of σ̂ itself, at one model with 300 clients.
"""

import argparse
import math
import statistics
from pathlib import Path
from typing import Any

import torch

from fedteddi import Settings, compare
from fedteddi.protocol.checks import received_reports
from fedteddi.protocol.gradient_std import measured_gradient_std, who_measures
from fedteddi.protocol.messages import Request
from fedteddi.results import tables
from fedteddi.results.runs import ACCURACIES, Accuracy, RunRecord
from fedteddi.simulation.laboratory import Laboratory
from growth import markdown

BEGINS, ENDS = "<!-- benchmarks/gradient_std.py begins -->\n", "<!-- benchmarks/gradient_std.py ends -->\n"
ERRORS_OF, DRAWS = 300, 200  # clients and draws from which σ̂'s error is found
FEWER = (3, 10, 30)  # clients that measure σ̂
EVERYONE = "FedTeddi, σ̂ of all"


def sigma_error() -> dict[int, tuple[float, float]]:
    """Return σ̂'s mean relative error and its deviation over draws of some clients, against σ̂ of all.

    One model, the default experiment's (small CNN, Fashion-MNIST) at the start of frame 1, with more clients.
    """
    chosen = Settings().changed(
        scenario__layout="dirichlet",
        scenario__clients=ERRORS_OF,
        scenario__arrivals=[],
        rounds=[1],
        training__pretrain_epochs=1,
    )
    laboratory = Laboratory(chosen)
    run = laboratory.new_run(chosen)
    laboratory.advance([run])
    request = Request(
        kind="report",
        frame=0,
        round=1,
        weights=run.state.weights,
        clients=tuple(range(ERRORS_OF)),
        needs=frozenset({"gradient_std"}),
    )
    (answers,) = laboratory.runtime.exchange([(run.clients, request)])
    received, _ = received_reports(answers, request, laboratory.data.num_classes, chosen)
    if received is None:
        raise RuntimeError("nobody reported")
    whole = measured_gradient_std(received, None, chosen) or math.nan
    found = {}
    for count in FEWER:
        some = chosen.changed(estimates__gradient_std_clients=count)
        asked = [who_measures(some, 0, 0, number, ERRORS_OF) for number in range(1, DRAWS + 1)]
        errors = [(measured_gradient_std(received, one, some) or math.nan) / whole - 1 for one in asked]
        found[count] = (statistics.mean(errors), statistics.stdev(errors))
    return found


def effect(seeds: int, rounds: int) -> dict[str, list[RunRecord]]:
    """Run FedTeddi in the default experiment with σ̂ of all 30 clients and of fewer, and Random."""
    base = Settings().changed(rounds=[0, rounds], evaluation__every=1, evaluation__test_images=1000)
    rows: dict[str, tuple[str, str | int]] = {EVERYONE: ("fedteddi", "all"), "Random": ("random", "all")}
    rows |= {f"FedTeddi, σ̂ of {count}": ("fedteddi", count) for count in FEWER[:2]}
    return {
        name: compare(
            base, schedulers=[rule], seeds=range(seeds), estimates__gradient_std_clients=measuring
        ).of(rule)
        for name, (rule, measuring) in rows.items()
    }


def errors_table(errors: dict[int, tuple[float, float]]) -> str:
    """Return σ̂'s error by the number of clients that measure it."""
    rows = [[str(m), f"{mean:+.1%}", f"{deviation:.1%}"] for m, (mean, deviation) in errors.items()]
    return markdown([f"measured by, of {ERRORS_OF}", "mean error of σ̂", "its standard deviation"], rows)


def effects_table(found: dict[str, list[RunRecord]]) -> str:
    """Return sets and accuracies beside those with σ̂ of all."""
    whole, rows = found[EVERYONE], []
    for name, runs in found.items():
        pairs = [(a, b) for one, other in zip(runs, whole, strict=True) for a, b in _rounds(one, other)]
        same = statistics.mean(set(a.clients) == set(b.clients) for a, b in pairs)
        count = statistics.mean(len(a.clients) for a, _ in pairs)
        cells = [tables.spread([_late(run, kind) for run in runs]) for kind in ACCURACIES]
        rows.append([name, f"{same:.0%}", f"{count:.1f}", *cells])
    return markdown(["", "rounds with the same S", "scheduled", *ACCURACIES], rows)


def _late(run: RunRecord, kind: Accuracy) -> float:
    """Return the mean accuracy of the last ten rounds: one round alone says little."""
    return statistics.mean(record.accuracy(kind) for record in run.records[-10:])


def _rounds(one: RunRecord, other: RunRecord) -> list[tuple[Any, Any]]:
    return [(a, b) for a, b in zip(one.records, other.records, strict=True) if a.round]


def main() -> None:
    """Print the tables, or put them into a page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--write", type=Path, help="replace the marked part of this page")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=20)
    options = parser.parse_args()
    torch.set_num_threads(1)
    found = f"{errors_table(sigma_error())}\n{effects_table(effect(options.seeds, options.rounds))}"
    print(found)
    if options.write:
        page = options.write.read_text(encoding="utf-8")
        before, after = page.split(BEGINS)[0], page.split(ENDS)[1]
        options.write.write_text(f"{before}{BEGINS}{found}{ENDS}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
