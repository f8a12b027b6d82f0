"""How time and memory of a round grow with clients, classes and runs, and those of one decision with clients.

    OMP_NUM_THREADS=1 python benchmarks/growth.py [--write docs/scale.md] [--quick]

The model is a linear one on 16 pixels and batches are small, so that what is measured is the simulator and not its
training: τ = 2 steps of b = 4, 12 samples a client, tens of clients scheduled. Every row is a process of its own, so
that the peak memory is that row's. Times are processor time on one thread, the median of some rounds after the first.
`--write` puts the tables between the page's marks, and the picture into the folder beside it.
"""

import argparse
import json
import math
import multiprocessing
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

import scheduling
from fedteddi import Settings
from fedteddi.learning.datasets.dataset import Dataset
from fedteddi.settings import parse_settings
from fedteddi.simulation.laboratory import Laboratory

BEGINS, ENDS = "<!-- benchmarks/growth.py begins -->\n", "<!-- benchmarks/growth.py ends -->\n"
MEASURING = 30  # clients that measure σ̂ where not all do
SOME, EVERYONE = f"FedTeddi, σ̂ of {MEASURING}", "FedTeddi, σ̂ of all"
KINDS = {
    "Random": ("random", "all"),
    SOME: ("fedteddi", MEASURING),
    EVERYONE: ("fedteddi", "all"),
}
COLOURS = dict(zip(KINDS, ("#999999", "#0072B2", "#000000"), strict=True))
CLIENTS, CLASSES, RUNS = (30, 300, 3_000, 30_000, 100_000), (10, 30, 100), (1, 4, 12, 40, 120)
CLASSES_OF, CLIENTS_OF_RUNS = 3_000, 30  # how many clients, where something else grows
LINEAR = 1.1  # an exponent up to which growth counts as linear: times scatter by some per cent


Decision = tuple[int, int, dict[str, float]]  # clients, classes and what scheduling.py found


@dataclass(frozen=True)
class Found:
    """What a row came to: seconds of a round and of setting up, peak memory and how many were scheduled."""

    seconds: float
    setup_s: float
    peak_mib: float
    scheduled: float


def linear(image_shape: tuple[int, int, int], num_classes: int) -> nn.Module:
    """One layer."""
    return nn.Sequential(nn.Flatten(), nn.Linear(math.prod(image_shape), num_classes))


def images(classes: int, count: int = 10_000) -> Dataset:
    """Random images of 4×4 pixels: what they show does not matter for time."""
    rng = np.random.default_rng(0)
    pixels, labels = rng.integers(0, 256, size=(count, 1, 4, 4), dtype=np.uint8), np.arange(count) % classes
    return Dataset.from_arrays("noise", pixels, labels, pixels[:200], labels[:200])


