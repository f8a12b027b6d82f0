"""A study is a TOML file: what is wrong with one is said in a sentence, and one of your own is played like any."""

from collections.abc import Callable
from pathlib import Path

import pytest

from cli_runner import Outcome
from fedteddi import InputError
from fedteddi.studies.study import flat, load_study, study_names

OWN = """
title = "My rule against Random"
experiment = "fashion"
ours = "fedteddi"
schedulers = ["fedteddi", "random"]
seeds = [3]
deadlines_s = [1.0]
targets = { balanced = [0.5], global = [0.5] }
quick = { rounds = [0, 1], training = { pretrain_epochs = 0, local_steps = 1 } }

[[claims]]
kind = "first"
what = "final accuracy"
"""


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEDTEDDI_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("name", study_names())
def test_built_in_studies_are_whole(name: str) -> None:
    """Their settings are valid, also the quick ones, and with the changes of every level."""
    plan = load_study(name)
    assert plan.name == name
    for own in (plan, plan.quickened()):
        assert own.settings.rounds[0] == 0
        for factor, level in own.varied():
            changed = own.settings.changed(**flat(level.changes))
            assert changed != own.settings, factor.key(level)
    assert plan.quickened().seeds == plan.seeds[:1]
    assert plan.quickened().settings != plan.settings


@pytest.mark.parametrize(
    ("was", "now", "sentence"),
    [
        ("seeds = [3]", "sedes = [3]", r"unknown key 'sedes' \(did you mean 'seeds'\?\)"),
        ('what = "final', 'waht = "final', r"claims\.0\.first\.waht' \(did you mean 'what'\?\)"),
        ("seeds = [3]", "", r"own\.toml: seeds is missing: give it"),
        ("seeds = [3]", "seeds = []", r"seeds=\[\]: list should have at least 1 item"),
        ('kind = "first"', 'kind = "last"', r"claims\.0=.*: input tag 'last' found using 'kind'"),
        ('ours = "fedteddi"', 'ours = "fedtedi"', r"'fedtedi' is not among .* \(did you mean 'fedteddi'\?\)"),
        ("balanced = [0.5], g", "g", r"give some for each of balanced and global"),
        ("[0.5], g", "[1.5], g", r"targets\.balanced\.0=1\.5: input should be less than 1"),
        ("seeds = [3]", "seeds = [", r"own\.toml cannot be read as a study"),
        (
            "[[claims]]",
            'like = "cifr10"\n[[claims]]',
            r"no study is called 'cifr10' \(did you mean 'cifar10'\?\)",
        ),
    ],
)
def test_what_is_wrong_is_said(was: str, now: str, sentence: str) -> None:
    assert was in OWN
    Path("own.toml").write_text(OWN.replace(was, now))
    with pytest.raises(InputError, match=sentence):
        load_study("own.toml")


@pytest.mark.parametrize("extra", ['bounds = ["everyone"]', 'figures = { one = ["random"] }'])
def test_factors_leave_no_place_for_bounds_and_figures(extra: str) -> None:
    levels = 'levels = [{ label = "1" }, { label = "2", changes.training.local_steps = 2 }]\n'
    factor = '\n[[factors]]\nname = "a"\nsymbol = "a"\ntitle = "A"\n' + levels
    Path("own.toml").write_text(extra + OWN + factor)
    with pytest.raises(InputError, match=r"a study with factors plays no bounds"):
        load_study("own.toml")


def test_factors_have_one_deadline_and_one_baseline() -> None:
    factor = (
        '\n[[factors]]\nname = "a"\nsymbol = "a"\ntitle = "A"\nlevels = [{ label = "1" }, { label = "2" }]\n'
    )
    Path("own.toml").write_text(OWN + factor)
    with pytest.raises(InputError, match=r"factor a: one level, the baseline's, has no changes"):
        load_study("own.toml")
    Path("own.toml").write_text(OWN.replace("[1.0]", "[1.0, 2.0]") + factor)
    with pytest.raises(InputError, match="a study with factors has one deadline"):
        load_study("own.toml")


def test_rules_with_options_are_meant_however_they_are_written() -> None:
    """As on the command line, or as their runs are called."""
    other = OWN.replace('"random"]', '"fedteddi[search=refined]"]')
    for than in ("fedteddi[search=refined]", "fedteddi-search-refined"):
        Path("own.toml").write_text(other + f'than = ["{than}"]\n')
        (claim,) = load_study("own.toml").claims
        assert claim.than == ["fedteddi-search-refined"]


def test_what_a_study_leaves_out_is_as_in_the_one_it_is_like() -> None:
    Path("own.toml").write_text('like = "plus-fashion"\nseeds = [1, 2]\ntitle = "Two seeds more"\n')
    own, other = load_study("own.toml"), load_study("plus-fashion")
    same = {"name": other.name, "argument": other.argument, "title": other.title, "seeds": other.seeds}
    assert own.model_copy(update=same) == other
    assert (own.name, own.seeds) == ("own", [1, 2])


def test_a_study_of_ones_own_is_played_and_has_a_page(cli: Callable[..., Outcome]) -> None:
    Path("own.toml").write_text(OWN)
    done = cli("reproduce", "own.toml", "--quick", "--csv")
    assert done.code == 0, done.err
    page = Path("runs/own-quick/report/own.md").read_text()
    assert page.startswith("# My rule against Random\n\n**Quick: ")
    assert "ahead of random in final accuracy" in page
    assert "written by `fedteddi reproduce own.toml --quick` from the runs" in page
    outcomes = Path("runs/own-quick/report/own/outcomes.csv").read_text().splitlines()
    assert outcomes[0] == "scheduler,deadline_s,seed,frame,metric,accuracy,target,value"
    assert any(line.startswith("fedteddi,1.0,3,1,rounds to,balanced,0.5,") for line in outcomes)
