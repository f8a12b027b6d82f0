"""One registry for all kinds: names, installed parts, files and Python objects; where each comes from; its source."""

import subprocess
import sys
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cli_runner import Outcome
from fedteddi import InputError, RoundView, Schedule, make_scheduler
from fedteddi.cli.parts import KINDS
from fedteddi.given import label_in
from fedteddi.learning.datasets.dataset import load_dataset
from fedteddi.registry import (
    BUILT_IN,
    Kind,
    find,
    load_object,
    make,
    name_of,
    one_sentence,
    read_options,
    read_value,
    source_checksums,
)
from fedteddi.scenario.replay import REPLAYS
from fedteddi.schedulers.registry import SCHEDULERS, named_rule
from fedteddi.schedulers.rules.random import Random
from fedteddi.settings import Settings, load_experiment
from small_world import tiny_data


class Red:
    """A colour."""

    def __init__(self, shade: int = 1) -> None:
        self.shade = shade


def _check(value: Any, name: str) -> None:
    if not isinstance(value, type | Red):
        raise InputError(f"{name} is no colour: it must be a class")


COLOURS = Kind(
    name="my-colours", one="colour", built_in=lambda: {"red": Red}, your_own="mix one", check=_check
)


def test_a_new_kind_is_a_few_lines() -> None:
    assert COLOURS.group == "fedteddi.my_colours"  # no hyphens in groups of entry points
    assert COLOURS.names() == ["red"]
    assert find(COLOURS, "red").source == BUILT_IN
    assert make(COLOURS, "red", shade=3).shade == 3
    assert COLOURS.describe(Red) == "A colour."
    with pytest.raises(
        InputError, match=r"no colour is called 'rde' \(did you mean 'red'\?\): known are red, or mix"
    ):
        find(COLOURS, "rde")
    with pytest.raises(
        InputError, match=r"red has no option 'shad' \(did you mean 'shade'\?\): it has shade"
    ):
        make(COLOURS, "red", shad=3)
    with pytest.raises(InputError, match="is no colour"):
        find(COLOURS, "small_world:tiny_data")


def test_an_object_is_found_again_by_its_name() -> None:
    """Importable ones by `module:name`, so that another process finds them as well; others in this process."""

    class Nearby:
        pass

    assert name_of("as-it-is") == "as-it-is"
    assert name_of(Red, COLOURS) == "red"
    assert name_of(tiny_data) == "small_world:tiny_data"
    assert load_object(name_of(tiny_data)) is tiny_data
    made = Red(shade=7)
    for given, name in ((Nearby, "Nearby"), (made, "Red")):
        assert label_in(name_of(given)) == name
        assert find(Kind(name="x", one="x", built_in=dict), name_of(given)).value is given
    assert make(COLOURS, name_of(made)) is made
    with pytest.raises(InputError, match=r"python:Red@\w+ has no option 'shade': it has none"):
        make(COLOURS, name_of(made), shade=1)
    with pytest.raises(
        InputError, match="'python:Blue' is an object of the Python process that started the run"
    ):
        find(COLOURS, "python:Blue")
    with pytest.raises(InputError, match="'__main__:Blue' is an object of the Python process"):
        find(COLOURS, "__main__:Blue")


def test_settings_take_objects_where_they_take_names() -> None:
    changed = Settings().changed(training__model=tiny_data, scenario__replay="balanced")
    assert (changed.training.model, changed.scenario.replay) == ("small_world:tiny_data", "balanced")
    with pytest.raises(InputError, match=r"radio\.gain_trace"):
        Settings().changed(radio__gain_trace=Path("gains.csv"))


def test_schedulers_may_be_classes_instances_and_functions() -> None:
    view, rng = make_scheduler("random"), np.random.default_rng
    assert (named_rule(Random).name, named_rule(Random).scheduler) == ("random", "random")
    sharing = Random(spare_band="share")
    assert make_scheduler(sharing) is sharing
    assert named_rule(sharing) == named_rule("random[spare_band=share]")

    def nobody(view: RoundView, rng: np.random.Generator) -> Schedule:  # noqa: ARG001
        return Schedule(clients=(), bandwidth_hz=())

    rule = make_scheduler(nobody)
    assert rule.name == "nobody"
    assert rule.select(view, rng(0)).clients == ()  # type: ignore[arg-type]
    with pytest.raises(InputError, match="not a scheduler"):
        make_scheduler(Red)


def install(folder: Path, group: str, line: str, source: str) -> None:
    """A real distribution: metadata, entry point, module."""
    (folder / "theirs.py").write_text(source)
    info = folder / "their_parts-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: their-parts\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[{group}]\n{line}\n")


