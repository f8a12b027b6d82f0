"""The commands about settings: what they print and write, and what they refuse."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from cli_runner import Outcome
from fedteddi.settings import Settings, load_experiment
from fedteddi.settings.keys import all_keys
from fedteddi.settings.page import markdown_page
from fedteddi.settings.schema import editor_schema

Cli = Callable[..., Outcome]


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_a_key_is_explained(cli: Cli) -> None:
    shown = cli("settings", "radio.deadline_s").out
    assert shown.splitlines()[0] == "radio.deadline_s"
    flat = " ".join(shown.split())
    for said in ("unit s", "default 1.0", "values a number, above 0", "paper 0.8, 1 and 1.2 (CIFAR-10)"):
        assert said in flat
    assert "used only with scenario.layout = dirichlet" in " ".join(cli("settings", "alpha").out.split())


def test_without_a_key_each_has_one_line_in_its_section(cli: Cli) -> None:
    lines = cli("settings").out.splitlines()
    keys = [line.split()[0] for line in lines if line.startswith("  ")]
    assert sorted(keys) == sorted(key.name for key in all_keys())
    assert "[radio]  The cell, the uplink and the clients' speed." in lines
    radio = cli("settings", "radio").out.splitlines()
    assert {line.split()[0] for line in radio if line.startswith("  ")} == {
        key.name for key in all_keys() if key.section == "radio"
    }


def test_an_unknown_key_is_one_sentence(cli: Cli) -> None:
    refused = cli("settings", "radio.deadlin_s")
    assert refused.code == 2
    assert refused.err.startswith(
        "error: no setting is called 'radio.deadlin_s' (did you mean 'radio.deadline_s'?)"
    )


@pytest.mark.parametrize(("words", "name"), [((), "fashion"), (("--from", "evolving"), "evolving")])
def test_init_writes_an_experiment_and_never_over_a_file(cli: Cli, words: tuple[str, ...], name: str) -> None:
    done = cli("init", "my.toml", *words)
    assert done.code == 0
    assert "fedteddi run my.toml" in done.out
    assert load_experiment("my.toml") == load_experiment(name)
    written = Path("my.toml").read_text(encoding="utf-8")
    refused = cli("init", "my.toml")
    assert refused.code == 2
    assert "my.toml exists already" in refused.err
    assert Path("my.toml").read_text(encoding="utf-8") == written


def test_init_starts_from_a_file_too(cli: Cli) -> None:
    Path("first.toml").write_text("seed = 7\n[radio]\ndeadline_s = 2.0")
    assert cli("init", "second.toml", "--from", "first.toml").code == 0
    assert load_experiment("second.toml") == Settings().changed(seed=7, radio__deadline_s=2.0)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("my.json",), "my.json: give a file that ends in .toml"),
        (("my.toml", "--from", "evolvin"), "did you mean 'evolving'?"),
        (("nowhere/my.toml",), "cannot be written (No such file or directory)"),
    ],
)
def test_init_refuses_in_one_sentence(cli: Cli, words: tuple[str, ...], message: str) -> None:
    refused = cli("init", *words)
    assert refused.code == 2
    assert message in refused.err
    assert not list(Path().iterdir())


def test_the_schema_and_the_page_are_printed_or_written(cli: Cli) -> None:
    assert json.loads(cli("settings", "--schema").out) == editor_schema()
    assert cli("settings", "--markdown").out == markdown_page()
    assert cli("settings", "--schema", "mine.json").code == 0
    assert json.loads(Path("mine.json").read_text(encoding="utf-8")) == editor_schema()
    assert cli("settings", "--markdown", "mine.md").code == 0
    assert Path("mine.md").read_text(encoding="utf-8") == markdown_page()
    assert "ends in .json" in cli("settings", "--schema", "radio").err
    assert "give one" in cli("settings", "--schema", "--markdown").err
    assert "cannot be written" in cli("settings", "--schema", "nowhere/mine.json").err


def test_experiments_are_listed_with_what_they_are(cli: Cli) -> None:
    listed = cli("list", "experiments").out.splitlines()
    assert {line.split()[0] for line in listed} >= {"fashion", "evolving", "cifar10", "cifar100"}
    assert all(len(line.split()) > 8 for line in listed)


def test_a_terminal_wraps_and_a_pipe_does_not(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    from fedteddi.cli import settings

    monkeypatch.setattr(type(settings.out), "is_terminal", True)
    monkeypatch.setattr(type(settings.out), "width", 80)
    assert max(map(len, cli("settings", "training").out.splitlines())) <= 80
    monkeypatch.setattr(type(settings.out), "is_terminal", False)
    assert max(map(len, cli("settings", "training").out.splitlines())) > 80
