"""The generated pages are what the code says now: `make reference` writes them."""

import re
import runpy
from collections.abc import Callable
from pathlib import Path

import pytest

from cli_runner import Outcome
from fedteddi.registry import option_defaults
from fedteddi.schedulers.references import Reference
from fedteddi.schedulers.registry import SCHEDULERS

ROOT = Path(__file__).parents[1]
SCRIPT = runpy.run_path(str(ROOT / "scripts" / "reference.py"))
PAGE = (ROOT / "docs" / "parts.md").read_text(encoding="utf-8")
CLI_PAGE = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
COMMANDS = [tuple(line.split()[2:]) for line in CLI_PAGE.splitlines() if line.startswith("## fedteddi ")]


@pytest.mark.parametrize("name", SCRIPT["PAGES"])
def test_the_committed_page_is_current(name: str) -> None:
    committed = (ROOT / "docs" / name).read_text(encoding="utf-8")
    assert SCRIPT["PAGES"][name]() == committed, "make reference writes it again"


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_a_command_has_every_option_of_its_help(words: tuple[str, ...], cli: Callable[..., Outcome]) -> None:
    """The oracle is what `--help` prints: each word that begins with -- is in the command's section, and no other."""
    section = CLI_PAGE.split(f"\n## fedteddi {' '.join(words)}\n")[1].split("\n## ")[0]
    said = re.findall(r"^│ \*? *(--[\w-]+)", cli(*words, "--help").out, re.MULTILINE)
    named = re.findall(r"^\| `(--[\w-]+)`", section, re.MULTILINE)
    assert sorted(named) == sorted(set(said) - {"--help"})


@pytest.mark.parametrize("name", SCHEDULERS.built_in())
def test_a_rule_has_its_source_needs_and_every_option(name: str) -> None:
    rule = SCHEDULERS.built_in()[name]
    (row,) = [
        line for line in PAGE.splitlines() if line.startswith(f"| `{name}` | ") and line.count(" | ") > 4
    ]
    reference = getattr(rule, "reference", None)
    assert isinstance(reference, Reference)
    assert f"| {reference.short} |" in row
    assert all(need in row for need in rule.needs)
    assert ("| yes |" in row) == hasattr(rule, "initial_state")
    shared = PAGE.partition("Options that most rules have:")[2].partition("What needs cost")[0]
    for option in option_defaults(rule) or {}:
        assert f"`{option}=" in row + shared


def test_every_row_has_as_many_cells_as_its_head() -> None:
    """A | inside a cell is escaped, or the row would have one more."""
    for table in PAGE.split("\n\n"):
        if table.startswith("| "):
            cells = {line.replace("\\|", "").count("|") for line in table.strip().splitlines()}
            assert len(cells) == 1, table
