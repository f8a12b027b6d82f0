"""What is slow to import is imported when it is needed: no timing here, only what a process holds."""

import subprocess
import sys
from pathlib import Path

import pytest

from fedteddi.protocol.example import example_round
from fedteddi.protocol.round_json.reports import write_round

SLOW = ("scipy", "pandas", "matplotlib", "torch")  # with all that is inside them, such as scipy.optimize


def held(script: str, names: tuple[str, ...] = SLOW) -> str:
    """Run a script in a process of its own; return those of the names that it has imported when it ends."""
    said = f"; import sys; print(*(name for name in {names} if name in sys.modules), file=sys.stderr)"
    done = subprocess.run(
        [sys.executable, "-c", script + said],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stderr.splitlines()[-1]


COMMAND = "from fedteddi.cli.app import app; app({words}, standalone_mode=False)"


@pytest.fixture
def reports(tmp_path: Path) -> str:
    file = tmp_path / "round.json"
    file.write_text(write_round(example_round()), encoding="utf-8")
    return str(file)


@pytest.mark.parametrize("words", [["example"], ["schedulers"], ["--help"]])
def test_listing_imports_nothing_slow(words: list[str]) -> None:
    assert held(COMMAND.format(words=words), (*SLOW, "pydantic")) == ""


@pytest.mark.parametrize("more", [[], ["--json", "-o", "search=refined"]])
def test_scheduling_imports_nothing_slow(reports: str, more: list[str]) -> None:
    assert held(COMMAND.format(words=["schedule", reports, *more]), (*SLOW, "pydantic")) == ""


@pytest.mark.parametrize("words", [["settings", "radio"], ["settings", "--schema"], ["list", "experiments"]])
def test_settings_import_nothing_slow(words: list[str]) -> None:
    assert held(COMMAND.format(words=words)) == ""


def test_the_library_imports_nothing_slow() -> None:
    assert held("import fedteddi", (*SLOW, "pydantic", "typer", "rich")) == ""


def test_the_exact_search_imports_its_solver(reports: str) -> None:
    """Otherwise the tests above would look for a name that nothing imports any more."""
    words = ["schedule", reports, "-o", "search=exact"]
    assert held(COMMAND.format(words=words), (*SLOW, "scipy.optimize")) == "scipy scipy.optimize"


def test_a_run_needs_torch_and_settings_only(tmp_path: Path) -> None:
    """After its first round; tables and figures come later, when they are asked for."""
    script = (
        "from fedteddi import simulate; from small_world import tiny_data, tiny_settings;"
        " settings = tiny_settings(rounds=[0, 0, 1]); record = simulate(settings, data=tiny_data(),"
        f" out={str(tmp_path / 'run')!r}); assert record.finished"
    )
    path = f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r}); "
    assert held(path + script, (*SLOW, "rich", "typer", "ray")) == "torch"
