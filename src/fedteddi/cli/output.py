"""What the command line shows: answers, rules and laws for people. Only here is anything printed."""

import ctypes
import inspect
import os
import sys
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin, get_type_hints

import numpy as np
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from fedteddi.registry import first_line, option_defaults
from fedteddi.schedulers.references import BANDWIDTH, Reference
from fedteddi.schedulers.schedule import Scheduler
from fedteddi.schedulers.view import RoundView

if TYPE_CHECKING:
    from rich.progress import Progress

    from fedteddi.heterogeneity.objective import ObjectiveTerms
    from fedteddi.protocol.round_json.answer import Answer


def console(**more: Any) -> Console:
    """Return a console that prints every value as it is: names and paths may hold what Rich takes for markup."""
    return Console(markup=False, emoji=False, highlight=False, **more)


out = console()
err = console(stderr=True, soft_wrap=True)
PLAIN_LINE_EVERY_S = 5.0  # how often progress is said where there is no live display

ENDLESS = 10_000  # characters in a line
MOST_INFEASIBLE = 10  # listed one by one
MOST_CLASSES = 6
WIDTH_FOR_CHANGES = 78  # a narrower terminal does without these columns


def say(kind: Literal["error", "warning"], text: str) -> None:
    """Print one line on stderr, whatever the text contains."""
    colour = "red" if kind == "error" else "yellow"
    err.print(Text.assemble((f"{kind}:", colour), " ", " ".join(text.split())))


@contextmanager
def stdout_to_stderr() -> Iterator[None]:
    """Keep stdout for our answer: whatever a rule or a solver prints meanwhile goes to stderr.

    On the level of file descriptors too, because HiGHS 1.12 prints from C (its issue 2783).
    """
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        ctypes.CDLL(None).fflush(None)
        os.dup2(kept, 1)
        os.close(kept)


def print_schedulers(rules: dict[str, type[Scheduler]]) -> None:
    """Print each rule's name, what it does, where it comes from, what it needs and its options."""
    for name, rule in rules.items():
        out.print(name, style="bold")
        table = Table.grid(padding=(0, 1))
        table.add_row("  rule   ", first_line(rule))
        if reference := _reference(rule).short:
            table.add_row("  from   ", reference)
        if needs := getattr(rule, "needs", ()):
            table.add_row("  needs  ", ", ".join(sorted(needs)))
        table.add_row("  options", ", ".join(option_words(rule)) or "none")
        out.print(table)
    out.print(
        "All of ours give each client the least bandwidth that meets the deadline or, with spare_band=share, the whole"
        f" band so that all finish together ({BANDWIDTH.short})."
    )


def print_parts(parts: Sequence[tuple[str, str, str]]) -> None:
    """Print a line for each part: its name, its source, and what it is."""
    widths = [max((len(part[column]) for part in parts), default=0) for column in (0, 1)]
    for name, source, about in parts:
        print(hanging(f"{name:{widths[0]}}  {source:{widths[1]}}  ", about).rstrip())


def hanging(start: str, text: str) -> str:
    """Return a text behind its start, its lines in a terminal set in; a program that reads it gets one line."""
    return textwrap.fill(
        text,
        out.width if out.is_terminal else ENDLESS,
        initial_indent=start,
        subsequent_indent=" " * len(start),
        break_on_hyphens=False,
        break_long_words=False,
    )


def print_bibtex(rules: Iterable[type[Scheduler]]) -> None:
    """Print the BibTeX entries of the rules and of the bandwidth formula, each once."""
    cited = [*(_reference(rule).bibtex for rule in rules), BANDWIDTH.bibtex]
    entries = (entry for bibtex in cited for entry in bibtex.split("\n\n"))
    print("\n\n".join(dict.fromkeys(entry for entry in entries if entry)))


