"""What a runtime measures of messages comes into the facts of the round, and changes nothing else."""

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

import pytest

from fedteddi.protocol.messages import Answers
from fedteddi.protocol.traffic import counting

KINDS = ("report", "class_gradients", "upload", "class_gradients")


@dataclass(frozen=True)
class Facts:
    heard: tuple[Any, ...]
    message_bytes: Any = None
    uplink_bps: Any = None


@dataclass(frozen=True)
class Asked:
    kind: str


def a_round(ended: list[str]) -> Generator[Any, Any, Any]:
    heard = []
    try:
        for kind in KINDS:
            heard.append((yield Asked(kind)))
        return Facts(tuple(heard))
    finally:
        ended.append("ended")


def play(answers: list[Answers]) -> Any:
    played = counting(a_round([]))
    asked = [next(played).kind]
    for answer in answers:
        try:
            asked.append(played.send(answer).kind)
        except StopIteration as stop:
            return asked, stop.value
    raise AssertionError("it does not end")


def test_bytes_add_up_by_kind_and_the_last_rates_stay() -> None:
    answers = [
        Answers({}, {}, num_bytes=5),
        Answers({}, {}, num_bytes=7),
        Answers({}, {}, num_bytes=11, uplink_bps={2: 1.0}),
        Answers({}, {}, num_bytes=13),
    ]
    asked, facts = play(answers)
    assert asked == list(KINDS)
    assert facts.message_bytes == {"report": 5, "class_gradients": 20, "upload": 11}
    assert facts.uplink_bps == {2: 1.0}
    assert facts.heard == tuple(answers)


def test_a_simulation_counts_nothing() -> None:
    _, facts = play([Answers({}, {})] * 4)
    assert (facts.message_bytes, facts.uplink_bps) == (None, None)


@pytest.mark.parametrize("steps", [1, 3])
def test_a_round_that_is_left_is_left_inside_too(steps: int) -> None:
    """Its state is put back there."""
    ended: list[str] = []
    played = counting(a_round(ended))
    next(played)
    for _ in range(steps - 1):
        played.send(Answers({}, {}))
    played.close()
    assert ended == ["ended"]
