"""Tables in a terminal: never wider than it, and nothing in them cut."""

import math
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from rich.table import Table

from fedteddi.cli.output import out

if TYPE_CHECKING:
    import pandas as pd

    from fedteddi.scenario.plan import Plan

GAP = 2  # between columns
PROSE = 28  # characters; a longer cell holds words, and may go on in the next line
LINES = 2  # that a cell may take, unless what is new needs more
LEAST_ROOM = 18  # characters for what a client holds in a frame
AS_BEFORE, MORE = "as before", "…"


def print_table(table: "pd.DataFrame", keys: int = 0) -> None:
    """Print a data frame: what is the same in all rows first, then its columns, in several blocks if they are too many.

    The first `keys` columns say what a row is about: every block has them.
    """
    names = [str(name) for name in table.columns]
    rows = [[_cell(value) for value in row] for row in table.itertuples(index=False)]
    same = [i for i in range(len(names)) if len(rows) > 1 and len({row[i] for row in rows}) == 1]
    if same:
        out.print("in every row: " + "; ".join(f"{names[i]} {rows[0][i]}" for i in same))
    about = [i for i in range(keys) if i not in same]
    others = [i for i in range(keys, len(names)) if i not in same]
    for number, block in enumerate(_blocks(names, rows, about, others) if rows else ()):
        if number:
            out.print()
        _print_block([names[i] for i in block], [[row[i] for i in block] for row in rows])


def _blocks(
    names: Sequence[str], rows: Sequence[Sequence[str]], about: list[int], others: list[int]
) -> list[list[int]]:
    """Share columns out evenly among as few blocks as are no wider than the terminal."""
    widths = [_needed(name, [row[i] for row in rows]) + GAP for i, name in enumerate(names)]

    def fits(columns: list[int]) -> bool:
        return sum(widths[i] for i in about + columns) - GAP <= out.width

    for blocks in range(1, len(others)):
        size = -(-len(others) // blocks)
        parts = [others[first : first + size] for first in range(0, len(others), size)]
        if all(map(fits, parts)):
            return [about + part for part in parts]
    return [[*about, column] for column in others] or [about]


def _needed(name: str, cells: Sequence[str]) -> int:
    """Return a column's least width: numbers stay in a line, its name takes two at most, prose what it needs."""
    longest = max(map(len, cells))
    title = next(width for width in range(1, len(name) + 2) if len(_wrapped(name, width)) <= 2)
    words = max((len(word) for cell in cells for word in cell.split()), default=0)
    return max(title, longest if longest <= PROSE else max(PROSE, words))


def _wrapped(text: str, width: int) -> list[str]:
    """Break a text at spaces alone; a longer word makes a line too many."""
    whole = max(map(len, text.split()), default=0) <= width
    return textwrap.wrap(text, width, break_on_hyphens=False) if whole else [text] * 3


def _print_block(names: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    shown = Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0))
    for i, name in enumerate(names):
        cells = [row[i] for row in rows]
        prose = max(map(len, cells)) > PROSE
        number = all(cell[:1] in "+-−–≥≤>0123456789" for cell in cells)
        shown.add_column(
            name,
            width=None if prose else _needed(name, cells),
            min_width=_needed(name, cells),
            justify="right" if number else "left",
        )
    for row in rows:
        shown.add_row(*row)
    out.print(shown)


def _cell(value: object) -> str:
    if isinstance(value, float):
        if math.isnan(value):
            return "–"
        return f"{value:g}" if value.is_integer() else f"{value:.3f}"
    return str(value)


def print_plan(plan: "Plan") -> None:
    """Print who holds which classes in each frame: all that is new to the client, the rest as far as there is room."""
    left = len(str(plan.num_clients)) + 6
    together = max(1, min(len(plan.frames), (out.width - left) // (LEAST_ROOM + GAP)))
    room = (out.width - left) // together - GAP
    for first in range(0, len(plan.frames), together):
        frames = range(first, min(first + together, len(plan.frames)))
        table = Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0))
        table.add_column("client", justify="right")
        for number in frames:
            table.add_column(f"frame {number}", max_width=room)
        for client in range(plan.num_clients):
            counts = [frame.counts[client] for frame in plan.frames]
            table.add_row(str(client), *(held(counts[i], counts[i - 1] if i else None, room) for i in frames))
        out.print(table)
    out.print("(class×samples; + not held in the frame before, … more that was)")


def plan_sentence(plan: "Plan") -> str:
    """Say how many clients there are, which classes each frame brings, and whom it changes."""
    counts = [frame.counts for frame in plan.frames]
    parts = [f"{_several(plan.num_clients, 'client')} with {_classes(np.flatnonzero(plan.classes_seen(0)))}"]
    for frame in range(1, len(counts)):
        new = np.flatnonzero(plan.classes_seen(frame) & ~plan.classes_seen(frame - 1))
        changed = int((counts[frame] != counts[frame - 1]).any(axis=1).sum())
        brought = _classes(new) if len(new) else "no new class"
        parts.append(f"frame {frame} brings {brought}, and changes {_several(changed, 'client')}")
    return "; ".join(parts) + "."


def _several(number: int, thing: str) -> str:
    return f"{number} {thing}{'' if number == 1 else 's'}"


def _classes(numbers: np.ndarray) -> str:
    return f"class{'' if len(numbers) == 1 else 'es'} {_listed(numbers)}"


def _listed(numbers: np.ndarray) -> str:
    """Write whole numbers as ranges: 0–5, 8."""
    runs = np.split(numbers, np.flatnonzero(np.diff(numbers) > 1) + 1)
    return ", ".join(f"{run[0]}–{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs if len(run))


def held(counts: np.ndarray, before: np.ndarray | None, room: int) -> str:
    """Say how many samples of which classes a client holds, from counts [C]; + marks what it did not hold before."""
    if before is not None and np.array_equal(counts, before):
        return AS_BEFORE
    is_new = (counts > 0) & (before == 0) if before is not None else np.zeros(len(counts), dtype=bool)
    new = [f"+{c}×{counts[c]}" for c in np.flatnonzero(is_new)]
    kept = [f"{c}×{counts[c]}" for c in np.flatnonzero((counts > 0) & ~is_new)]
    shown, texts = len(kept), " ".join([*new, *kept])
    while shown and len(texts) > LINES * room:
        shown -= 1
        texts = " ".join([*new, *kept[:shown], MORE])
    return texts
