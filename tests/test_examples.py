"""The examples run and print what they should; the slow one is in test_slow.py, my_rule.py in schedulers/."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from cli_runner import Outcome

ROOT = Path(__file__).parents[1]


def test_own_data_and_model(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "examples" / "own_data_and_model.py"],
        env=os.environ | {"FEDTEDDI_CACHE": str(tmp_path), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    last = done.stdout.strip().splitlines()[-1].split()
    assert last[:2] == ["1", "30"]
    assert float(last[2]) > 0.8


def test_the_traces_of_the_example_are_used(
    cli: Callable[..., Outcome], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """docs/extend.md's command on the small set: three rounds with measured gains and times, three arrivals more."""
    monkeypatch.setenv("FEDTEDDI_CACHE", str(tmp_path / "cache"))
    traces = ROOT / "examples" / "traces"
    words = [
        "--set",
        f"radio.gain_trace={traces / 'gains.csv'}",
        "--set",
        f"radio.compute_trace={traces / 'times.csv'}",
    ]
    words += ["--set", f"scenario.arrivals_trace={traces / 'new.csv'}", "--set", "training.pretrain_epochs=0"]
    words += ["--set", "training.local_steps=1", "--scheduler", "best-channel", "--rounds", "3"]
    done = cli("run", *words, "--out", tmp_path / "run")
    assert done.code == 0, done.err
    first = (traces / "gains.csv").read_text().splitlines()[1:31]
    strongest = max(first, key=lambda line: float(line.split(",")[3])).split(",")[2]
    record = (tmp_path / "run" / "rounds.jsonl").read_text().splitlines()[2]
    assert f'"clients": [{strongest},' in record
