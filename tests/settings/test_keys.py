"""Every key explains itself, in one place: in the code, and from there in files, schemas, pages and commands."""

import json
import tomllib
from importlib.resources import files
from pathlib import Path
from typing import Any, get_args

import pytest
from jsonschema import Draft7Validator
from pydantic import BaseModel

from fedteddi import InputError
from fedteddi.cli.parts import KINDS
from fedteddi.settings import (
    EXPERIMENTS,
    Arrival,
    Settings,
    load_experiment,
    parse_settings,
    read_settings,
    write_settings,
)
from fedteddi.settings.commented import commented
from fedteddi.settings.effect import USED_ONLY
from fedteddi.settings.keys import all_keys, find_keys, sections, toml_value
from fedteddi.settings.page import markdown_page
from fedteddi.settings.schema import editor_schema, full_schema

ROOT = Path(__file__).parents[2]
NAMES = EXPERIMENTS.names()
VALIDATOR = Draft7Validator(editor_schema())


def fields(model: type[BaseModel], inside: str = "") -> dict[str, Any]:
    """Find every field by its path, by a walk over the models instead of over their schema."""
    found: dict[str, Any] = {}
    for name, field in model.model_fields.items():
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            found |= fields(kind, f"{inside}{name}.")
            continue
        found[f"{inside}{name}"] = field
        if Arrival in get_args(kind):
            found |= fields(Arrival, f"{inside}{name}.")
    return found


FIELDS = fields(Settings)


def test_no_key_lacks_a_description() -> None:
    assert len(FIELDS) > 60
    assert [path for path, field in FIELDS.items() if not (field.description or "").endswith(".")] == []
    assert [path for path, field in FIELDS.items() if not isinstance(field.json_schema_extra, dict)] == []


def test_no_key_is_overlooked() -> None:
    assert [key.path for key in all_keys()] == list(FIELDS)
    assert all(key.values for key in all_keys())
    assert {key.section for key in all_keys()} == set(sections())


def test_defaults_are_those_of_the_models() -> None:
    for key in all_keys():
        default = FIELDS[key.path].get_default()
        if FIELDS[key.path].is_required():
            assert key.is_required
            assert key.default == ""
        else:
            assert key.default == ("" if default is None else toml_value(default))
            assert not key.default or tomllib.loads(f"x = {key.default}")["x"] == default


def test_what_a_key_names_can_be_listed() -> None:
    parts = [one for section in full_schema()["properties"].values() for one in _all_parts(section)]
    named = {one["named"] for one in parts if one.get("named")}
    assert named == set(KINDS) - {"experiments", "trackers"}


def _all_parts(part: dict[str, Any]) -> list[dict[str, Any]]:
    return [part, *(inner for one in part.get("properties", {}).values() for inner in _all_parts(one))]


def test_conditions_are_about_keys_that_exist() -> None:
    assert {path for paths, _, _ in USED_ONLY for path in paths} <= set(FIELDS)


def test_the_range_is_in_words() -> None:
    words = {key.path: key.values for key in all_keys()}
    assert words["radio.deadline_s"] == "a number, above 0"
    assert words["training.momentum"] == "a number, at least 0 and below 1"
    assert words["training.head"] == '"all", "expanding"'
    assert words["estimates.gradient_std_clients"] == '"all"; or a whole number, at least 1'
    assert words["rounds"] == "a list of whole numbers, each at least 0"
    assert words["radio.channel"] == "a name of `fedteddi list channels`, or your own as file.py:Name"


def test_keys_are_found_by_path_section_or_name() -> None:
    assert [key.path for key in find_keys("radio.deadline_s")] == ["radio.deadline_s"]
    assert [key.path for key in find_keys("alpha")] == ["scenario.alpha"]
    assert [key.path for key in find_keys("clients")] == ["scenario.clients", "scenario.arrivals.clients"]
    assert [key.path for key in find_keys("privacy")] == ["privacy.epsilon"]
    assert len(find_keys("scenario.arrivals")) == 1 + len(Arrival.model_fields)


