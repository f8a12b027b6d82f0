"""`fedteddi watch`: a row for each scheduler, of runs that are finished, failed, stopped or being written."""

import os
import pty
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from cli_runner import Outcome
from fedteddi import compare
from fedteddi.results.folder import locked
from small_world import tiny_data, tiny_settings

Cli = Callable[..., Outcome]


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two rules with two seeds, finished."""
    monkeypatch.setenv("FEDTEDDI_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "runs"
    compare(tiny_settings(), schedulers=["fedteddi", "random"], seeds=[0, 1], data=tiny_data(), out=folder)
    return folder


def cut(run: Path, lines: int) -> None:
    """Leave so many records of a run."""
    file = run / "rounds.jsonl"
    file.write_bytes(b"".join(file.read_bytes().splitlines(keepends=True)[:lines]))


def test_finished_runs_are_printed_once(cli: Cli, runs: Path) -> None:
    """Two seeds of 2 + 5 + 4 rounds."""
    done = cli("watch", runs)
    lines = done.out.splitlines()
    assert (done.code, done.err, len(lines)) == (0, "", 4)
    for line, rule in zip(lines[1:], ("fedteddi", "random"), strict=False):
        assert re.fullmatch(rf"{rule} +22/22 +\d\.\d{{3}} +\d\.\d{{3}} +f2 r4 +finished *", line)
    assert lines[3] == "4 of 4 runs finished, 44/44 rounds"
    one = cli("watch", runs / "random-d1-s0")
    assert "11/11" in one.out
    assert "1 of 1 runs finished, 11/11 rounds" in one.out


def test_runs_that_go_on_stopped_or_failed_say_so(cli: Cli, runs: Path) -> None:
    """Of random, seed 0 has 3 records of frame 0 and 2 of frame 1 (3 rounds), seed 1 failed after 2 rounds."""
    cut(runs / "random-d1-s0", 5)
    cut(runs / "random-d1-s1", 3)
    (runs / "random-d1-s1" / "failed.json").write_text(
        '{"frame": 1, "round": 1, "cause": "it diverged: lower it"}'
    )
    done = cli("watch", runs)
    assert done.code == 0
    assert re.search(r"^random +5/22 +\d\.\d{3} +\d\.\d{3} +f1 r0 +stopped *$", done.out, re.MULTILINE)
    assert (
        "2 of 4 runs finished, 1 failed, 27/44 rounds, nobody plays them now: --resume goes on"
        in " ".join(done.out.split())
    )
    assert done.err == f"warning: {runs}/random-d1-s1 failed: it diverged: lower it\n"
    with locked(runs):
        done = cli("watch", runs)
    assert re.search(r"^random .* f1 r0 +1 failed *$", done.out, re.MULTILINE)
    assert "nobody plays" not in done.out


def test_nothing_to_watch_is_one_sentence(cli: Cli, tmp_path: Path) -> None:
    done = cli("watch", tmp_path / "nothing")
    assert (done.code, done.out) == (2, "")
    assert "there is no folder" in done.err
    done = cli("watch", tmp_path)
    assert (done.code, done.out) == (2, "")
    assert f"{tmp_path} holds no runs yet: 'fedteddi compare --out {tmp_path}' would make some" in done.err


def test_one_broken_run_is_named_and_the_others_are_shown(cli: Cli, runs: Path) -> None:
    (runs / "random-d1-s1" / "settings.toml").write_text("seed = ")
    done = cli("watch", runs)
    assert done.code == 0
    assert "random" in done.out
    assert "3 of 3 runs finished" in done.out
    assert done.err.startswith("warning: random-d1-s1 is left out: ")


def test_a_terminal_follows_a_study_while_it_is_written(runs: Path) -> None:
    """One run is cut back, and goes on while somebody watches; the view ends by itself when the last round is there."""
    run = runs / "random-d1-s1"
    whole = (run / "rounds.jsonl").read_bytes().splitlines(keepends=True)
    cut(run, 4)
    ours, theirs = pty.openpty()
    env = os.environ | {"TERM": "xterm", "COLUMNS": "80", "LINES": "24"}
    command = [sys.executable, "-m", "fedteddi", "watch", str(runs), "--every", "0.1"]
    written = b""

    def read_until(pattern: str) -> None:
        nonlocal written
        until = time.monotonic() + 60
        while not re.search(pattern, written.decode()):
            assert time.monotonic() < until, written.decode()
            written += os.read(ours, 4096)

    with (
        locked(runs),
        subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=env) as process,
    ):
        os.close(theirs)
        read_until(r"random +13/22 ")  # 11 + 2
        (run / "rounds.jsonl").write_bytes(b"".join(whole[:7]) + whole[7][:10])
        read_until(r"random +16/22 ")  # 3 + 4 records, of which 2 are of round 0
        (run / "rounds.jsonl").write_bytes(b"".join(whole))
        read_until("4 of 4 runs finished, 44/44 rounds")
        assert process.wait(60) == 0
    os.close(ours)
