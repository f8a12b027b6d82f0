"""docs/parts.md is what the code says now: `make reference` writes it."""

import runpy
from pathlib import Path

import pytest

from fedteddi.registry import option_defaults
from fedteddi.schedulers.references import Reference
from fedteddi.schedulers.registry import SCHEDULERS

ROOT = Path(__file__).parents[1]
SCRIPT = runpy.run_path(str(ROOT / "scripts" / "reference.py"))
PAGE = (ROOT / "docs" / "parts.md").read_text(encoding="utf-8")


def test_the_committed_page_is_current() -> None:
    assert SCRIPT["page"]() == PAGE, "make reference writes it again"


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
