"""The notebooks are saved with what their cells show, and show the same when they are played again."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
NOTEBOOKS = sorted((ROOT / "examples" / "notebooks").glob("*.ipynb"))
NAMES = [file.stem for file in NOTEBOOKS]
# Of a cell with this tag, numbers depend on the machine (what was trained): only the words beside them must stay.
MEASURED = "measured"
NUMBER = re.compile(r"[-−]?\d+(\.\d+)?(e[-+]?\d+)?")


def code_cells(file: Path) -> list[dict[str, Any]]:
    cells = json.loads(file.read_text(encoding="utf-8"))["cells"]
    return [cell for cell in cells if cell["cell_type"] == "code"]


def kinds(cell: dict[str, Any]) -> list[tuple[str, ...]]:
    return [(one["output_type"], *sorted(one.get("data", {}))) for one in cell["outputs"]]


def shown(cell: dict[str, Any]) -> list[str]:
    """Return the text of every output; of a cell that is measured, its words in order, each once."""
    texts = ["".join(one.get("text") or one["data"]["text/plain"]) for one in cell["outputs"]]
    if MEASURED not in cell["metadata"].get("tags", []):
        return texts
    return [" ".join(dict.fromkeys(re.findall(r"[A-Za-zα-ω_]{2,}", NUMBER.sub(" ", one)))) for one in texts]


def test_there_are_three_and_each_is_named_in_the_navigation() -> None:
    """tests/test_docs_site.py compares the navigation with the files."""
    assert len(NAMES) == 3


@pytest.mark.parametrize("file", NOTEBOOKS, ids=NAMES)
def test_a_notebook_is_saved_with_its_outputs_and_is_small(file: Path) -> None:
    cells = code_cells(file)
    assert len(cells) >= 5
    outputs = [one for cell in cells for one in cell["outputs"]]
    assert all(cell["outputs"] for cell in cells)
    assert {one["output_type"] for one in outputs} <= {"stream", "execute_result", "display_data"}
    assert any("<img src=" in "".join(one.get("data", {}).get("text/html", "")) for one in outputs)
    assert [one for one in outputs if "<Figure" in str(one.get("data", {}).get("text/plain"))] == []
    assert file.stat().st_size < 300_000
    assert "/home/" not in file.read_text("utf-8")
    assert "/tmp/" not in file.read_text("utf-8")


def test_what_is_measured_is_compared_without_its_numbers() -> None:
    """The last digits of accuracies, and with them the width of columns, are the machine's; 0.5 is no word."""
    cell: dict[str, Any] = {
        "metadata": {"tags": [MEASURED]},
        "outputs": [{"text": ["mean  0.5 ±\n", "a_b -1e-3"]}],
    }
    assert shown(cell) == ["mean a_b"]
    assert shown(cell | {"metadata": {}}) == ["mean  0.5 ±\na_b -1e-3"]


@pytest.mark.slow
@pytest.mark.parametrize("file", NOTEBOOKS, ids=NAMES)
def test_a_notebook_runs_and_shows_what_it_was_saved_with(file: Path, tmp_path: Path) -> None:
    """In a kernel of its own, in an empty folder."""
    done = subprocess.run(
        [sys.executable, ROOT / "scripts" / "notebooks.py", file, "--into", tmp_path],
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    before, now = code_cells(file), code_cells(tmp_path / file.name)
    assert [cell["source"] for cell in now] == [cell["source"] for cell in before]
    for old, new in zip(before, now, strict=True):
        assert kinds(new) == kinds(old)
        assert shown(new) == shown(old)
