"""One style of flags: the short ones mean the same everywhere, and a rule's options are given in two ways."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import typer
from click import Command, Group, Option

from cli_runner import Outcome
from fedteddi.cli.app import app
from fedteddi.cli.options import rules_with
from fedteddi.errors import InputError

Cli = Callable[..., Outcome]
EXAMPLE = Path(__file__).parents[2] / "examples" / "my_rule.py"
SHORT = {"-s": "--scheduler", "-o": "--option"}


def commands(group: Command, *words: str) -> list[tuple[tuple[str, ...], Command]]:
    if not isinstance(group, Group):
        return [(words, group)]
    return [found for name, one in group.commands.items() for found in commands(one, *words, name)]


ALL = commands(typer.main.get_command(app))


@pytest.mark.parametrize(("words", "command"), ALL, ids=[" ".join(words) for words, _ in ALL])
def test_short_flags_mean_the_same_everywhere(words: tuple[str, ...], command: Command) -> None:
    """Each has its long form, and each of these long forms its short one."""
    given = [option.opts for option in command.params if isinstance(option, Option)]
    for opts in given:
        short = [word for word in opts if not word.startswith("--")]
        assert all(SHORT[word] in opts for word in short), words
        assert all(word in opts for word, long in SHORT.items() if long in opts), words
    takes_a_rule = any("--scheduler" in opts for opts in given)
    assert not takes_a_rule or any("--option" in opts for opts in given), words


@pytest.mark.parametrize("words", [(), ("run",), ("data", "get"), ("compare",), ("schedule",)])
def test_h_is_help(cli: Cli, words: tuple[str, ...]) -> None:
    done = cli(*words, "-h")
    assert done.code == 0
    assert done.out == cli(*words, "--help").out


def test_options_in_brackets_and_behind_o_do_the_same(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "round.json"
    file.write_text(cli("example").out)
    both = [
        json.loads(cli("schedule", file, "--json", *words).out)
        for words in (
            ("-s", "fedteddi[search=exact,lambda0=0.5]"),
            ("-s", "fedteddi", "-o", "search=exact", "-o", "lambda0=0.5"),
            ("-s", "fedteddi[search=exact]", "-o", "lambda0=0.5"),
        )
    ]
    assert both[0]["options"]["search"] == "exact"
    assert both[0] == both[1] == both[2]
    twice = cli("schedule", file, "-s", "fedteddi[search=exact]", "-o", "search=exact")
    assert twice.code == 2
    assert "the option 'search' of fedteddi is given twice" in twice.err


def test_check_reads_brackets_too(cli: Cli) -> None:
    assert cli("check", "fedteddi[search=refined]", "--rounds", 1).code == 0
    refused = cli("check", "fedteddi[serch=refined]", "--rounds", 1)
    assert refused.code == 2
    assert "fedteddi has no option 'serch' (did you mean 'search'?)" in refused.err
    assert "has no option" in cli("check", "rayleigh[nonsuch=1]", "--kind", "channel").err


def test_rules_of_a_study_may_have_options_behind_o() -> None:
    assert rules_with(["a", "b[x=1]"], ["y=2", "z=3"]) == ["a[y=2,z=3]", "b[x=1,y=2,z=3]"]
    assert rules_with(["a"], None) == ["a"]
    assert rules_with(None, []) == []
    with pytest.raises(InputError, match="name the rule it is for with --scheduler"):
        rules_with(None, ["y=2"])
    with pytest.raises(InputError, match="write it as key=value"):
        rules_with(["a"], ["y"])


def test_a_run_is_called_as_the_scheduler_calls_itself(cli: Cli, tiny: Path) -> None:
    words = ("run", tiny, "--rounds", 1, "--out")
    assert cli(*words, "mine", "-s", f"{EXAMPLE}:ShortestUploads").out.startswith("shortest-uploads at 1 s")
    done = cli(*words, "refined", "-o", "search=refined")
    assert done.out.startswith("fedteddi-search-refined at 1 s, seed 0: ")
    assert 'search = "refined"' in Path("refined/settings.toml").read_text()
    assert done.out.splitlines()[-1] == "Next: fedteddi report refined"
