"""How far an experiment is, on stderr while it runs, and in the end what the time went into."""

import math
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Group
from rich.live import Live
from rich.table import Table

from fedteddi.cli.output import PLAIN_LINE_EVERY_S, err, progress_bar, say

if TYPE_CHECKING:
    from fedteddi.experiment import Progress, Watch
    from fedteddi.results.rows import Row

LIVE_EVERY_S = 0.1
PLAIN_WIDTH = 80
WIDTH_FOR_CLIENTS = 96  # a narrower terminal does without this column


@contextmanager
def watching() -> "Iterator[Watch]":
    """Show progress on stderr, and in the end what the time went into."""
    spent: dict[str, float] = {}
    said: list[str] = []
    with _live() if err.is_terminal else _plain() as show:

        def watch(state: "Progress") -> None:
            spent.update(state.seconds)
            for sentence in state.news[len(said) :]:
                said.append(sentence)
                say("warning", sentence)
            show(state)

        try:
            yield watch
        except KeyboardInterrupt:
            say("warning", "interrupted; what is kept goes on with the same command and --resume")
            raise
    total = sum(spent.values())
    if total:
        shares = (f"{seconds / total:.0%} {purpose}" for purpose, seconds in spent.items())
        err.print(f"{total:.0f} s: {', '.join(shares)}")


@contextmanager
def _live() -> "Iterator[Watch]":
    """Show a bar, and below it a row for each rule."""
    from fedteddi.results.pace import Pace

    pace, drawn_at = Pace(), -math.inf
    bar = progress_bar()
    task = bar.add_task("starting", total=None)
    with Live(bar, console=err, refresh_per_second=4, redirect_stdout=False) as view:

        def show(state: "Progress") -> None:
            nonlocal drawn_at
            done, in_all = state.counted
            begins = pace.begins(state.pretraining)
            if not begins and done < in_all and time.monotonic() - drawn_at < LIVE_EVERY_S:
                return
            drawn_at = time.monotonic()
            change = bar.reset if begins else bar.update  # a reset forgets the pace
            words = state.lines(err.width)[0] if state.pretraining is not None else "rounds"
            change(task, total=in_all, completed=done, description=words)
            view.update(Group(bar, progress_table(state.rows, err.width, err.height - 3)))

        yield show


@contextmanager
def _plain() -> "Iterator[Watch]":
    """Print how far all rules are, now and then."""
    from fedteddi.results.pace import Pace

    pace, said_at = Pace(), -math.inf

    def show(state: "Progress") -> None:
        nonlocal said_at
        now, (done, in_all) = time.monotonic(), state.counted
        pace.begins(state.pretraining)
        if now - said_at >= PLAIN_LINE_EVERY_S or done == in_all:
            said_at = now
            for line in state.lines(PLAIN_WIDTH, pace.left(now, done, in_all)):
                err.print(line)

    yield show


def progress_table(rows: "Sequence[Row]", width: int, most: int, *, idle: bool = False) -> Table:
    """Return a row for each rule: how far it is, its last accuracies, and after which round they were found.

    At most so many lines. Where it is too wide, the names of rules are cut, never a number. `idle`: nobody plays them.
    """
    wide = width >= WIDTH_FOR_CLIENTS
    shown = rows if len(rows) < most else rows[: max(1, most - 2)]
    cells = [_cells(row, wide, idle) for row in shown]
    heads = ["rounds", "balanced", "global", "after", *(["clients (new)"] if wide else []), "state"]
    taken = sum(2 + max([len(head), *(len(own[i]) for own in cells)]) for i, head in enumerate(heads))
    room = max(8, width - taken)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("scheduler", no_wrap=True)
    for head in heads:
        table.add_column(head, justify="left" if head == "state" else "right", no_wrap=True)
    for row, own in zip(shown, cells, strict=True):
        table.add_row(row.label if len(row.label) <= room else f"{row.label[: room - 1]}…", *own)
    if len(shown) < len(rows):
        table.add_row(f"and {len(rows) - len(shown)} more")
    return table


def _cells(row: "Row", wide: bool, idle: bool) -> list[str]:
    """Return a row's cells after the rule's name."""
    clients = "" if row.clients is None else f"{row.clients:.3g} ({row.new or 0:.3g})"
    return [
        f"{row.rounds_done}/{row.rounds_in_all}",
        *("" if value is None else f"{value:.3f}" for value in (row.balanced, row.global_)),
        "" if row.evaluated is None else f"f{row.evaluated[0]} r{row.evaluated[1]}",
        *([clients] if wide else []),
        "stopped"
        if idle and row.is_going
        else f"{row.failed} failed"
        if 0 < row.failed < row.runs
        else row.state,
    ]
