"""A round on record: its line in rounds.jsonl, written and read back."""

import json
from dataclasses import replace

import numpy as np
import pytest

from fedteddi.protocol.costs import Cost
from fedteddi.protocol.record import RoundRecord, are_all, rounds_played
from fedteddi.protocol.state import RoundFacts
from fedteddi.schedulers.schedule import Schedule
from fedteddi.settings import RadioSettings

PLAYED = {"clients": [3], "scheduled_new": 1, "round_s": 1.5, "uplink_bits": 64.0, "energy_j": 2.5}


def facts(**changes: object) -> RoundFacts:
    given: dict[str, object] = {
        "frame": 1,
        "round": 2,
        "reported": (0, 1, 3),
        "failures": {2: "it is gone"},
        "schedule": Schedule(clients=(3, 0), bandwidth_hz=(1e6, 2e6)),
        "gradient_std": None,
        "class_norm": (1.0, 0.5),
        "terms": None,
        "finish_s": (1.0, 0.75),
        "compute_s": (0.5, 0.25),
        "all_compute_s": 1.25,
        "round_s": 1.0,
        "reports": Cost(24.0, 0.25),
        "class_gradients": Cost(1000.0, 4.0),
        "epsilon_spent": None,
    }
    return RoundFacts(**(given | changes))  # type: ignore[arg-type]


def test_a_round_has_the_keys_of_its_line_in_their_order() -> None:
    """Two uploads of 0.5 s each at 30 dBm = 1 W are 1 J; 1.25 s of computing at 2 W are 2.5 J. Two send 100 bits.

    Reports add 24 bits and 0.25 J, class gradients 1,000 bits and 4 J.
    """
    new = np.array([True, False, False, True])
    radio = RadioSettings(power_dbm=30.0, compute_power_w=2.0)
    record = RoundRecord.of(facts(), new, radio, model_bits=100.0)
    assert json.dumps(record.as_json()) == (
        '{"frame": 1, "round": 2, "clients": [3, 0], "scheduled_new": 2, "bandwidth_hz": [1000000.0, 2000000.0],'
        ' "compute_s": [0.5, 0.25], "finish_s": [1.0, 0.75], "round_s": 1.0, "uplink_bits": 1224.0, "energy_j": 7.75,'
        ' "class_gradient_bits": 1000.0, "class_gradient_j": 4.0,'
        ' "gradient_std": null, "class_norm": [1.0, 0.5], "objective": null, "failures": {"2": "it is gone"}}'
    )


def test_privacy_and_evaluation_are_said_only_where_they_are_known() -> None:
    record = RoundRecord.of(facts(epsilon_spent=0.5), np.zeros(4), RadioSettings(), 100.0)
    evaluated = replace(record, class_accuracy=[0.5, None], balanced=0.5, global_=0.25, loss=1.0)
    assert list(evaluated.as_json())[-6:] == [
        "failures",
        "epsilon_spent",
        "class_accuracy",
        "balanced",
        "global",
        "loss",
    ]
    assert (record.is_evaluated, evaluated.is_evaluated) == (False, True)
    assert (evaluated.accuracy("balanced"), evaluated.accuracy("global")) == (0.5, 0.25)
    with pytest.raises(ValueError, match="frame 1, round 2 was not evaluated"):
        record.accuracy("global")


def test_a_frames_first_model_has_no_round() -> None:
    line = {"frame": 1, "round": 0, "class_accuracy": [1.0], "balanced": 1.0, "global": 1.0}
    record = RoundRecord.from_json(line)
    assert record.as_json() == line
    assert (list(record.clients), record.failures, record.round_s) == ([], {}, 0.0)


def test_a_line_is_read_back_as_it_was_written() -> None:
    record = RoundRecord.of(facts(), np.zeros(4), RadioSettings(), 100.0)
    again = RoundRecord.from_json(json.loads(json.dumps(record.as_json())))
    assert again == record
    assert again != replace(record, round_s=2.0)
    assert list(again.as_json()) == list(record.as_json())


def test_a_line_without_what_every_round_has_is_refused() -> None:
    whole = {"frame": 1, "round": 2, **PLAYED}
    assert RoundRecord.from_json(whole | {"of another version": 1}).round_s == 1.5
    for key in PLAYED:
        with pytest.raises(ValueError, match=f"round 2 of frame 1 lacks {key}"):
            RoundRecord.from_json({name: value for name, value in whole.items() if name != key})


def test_a_fleets_line_has_bytes_and_rates_and_is_read_back() -> None:
    found = facts(message_bytes={"report": 10, "upload": 400}, uplink_bps={3: 8000.0})
    record = RoundRecord.of(found, np.zeros(4, dtype=bool), RadioSettings(), model_bits=100.0)
    line = json.loads(json.dumps(record.as_json()))
    assert (line["message_bytes"], line["uplink_bps"]) == ({"report": 10, "upload": 400}, {"3": 8000.0})
    assert RoundRecord.from_json(line) == record
    silent = RoundRecord.of(facts(), np.zeros(4, dtype=bool), RadioSettings(), model_bits=100.0)
    assert not {"message_bytes", "uplink_bps"} & set(silent.as_json())


@pytest.mark.parametrize(
    ("ends", "all_there", "played"),
    [
        ([(0, 0), (0, 2), (1, 0)], False, [2, 4]),  # frame 0 ended early, frame 1 goes on
        ([(0, 0), (0, 2), (1, 0), (1, 4)], True, [2, 4]),
        ([(0, 0), (0, 2)], False, [3, 4]),  # it may have a third
        ([], False, [3, 4]),
    ],
)
def test_frames_may_have_fewer_rounds_than_planned(
    ends: list[tuple[int, int]], all_there: bool, played: list[int]
) -> None:
    records = [RoundRecord(frame=frame, round=number) for frame, number in ends]
    assert are_all(records, [3, 4]) is all_there
    assert rounds_played(records, [3, 4]) == played
