"""What a worker of a Ray cluster is given and does: where it stands, with which code, what it reports and answers."""

import contextlib
import hashlib
import os
import platform
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

from fedteddi.errors import InputError

HERE = Path(__file__).parents[2]

ToReport = Callable[[Any], None]
Play = Callable[
    [Any, Any, ToReport], Any
]  # what is shared by all groups, one group, how it reports its progress


@dataclass(frozen=True)
class Home:
    """What a worker takes over from the process that asks: where it stands, how it was called, its code."""

    host: str
    folder: str
    command: tuple[str, ...]
    code: str

    @classmethod
    def of_this_process(cls) -> "Home":
        """Describe this process."""
        return cls(platform.node(), os.getcwd(), tuple(sys.argv), code_fingerprint())

    def enter(self) -> None:
        """Stand where the asking process stands, so that names of files mean the same; refuse other code."""
        if code_fingerprint() != self.code:
            raise InputError(
                f"the node {platform.node()} has another version of fedteddi ({HERE}): install the same on every node"
            )
        with contextlib.suppress(OSError):  # if a file is missed, that will be said
            os.chdir(self.folder)
        sys.argv = list(self.command)


class Board:
    """Where groups report how far they are. It lives in a process of its own, beside the workers."""

    def __init__(self) -> None:
        self._last: dict[int, Any] = {}

    def report(self, number: int, state: Any) -> None:
        """Keep what a group reports, in place of what it reported before."""
        self._last[number] = state

    def read(self) -> dict[int, Any]:
        """Return the last report of every group that has begun."""
        return self._last


def in_worker(play: Play, home: Home, shared: Any, board: Any, number: int, group: Any) -> Any:
    """Play one group here and return its answer; what is refused says on which node."""
    report = partial(board.report.remote, number)
    report(None)  # begun
    try:
        home.enter()
        return play(shared, group, report)
    except InputError as error:
        where = "" if platform.node() == home.host else f" (on the node {platform.node()})"
        raise InputError(f"{error}{where}") from None


@cache
def code_fingerprint() -> str:
    """Return a checksum of this package's Python files: only the same code gives the same results."""
    digest = hashlib.sha256()
    for file in sorted(HERE.glob("**/*.py")):
        digest.update(f"{file.relative_to(HERE)}\n".encode() + file.read_bytes())
    return digest.hexdigest()


def worker_environment() -> dict[str, str]:
    """Return what workers need of this process's environment: where the code is, our own variables, one thread."""
    found = [
        str(Path(entry).resolve()) for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry
    ]
    source = str(HERE.parent)
    if HERE.parent.name != "site-packages" and source not in found:
        found.insert(0, source)
    own = {key: value for key, value in os.environ.items() if key.startswith("FEDTEDDI_")}
    return {**own, "OMP_NUM_THREADS": "1", **({"PYTHONPATH": os.pathsep.join(found)} if found else {})}
