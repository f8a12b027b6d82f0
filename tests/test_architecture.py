"""The tree is what ARCHITECTURE.md and CONTRIBUTING.md say."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "fedteddi"
KINDS = {"laws", "paper", "parity", "faults", "golden"}  # of tests that belong to no single folder


def test_every_file_and_folder_named_there_exists() -> None:
    """Names are below src/fedteddi, or below the folder that the table's row or the sentence is about."""
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    names = set(re.findall(r"`([\w/]+(?:\.py|/))`", text))
    assert len(names) > 30
    assert [name for name in sorted(names) if not any(SOURCE.rglob(name.rstrip("/")))] == []


def test_few_modules_lie_at_the_top_level() -> None:
    modules = {file.stem for file in SOURCE.glob("*.py")} - {"__init__", "__main__"}
    assert {"registry", "randomness", "errors", "experiment"} <= modules
    assert len(modules) <= 9


def test_tests_mirror_the_source() -> None:
    """A folder with tests is one of src/fedteddi, belongs to one module of it, or is of a special kind."""
    tests = ROOT / "tests"
    folders = {file.parent.relative_to(tests) for file in tests.rglob("test_*.py")} - {Path()}
    assert Path("learning/gpu") in folders
    for folder in folders:
        if folder.parts[0] not in KINDS:
            assert (SOURCE / folder).is_dir() or (SOURCE / folder).with_suffix(".py").is_file(), folder
