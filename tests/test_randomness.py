"""Draws belong to their key, not to the order of calls."""

import numpy as np
import pytest

from fedteddi import example_round
from fedteddi.randomness import keyed_rng, keyed_rngs


def test_same_key_same_draw() -> None:
    assert (
        keyed_rng(1, "channel", frame=2, round=3).random()
        == keyed_rng(1, "channel", frame=2, round=3).random()
    )


def test_every_part_of_the_key_matters() -> None:
    keys = [
        keyed_rng(1, "channel"),
        keyed_rng(2, "channel"),
        keyed_rng(1, "delay"),
        keyed_rng(1, "channel", frame=1),
        keyed_rng(1, "channel", round=1),
        keyed_rng(1, "channel", client=1),
        keyed_rng(1, "channel", step=1),
    ]
    assert len({rng.random() for rng in keys}) == len(keys)


def test_clients_added_at_the_end_change_nothing_for_the_others() -> None:
    few, many = (keyed_rng(0, "channel", round=5).standard_normal(count) for count in (3, 10))
    np.testing.assert_array_equal(few, many[:3])


def test_the_deadline_changes_nothing_but_the_band_needed() -> None:
    tight, relaxed = (example_round(4, deadline_s=deadline_s) for deadline_s in (0.8, 1.2))
    np.testing.assert_array_equal(tight.channel_gain, relaxed.channel_gain)
    np.testing.assert_array_equal(tight.batch_mix, relaxed.batch_mix)
    np.testing.assert_array_equal(tight.class_norm, relaxed.class_norm)
    assert (tight.needed_hz > relaxed.needed_hz).any()


@pytest.mark.parametrize("seed", [0, 7, 2**32 - 1, 2**32, 2**61 + 5])
def test_many_keyed_generators_are_those_made_one_by_one(seed: int) -> None:
    """Whole states: to the bit the generators that numpy seeds."""
    clients = [0, 1, 2, 29, 100_000, 2**32 - 1]
    many = keyed_rngs(seed, "batches", clients, frame=3, round=2_000)
    for client, rng in zip(clients, many, strict=True):
        one = keyed_rng(seed, "batches", frame=3, round=2_000, client=client)
        assert rng.bit_generator.state == one.bit_generator.state
    assert list(keyed_rngs(seed, "batches", [])) == []
