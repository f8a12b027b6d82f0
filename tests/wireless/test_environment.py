"""What many runs see of one world: the same values, which none of them can change."""

import numpy as np
import pytest

from fedteddi.wireless.environment import Environment
from small_world import tiny_settings


def test_runs_that_share_a_world_cannot_change_it() -> None:
    world = Environment.make(tiny_settings().radio, 0, 3, 60)
    gain, compute_s = world.channel_gain(1, 2), world.compute_s(1, 2)
    for values in (gain, compute_s, world.needed_hz(1, 2, gain, compute_s, 1e6)):
        with pytest.raises(ValueError, match="read-only"):
            values[0] = 0.0
    assert world.channel_gain(1, 2) is gain
    assert not np.array_equal(world.channel_gain(1, 3), gain)


def test_needed_band_does_not_depend_on_how_numbers_are_stored() -> None:
    radio = tiny_settings().radio
    world = Environment.make(radio.model_copy(update={"deadline_s": 5.0}), 0, 3, 60)
    gain, compute_s = np.array([1.0, 1.0, 1.0]), np.array([1.0, 2.0, 6.0])
    expected = world.radio.needed_hz(gain, compute_s, deadline_s=5.0, model_bits=1e6)
    assert np.isfinite(expected[:2]).all()
    assert np.isinf(expected[2])
    np.testing.assert_array_equal(world.needed_hz(1, 2, gain, compute_s, 1e6), expected)
    np.testing.assert_array_equal(
        world.needed_hz(1, 2, gain.astype(np.float32), compute_s.astype(np.int64), 1e6), expected
    )