def settings(clients: int, classes: int, kind: str, **changes: Any) -> Settings:
    """Return a frame in which two classes are new to 40 % of the clients, and a band for tens of them."""
    rule, measuring = KINDS[kind]
    arrival = {"frame": 1, "clients": clients * 2 // 5, "classes": [classes - 2, classes - 1], "samples": 6}
    return parse_settings(
        {
            "scheduler": rule,
            "rounds": [0, 1000],
            "scenario": {
                "layout": "dirichlet",
                "clients": clients,
                "samples_per_client": 12,
                "class_weights": [1] * (classes - 2),
                "arrivals": [arrival],
            },
            "training": {"local_steps": 2, "batch_size": 4, "pretrain_epochs": 0},
            "radio": {"total_hz": 1e3 * classes},  # the model's bits grow with the classes
            "estimates": {"gradient_std_clients": measuring},
            "evaluation": {"every": 1000, "test_images": 100},
        }
    ).changed(training__model=linear, **changes)


def measure(chosen: Sequence[Settings], classes: int, rounds: int) -> Found:
    """Play runs in lock-step: time setting up, then each of some rounds after the first."""
    torch.set_num_threads(1)
    data, began = images(classes), time.process_time()
    laboratory = Laboratory(chosen[0], data)
    runs = [laboratory.new_run(one) for one in chosen]
    setup_s = time.process_time() - began
    seconds = []
    while len(runs[0].records) < rounds + 3:  # both frames' first models, and a round that is not timed
        began = time.process_time()
        laboratory.advance(runs)
        seconds.append(time.process_time() - began)
    return Found(
        seconds=statistics.median(seconds[-rounds:]),
        setup_s=setup_s,
        peak_mib=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        scheduled=statistics.mean(len(run.records[-1].clients) for run in runs),
    )


def alone(work: Callable[..., Any], *given: Any) -> Any:
    """Do some work in a process of its own."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(work, given)


def in_lock_step(count: int) -> list[Settings]:
    """Return runs as a study has them: two rules and two deadlines for each seed."""
    each = [
        (seed, deadline_s, kind)
        for seed in range(count)
        for deadline_s in (0.9, 1.0)
        for kind in list(KINDS)[::2]
    ]
    return [
        settings(CLIENTS_OF_RUNS, 10, kind, seed=seed, radio__deadline_s=deadline_s)
        for seed, deadline_s, kind in each[:count]
    ]


def exponent(values: dict[int, float], last: int = 3) -> float:
    """Return the slope of log value over log size, through the last sizes: 1 is linear."""
    x, y = np.log([*values][-last:]), np.log([*values.values()][-last:])
    return round(float(np.polyfit(x, y, 1)[0]), 2) + 0.0  # not −0


def markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


@dataclass(frozen=True)
class Growth:
    """All rows of the page."""

    clients: dict[str, dict[int, Found]]  # by kind
    classes: dict[str, dict[int, Found]]
    runs: dict[int, Found]
    decisions: dict[str, list[Decision]]  # by search

    def exponents(self) -> dict[str, float]:
        """Return how the time grows, by what grows."""
        found = {f"N, {kind}": _slope(rows) for kind, rows in self.clients.items()}
        found |= {f"C, {kind}": _slope(rows) for kind, rows in self.classes.items()}
        found["runs"] = _slope(self.runs)
        for search, rows in self.decisions.items():
            found[f"N, one decision ({search})"] = exponent(_of_decisions(rows, 10))
        return found


def _slope(rows: dict[int, Found], last: int = 3) -> float:
    return exponent({size: row.seconds for size, row in rows.items()}, last)


def grown(*, quick: bool) -> Growth:
    """Measure everything; `quick` is for tests and says nothing about large sizes."""
    clients, classes, runs = (sizes[:2] if quick else sizes for sizes in (CLIENTS, CLASSES, RUNS))
    by_clients: dict[str, dict[int, Found]] = {kind: {} for kind in KINDS}
    for kind, rows in by_clients.items():
        for n in clients:
            rounds = 1 if n > 30_000 and kind == EVERYONE else 3
            rows[n] = alone(measure, [settings(n, 10, kind)], 10, rounds)
    few = 300 if quick else CLASSES_OF
    by_classes = {
        kind: {c: alone(measure, [settings(few, c, kind)], c, 3) for c in classes} for kind in list(KINDS)[:2]
    }
    by_runs = {r: alone(measure, in_lock_step(r), 10, 3) for r in runs}
    searches = ("greedy",) if quick else ("greedy", "refined")
    return Growth(by_clients, by_classes, by_runs, {one: decisions(one, quick=quick) for one in searches})


def decisions(search: str, *, quick: bool) -> list[Decision]:
    """Let `scheduling.py` measure one decision, in processes without PyTorch."""
    script = [sys.executable, str(Path(scheduling.__file__)), "--search", search, "--json"]
    done = subprocess.run(
        [*script, "--quick"] if quick else script, capture_output=True, text=True, check=True
    )
    return [
        (row["clients"], row["classes"], row["found"]) for row in map(json.loads, done.stdout.splitlines())
    ]


def _of_decisions(rows: Sequence[Decision], classes: int) -> dict[int, float]:
    return {clients: row["seconds"] for clients, own, row in rows if own == classes}


def draw(found: Growth, path: Path) -> None:
    """Draw time and memory over clients, and time over classes, runs and the clients of one decision."""
    from fedteddi.results import drawing  # not above: what it needs would count as memory of every row

    figure, axes = drawing.panels(2, 2)
    (time_ax, memory_ax), (other_ax, decision_ax) = axes

    def line(
        ax: Any, values: dict[int, float], label: str, colour: str, style: str = "-", power: str = ""
    ) -> None:
        label = f"{label}: ∝ {power}$^{{{exponent(values):.2f}}}$" if power else label
        ax.plot([*values], [*values.values()], style, color=colour, marker="o", markersize=4, label=label)

    for kind, rows in found.clients.items():
        line(time_ax, {n: row.seconds for n, row in rows.items()}, kind, COLOURS[kind], power="N")
        line(memory_ax, {n: row.peak_mib for n, row in rows.items()}, kind, COLOURS[kind])
    for kind, rows in found.classes.items():
        line(other_ax, {c: row.seconds for c, row in rows.items()}, kind, COLOURS[kind], power="C")
    lockstep = {runs: row.seconds for runs, row in found.runs.items()}
    line(other_ax, lockstep, "runs in lock-step", "#D55E00", power="R")
    for search, colour in zip(found.decisions, ("#000000", "#009E73"), strict=False):
        for classes, style in ((10, "-"), (100, "--")):
            values = _of_decisions(found.decisions[search], classes)
            line(decision_ax, values, f"{search}, C = {classes}", colour, style, "N")
    named = [
        (time_ax, "A round", "clients N", "processor seconds"),
        (memory_ax, "Peak memory of the process", "clients N", "MiB"),
        (other_ax, "A round, as classes and runs grow", "classes C, runs R", "processor seconds"),
        (decision_ax, "One decision", "clients N", "processor seconds"),
    ]
    for ax, title, across, up in named:
        ax.set(title=title, xlabel=across, ylabel=up, xscale="log", yscale="log")
        ax.legend(fontsize="small", frameon=False, loc="upper left")
        ax.grid(alpha=0.25)
        ax.spines[["top", "right"]].set_visible(False)
    memory_ax.set(xscale="linear", yscale="linear")
    drawing.save(figure, path, endings=(".png",), dpi=110, colours=64)


def clients_table(found: Growth) -> str:
    """Return a row for each number of clients."""
    head = ["clients N", *(f"{kind}, s" for kind in KINDS), "peak MiB", "setting up, s"]
    rows = []
    for n in found.clients["Random"]:
        own = [found.clients[kind][n] for kind in KINDS]
        memory = " / ".join(f"{row.peak_mib:,.0f}" for row in own)
        rows.append([f"{n:,}", *(_short(row.seconds) for row in own), memory, _short(own[0].setup_s)])
    slopes = [f"{_slope(rows):.2f}" for rows in found.clients.values()]
    steps = [f"{_slope(rows, 2):.2f}" for rows in found.clients.values()]
    setup = exponent({n: row.setup_s for n, row in found.clients["Random"].items()})
    rows.append(["exponent, last three sizes", *slopes, "", f"{setup:.2f}"])
    return markdown(head, [*rows, ["exponent, last two", *steps, "", ""]])


def others_table(found: Growth) -> str:
    """Return a row for each number of classes and of runs."""
    rows = []
    for kind, by_classes in found.classes.items():
        rows += [[f"{kind}, C = {c}", *_cells(row)] for c, row in by_classes.items()]
        rows.append([f"**exponent in C, {kind}**", f"{_slope(by_classes):.2f}", "", ""])
    rows += [[f"{runs} runs in lock-step", *_cells(row)] for runs, row in found.runs.items()]
    rows.append(["**exponent in runs**", f"{_slope(found.runs):.2f}", "", ""])
    return markdown(["", "a round, s", "peak MiB", "scheduled"], rows)


def _cells(row: Found) -> list[str]:
    return [_short(row.seconds), f"{row.peak_mib:,.0f}", f"{row.scheduled:.0f}"]


def _short(seconds: float) -> str:
    return f"{seconds:.3g}" if seconds < 100 else f"{seconds:.0f}"


def decisions_table(found: Growth, search: str) -> str:
    """Return a row for each round that is decided."""
    rows = found.decisions.get(search, [])
    return markdown(scheduling.head(search), [scheduling.cells(*row, search) for row in rows])


SAID = """\
**{verdict}** A Random round with {top:,} clients takes {random} s, a FedTeddi round {some} s with σ̂ of 30 clients and
{every} s with σ̂ of all of them (`estimates.gradient_std_clients`). Memory grows by {least:.1f} to {most:.1f} KiB a
client.

![time and memory over clients, classes and runs]({folder}/growth.png)

Fitted exponents of the time, over the last three sizes: {exponents}.

`OMP_NUM_THREADS=1 python benchmarks/growth.py --write docs/scale.md`: a linear model of 170 parameters, 12 samples a
client, τ = 2, b = 4, so that the simulator is measured and not its training. Processor seconds on one thread of a
shared machine: the median of 3 rounds (1 with σ̂ of all at 100,000). Peak memory is of the whole process, with Python,
PyTorch and the data.

## A round, as clients grow

{clients}
## As classes and runs grow

{few:,} clients for C. {runs_of} clients in each of the runs: FedTeddi with σ̂ of all and Random, at two deadlines, on as
many seeds as it takes.

{others}
## One decision

FedTeddi's search in one round: 20 MHz, T_max = 1 s, the paper's CNN and cell, unequal D_n, 40 % of the clients drifted.
"plain" recomputes U(S ∪ n) from its definition for every candidate in every step, in the same run, and must choose the
same clients; it is spared only those who no longer fit. Beyond 10,000 clients, "≈" is one step of it on 2,000
candidates, scaled up. Peak memory is that of Python, scipy, all inputs and the decision. `search = greedy`:

{greedy}
`search = refined`:

{refined}"""


def text(found: Growth, folder: str) -> str:
    """Return the page's generated part."""
    slopes = found.exponents()
    steepest = max(slopes, key=lambda what: slopes[what])
    verdict = (
        f"Time grows about linearly, or less: fitted over the last three sizes, the steepest is {steepest}"
        f" ({slopes[steepest]:.2f}); the last step of a row may be steeper."
    )
    if slopes[steepest] > LINEAR:
        worse = [what for what, slope in slopes.items() if slope > LINEAR]
        verdict = f"Worse than linear: {'; '.join(worse)}."
    sizes = sorted(found.clients["Random"])
    top = {kind: rows[sizes[-1]] for kind, rows in found.clients.items()}
    kib = [
        (rows[sizes[-1]].peak_mib - rows[sizes[0]].peak_mib) / (sizes[-1] - sizes[0]) * 1024
        for rows in found.clients.values()
    ]
    return SAID.format(
        verdict=verdict,
        exponents="; ".join(f"{what}: {slope:.2f}" for what, slope in slopes.items()),
        least=min(kib),
        most=max(kib),
        top=sizes[-1],
        random=_short(top["Random"].seconds),
        some=_short(top[SOME].seconds),
        every=_short(top[EVERYONE].seconds),
        folder=folder,
        clients=clients_table(found),
        few=CLASSES_OF,
        runs_of=CLIENTS_OF_RUNS,
        others=others_table(found),
        greedy=decisions_table(found, "greedy"),
        refined=decisions_table(found, "refined"),
    )


def main() -> None:
    """Print the tables, or put them into a page and the picture beside it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--write", type=Path, help="replace the marked part of this page")
    parser.add_argument("--quick", action="store_true", help="two sizes of everything, for tests")
    options = parser.parse_args()
    found = grown(quick=options.quick)
    made = text(found, options.write.stem if options.write else "scale")
    print(made)
    if options.write:
        page = options.write.read_text(encoding="utf-8")
        before, after = page.split(BEGINS)[0], page.split(ENDS)[1]
        options.write.write_text(f"{before}{BEGINS}{made}{ENDS}{after}", encoding="utf-8")
        folder = options.write.with_suffix("")
        folder.mkdir(exist_ok=True)
        draw(found, folder / "growth")


if __name__ == "__main__":
    main()
