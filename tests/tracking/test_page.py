"""docs/track.md as printed: its Python runs, its own tracker keeps the invariants and writes what it says."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from cli_runner import Outcome
from fedteddi.cli.parts import CHECKED
from fedteddi.tracking import TRACKERS

PAGE = (Path(__file__).parents[2] / "docs" / "track.md").read_text(encoding="utf-8")
PYTHON, OWN = re.findall(r"```python\n(.*?)```", PAGE, re.S)


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FEDTEDDI_CACHE", str(tmp_path / "cache"))


def test_every_tracker_has_a_row_with_its_options_and_how_it_is_installed() -> None:
    for name, tracker in TRACKERS.built_in().items():
        (row,) = [line for line in PAGE.splitlines() if line.startswith(f"| `{name}` ")]
        assert f"pip install 'fedteddi[{name}]'" in row
        assert all(f"`{option}`" in row for option in tracker.__dataclass_fields__)
    assert "tracker" in CHECKED


def test_its_own_tracker_is_run_and_checked_by_the_commands(cli: Callable[..., Outcome]) -> None:
    Path("log.py").write_text(OWN)
    run, check = re.findall(r'^    fedteddi (run --track "log.*|check log\S+ --kind tracker)', PAGE, re.M)
    quick = ["--rounds", "1", "--set", "training.pretrain_epochs=0", "--out", "run"]
    done = cli(*run.replace('"', "").split(), *quick)
    assert done.code == 0, done.err
    steps = [line.split()[:2] for line in Path("mine.txt").read_text().splitlines()]
    assert steps == [["run", "0"], ["run", "1"], ["run", "2"]]  # both frames' round 0, and the one round
    assert "keeps all" in cli(*check.split()).out


def test_its_python_runs(capfd: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("tensorboard", reason="an extra: pip install 'fedteddi[tensorboard]'")
    names: dict[str, list[tuple[str, int, float | None]]] = {}
    exec(PYTHON.replace("rounds=[0, 2]", "rounds=[0, 2], training__pretrain_epochs=0"), names)
    assert [found[:2] for found in names["found"]] == [
        (f"{rule}-d1-s0", number) for number in (0, 0, 1, 2) for rule in ("fedteddi", "random")
    ]
    assert len(list(Path("runs/mine").glob("*/events.out.tfevents.*"))) == 2
    assert capfd.readouterr().err == ""
