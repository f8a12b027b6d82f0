"""How long one decision takes by every built-in rule, from 1,000 to 1,000,000 clients of ten classes.

    OMP_NUM_THREADS=1 python benchmarks/every_rule.py [--write docs/scale.md] [--quick] [--scheduler NAME …]

The rounds are those of `scheduling.py`, with what each rule asks for. Rules with memory play a round before it, or
their warm-up, and what is timed includes the copies of their state that a run makes. Every row is a process of its
own, so that the peak memory is that row's. Times are processor time on one thread, in which waiting for other users
of the machine does not count. `--write` puts the table between the page's marks.
"""

import argparse
import multiprocessing
import resource
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from fedteddi import RoundView, make_scheduler
from fedteddi.protocol.messages import UPDATE_SKETCH_SIZE
from fedteddi.schedulers.admission import timing
from fedteddi.schedulers.registry import built_in
from fedteddi.schedulers.schedule import AnyScheduler, choice_of, first_state, remembers
from fedteddi.wireless.cell import positions_of
from fedteddi.wireless.channels import Draws, Shadowing
from fedteddi.wireless.radio import Radio
from scheduling import large_round

BEGINS, ENDS = "<!-- benchmarks/every_rule.py begins -->\n", "<!-- benchmarks/every_rule.py ends -->\n"
SIZES, CLASSES = (1_000, 10_000, 100_000, 1_000_000), 10
LIMITS = {"divfl": 5_000}  # clients, as its docstring says
WITHIN_S = 3.0  # what a decision about the largest size may take


@dataclass(frozen=True)
class Found:
    """One rule at one size: seconds of a decision, clients scheduled and the process's peak memory."""

    seconds: float
    scheduled: int
    peak_mib: float


def rounds_of(rule: AnyScheduler, base: RoundView, number: int) -> RoundView:
    """Return a round of the same clients, with channels of its own and what the rule asks for."""
    needs: frozenset[str] = getattr(rule, "needs", frozenset())
    rng, clients = np.random.default_rng(number), base.num_clients
    gain = Shadowing().gains(positions_of(0, clients), Draws(0, 1, number))
    compute_s, deadline_s, model_bits = timing(base, "a decision")
    return replace(
        base,
        round=number,
        channel_gain=gain,
        needed_hz=Radio().needed_hz(gain, compute_s, deadline_s=deadline_s, model_bits=model_bits),
        loss=rng.exponential(size=clients) if "loss" in needs else None,
        update_norm=rng.exponential(size=clients) if "update_norm" in needs else None,
        update_sketch=rng.standard_normal((clients, UPDATE_SKETCH_SIZE))
        if "update_sketch" in needs
        else None,
    )


def measure(name: str, clients: int, repeats: int) -> Found:
    """Time the same decision some times, each from the same state, after a round or the rule's warm-up."""
    rule, base = make_scheduler(name), large_round(clients, CLASSES)
    state, number = first_state(rule, clients), 1
    while remembers(rule) and number <= getattr(rule, "warm_up", 1):
        _, state = choice_of(rule, rounds_of(rule, base, number), np.random.default_rng(number), state)
        number += 1
    view, seconds = rounds_of(rule, base, number), []
    for _ in range(repeats):
        start = time.process_time()
        schedule, _ = choice_of(rule, view, np.random.default_rng(0), state)
        seconds.append(time.process_time() - start)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return Found(statistics.median(seconds), len(schedule.clients), peak)


Rows = dict[str, dict[int, Found]]  # by rule and number of clients


def measured(names: Sequence[str], sizes: Sequence[int]) -> Rows:
    """Measure all rules at all sizes, each in a process of its own; one with a limit up to it."""
    rows: Rows = {}
    for name in names:
        limit = LIMITS.get(name, max(sizes))
        own = sorted({min(size, limit) for size in sizes})
        with multiprocessing.get_context("spawn").Pool(1, maxtasksperchild=1) as pool:
            rows[name] = {n: pool.apply(measure, (name, n, 3 if n > 100_000 else 7)) for n in own}
    return rows


def table(rows: Rows, sizes: Sequence[int]) -> str:
    """Return a row for each rule: milliseconds at every size, and what it scheduled and held at its largest."""
    lines = [["rule", "needs", *(f"{n:,} clients, ms" for n in sizes), "scheduled", "peak MiB"]]
    lines.append(["---"] * len(lines[0]))
    for name, own in rows.items():
        cells = [_cell(own, n) for n in sizes]
        needs = ", ".join(sorted(getattr(built_in()[name], "needs", ()))) or "–"
        last = own[max(own)]
        lines.append([name, needs, *cells, f"{last.scheduled}", f"{last.peak_mib:,.0f}"])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def _cell(own: dict[int, Found], clients: int) -> str:
    """Return a time; where the rule's limit is below this size, that of its limit."""
    if clients in own:
        return _ms(own[clients].seconds)
    limit = max(own)
    return f"{_ms(own[limit].seconds)} ({limit:,})" if clients < 10 * limit else "–"


def _ms(seconds: float) -> str:
    ms = seconds * 1e3
    return f"{ms:.2f}" if ms < 1 else f"{ms:.1f}" if ms < 10 else f"{ms:,.0f}"


def text(rows: Rows, sizes: Sequence[int]) -> str:
    """Return the page's generated part."""
    largest = max(sizes)
    all_the_way = {name: own[largest].seconds for name, own in rows.items() if largest in own}
    slowest = max(all_the_way, key=lambda name: all_the_way[name])
    within = sum(seconds <= WITHIN_S for seconds in all_the_way.values())
    limited = [
        f"`{name}` is meant for up to {max(own):,} clients ({own[max(own)].seconds:.2g} s)."
        for name, own in rows.items()
        if largest not in own
    ]
    verdict = (
        f"{within} of {len(rows)} rules decide a round of {largest:,} clients within {WITHIN_S:g} s; the slowest of"
        f" those that take so many is `{slowest}`, with {all_the_way[slowest]:.2g} s."
    )
    return SAID.format(verdict=" ".join([verdict, *limited]), table=table(rows, sizes))


SAID = """\
{verdict}

`OMP_NUM_THREADS=1 python benchmarks/every_rule.py --write docs/scale.md`: every built-in rule with its default options,
ten classes, in the round of "One decision". Processor time on one thread of a shared machine, the median of 7
decisions (3 of a million clients). Rules with memory have played a round before, fedcor its warm-up of 15; the copies
of their state that a run makes are included. "scheduled" and the peak memory of the process, with Python, scipy and all
inputs, are those of the row's largest size. A wider band, with more clients in it, takes longer where clients are
chosen one by one: in proportion to N |S| for fedteddi, fedcgd, fed-cbs and fedcor, with |S|² for minimum-latency.

{table}"""


def main() -> None:
    """Print the table, or put it into a page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--write", type=Path, help="replace the marked part of this page")
    parser.add_argument("--quick", action="store_true", help="stop at 10,000 clients, for tests")
    parser.add_argument("--scheduler", nargs="+", choices=list(built_in()), help="only these; all by default")
    options = parser.parse_args()
    sizes = SIZES[:2] if options.quick else SIZES
    made = text(measured(options.scheduler or list(built_in()), sizes), sizes)
    print(made)
    if options.write:
        page = options.write.read_text(encoding="utf-8")
        before, after = page.split(BEGINS)[0], page.split(ENDS)[1]
        options.write.write_text(f"{before}{BEGINS}{made}{ENDS}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
