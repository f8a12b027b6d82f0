"""What commands say in the end: what failed, what is left out, where the records are, what to look at next."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from fedteddi.cli.output import out, say

if TYPE_CHECKING:
    from fedteddi.results.folder import Failure
    from fedteddi.results.runs import RunRecord, Study


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


def all_failed(study: "Study") -> bool:
    """Say whether there is nothing left to report on."""
    return len(study.failures) == len(study.runs)


def say_end(study: "Study", folder: Path) -> None:
    """Say where the records are, if any run is left; failures make the exit code 1."""
    if not all_failed(study):
        say_where(folder, not study.unfinished, "all other rounds" if study.failures else "all rounds")
    if study.failures:
        raise typer.Exit(1)


def end(played: Mapping[str, "RunRecord"], folder: Path, write_page: Callable[[bool], None]) -> None:
    """End a command that plays a study: its page, then where the records are; failures make the exit code 1.

    `write_page` is told whether all is played; it is called then, and when any run is finished.
    """
    failed = [name for name, run in played.items() if run.failure is not None]
    finished = all(run.finished or run.failure is not None for run in played.values())
    if finished or any(run.finished for run in played.values()):
        write_page(finished)
    if len(failed) < len(played):
        say_where(folder, finished, "all other rounds" if failed else "all rounds")
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
    """Say it to people alone: what another program reads has no such line."""
    if out.is_terminal:
        say_next(step)
