"""RoundView refuses what cannot be, by field and client, and cannot be changed afterwards."""

import dataclasses
from typing import Any

import numpy as np
import pytest

from fedteddi import InputError, RoundView, example_round


def changed(field: str, where: Any, value: Any) -> RoundView:
    """The example round with one entry of one field replaced."""
    view = example_round(0)
    current = getattr(view, field)
    if where is None:
        return dataclasses.replace(view, **{field: value})
    array = np.array(current, dtype=np.float64 if isinstance(value, float) else current.dtype)
    array[where] = value
    return dataclasses.replace(view, **{field: array})


@pytest.mark.parametrize(
    ("field", "where", "value", "message"),
    [
        ("num_samples", 3, -5, r"num_samples\[3\]=-5: give a whole number, at least 1"),
        ("num_samples", 3, 0, r"num_samples\[3\]=0"),
        ("num_samples", 3, 7.5, r"num_samples\[3\]=7\.5: give a whole number"),
        ("num_samples", 3, np.nan, r"num_samples\[3\]=nan"),
        ("num_samples", 3, 1e30, r"num_samples\[3\]=1e\+30"),
        ("times_scheduled", 0, -1, r"times_scheduled\[0\]=-1"),
        ("batch_mix", (4, 2), np.nan, r"batch_mix\[4\]\[2\]=nan: a class share lies between 0 and 1"),
        ("data_mix", (4, 2), -0.1, r"data_mix\[4\]\[2\]=-0\.1"),
        (
            "previous_data_mix",
            (7, slice(None)),
            0.09,
            r"previous_data_mix\[7\] sums to 0\.9: .* must sum to 1",
        ),
        ("needed_hz", 5, np.nan, r"needed_hz\[5\]=nan: .* inf \(null in JSON\)"),
        ("needed_hz", 5, -1.0, r"needed_hz\[5\]=-1\.0"),
        ("channel_gain", 29, -1e-9, r"channel_gain\[29\]=-1e-09: give a finite number, at least 0"),
        ("channel_gain", 29, np.inf, r"channel_gain\[29\]=inf"),
        ("class_norm", 9, np.nan, r"class_norm\[9\]=nan"),
        ("loss", 2, np.inf, r"loss\[2\]=inf"),
        ("update_norm", 2, -1.0, r"update_norm\[2\]=-1\.0"),
        (
            "update_sketch",
            (4, 2),
            np.nan,
            r"update_sketch\[4\]\[2\]=nan: give a finite number, at most 1e100",
        ),
        ("update_sketch", (4, 2), -1e101, r"update_sketch\[4\]\[2\]=-1e\+101"),
        ("update_sketch", None, np.zeros((29, 3)), r"update_sketch has shape \(29, 3\): give 30 rows"),
        ("update_sketch", None, np.zeros((30, 0)), r"update_sketch has shape \(30, 0\)"),
        ("update_sketch", None, np.zeros(30), r"update_sketch has 1 dimension\(s\): it needs 2"),
        ("compute_s", 2, -1.0, r"compute_s\[2\]=-1\.0"),
        ("compute_s", 2, 1.5, r"needed_hz\[2\]=.* leaves no time before deadline_s=1\.0"),
        ("num_samples", None, np.zeros(0), "num_samples is empty: a round needs at least one client"),
        ("class_norm", None, np.zeros(0), "class_norm is empty"),
        ("num_samples", None, np.array(["a"] * 30), "num_samples holds something other than numbers"),
        ("loss", None, [[1.0], [1.0, 2.0]], "loss: rows of different lengths"),
        ("loss", None, np.zeros((30, 2)), r"loss has 2 dimension\(s\): it needs 1"),
        ("loss", None, np.zeros(29), "loss has 29 entries: give 30"),
        ("batch_mix", None, np.full((30, 9), 1 / 9), r"batch_mix has shape \(30, 9\): it needs \(30, 10\)"),
        ("classes_seen", None, np.ones(9, dtype=bool), "classes_seen: give 10 booleans"),
        (
            "classes_seen",
            None,
            np.zeros(10, dtype=bool),
            r"classes_seen\[0\]=False, but a client holds class 0",
        ),
        ("total_hz", None, -1, "total_hz=-1: give a finite number at least 1e-06"),
        ("total_hz", None, np.nan, "total_hz=nan"),
        ("total_hz", None, 10**400, "total_hz=1000"),
        ("batch_size", None, 10**308, "batch_size=1000"),
        ("class_norm", 0, 1e308, r"class_norm\[0\]=1e\+308"),
        ("gradient_std", None, 1e300, r"gradient_std=1e\+300"),
        ("model_bits", None, 5e-324, "model_bits=5e-324: give a finite number at least 1"),
        ("data_mix", (7, slice(None)), 0.099, r"data_mix\[7\] sums to 0\.99"),
        ("deadline_s", None, 0, "deadline_s=0: give a finite number above 0"),
        ("model_bits", None, np.inf, "model_bits=inf"),
        ("gradient_std", None, -1.0, r"gradient_std=-1\.0"),
        ("batch_size", None, 1.5, r"batch_size=1\.5: give a whole number at least 1"),
        ("round", None, 301, "round=301 lies beyond rounds_in_frame=300"),
        ("round", None, 0, "round=0"),
        ("frame", None, True, "frame=True"),
        ("frame", None, 0, r"previous_data_mix\[\d+\] differs from data_mix in frame 0"),
    ],
)
def test_nonsense_is_refused_by_field_and_client(field: str, where: Any, value: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        changed(field, where, value)


def test_arrays_are_read_only() -> None:
    view = example_round(0)
    with pytest.raises(ValueError, match="read-only"):
        view.needed_hz[0] = 1.0
    with pytest.raises(dataclasses.FrozenInstanceError):
        view.round = 2  # type: ignore[misc]


def test_the_callers_arrays_stay_writable_and_apart() -> None:
    given = np.array(example_round(0).channel_gain)
    view = dataclasses.replace(example_round(0), channel_gain=given)
    given[0] = np.nan
    assert np.isfinite(view.channel_gain).all()


def test_lists_and_whole_floats_are_welcome() -> None:
    view = dataclasses.replace(example_round(0), num_samples=[750.0] * 30)
    assert view.num_samples.dtype == np.int64


def test_classes_seen_defaults_to_any_share_now_or_before() -> None:
    """Class 2 is gone now but was there before; class 3 nobody ever had."""
    view = dataclasses.replace(
        example_round(0),
        data_mix=np.tile([0.5, 0.5, 0, 0, 0, 0, 0, 0, 0, 0], (30, 1)),
        batch_mix=np.tile([1.0, 0, 0, 0, 0, 0, 0, 0, 0, 0], (30, 1)),
        previous_data_mix=np.tile([0, 0, 1.0, 0, 0, 0, 0, 0, 0, 0], (30, 1)),
        classes_seen=np.zeros(0, dtype=bool),
    )
    assert view.classes_seen.tolist() == [True, True, True] + [False] * 7


def test_shares_in_single_precision_are_accepted() -> None:
    view = example_round(0)
    dataclasses.replace(view, batch_mix=view.batch_mix.astype(np.float32))


def test_ids_are_the_positions_unless_they_are_given() -> None:
    view = example_round(0)
    assert view.client_id.tolist() == list(range(30))
    other = dataclasses.replace(view, client_id=[100 + n for n in range(30)])
    assert (other.client_id.dtype, other.client_id[-1]) == (np.int64, 129)
    with pytest.raises(ValueError, match="read-only"):
        other.client_id[0] = 1


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        ([0, 1], "client_id has 2 entries: give 30"),
        ([*range(29), 7], "client_id has 7 twice: give every client an id of its own"),
        ([-1, *range(29)], r"client_id\[0\]=-1: give a whole number, at least 0"),
        ([0.5, *range(1, 30)], r"client_id\[0\]=0.5"),
    ],
)
def test_ids_that_identify_nobody_are_refused(ids: list[float], message: str) -> None:
    with pytest.raises(InputError, match=message):
        dataclasses.replace(example_round(0), client_id=np.array(ids))