def print_answer(view: RoundView, answer: "Answer") -> None:
    """Print a schedule as a table, with what it achieves and who could not take part."""
    chosen = answer.schedule
    found = (
        f", frame {view.frame}, round {view.round} of {view.rounds_in_frame}:"
        f" {len(chosen.clients)} of {view.num_clients} clients upload,"
        f" using {sum(chosen.bandwidth_hz) / 1e6:.4g} of {view.total_hz / 1e6:.4g} MHz"
    )
    out.print(Text.assemble((answer.scheduler, "bold"), found))
    if chosen.clients:
        out.print(_client_table(view, answer))
        if any(_new_classes(view, client).any() for client in chosen.clients):
            out.print("(+ marks a class the client did not hold in the frame before)")
    if chosen.trace is not None:
        out.print(f"stopped because: {chosen.trace.stopped}")
    if answer.terms is not None:
        out.print(_objective_line(answer.terms, answer.terms_called), soft_wrap=True)
    if chosen.bound is not None:
        out.print(
            f"proven: no set within the band has a lower {answer.terms_called[0]} than {chosen.bound:.4f}"
        )
    if answer.infeasible:
        out.print(f"{len(answer.infeasible)} cannot be scheduled:")
        for client, why in list(answer.infeasible.items())[:MOST_INFEASIBLE]:
            out.print(f"  client {client} {why}")
        if len(answer.infeasible) > MOST_INFEASIBLE:
            out.print(f"  and {len(answer.infeasible) - MOST_INFEASIBLE} more (--json lists them all)")


def _objective_line(terms: "ObjectiveTerms", called: tuple[str, str, str]) -> str:
    """Say what a set achieves and of which terms that is made; of the drift only where it counts."""
    name, first, second = called
    line = f"{name} {terms.total:.4f} = {first} {terms.variance:.4f} + {second} {terms.divergence:.4f}"
    if terms.drift_weight == 0:
        return f"{line}   (lower is better)"
    weighed = f"{terms.drift_weight * terms.drift:.4f}"
    return f"{line} − λ·drift {weighed}\n  (λ = {terms.drift_weight:.4f}; lower is better)"


def progress_bar() -> "Progress":
    """Return a live progress bar on stderr with the time that is left; in a narrow terminal, the words are cut."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    return Progress(
        BarColumn(bar_width=10),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn(
            "{task.description}",
            markup=False,
            table_column=Column(ratio=1, no_wrap=True, overflow="ellipsis"),
        ),
        console=err,
        expand=True,
    )


def download_bar() -> "Progress":
    """Return a live bar on stderr for what is being fetched: megabytes, their speed, the time that is left."""
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
        console=err,
    )


def _client_table(view: RoundView, answer: "Answer") -> Table:
    chosen = answer.schedule
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("client", justify="right")
    table.add_column("classes")
    changes_known = chosen.trace is not None and out.width >= WIDTH_FOR_CHANGES
    drift_counts = answer.terms is None or answer.terms.drift_weight != 0
    changing = (*answer.terms_called[1:], *(("drift",) if drift_counts else ())) if changes_known else ()
    for column in ("drift", "MHz", "done at s", *(f"Δ {name}" for name in changing)):
        table.add_column(column, justify="right")
    moved = np.abs(view.data_mix - view.previous_data_mix) @ view.class_norm  # [N]
    steps = {a.client: a for a in chosen.trace.admissions} if chosen.trace else {}
    for place, (client, hz) in enumerate(zip(chosen.clients, chosen.bandwidth_hz, strict=True)):
        step = steps.get(client)
        moves = (step.variance_change, step.divergence_change, step.drift_change) if step else ()
        table.add_row(
            str(client),
            _classes_held(view, client),
            f"{moved[client]:.2f}",
            f"{hz / 1e6:.3f}",
            "" if answer.finish_s is None else f"{answer.finish_s[place]:.3f}",
            *("" if move is None else f"{move:+.3f}" for move in moves[: len(changing)]),
        )
    return table


def _new_classes(view: RoundView, client: int) -> np.ndarray:
    return np.asarray((view.data_mix[client] > 0) & (view.previous_data_mix[client] == 0))  # [C]


def _classes_held(view: RoundView, client: int) -> str:
    new = _new_classes(view, client)
    held = np.flatnonzero(view.data_mix[client] > 0)
    words = [f"{'+' if new[c] else ''}{c}" for c in held[:MOST_CLASSES]]
    return " ".join(words) + (" …" if len(held) > MOST_CLASSES else "")


def option_words(part: type) -> list[str]:
    """Return a part's options with their defaults; where the type names the choices, all of them."""
    defaults = option_defaults(part) if isinstance(part, type) else {}
    if defaults is None:
        return ["anything"]
    types = get_type_hints(part) if defaults else {}
    required = inspect.Parameter.empty
    return [
        name if value is required else f"{name}={_choices(types.get(name), value)}"
        for name, value in defaults.items()
    ]


def _choices(kind: Any, default: object) -> str:
    if get_origin(kind) is Literal:
        return "|".join([str(default), *(c for c in get_args(kind) if c != default)])
    return str(default)


def _reference(rule: type) -> Reference:
    reference = getattr(rule, "reference", None)
    return reference if isinstance(reference, Reference) else Reference("")
