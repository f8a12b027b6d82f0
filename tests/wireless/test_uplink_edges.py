"""B* where floating point gets rough: never NaN, monotone, and strict about nonsense."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedteddi import InputError, minimum_bandwidth_hz, rate_bps

positive = st.floats(min_value=1e-300, max_value=1e300)


@settings(max_examples=500, deadline=None)
@given(
    bits=positive, time_s=st.floats(-1e300, 1e300), power=positive, gain=st.floats(0, 1e300), noise=positive
)
def test_never_nan_and_never_negative(
    bits: float, time_s: float, power: float, gain: float, noise: float
) -> None:
    needed = float(minimum_bandwidth_hz(bits, time_s, power, gain, noise))
    assert not math.isnan(needed)
    assert needed >= 0
    if time_s <= 0 or gain == 0:
        assert needed == math.inf


@settings(max_examples=200, deadline=None)
@given(load=st.floats(1e-300, 1 - 1e-9), longer=st.floats(1.001, 10))
def test_more_time_needs_no_more_band(load: float, longer: float) -> None:
    tight, relaxed = minimum_bandwidth_hz(load, [1.0, longer], 1.0, math.log(2), 1.0)
    assert relaxed <= tight * (1 + 1e-6)


def test_vectorised_and_broadcast() -> None:
    needed = minimum_bandwidth_hz(0.5, np.array([[1.0], [2.0]]), 1.0, np.array([1.0, 2.0, 4.0]), 1.0)
    assert needed.shape == (2, 3)
    assert needed[1, 2] == minimum_bandwidth_hz(0.5, 2.0, 1.0, 4.0, 1.0)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("model_bits", 0.0),
        ("model_bits", math.nan),
        ("time_left_s", math.nan),
        ("power_w", -1.0),
        ("gain", -1e-9),
        ("gain", math.inf),
        ("noise_w_per_hz", 0.0),
    ],
)
def test_nonsense_is_refused_by_name(field: str, value: float) -> None:
    good = {"model_bits": 1.0, "time_left_s": 1.0, "power_w": 1.0, "gain": 1.0, "noise_w_per_hz": 1.0}
    with pytest.raises(InputError, match=field):
        minimum_bandwidth_hz(**(good | {field: value}))


def test_rate_saturates_with_the_band() -> None:
    """B log2(1 + s/B) → s/ln 2 as B grows."""
    assert rate_bps(math.inf, 1e6, 1.0, 1.0) == pytest.approx(1e6 / math.log(2))
    assert rate_bps(1e18, 1e6, 1.0, 1.0) == pytest.approx(1e6 / math.log(2), rel=1e-9)
