"""The documents keep their promises: rows of docs/paper.md, links, commands and outputs in the README."""

import ast
import importlib
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import fedteddi
from cli_runner import Outcome
from fedteddi import check_scheduler, make_scheduler
from fedteddi.schedulers.schedule import remembers
from fedteddi.studies.page import page_of_summaries
from fedteddi.studies.study import load_study

ROOT = Path(__file__).parents[1]
PAPER = (ROOT / "docs" / "paper.md").read_text(encoding="utf-8")
README = (ROOT / "README.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| (.+) \| `(fedteddi[\w.]*)` \| `(tests/[\w/]+\.py)::(\w+)` \|$", PAPER, re.MULTILINE)
PAGES = sorted(ROOT.glob("*.md")) + sorted((ROOT / "docs").glob("**/*.md"))


def test_the_scores_that_advice_rests_on_are_the_leaderboards() -> None:
    """docs/choose.md is typed by hand: every accuracy in it stands on the page that the runs wrote."""
    advice, board = ((ROOT / "docs" / f"{name}.md").read_text("utf-8") for name in ("choose", "leaderboard"))
    quoted = set(re.findall(r"\b0\.\d{3}\b", advice))
    assert len(quoted) > 10
    assert quoted <= set(re.findall(r"\b0\.\d{3}\b", board))
    scores = dict(re.findall(r"^\| \d+ \| ([\w-]+) \| (0\.\d{3}) ", board, re.MULTILINE))
    assert f"scores {scores['fedteddi-plus']} and {scores['fed-cbs']}" in advice
    assert f"`random` {scores['random']}" in advice


@pytest.mark.parametrize("row", ROWS, ids=[row[3] for row in ROWS])
def test_every_row_names_a_function_and_a_test_that_exist(row: tuple[str, str, str, str]) -> None:
    _, function, file, test = row
    module, _, name = function.rpartition(".")
    assert callable(getattr(importlib.import_module(module), name))
    defined = {
        node.name
        for node in ast.walk(ast.parse((ROOT / file).read_text()))
        if isinstance(node, ast.FunctionDef)
    }
    assert test in defined


def test_no_row_of_the_table_is_overlooked() -> None:
    section = PAPER.split("## Equation → function → test")[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("| ")]
    assert len(ROWS) == len(lines) - 1


def test_every_decision_is_listed() -> None:
    assert re.findall(r"^\| (D\d+) \|", PAPER, re.MULTILINE) == [f"D{number}" for number in range(1, 13)]


def test_every_decision_the_code_points_to_exists() -> None:
    cited = {
        number
        for file in (ROOT / "src").glob("**/*.py")
        for number in re.findall(r"docs/paper\.md (D\d+)", file.read_text(encoding="utf-8"))
    }
    assert cited <= set(re.findall(r"^\| (D\d+) \|", PAPER, re.MULTILINE))
    assert len(cited) >= 5


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
        if not target.startswith("http"):
            assert (page.parent / target).exists(), target


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])
def test_comments_are_apart_from_the_commands_before_them(page: Path) -> None:
    """To a shell, `--json# why` is an option of that name."""
    commands = re.findall(
        r"^    (?:fedteddi|make|python|flwr) .*$", page.read_text(encoding="utf-8"), re.MULTILINE
    )
    assert [line for line in commands if re.search(r"\S# ", line)] == []


def test_the_schedule_of_the_docs_is_real(cli: Callable[..., Outcome]) -> None:
    """The schedule on docs/usage.md is what the command prints, line by line."""
    page = (ROOT / "docs" / "usage.md").read_text(encoding="utf-8")
    shown = page.split("```text\n")[1].split("```")[0]
    real = cli("schedule", "-", stdin=cli("example").out).out
    assert [line.rstrip() for line in shown.splitlines()] == [line.rstrip() for line in real.splitlines()]


# Rows of the README: the row of the page they quote (of the paper's FedTeddi, with sigma=literal), and its accuracy.
QUOTED = {
    "fewer rounds than Random to 75 % balanced": ("fewer rounds than random, 1.2 s, to 75%", "balanced"),
    "fewer rounds than FedCGD to 75 % balanced": (
        "fewer rounds than fedcgd-sigma-literal, 1.2 s, to 75%",
        "balanced",
    ),
    "first in speed to 75 % balanced": ("first in speed at every deadline", "balanced"),
    "first in final balanced accuracy": ("first in final accuracy at every deadline", "balanced"),
    "more scheduled clients with new classes than Random": (
        "more scheduled clients with new classes than random",
        "–",
    ),
    "fedteddi-plus needs the fewest rounds of all to 75 % balanced": (
        "fedteddi-plus needs fewer rounds than every other scheduler",
        "balanced",
    ),
}


