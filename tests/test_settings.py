"""Settings: complete, strict, and the same after writing and reading."""

from importlib.resources import files
from pathlib import Path

import pytest

from fedteddi import InputError, Settings
from fedteddi.cli.options import parse_seeds
from fedteddi.settings import load_experiment, override, read_settings, write_settings
from small_world import tiny_settings

FOLDER = Path(str(files("fedteddi").joinpath("experiments")))


@pytest.mark.parametrize("name", sorted(file.stem for file in FOLDER.glob("*.toml")))
def test_built_in_experiments_are_valid_and_survive_writing(name: str) -> None:
    settings = load_experiment(name)
    assert read_settings(write_settings(settings), "written") == settings


def test_any_settings_survive_writing() -> None:
    settings = tiny_settings(
        scheduler_options={"lambda0": 1.5, "search": "refined"}, scenario__replay='a "quoted"\\name:x'
    )
    assert read_settings(write_settings(settings), "written") == settings


def test_written_settings_can_be_read_by_people_too() -> None:
    """Numbers share a line; a text that looks like a list of them stays what it is."""
    options = {
        "levels": [-1, 2.5e-7],
        "a key": "x\n[\n    1,\n]",
        "words": ["a", "b"],
        "inner": {"on": [True]},
    }
    settings = tiny_settings(rounds=[3, 0, 12], radio__channel_options=options)
    text = write_settings(settings)
    assert "rounds = [3, 0, 12]\n" in text
    assert "levels = [-1, 2.5e-07]\n" in text
    assert read_settings(text, "written") == settings


def test_options_that_toml_cannot_hold_are_refused() -> None:
    with pytest.raises(InputError, match=r"cannot be written .*'object'.*: give plain numbers, texts and"):
        write_settings(tiny_settings(scheduler_options={"rule": object()}))


def test_the_default_is_the_fashion_experiment() -> None:
    assert load_experiment("fashion") == Settings()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("roundz = [1]", "unknown key 'roundz' (did you mean 'rounds'?)"),
        ("[radio]\ndeadline = 1.0", "unknown key 'radio.deadline' (did you mean 'deadline_s'?)"),
        ("[[scenario.arrivals]]\nframe = 1\nclases = [1]", "did you mean 'classes'?"),
        ("rounds = 3", "rounds=3: input should be a valid list"),
        ("[radio]\ndeadline_s = 'soon'", "radio.deadline_s='soon': input should be a valid number"),
        ("[radio]\ndeadline_s = 0", "radio.deadline_s=0: input should be greater than 0"),
        ("[radio]\ndeadline_s = nan", "radio.deadline_s=nan"),
        ("[training]\nbatch_size = 1", "training.batch_size=1: input should be greater than or equal to 2"),
        ("[[scenario.arrivals]]\nframe = 1", "give either classes"),
        ("[scenario]\nlayout = 'cifar'", "scenario.layout='cifar'"),
        ("rounds = [", "is not valid TOML"),
        ("rounds = []", "rounds=[]"),
        ("seed = 18446744073709551616", "seed="),
    ],
)
def test_bad_settings_are_refused_in_one_sentence(text: str, message: str) -> None:
    with pytest.raises(InputError) as refused:
        read_settings(text, "mine.toml")
    assert str(refused.value).startswith("mine.toml")
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


def test_overrides() -> None:
    changed = override(Settings(), ["radio.deadline_s=1.2", "scheduler=fed-cbs", "rounds=[0, 7]"])
    assert (changed.radio.deadline_s, changed.scheduler, changed.rounds) == (1.2, "fed-cbs", [0, 7])
    with pytest.raises(InputError, match="there is no section 'radoi'"):
        override(Settings(), ["radoi.deadline_s=1.2"])
    with pytest.raises(InputError, match="write it as key=value"):
        override(Settings(), ["radio"])


def test_experiments_are_found_by_name_or_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="did you mean 'fashion'"):
        load_experiment("fashoin")
    with pytest.raises(InputError, match="No such file"):
        load_experiment(str(tmp_path / "mine.toml"))
    (tmp_path / "mine.toml").write_text("seed = 3")
    assert load_experiment(str(tmp_path / "mine.toml")).seed == 3


def test_seeds() -> None:
    assert parse_seeds("5") == [0, 1, 2, 3, 4]
    assert parse_seeds("100-102") == [100, 101, 102]
    for text in ("0", "x", "5-", "7-3", "-1", "²"):
        with pytest.raises(InputError, match="--seeds"):
            parse_seeds(text)
