"""Rules are found by name, by entry point and in files; what is wrong with one is said in a sentence."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from fedteddi import (
    InputError,
    RoundView,
    Schedule,
    check_scheduler,
    example_round,
    fill_band,
    make_scheduler,
    scheduler_names,
)
from fedteddi.schedulers import registry
from fedteddi.schedulers.registry import named_rule
from fedteddi.schedulers.schedule import choice_of, first_state

EXAMPLE = Path(__file__).parents[2] / "examples" / "my_rule.py"


def shortest(view: RoundView, rng: np.random.Generator) -> Schedule:
    return fill_band(view, np.lexsort((rng.random(view.num_clients), view.needed_hz)))


def everyone_with_all(view: RoundView, rng: np.random.Generator) -> Schedule:  # noqa: ARG001
    return Schedule(clients=tuple(range(view.num_clients)), bandwidth_hz=(view.total_hz,) * view.num_clients)


def test_a_function_a_class_and_a_name_are_checked_like_a_rule() -> None:
    """What `simulate` takes, `check_scheduler` takes; what is broken is told without the whole round."""
    rule = make_scheduler(f"{EXAMPLE}:ShortestUploads")
    for given in (shortest, type(rule), "random"):
        assert check_scheduler(given, rounds=15) == []
    broken = check_scheduler(everyone_with_all, rounds=15)
    assert broken[0].law == "keeps within the limits"
    assert repr(broken[0]).startswith("Broken(law='keeps within the limits', fault=")
    assert "RoundView" not in repr(broken[0])
    with pytest.raises(InputError, match="is not a scheduler"):
        check_scheduler(3, rounds=1)


def test_every_built_in_rule_can_be_made_and_used() -> None:
    for name in scheduler_names():
        rule = make_scheduler(name)
        assert rule.name == name
        chosen, _ = choice_of(rule, example_round(0), np.random.default_rng(0), first_state(rule, 30))
        assert chosen.clients


def test_the_examples_rule_is_found_by_file_and_keeps_the_laws() -> None:
    rule = make_scheduler(f"{EXAMPLE}:ShortestUploads")
    assert rule.name == "shortest-uploads"
    assert check_scheduler(rule, rounds=15) == []
    view = example_round(0)
    chosen = rule.select(view, np.random.default_rng(0)).clients
    assert chosen[0] == np.argmin(view.needed_hz)
    assert len(chosen) >= len(make_scheduler("random").select(view, np.random.default_rng(0)).clients)


def test_an_installed_rule_is_found_by_its_entry_point(tmp_path: Path) -> None:
    """A real distribution on the path, in a fresh interpreter: metadata, entry point, module."""
    (tmp_path / "their_rule.py").write_text(EXAMPLE.read_text().replace("shortest-uploads", "theirs"))
    info = tmp_path / "theirs-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: theirs\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[fedteddi.schedulers]\ntheirs = their_rule:ShortestUploads\n")
    script = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
        "import fedteddi\n"
        "print(fedteddi.scheduler_names()[-1], fedteddi.make_scheduler('theirs').name)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.split() == ["theirs", "theirs"]


@pytest.mark.parametrize(
    ("source", "class_name", "message"),
    [
        ("class Mine:\n    name = 'mine'\n", "Mine", "needs to be a class with select"),
        ("class Mine:\n    def select(self, view, rng): ...\n", "Mine", "has no name"),
        (
            "class Mine:\n    name = 'mine'\n    def select(self, view, rng): ...\n",
            "Mien",
            "did you mean 'Mine'",
        ),
        ("def oops(:\n", "Mine", "could not be imported: SyntaxError"),
        ("import nonsuch\n", "Mine", "could not be imported: ModuleNotFoundError"),
        ("1 / 0\n", "Mine", "could not be imported: ZeroDivisionError"),
    ],
)
def test_what_is_wrong_with_a_file_is_said(
    tmp_path: Path, source: str, class_name: str, message: str
) -> None:
    file = tmp_path / "rule.py"
    file.write_text(source)
    with pytest.raises(InputError, match=message):
        make_scheduler(f"{file}:{class_name}")


def test_a_rule_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    file = tmp_path / "rule.py"
    file.write_text(
        "class Mine:\n    name = 'mine'\n    def __init__(self, size=1): self.size = 1 / size\n"
        "    def select(self, view, rng): ...\n"
    )
    assert make_scheduler(f"{file}:Mine", size=2).size == 0.5  # type: ignore[attr-defined]
    with pytest.raises(InputError, match="could not be made: ZeroDivisionError"):
        make_scheduler(f"{file}:Mine", size=0)
    with pytest.raises(InputError, match=r"no option 'sise'.*did you mean 'size'"):
        make_scheduler(f"{file}:Mine", sise=2)


def test_unknown_names_come_with_the_nearest() -> None:
    with pytest.raises(InputError, match="did you mean 'fedteddi'"):
        make_scheduler("fedtedi")
    with pytest.raises(InputError, match="there is no file"):
        make_scheduler("nowhere.py:Mine")
    with pytest.raises(InputError, match="is not a Python file"):
        make_scheduler(f"{Path(__file__).parents[2] / 'README.md'}:Mine")


def test_adding_a_rule_touches_one_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file dropped into rules/ is found by its class's name, with nothing else to register."""
    (tmp_path / "new_rule.py").write_text(EXAMPLE.read_text())
    monkeypatch.setattr(registry.rules, "__path__", [str(tmp_path), *registry.rules.__path__])
    registry.built_in.cache_clear()
    try:
        assert "shortest-uploads" in scheduler_names()
    finally:
        monkeypatch.undo()
        registry.built_in.cache_clear()


