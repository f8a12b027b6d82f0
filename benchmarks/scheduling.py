"""How long one FedTeddi decision takes, from 30 to 1,000,000 clients, beside the plain reading in the same run.

    python benchmarks/scheduling.py [--quick] [--search refined]

The plain reading of the greedy search recomputes U(S ∪ n) from its definition for every candidate that still fits; it
runs up to 10,000 clients, after that it would take minutes: "≈" is then one step of it on 2,000 candidates, scaled up.
Every row is its own process, so that the peak memory is that row's: all inputs (three mixes of N × C doubles among
them) and the decision. Times are processor time, in which waiting for other users of the machine does not count.
"""

import argparse
import json
import multiprocessing
import resource
import statistics
import time
from collections.abc import Iterator

import numpy as np
from rich.console import Console
from rich.table import Table

from fedteddi import RoundView, make_scheduler
from fedteddi.schedulers.rules.fedteddi import FedTeddi
from fedteddi.wireless.cell import positions_of
from fedteddi.wireless.channels import Draws, Shadowing
from fedteddi.wireless.computation import computation_delay_s
from fedteddi.wireless.radio import Radio

PLAIN_UP_TO = 10_000
SIZES = [(n, 10) for n in (30, 100, 1_000, 10_000, 100_000, 1_000_000)]
SIZES += [(n, 100) for n in (30, 1_000, 10_000, 100_000)]


def large_round(clients: int, classes: int, seed: int = 0) -> RoundView:
    """Draw a round of any size in the paper's cell: 20 MHz, T_max = 1 s, the paper's CNN, 40 % have drifted."""
    rng = np.random.default_rng(seed)
    data_mix = rng.dirichlet(np.full(classes, 0.3), size=clients)
    previous = data_mix.copy()
    drifted = rng.random(clients) < 0.4
    previous[drifted] = np.roll(data_mix[drifted], 1, axis=1)
    batch_mix = data_mix + rng.exponential(0.02, size=data_mix.shape)
    batch_mix /= batch_mix.sum(axis=1, keepdims=True)
    gain = Shadowing().gains(positions_of(seed, clients), Draws(seed, 1, 1))
    compute_s = computation_delay_s(clients, 320, rng)
    model_bits, deadline_s = 259_282 * 32.0, 1.0
    return RoundView(
        frame=1,
        round=1,
        rounds_in_frame=300,
        batch_size=32,
        total_hz=20e6,
        num_samples=rng.integers(500, 1000, size=clients),
        batch_mix=batch_mix,
        data_mix=data_mix,
        previous_data_mix=previous,
        needed_hz=Radio().needed_hz(gain, compute_s, deadline_s=deadline_s, model_bits=model_bits),
        channel_gain=gain,
        times_scheduled=np.zeros(clients, dtype=np.int64),
        gradient_std=28.0,
        class_norm=rng.uniform(2, 11, size=classes),
        compute_s=compute_s,
        deadline_s=deadline_s,
        model_bits=model_bits,
    )


def plain_greedy(view: RoundView) -> list[int]:
    """Algorithm 1 as one would first write it: U from scratch for each candidate in each step."""
    objective = FedTeddi().objective(view)
    left, chosen, used_hz = set(view.schedulable.tolist()), list[int](), 0.0
    while left:
        best = min(left, key=lambda n: objective.terms([*chosen, n]).utility)
        if chosen and objective.terms([*chosen, best]).total > objective.terms(chosen).total:
            break
        left.remove(best)
        if used_hz + view.needed_hz[best] > view.total_hz:
            break
        chosen.append(best)
        used_hz += float(view.needed_hz[best])
    return chosen


def measure(clients: int, classes: int, repeats: int, search: str) -> dict[str, float]:
    """Time one size: median over repeats of the decision, once the plain reading if the search is greedy."""
    view = large_round(clients, classes)
    rule = make_scheduler("fedteddi", search=search)
    seconds = []
    for _ in range(repeats):
        start = time.process_time()
        schedule = rule.select(view, np.random.default_rng(0))
        seconds.append(time.process_time() - start)
    result = {
        "seconds": statistics.median(seconds),
        "scheduled": len(schedule.clients),
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }
    if search != "greedy":
        return result
    if clients <= PLAIN_UP_TO:
        start = time.process_time()
        plain = plain_greedy(view)
        result["plain"] = time.process_time() - start
        if plain != list(schedule.clients):
            raise RuntimeError(f"N = {clients}: the two readings disagree: {plain} and {schedule.clients}")
    else:
        objective, some = FedTeddi().objective(view), view.schedulable[:2000]
        start = time.process_time()
        for n in some:
            objective.terms([*schedule.clients, n])
        per_candidate = (time.process_time() - start) / len(some)
        result["plain_estimate"] = per_candidate * len(view.schedulable) * (len(schedule.clients) + 1)
    return result


def compared(found: dict[str, float], elements: int) -> tuple[str, str, str]:
    """Return the greedy search's nanoseconds per client, class and step, and the plain reading beside it."""
    steps = found["scheduled"] + 1
    plain = found.get("plain", found.get("plain_estimate", 0.0))
    about = "" if "plain" in found else "≈ "
    return (
        f"{found['seconds'] * 1e9 / (elements * steps):.1f}",
        f"{about}{plain * 1e3:,.0f}",
        f"{about}{plain / found['seconds']:,.0f}×",
    )


def rows(search: str = "greedy", *, quick: bool = False) -> Iterator[tuple[int, int, dict[str, float]]]:
    """Measure all sizes, each in a process of its own: clients, classes, and what was found."""
    for clients, classes in SIZES:
        if not quick or clients <= 10_000:
            with multiprocessing.get_context("spawn").Pool(1) as pool:
                repeats = 7 if clients <= 100_000 else 3
                yield clients, classes, pool.apply(measure, (clients, classes, repeats, search))


def cells(clients: int, classes: int, found: dict[str, float], search: str) -> list[str]:
    """Return a row of the table."""
    return [
        f"{clients:,}",
        str(classes),
        f"{found['scheduled']:.0f}",
        f"{found['seconds'] * 1e3:.2f}",
        *(compared(found, clients * classes) if search == "greedy" else ()),
        f"{found['peak_mib']:,.0f}",
    ]


def head(search: str) -> list[str]:
    """Return the table's columns."""
    beside = ["ns/client/class/step", "plain ms", "plain/ours"] if search == "greedy" else []
    return ["clients", "classes", "scheduled", "decision ms", *beside, "peak MiB"]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="stop at 10,000 clients")
    parser.add_argument("--search", choices=("greedy", "refined"), default="greedy", help="greedy by default")
    parser.add_argument("--json", action="store_true", help="print a line of JSON for every size")
    options = parser.parse_args()
    if options.json:
        for clients, classes, numbers in rows(options.search, quick=options.quick):
            print(json.dumps({"clients": clients, "classes": classes, "found": numbers}))
        return
    table = Table(*head(options.search))
    for column in table.columns:
        column.justify = "right"
    for found in rows(options.search, quick=options.quick):
        table.add_row(*cells(*found, options.search))
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
