"""The command that watches: how far the runs of a folder are, live, whoever plays them."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Group
from rich.live import Live
from rich.text import Text

from fedteddi.cli.output import PLAIN_LINE_EVERY_S, console, out, say
from fedteddi.cli.progress import PLAIN_WIDTH, progress_table
from fedteddi.errors import InputError

if TYPE_CHECKING:
    from fedteddi.results.following import FollowedFolder

AROUND_THE_TABLE = 6  # lines: its head, the summary, a prompt
STILL_LOOKS = 3  # in a row without news: then what is held by nobody has stopped


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command()(watch)


def watch(
    runs: Annotated[Path, typer.Argument(help="A run's folder, or a folder of runs.")],
    every: Annotated[float, typer.Option(min=0.1, help="Seconds between two looks.")] = 1.0,
) -> None:
    """Show how far runs are, a row for each scheduler, until they are over; Ctrl-C leaves them alone.

    The folder may be written by another process, or be finished. Without a terminal it is printed once.
    """
    from fedteddi.results.following import FollowedFolder

    folder = FollowedFolder(runs)
    folder.look()
    if not out.is_terminal:
        _check(folder)
        wide = console(width=max(out.width, PLAIN_WIDTH))
        wide.print(_view(folder, wide.width, len(folder.runs) + AROUND_THE_TABLE + 1))
    else:
        _follow(folder, every)
        _check(folder)
    for name, why in folder.broken.items():
        say("warning", f"{name or runs} is left out: {why}")
    for run in folder.runs.values():
        if run.failure is not None:
            say("warning", f"{run.path} failed: {run.failure.cause}")


def _check(folder: "FollowedFolder") -> None:
    if not folder.runs and not folder.broken:
        raise InputError(
            f"{folder.path} holds no runs yet: 'fedteddi compare --out {folder.path}' would make some"
        )


def _follow(folder: "FollowedFolder", every_s: float) -> None:
    """Look again and again, until all runs are over, or nobody plays them any more."""
    from fedteddi.results.pace import Pace

    pace, left, noted_at, still = Pace(), "", 0.0, 0
    with Live(console=out, auto_refresh=False) as live:
        try:
            while True:
                now = time.monotonic()
                if now - noted_at >= PLAIN_LINE_EVERY_S:
                    noted_at = now
                    left = pace.left(now, *_counted(folder))
                live.update(_view(folder, out.width, out.height, left), refresh=True)
                if folder.over or (still >= STILL_LOOKS and folder.is_held is False):
                    break
                time.sleep(every_s)
                still = 0 if folder.look() else still + 1
        except KeyboardInterrupt:
            pass
        live.update(_view(folder, out.width, out.height), refresh=True)


def _counted(folder: "FollowedFolder") -> tuple[int, int]:
    runs = folder.runs.values()
    return sum(run.rounds_done for run in runs), sum(sum(run.settings.rounds) for run in runs)


def _view(folder: "FollowedFolder", width: int, height: int, left: str = "") -> Group:
    """Return the table, and a sentence below it."""
    from fedteddi.results.rows import rows_of

    runs = folder.runs.values()
    done, in_all = _counted(folder)
    finished, failed = sum(run.finished for run in runs), sum(run.failure is not None for run in runs)
    words = [f"{finished} of {len(runs)} runs finished", *([f"{failed} failed"] if failed else [])]
    words.append(f"{done}/{in_all} rounds{left}")
    idle = not folder.over and folder.is_held is False
    if idle:
        words.append("nobody plays them now: --resume goes on")
    table = progress_table(rows_of(folder.runs), width, height - AROUND_THE_TABLE, idle=idle)
    return Group(table, Text(", ".join(words)))
