"""The points of a sweep: their folders can be read back, and they come in the order of their numbers."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fedteddi import InputError
from fedteddi.results.points import folder_of, frozen, in_words, ordered, point_of, value_at
from fedteddi.settings import Settings

SCALARS = st.one_of(
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=8),
)
VALUES = st.one_of(SCALARS, st.lists(st.integers(0, 9), max_size=3))
KEYS = st.sampled_from(["scenario.alpha", "radio.deadline_s", "rounds", "training.model"])


@given(st.dictionaries(KEYS, VALUES, min_size=1, max_size=2))
@example({"scenario.alpha": " \U00010000\x7f"})  # which JSON would write in surrogates
def test_a_folder_is_read_back_as_the_point_it_was_named_after(values: dict[str, object]) -> None:
    point = frozen_point(values)
    try:
        name = folder_of(point)
    except InputError as error:
        assert "too long" in str(error)  # noqa: PT017
        return
    assert "/" not in name
    assert "\x00" not in name
    assert name not in (".", "..")
    assert point_of(name) == point
    assert [type(value) for value in (point_of(name) or {}).values() if isinstance(value, str | bool)] == [
        type(value) for value in point.values() if isinstance(value, str | bool)
    ]


def frozen_point(values: dict[str, object]) -> dict[str, object]:
    return {key: frozen(value) for key, value in values.items()}


def test_folders_can_be_read_by_people() -> None:
    assert (
        folder_of({"scenario.alpha": 0.1, "scenario.clients": 30}) == "scenario.alpha=0.1,scenario.clients=30"
    )
    assert folder_of({"rounds": (0, 60)}) == "rounds=[0%2C 60]"
    assert folder_of({"training.model": "nets/mine.py:net"}) == "training.model=nets%2Fmine.py:net"
    assert folder_of({"dataset": "0.5"}) == "dataset=%220.5%22"  # a text, not a number
    assert in_words({"radio.total_hz": 2e7}) == "radio.total_hz=2e+07"


def test_other_folders_are_no_points() -> None:
    for name in ("fedteddi-search-refined-d1-s0", "report", ".lock", "a b=1", "=1"):
        assert point_of(name) is None


def test_points_come_by_number_or_as_they_were_given() -> None:
    points = [{"a": value, "b": name} for name in ("z", "y") for value in (10, 2.0, 1)]
    assert [(p["a"], p["b"]) for p in ordered(points)] == [
        *((1, "z"), (1, "y"), (2.0, "z"), (2.0, "y"), (10, "z"), (10, "y"))
    ]


def test_values_are_found_in_sections() -> None:
    assert value_at(Settings(), "radio.deadline_s") == 1.0
    assert value_at(Settings(), "radio.channel_options.k_db") is None


def test_tables_cannot_be_swept() -> None:
    with pytest.raises(InputError, match="sweep one of its keys"):
        frozen({"k_db": 3})
