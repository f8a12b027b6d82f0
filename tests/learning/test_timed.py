"""Threads that share an engine take turns, and nobody's turn begins before the device has done what was asked."""

import threading
from typing import Any

import pytest

from fedteddi import InputError
from fedteddi.learning.cpu import SideBySide
from fedteddi.learning.flat import FlatModel
from fedteddi.learning.models import make_model
from fedteddi.learning.timed import Timed
from small_world import tiny_data


class Failing(SideBySide):
    """An engine that fails while its device still works."""

    def train(self, *_: Any) -> Any:
        """Fail."""
        raise InputError("a rule of the user's is wrong")


def test_a_turn_ends_when_the_device_is_done_even_after_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    data = tiny_data()
    model = FlatModel(make_model("small-cnn", data.image_shape, data.num_classes, 0))
    engine = Timed(Failing(model, data))
    others_turn: list[bool] = []

    def finish() -> None:
        other = threading.Thread(target=lambda: others_turn.append(engine._turn.acquire(blocking=False)))
        other.start()
        other.join()

    monkeypatch.setattr(engine, "_finish", finish)
    with pytest.raises(InputError, match="rule of the user's"):
        engine.train([])
    assert others_turn == [False]
    assert engine.seconds["training"] > 0
    finish()
    assert others_turn == [False, True]