def test_a_rule_may_be_named_with_options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rule of one's own is called as it calls itself."""
    monkeypatch.chdir(tmp_path)
    for folder in ("rules", "folder[1]"):
        Path(folder).mkdir()
        text = EXAMPLE.read_text().replace('"shortest-uploads"', '"my rule"')
        Path(folder, "mine.py").write_text(text.replace("ShortestUploads", "Mine"))
    plain = named_rule("fedteddi")
    assert (plain.name, plain.scheduler, plain.options) == ("fedteddi", "fedteddi", {})
    own = named_rule("rules/mine.py:Mine")
    assert (own.name, own.scheduler) == ("my-rule", "rules/mine.py:Mine")
    chosen = named_rule("fedteddi[search=refined, lambda0=0.5]")
    assert (chosen.name, chosen.scheduler) == ("fedteddi-search-refined-lambda0-0.5", "fedteddi")
    assert chosen.options == {"search": "refined", "lambda0": 0.5}
    assert named_rule('fedteddi[search="refined"]') == named_rule("fedteddi[search=refined]")
    in_brackets = named_rule("folder[1]/mine.py:Mine[share=1/2]")
    assert (in_brackets.scheduler, in_brackets.name) == ("folder[1]/mine.py:Mine", "my-rule-share-1-2")


@pytest.mark.parametrize(
    "text", ["fedteddi[", "fedteddi[refined]", "[search=refined]", "a[b=1][c=2]", "a[b=]", "a[=1]", ""]
)
def test_a_rule_that_cannot_be_read_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="is not a rule"):
        named_rule(text)


def test_an_option_given_twice_is_refused() -> None:
    with pytest.raises(InputError, match="gives an option twice"):
        named_rule("fedteddi[lambda0=1,lambda0=4]")


def test_a_scheduler_that_takes_a_state_must_say_how_it_begins(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        'class Mine:\n    name = "mine"\n    def select(self, view, rng, state):\n        return None, state\n'
    )
    with pytest.raises(InputError, match=r"mine\.py:Mine: select takes a state.*add initial_state"):
        make_scheduler(f"{tmp_path}/mine.py:Mine")
