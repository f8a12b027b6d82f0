"""Run the command line inside the test process, as `fedteddi …` would, with what it prints and returns."""

import io
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from fedteddi.cli import main


@dataclass
class Outcome:
    code: int
    out: str
    err: str


def runner(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Outcome]:
    # Each command would be a process of its own; how long pytest runs already is none of its business.
    monkeypatch.setattr("fedteddi.cli.options.process_age_s", lambda: 0.0)

    def run(*words: Any, stdin: str | bytes = "") -> Outcome:
        given = stdin.encode() if isinstance(stdin, str) else stdin
        monkeypatch.setattr(sys, "argv", ["fedteddi", *map(str, words)])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(given)))
        with pytest.raises(SystemExit) as stop:
            main()
        out, err = capfd.readouterr()
        code = stop.value.code
        return Outcome(code if isinstance(code, int) else 0 if code is None else 1, out, err)

    return run
