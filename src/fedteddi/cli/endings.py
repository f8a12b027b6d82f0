"""What commands say in the end: what failed, what is left out, where the records are, what to look at next."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from fedteddi.cli.output import out, say

if TYPE_CHECKING:
    from fedteddi.results.folder import Failure
    from fedteddi.results.runs import RunRecord


def name_unfinished(names: list[str]) -> None:
    """Name the runs that a report leaves out because they can still go on."""
    for name in names:
        say("warning", f"{name} is not finished, and left out: continue it with --resume")


def name_failed(causes: Mapping[str, str]) -> None:
    """Name the runs that a page leaves out because they failed, and why."""
    for title, cause in causes.items():
        say("warning", f"{title} failed, and is left out: {cause}")


def say_failed(failures: Mapping[str, "Failure"]) -> None:
    """Name the runs of a folder that failed, why, and what to do."""
    name_failed({title: f"{failure.cause}, and choose another --out" for title, failure in failures.items()})


def end(runs: Sequence["RunRecord"], folder: Path, report: Callable[[bool], str]) -> None:
    """End a command that plays many runs: the report, where the records are, what is next; failures make the code 1.

    `report` is told whether all is played, called then and when any run is finished, and says what to look at next.
    """
    failed = [run for run in runs if run.failure is not None]
    finished = all(run.finished or run.failure is not None for run in runs)
    step = report(finished) if finished or any(run.finished for run in runs) else ""
    if len(failed) < len(runs):
        say_where(folder, finished, "all other rounds" if failed else "all rounds")
    if step:
        say_next(step)
    if failed:
        raise typer.Exit(1)


def say_idle(runs: Sequence["RunRecord"]) -> None:
    """Name the runs in which nobody ever uploaded: nothing was learnt there, though every table is full."""
    played = {run.title: [r for r in run.records if r.round] for run in runs}
    idle = [title for title, rounds in played.items() if rounds and not any(r.clients for r in rounds)]
    if idle:
        remedy = "raise radio.deadline_s or radio.total_hz if nobody can upload in time"
        say("warning", f"nobody was ever scheduled by {'; '.join(idle)}: {remedy}")


def say_where(folder: Path, finished: bool, done: str = "all rounds") -> None:
    """Say where the records are, and how to go on."""
    if finished:
        out.print(f"{done} are done; records in {folder}", soft_wrap=True)
    else:
        out.print(
            f"stopped in time; continue with the same command and --resume (records in {folder})",
            soft_wrap=True,
        )


def say_next(step: str) -> None:
    """Say what to look at next, as the last line of an answer."""
    out.print(f"Next: {step}", soft_wrap=True)


def hint_next(step: str) -> None:
    """Say it in a terminal alone: what another program reads has no such line."""
    if out.is_terminal:
        say_next(step)


def open_next(page: Path, files: Sequence[Path]) -> str:
    """Return the step that opens a page; name one of its figures, too."""
    return f"open {page}, with figures such as {next(file for file in files if file.suffix == '.png')}"