@pytest.fixture(scope="module")
def page_of_cifar10(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The page that the committed summaries give."""
    folder = tmp_path_factory.mktemp("page")
    written = page_of_summaries(load_study("cifar10"), ROOT / "docs" / "results" / "cifar10", folder)
    return written.files[0].read_text(encoding="utf-8")


def test_the_readme_is_short_and_its_claims_are_those_of_the_results(page_of_cifar10: str) -> None:
    """700 words are what a newcomer reads; verdicts, numbers and the paper's word are the page's."""
    assert len(README.split()) <= 700
    rows = README.split("| claim | paper | ours |\n|---|---|---|\n")[1].split("\n\n")[0].splitlines()
    cells = [row.strip("|").split("|") for row in rows]
    assert [cell[0].strip() for cell in cells] == list(QUOTED)
    of_page = [[cell.strip() for cell in line.strip("|").split("|")] for line in page_of_cifar10.splitlines()]
    for claim, paper, ours in cells:
        name, accuracy = QUOTED[claim.strip()]
        told = next(row for row in of_page if row[:2] == [name, accuracy])
        assert told[2] == paper.strip()
        assert ours.strip().replace("*", "").startswith(f"{told[4]}: ")


def test_the_numbers_of_the_readme_are_those_of_the_results(page_of_cifar10: str) -> None:
    """Every mean with its deviation, and the rounds that the picture shows, stand on the page."""
    told = README.split("## What holds")[1].split("\n## ")[0]
    numbers = re.findall(r"\d[\d.]* ± [\d.]*\d|[\d.]+% fewer", told)
    assert len(numbers) >= 10
    assert [one for one in numbers if one not in page_of_cifar10] == []
    drawn = re.findall(
        r"(fedteddi-plus|Fed-CBS|FedTeddi|Random) (\d+)", README.partition("](docs/hero.svg)")[0]
    )
    to_75 = page_of_cifar10.split("## Frame 1: rounds to an accuracy")[1].split("\n## ")[0]
    rules = {"Fed-CBS": "fed-cbs", "FedTeddi": "fedteddi-sigma-literal", "Random": "random"}
    assert len(drawn) == 4
    for name, rounds in drawn:
        (row,) = re.findall(rf"^\| 1.2 \| {rules.get(name, name)} \|(.*)\|$", to_75, re.MULTILINE)
        assert row.split("|")[3].strip().startswith(f"{rounds} ± ")


def test_the_picture_of_the_readme_is_what_its_script_draws(tmp_path: Path) -> None:
    """Another version of matplotlib may write another byte, but not another picture."""
    script, drawn = ROOT / "scripts" / "hero.py", tmp_path / "hero.svg"
    subprocess.run([sys.executable, script, "--write", drawn], check=True, timeout=120)
    kept = (ROOT / "docs" / "hero.svg").read_text(encoding="utf-8")
    assert drawn.stat().st_size == pytest.approx(len(kept.encode()), rel=0.05)
    now = drawn.read_text(encoding="utf-8")
    for part in ("<use ", "<path ", 'id="PathCollection_', 'id="line2d_', "<g id="):
        assert now.count(part) == kept.count(part)
    assert "<rect" not in kept.split("</defs>")[0]


@pytest.mark.parametrize("page", ["README.md", "docs/usage.md"])
def test_python_in_the_docs_runs_and_prints_what_it_says(page: str, tmp_path: Path) -> None:
    """What was trained may differ in the last digits on another machine: means by 0.05, rounds by one evaluation."""
    text = (ROOT / page).read_text(encoding="utf-8")
    for source in re.findall(r"```python\n(.*?)```", text, re.DOTALL):
        promised = re.findall(r"# *→ (.*)", source)
        done = subprocess.run(
            [sys.executable, "-c", source],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        if " ± " not in done.stdout:
            assert done.stdout.splitlines() == promised
            continue
        for line, shown in zip(done.stdout.splitlines(), promised, strict=True):
            assert [one for one in line.split() if not _number(one)] == [
                one for one in shown.split() if not _number(one)
            ]
            for now, before in zip(
                filter(_number, line.split()), filter(_number, shown.split()), strict=True
            ):
                assert float(now) == pytest.approx(float(before), abs=0.05 if "." in before else 5)


def _number(word: str) -> bool:
    return re.fullmatch(r"\d+(\.\d+)?", word) is not None


def test_the_scheduler_with_memory_of_the_docs_is_as_short_as_it_says_and_keeps_the_laws(
    tmp_path: Path,
) -> None:
    page = (ROOT / "docs" / "extend" / "scheduler.md").read_text(encoding="utf-8")
    (source,) = re.findall(r"## A scheduler with memory.*?```python\n(.*?)```", page, re.DOTALL)
    (tmp_path / "oldest.py").write_text(source)
    rule = make_scheduler(f"{tmp_path}/oldest.py:Oldest")
    assert remembers(rule)
    assert check_scheduler(rule, rounds=20) == []
    assert len([line for line in source.splitlines() if line.strip()]) <= 16


def test_what_the_docs_import_from_fedteddi_is_public() -> None:
    pages = [ROOT / "docs" / "extend.md", *sorted((ROOT / "docs" / "extend").glob("*.md"))]
    page = "\n".join(one.read_text(encoding="utf-8") for one in pages)
    named = re.findall(r"\bfedteddi\.(\w+)", page) + re.findall(
        r"^from fedteddi import (\w+)", page, re.MULTILINE
    )
    assert {"fill_band", "Reference", "make_scheduler"} <= set(named)
    groups = {"schedulers", "replays", "models", "datasets", "experiments"}
    groups |= {"channels", "aggregations", "local_training"}
    assert [name for name in named if name not in fedteddi.__all__ and name not in groups] == []
