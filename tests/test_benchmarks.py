"""The benchmarks run, agree with their baselines, and print what the documents quote."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def run(*words: str) -> str:
    done = subprocess.run(
        [sys.executable, *words], cwd=ROOT, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_optimality_in_small(tmp_path: Path) -> None:
    """A few instances: enumeration and solver agree (the script stops if not), and exact is always optimal."""
    page = tmp_path / "page.md"
    run("benchmarks/optimality.py", "--instances", "6", "--write", str(page))
    rows = re.findall(r"^\| (\d+) \| (\w+) \| (\d+)% \| ([\d.]+) \|", page.read_text(), re.MULTILINE)
    assert [(clients, search) for clients, search, *_ in rows] == [
        (clients, search) for clients in ("12", "30") for search in ("greedy", "refined", "exact")
    ]
    for clients in ("12", "30"):
        gap = {search: float(mean) for size, search, _, mean in rows if size == clients}
        assert gap["greedy"] >= gap["refined"] >= gap["exact"] == 0
    assert {share for _, search, share, _ in rows if search == "exact"} == {"100"}


def test_the_readme_quotes_the_committed_page() -> None:
    committed = (ROOT / "docs" / "optimality.md").read_text(encoding="utf-8")
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    shares = dict(re.findall(r"^\| 30 \| (\w+) \| (\d+)% \|", committed, re.MULTILINE))
    assert f"| {shares['greedy']} % of 30-client rounds |" in readme
    assert f"| {shares['refined']} %, and" in readme


@pytest.mark.parametrize("words", [("scheduling.py", "--quick"), ("one_pass.py", "--clients", "20000")])
def test_speed_benchmarks_run(words: tuple[str, ...]) -> None:
    """`scheduling.py` stops if the plain reading chooses other clients."""
    assert re.search(r"ms", run(f"benchmarks/{words[0]}", *words[1:]))


def test_the_privacy_study_writes_its_table_into_a_page(tmp_path: Path) -> None:
    """One round, one seed: rows for Random and every ε, and the page around the table stays."""
    page = tmp_path / "page.md"
    committed = (ROOT / "docs" / "privacy.md").read_text(encoding="utf-8")
    page.write_text(committed, encoding="utf-8")
    run("benchmarks/privacy.py", "--seeds", "1", "--rounds", "1", "--epochs", "0", "--write", str(page))
    made = page.read_text(encoding="utf-8")
    rows = re.findall(r"^\| (FedTeddi, no noise|Random|FedTeddi, ε = [\d.]+) \|", made, re.MULTILINE)
    assert rows == [
        "FedTeddi, no noise",
        "Random",
        "FedTeddi, ε = 1",
        "FedTeddi, ε = 0.1",
        "FedTeddi, ε = 0.01",
    ]
    assert made.split("<!-- ")[0] == committed.split("<!-- ")[0]
