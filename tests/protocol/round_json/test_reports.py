"""Rounds as JSON: what is written can be read, and both match their schemas."""

import dataclasses
import json
from importlib.resources import files

import jsonschema
import numpy as np
import pytest
from hypothesis import given, settings

from fedteddi import RoundView, example_round
from fedteddi.protocol.round_json.reports import FIELDS, OPTIONAL, read_round, reports_schema, write_round
from fedteddi.wireless.radio import Radio
from strategies import rounds

SCHEMA = json.loads(reports_schema())


def assert_same(one: RoundView, other: RoundView) -> None:
    for name in FIELDS:
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)


@settings(max_examples=60, deadline=None)
@given(view=rounds())
def test_what_is_written_can_be_read(view: RoundView) -> None:
    text = write_round(view)
    assert_same(read_round(text).view, view)
    jsonschema.validate(json.loads(text), SCHEMA)


def test_needed_hz_is_computed_where_it_is_left_out() -> None:
    view = example_round(0)
    text = write_round(view, Radio(), with_needed_hz=False)
    assert "needed_hz" not in json.loads(text)
    assert_same(read_round(text).view, view)
    jsonschema.validate(json.loads(text), SCHEMA)


def test_the_radio_is_taken_from_the_file() -> None:
    """Ten times the power (10 dB more) is like ten times less noise: the same needed_hz."""
    given = json.loads(write_round(example_round(0), with_needed_hz=False))
    louder = read_round(json.dumps(given | {"radio": {"power_dbm": 33}})).view
    quieter = read_round(json.dumps(given | {"radio": {"noise_dbm_per_hz": -184}})).view
    np.testing.assert_allclose(louder.needed_hz, quieter.needed_hz)
    assert (louder.needed_hz < example_round(0).needed_hz).all()


def test_schema_and_round_view_name_the_same_fields() -> None:
    assert set(SCHEMA["properties"]) == set(FIELDS) | {"radio"}
    assert set(SCHEMA["required"]) == set(FIELDS) - OPTIONAL - {"needed_hz"}
    radio = SCHEMA["properties"]["radio"]["properties"]
    assert {name: field["default"] for name, field in radio.items()} == dataclasses.asdict(Radio())


@pytest.mark.parametrize("name", ["reports.schema.json", "schedule.schema.json"])
def test_schemas_are_valid(name: str) -> None:
    schema = json.loads(files("fedteddi.protocol.round_json").joinpath(name).read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)


@pytest.mark.parametrize(
    "change",
    [
        {"round": 0},
        {"total_hz": -1},
        {"num_samples": [0]},
        {"deadline_s": 0},
        {"unknown": 1},
        {"needed_hz": [0]},
        {"radio": {"power": 1}},
        {"class_norm": []},
    ],
)
def test_the_schema_refuses_what_the_reader_refuses(change: dict[str, object]) -> None:
    given = json.loads(write_round(example_round(0))) | change
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(given, SCHEMA)
    with pytest.raises(ValueError, match=r"\S"):
        read_round(json.dumps(given))


def test_optional_fields_may_be_null_or_absent() -> None:
    given = json.loads(write_round(example_round(0)))
    for name in OPTIONAL:
        if name not in ("compute_s", "deadline_s", "model_bits"):
            assert_same(
                read_round(json.dumps(given | {name: None})).view,
                read_round(json.dumps({k: v for k, v in given.items() if k != name})).view,
            )
