"""Python's progress bar: in a notebook, in a terminal, nowhere else; every rule on it, and nothing printed is lost."""

import io
import os
import pty
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from fedteddi import compare
from fedteddi.protocol.record import RoundRecord
from fedteddi.settings import Settings
from fedteddi.simulation.bar import Bar, Screen, showing
from fedteddi.simulation.pretrained import Pretraining
from fedteddi.simulation.progress import Progress
from small_world import tiny_data, tiny_settings


def state(done: int, accuracy: float = 0.5, pretraining: Pretraining | None = None) -> Progress:
    """Two rules of twelve rounds each, both evaluated after the last of so many."""
    runs: dict[str, Any] = {
        f"{rule}-d1-s0": SimpleNamespace(
            settings=Settings().changed(name=rule, rounds=[12]),
            records=[RoundRecord(frame=0, round=done, balanced=value, global_=value)],
            rounds_done=done,
            finished=False,
            failure=None,
        )
        for rule, value in (("fedteddi", accuracy), ("random", accuracy / 2))
    }
    return Progress.of(runs, {}, pretraining=pretraining)


def test_it_draws_all_rules_a_few_times_a_second_and_in_the_end() -> None:
    drawn: list[Sequence[str]] = []
    clock = [0.0]
    bar = Bar(drawn.append, lambda: 80, lambda: clock[0])
    for tenth in range(10):  # one second, a round in each tenth
        clock[0] = tenth / 10
        bar.show(state(tenth))
    assert len(drawn) == 5
    assert drawn[0] == [
        "░" * 20 + " 0/24 rounds",
        "  balanced accuracy after frame 0 round 0: fedteddi 0.500, random 0.250",
    ]
    bar.finish()
    assert drawn[-1] == [
        "█" * 15 + "░" * 5 + " 18/24 rounds",
        "  balanced accuracy after frame 0 round 9: fedteddi 0.500, random 0.250",
    ]


def test_it_says_how_long_the_rest_takes_and_how_far_pre_training_is() -> None:
    """Two rounds of each rule in every 5 s after the first: 24 − 12 = 12 rounds left at 4 a 5 s, 15 s."""
    drawn: list[Sequence[str]] = []
    clock = [0.0]
    bar = Bar(drawn.append, lambda: 80, lambda: clock[0])
    bar.show(state(0, pretraining=Pretraining(3, 15, 40, 4)))
    assert drawn[-1] == ["█" * 7 + "░" * 13 + " pre-training, seed 3: epoch 2 of 4"]
    for clock[0], done in ((1.0, 0), (6.0, 2), (11.0, 4), (16.0, 6)):
        bar.show(state(done))
    assert drawn[-1][0] == "█" * 10 + "░" * 10 + " 12/24 rounds, 15 s left"


class Terminal(io.StringIO):
    encoding = "ascii"  # type: ignore[assignment]

    def isatty(self) -> bool:
        return True


def test_it_fits_the_terminal_and_waits_at_its_beginning(monkeypatch: pytest.MonkeyPatch) -> None:
    written = Terminal()
    monkeypatch.setattr(sys, "stderr", written)
    monkeypatch.setenv("COLUMNS", "20")
    monkeypatch.setenv("LINES", "4")
    screen = Screen()
    screen.draw(["a" * 30, "b"])
    assert written.getvalue() == "\x1b[Jaaaaaaaaaaaaaaaaaa?\nb\r\x1b[1A"  # … is no ASCII
    written.truncate(0), written.seek(0)  # type: ignore[func-returns-value]
    screen.draw(["1", "2", "3", "4", "5"])
    assert written.getvalue() == "\x1b[J1\n2\n  ?\r\x1b[2A"
    written.truncate(0), written.seek(0)  # type: ignore[func-returns-value]
    screen.leave()
    assert written.getvalue() == "\x1b[J1\n2\n  ?\n"


def test_it_is_shown_in_terminals_and_notebooks_only(monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[Progress] = []
    monkeypatch.setenv("TERM", "xterm")
    with showing(None, True) as watch:
        assert watch is None  # pytest's stderr is a file
    monkeypatch.setattr(sys, "stderr", Terminal())
    with showing(None, False) as watch:
        assert watch is None
    with showing(heard.append, True) as watch:
        assert watch == heard.append
    with showing(None, True) as watch:
        assert watch is not None
        watch(state(1))
    assert "0.500" in sys.stderr.getvalue()  # type: ignore[attr-defined]
    monkeypatch.setenv("TERM", "dumb")
    with showing(None, True) as watch:
        assert watch is None


def test_a_notebook_shows_one_output_that_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[tuple[str, str]] = []

    def display(data: dict[str, str], raw: bool, display_id: bool) -> Any:
        assert raw
        assert display_id
        shown.append(("display", data["text/plain"]))
        return SimpleNamespace(update=lambda data, raw: shown.append((f"update {raw}", data["text/plain"])))

    shell = ModuleType("IPython")
    shell.get_ipython = lambda: SimpleNamespace(kernel="a kernel")  # type: ignore[attr-defined]
    display_module = ModuleType("IPython.display")
    display_module.display = display  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "IPython", shell)
    monkeypatch.setitem(sys.modules, "IPython.display", display_module)
    with showing(None, True) as watch:
        assert watch is not None
        watch(state(1))
        watch(state(12, 0.75))
    assert [what for what, _ in shown] == ["display", "update True"]
    assert "after frame 0 round 12: fedteddi 0.750, random 0.375" in shown[-1][1]
    shell.get_ipython = lambda: SimpleNamespace()  # type: ignore[attr-defined]  # IPython in a terminal
    with showing(None, True) as watch:
        assert watch is None


SCRIPT = """
import sys
sys.path.insert(0, {tests!r})
from fedteddi import compare
from small_world import tiny_data, tiny_settings
def heard(run, record):
    if record.round == 2 and run.name.startswith("random"):
        print("a line of my own", file=sys.stderr)
compare(tiny_settings(), schedulers=["fedteddi", "random"], seeds=[0], data=tiny_data(), on_round=heard{more})
"""


@pytest.mark.parametrize("more", ["", ", progress=False"])
def test_python_shows_it_in_a_real_terminal(more: str, tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    script = SCRIPT.format(tests=str(Path(__file__).parents[1]), more=more)
    env = os.environ | {"TERM": "xterm", "COLUMNS": "80", "LINES": "24", "FEDTEDDI_CACHE": str(tmp_path)}
    with subprocess.Popen(
        [sys.executable, "-c", script], stderr=theirs, stdout=subprocess.PIPE, env=env
    ) as process:
        os.close(theirs)
        written = b""
        try:
            while part := os.read(ours, 4096):
                written += part
        except OSError:  # the other end is closed
            pass
        assert process.wait(60) == 0
    os.close(ours)
    text = written.decode().replace("\r\n", "\n")
    assert text.count("a line of my own\n") == 3  # of three frames
    last = text.rpartition("\x1b[J")[2]
    if more:
        assert "rounds" not in text
    else:
        assert last.startswith("█" * 20 + " 22/22 rounds\n")  # two runs of 2 + 5 + 4
        assert re.search(r"after frame 2 round 4: fedteddi \d\.\d{3}, random \d\.\d{3}\n$", last)


def test_nothing_is_shown_where_stderr_is_a_file(capfd: pytest.CaptureFixture[str]) -> None:
    compare(tiny_settings(), schedulers=["random"], seeds=[0], data=tiny_data())
    assert capfd.readouterr() == ("", "")
