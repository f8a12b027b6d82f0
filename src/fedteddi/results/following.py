"""Runs that another process may be writing: their records as they appear, a line at a time."""

import json
import os
import platform
from contextlib import suppress
from pathlib import Path

from fedteddi.errors import InputError
from fedteddi.protocol.record import RoundRecord, are_all
from fedteddi.results.folder import Failure, RunFolder
from fedteddi.settings import Settings, read_settings

BESIDE = {"report"}  # folders that hold no runs


class FollowedRun:
    """A run's folder, read further at every look. It may not have begun, and may be cut back when it is resumed."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.records: list[RoundRecord] = []
        self.failure: Failure | None = None
        self._read = 0  # bytes
        self._settings: Settings | None = None

    @property
    def settings(self) -> Settings:
        """The run's settings, once they are there."""
        if self._settings is None:
            file = self.path / "settings.toml"
            self._settings = read_settings(file.read_text(encoding="utf-8"), str(file))
        return self._settings

    @property
    def rounds_done(self) -> int:
        """How many rounds it has played."""
        return sum(record.round > 0 for record in self.records)

    @property
    def finished(self) -> bool:
        """Whether all rounds are there."""
        return are_all(self.records, self.settings.rounds)

    def look(self) -> bool:
        """Read what is new; say whether anything was."""
        before = (self._read, self.failure)
        file = self.path / "rounds.jsonl"
        with suppress(FileNotFoundError), file.open("rb") as stream:
            if (
                os.fstat(stream.fileno()).st_size < self._read
            ):  # resumed: it is played again from a checkpoint
                self._read = 0
                self.records.clear()
            stream.seek(self._read)
            whole = stream.read().rpartition(b"\n")[0]  # the last line may be half written
            try:
                self.records += [RoundRecord.from_json(json.loads(line)) for line in whole.splitlines()]
            except (ValueError, KeyError, TypeError) as error:
                raise InputError(f"{file} cannot be read ({error}): start that run again") from None
            self._read += len(whole) + 1 if whole else 0
        self.failure = RunFolder(self.path).failure()
        return (self._read, self.failure) != before


class FollowedFolder:
    """A run's folder, or a folder of runs, one below the other or in levels; more may appear."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.runs: dict[str, FollowedRun] = {}  # by their folders' names
        self.broken: dict[str, str] = {}  # those that cannot be read, and why

    def look(self) -> bool:
        """Look for runs, and for what is new in them; say whether anything was."""
        if not self.path.is_dir():
            raise InputError(f"there is no folder {self.path}: give a run's folder, or one that holds runs")
        changed = False
        for name, path in self._folders().items():
            run = self.runs.get(name) or FollowedRun(path)
            try:
                changed |= run.look() or name not in self.runs
                run.settings  # noqa: B018
                self.runs[name] = run
                self.broken.pop(name, None)
            except (InputError, OSError) as error:
                self.runs.pop(name, None)
                self.broken[name] = str(error)
        return changed

    def _folders(self) -> dict[str, Path]:
        if (self.path / "settings.toml").is_file():
            return {"": self.path}
        found = (file.parent for file in sorted(self.path.glob("**/settings.toml")))
        below = {str(folder.relative_to(self.path)): folder for folder in found}
        return {name: folder for name, folder in below.items() if not BESIDE & {*Path(name).parts}}

    @property
    def over(self) -> bool:
        """Whether there are runs, and none of them can go on."""
        return bool(self.runs) and all(run.finished or run.failure for run in self.runs.values())

    @property
    def is_held(self) -> bool | None:
        """Whether a process of this machine holds the folder; None: that cannot be said from here.

        Asked without locking it, which would make a process that begins just then believe that it is in use.
        """
        known: list[bool | None] = []
        for folder in (self.path, *self.path.resolve().parents[:2]):
            with suppress(OSError, ValueError):
                node, number, *_ = (folder / ".lock").read_text(encoding="utf-8").split()
                known.append(_is_alive(int(number)) if node == platform.node() else None)
        if True in known:
            return True
        return None if None in known else False


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:  # another user's
        return True
    return True
