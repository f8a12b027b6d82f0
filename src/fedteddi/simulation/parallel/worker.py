"""What a worker of a Ray cluster is given and does: where it stands, with which code, what it tells and answers."""

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

Tell = Callable[[Any], None]
Play = Callable[[Any, Any, Tell], Any]  # what is shared by all groups, one group, whom to tell how far it is


@dataclass(frozen=True)
class Refused:
    """An `InputError` on its way back."""

    sentence: str


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
    """Where groups write how far they are. It lives in a process of its own, beside the workers."""

    def __init__(self) -> None:
        self._told: dict[int, Any] = {}

    def tell(self, number: int, state: Any) -> None:
        """Write down what a group tells, in place of what it told before."""
        self._told[number] = state

    def read(self) -> dict[int, Any]:
        """Return what every group that has begun told last."""
        return self._told


def in_worker(play: Play, home: Home, number: int, shared: Any, group: Any, board: Any) -> Any:
    """Play one group here; return its answer, or what it refuses."""
    tell = partial(_tell, board, number)
    tell(None)  # begun
    try:
        home.enter()
        return play(shared, group, tell)
    except InputError as error:
        where = "" if platform.node() == home.host else f" (on the node {platform.node()})"
        return Refused(f"{error}{where}")


def _tell(board: Any, number: int, state: Any) -> None:
    board.tell.remote(number, state)


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
