"""What lies in a folder of runs: all that can be read, and in words what cannot."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from fedteddi.errors import InputError
from fedteddi.results.reading import read_run
from fedteddi.results.runs import RunRecord

FILES = ("settings.toml", "scenario.json", "rounds.jsonl")  # without which there is nothing to show
DEEPEST = 3  # folders between the one that is named and a run, as in OUT/LEVEL/RUN


@dataclass(frozen=True)
class Found:
    """The runs of a folder, by the names of their folders, and notes on what is missing."""

    folder: Path
    runs: dict[str, RunRecord]
    notes: tuple[str, ...] = ()


def find_runs(folder: Path) -> Found:
    """Read every run in a folder; what cannot be read is noted, and nothing is refused but a folder that is none."""
    if not folder.is_dir():
        raise InputError(f"there is no folder {folder}: give a run's folder, or one that holds runs")
    runs: dict[str, RunRecord] = {}
    notes: list[str] = []
    for path in _candidates(folder, DEEPEST):
        name = folder.name if path == folder else path.relative_to(folder).as_posix()
        absent = [file for file in FILES if not (path / file).is_file()]
        if absent:
            what = "is empty" if not any(path.iterdir()) else f"has no {' and no '.join(absent)}"
            notes.append(f"Left out: {name} {what}.")
            continue
        try:
            runs[name] = read_run(path)
        except InputError as error:
            notes.append(f"Left out: {str(error).replace(str(path), name)}.")
    if not runs:
        notes.insert(
            0, f"{folder} holds no run that can be read: 'fedteddi compare --out {folder}' makes some."
        )
    return Found(
        folder, runs, tuple(notes + [note for name, run in runs.items() for note in _state(name, run)])
    )


def _candidates(folder: Path, depth: int) -> Iterator[Path]:
    """Yield the folders of runs, and those that were begun: empty ones, or with a file of a run but no settings."""
    if (folder / "settings.toml").is_file():
        yield folder
        return
    inner = [path for path in sorted(folder.iterdir()) if path.is_dir() and path.name != "report"]
    begun = (folder / "rounds.jsonl").exists() or (folder / "scenario.json").exists()
    if depth < DEEPEST and (begun or not any(folder.iterdir())):
        yield folder
    elif depth:
        for path in inner:
            yield from _candidates(path, depth - 1)


def _state(name: str, run: RunRecord) -> Iterator[str]:
    """Say of a run what is not there yet, or never will be."""
    played, planned = sum(one.rounds for one in run.stretches), sum(run.settings.rounds)
    if run.failure is not None:
        where = f"frame {run.failure.frame}, round {run.failure.round}"
        yield f"{run.title} ({name}) failed in {where}, and its rounds are not shown: {run.failure.cause}."
    elif not played:
        yield f"{run.title} ({name}) has no rounds yet: --resume plays them."
    elif not run.finished:
        yield f"{run.title} ({name}) has {played} of {planned} rounds: --resume plays the others."
