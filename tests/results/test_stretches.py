"""Runs from evaluation to evaluation: sums by hand."""

import math

from fedteddi.protocol.record import RoundRecord
from fedteddi.results.stretches import stretches


def record(frame: int, number: int, accuracy: float | None = None, **more: float) -> RoundRecord:
    """A round with as many clients as its number, one of them new, 10 bits each, of which 2 for L̂."""
    evaluated = (
        {} if accuracy is None else {"balanced": accuracy, "global_": accuracy, "class_accuracy": [accuracy]}
    )
    played = {} if not number else {
        "clients": range(number),
        "scheduled_new": 1,
        "round_s": 0.5,
        "uplink_bits": 10.0 * number,
        "energy_j": 3.0,
        "class_gradient_bits": 2.0,
        "class_gradient_j": 1.0,
    }  # fmt: skip
    return RoundRecord(frame=frame, round=number, **(played | evaluated | more))


def test_rounds_are_summed_up_to_every_evaluation() -> None:
    """Frame 1 is evaluated at 0 and 2, and ends with round 3; frame 2 stands at round 1, which is not evaluated."""
    rounds = [record(0, 0, 0.5), record(1, 0, 0.4), record(1, 1), record(1, 2, 0.6), record(1, 3)]
    found = stretches([*rounds, record(2, 0, 0.3), record(2, 1)])
    assert [(one.frame, one.round, one.rounds, one.balanced) for one in found] == [
        (0, 0, 0, 0.5), (1, 0, 0, 0.4), (1, 2, 2, 0.6), (1, 3, 1, None), (2, 0, 0, 0.3), (2, 1, 1, None),
    ]  # fmt: skip
    both = found[2]
    assert (both.scheduled, both.scheduled_new, both.round_s) == (3, 2, 1.0)
    assert (both.uplink_bits, both.energy_j, both.class_gradient_bits) == (30.0, 6.0, 4.0)
    assert (both.bits_without_class_gradients, both.j_without_class_gradients) == (26.0, 4.0)


def test_what_one_round_did_not_count_is_not_known_of_the_sum() -> None:
    (found,) = stretches([record(1, 1), record(1, 2, 0.5, class_gradient_bits=None, class_gradient_j=None)])
    assert found.class_gradient_bits is None
    assert math.isnan(found.bits_without_class_gradients)
    assert math.isnan(found.j_without_class_gradients)