@pytest.mark.parametrize(
    ("word", "nearest"),
    [("radio.deadlin_s", "radio.deadline_s"), ("alhpa", "alpha"), ("fleeet", "fleet")],
)
def test_an_unknown_key_gets_the_nearest(word: str, nearest: str) -> None:
    with pytest.raises(InputError, match=rf"no setting is called '{word}' \(did you mean '{nearest}'\?\)"):
        find_keys(word)
    with pytest.raises(InputError, match="no setting is called ''"):
        find_keys("")


@pytest.mark.parametrize("value", [2e6, 2.5e9, 123456.75, 1e-9, 0.5, 100000, True, "a = 'b'\n\"c\"", "α"])
def test_a_value_is_written_on_one_line_and_read_as_it_was(value: object) -> None:
    for one in (value, [value, value], {"a key": value, "inner": {"list": [value]}}, {}, []):
        text = toml_value(one)
        assert "\n" not in text
        back = tomllib.loads(f"x = {text}")["x"]
        assert back == one
        assert type(back) is type(one)


@pytest.mark.parametrize("name", NAMES)
def test_a_commented_file_is_the_experiment_and_has_every_key(name: str) -> None:
    settings = load_experiment(name)
    text = commented(settings)
    assert read_settings(text, "written") == settings
    assert max(len(line) for line in text.splitlines() if line.startswith("#")) <= 100
    data = tomllib.loads(text)
    for key in all_keys():
        if key.section != "scenario.arrivals":
            inside = data[key.section] if key.section else data
            assert key.name in inside
        assert " ".join(key.meaning.split()) in " ".join(text.replace("#", "").split())


def test_a_commented_file_keeps_options_of_parts() -> None:
    settings = Settings().changed(
        scheduler_options={"search": "refined", "λ": [1, 2.5]},
        radio__channel_options={"inner": {"on": True}},
        scenario__replay='a "quoted"\\name:x',
    )
    assert read_settings(commented(settings), "written") == settings


@pytest.mark.parametrize("name", NAMES)
def test_the_schema_takes_every_built_in_experiment(name: str) -> None:
    file = files("fedteddi").joinpath("experiments", f"{name}.toml")
    VALIDATOR.validate(tomllib.loads(file.read_text(encoding="utf-8")))
    VALIDATOR.validate(tomllib.loads(write_settings(load_experiment(name))))
    VALIDATOR.validate(tomllib.loads(commented(load_experiment(name))))


@pytest.mark.parametrize(
    "text",
    [
        "roundz = [1]",
        "rounds = []",
        "rounds = [-1]",
        "seed = 4611686018427387904",
        "[radio]\ndeadline = 1.0",
        "[radio]\ndeadline_s = 0",
        "[radio]\ndeadline_s = 'soon'",
        "[training]\nbatch_size = 1",
        "[training]\nmomentum = 1.0",
        "[scenario]\nlayout = 'cifar'",
        "[[scenario.arrivals]]\nframe = 1",
        "[[scenario.arrivals]]\nframe = 1\nclasses = [1]\nmix = [1]",
        "[[scenario.arrivals]]\nframe = 1\nclases = [1]",
        "[estimates]\ngradient_std_clients = 0",
        "[estimates]\ngradient_std_clients = 'some'",
    ],
)
def test_the_schema_refuses_what_we_refuse(text: str) -> None:
    data = tomllib.loads(text)
    assert not VALIDATOR.is_valid(data)
    with pytest.raises(InputError):
        parse_settings(data)


def test_the_schema_stands_alone_and_tells_all_of_a_key() -> None:
    Draft7Validator.check_schema(editor_schema())
    assert "$ref" not in json.dumps(editor_schema())
    radius = editor_schema()["properties"]["radio"]["properties"]["radius_m"]
    assert radius == {
        "default": 250.0,
        "description": "Radius of the cell; clients stand uniformly over its area. Unit: m. Paper: 250. Used only"
        " without radio.gain_trace, whose gains are measured.",
        "minimum": 1,
        "type": "number",
    }


def test_the_page_is_current() -> None:
    """If it is not: `fedteddi settings --markdown docs/settings.md`."""
    assert (ROOT / "docs" / "settings.md").read_text(encoding="utf-8") == markdown_page()


def test_the_page_has_a_row_for_every_key() -> None:
    rows = [line for line in markdown_page().splitlines() if line.startswith("| `")]
    assert len(rows) == len(FIELDS)
    assert all(row.replace("\\|", "").count("|") == 6 for row in rows)