def test_an_installed_part_of_any_kind_is_found_and_listed_with_its_distribution(tmp_path: Path) -> None:
    source = 'def newest(held, classes, keep, rng):\n    """Keep the newest."""\n    return held[-keep:]\n'
    install(tmp_path, "fedteddi.replays", "newest = theirs:newest", source)
    script = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r}); sys.argv = ['fedteddi', 'list', 'replays']\n"
        "from fedteddi.scenario.replay import find_replay_rule\n"
        "import numpy as np\n"
        "print(find_replay_rule('newest')(np.arange(5), np.zeros(5), 2, np.random.default_rng(0)))\n"
        "from fedteddi.cli import main; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=60
    )
    lines = done.stdout.splitlines()
    assert lines[0] == "[3 4]"
    assert [line.split()[:2] for line in lines[1:3]] == [["random", "built-in"], ["balanced", "built-in"]]
    assert lines[3] == "newest    their-parts 1.0  Keep the newest."
    assert done.stderr == ""


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_listed_one_line_each(cli: Any, kind: str) -> None:
    done: Outcome = cli("list", kind)
    which: Kind = load_object(KINDS[kind])
    assert (done.code, done.err) == (0, "")
    lines = done.out.splitlines()
    assert which.name == kind
    assert [line.split()[0] for line in lines] == which.names()
    assert all(BUILT_IN in line and len(line.split()) > 3 for line in lines)


def test_a_kind_that_does_not_exist_comes_with_the_nearest(cli: Any) -> None:
    done: Outcome = cli("list", "scheduler")
    assert done.code == 2
    assert "KIND='scheduler': choose one of schedulers, " in done.err
    assert "did you mean 'schedulers'?" in done.err


def test_a_broken_package_is_a_warning_in_the_list(cli: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    bad = EntryPoint(name="bad", value="nonsuch:X", group="fedteddi.replays")
    monkeypatch.setattr("fedteddi.registry.entry_points", lambda **_group: [bad])
    done: Outcome = cli("list", "replays")
    assert done.code == 0
    assert "balanced" in done.out
    assert "the entry point 'bad' could not be imported" in done.err


def test_data_sets_and_experiments_of_ones_own(tmp_path: Path) -> None:
    assert load_dataset("small_world:tiny_data").name == "tiny"
    (tmp_path / "mine.py").write_text(
        "from fedteddi import Settings\nmine = Settings(seed=7)\nthree = 3\n"
        "def none(): return None\ndef bad(): raise SystemExit(1)\n"
    )
    assert load_experiment(f"{tmp_path}/mine.py:mine").seed == 7
    with pytest.raises(InputError, match="is no experiment"):
        load_experiment(f"{tmp_path}/mine.py:three")
    with pytest.raises(InputError, match="is a NoneType: it must be"):
        load_dataset(f"{tmp_path}/mine.py:none")
    with pytest.raises(InputError, match=r"could not be loaded: it called sys\.exit\(1\)"):
        load_dataset(f"{tmp_path}/mine.py:bad")
    with pytest.raises(InputError, match="is no data set"):
        load_dataset(f"{tmp_path}/mine.py:three")


def test_checksums_follow_the_source_of_what_is_not_built_in(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text("class Mine: ...\n")
    parts = [(SCHEDULERS, "random"), (SCHEDULERS, f"{file}:Mine"), (REPLAYS, "small_world:tiny_data")]
    first = source_checksums(parts)
    assert list(first) == [f"scheduler {file}:Mine", "replay rule small_world:tiny_data"]
    file.write_text("class Mine: ...\n\n")
    second = source_checksums(parts)
    assert second[f"scheduler {file}:Mine"] != first[f"scheduler {file}:Mine"]
    assert second["replay rule small_world:tiny_data"] == first["replay rule small_world:tiny_data"]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *(("3", 3), ("0.5", 0.5), ("true", True), ("[1, 2]", [1, 2]), ('"3"', "3"), ("refined", "refined")),
        *(("1\ny = 2", "1\ny = 2"), ("9" * 5000, "9" * 5000), ("[" * 2000, "[" * 2000)),
    ],
)
def test_one_parser_reads_all_values(text: str, value: Any) -> None:
    assert read_value(text) == value
    assert read_options([f"key={text}"], "--option") == {"key": value}


def test_what_a_plug_in_raises_is_one_sentence() -> None:
    with pytest.raises(InputError, match=r"^mine: KeyError: 'x'$"), one_sentence("mine"):
        raise KeyError("x")
    with pytest.raises(InputError, match=r"^as it is$"), one_sentence("mine"):
        raise InputError("as it is")
    with pytest.raises(KeyboardInterrupt), one_sentence("mine"):
        raise KeyboardInterrupt
