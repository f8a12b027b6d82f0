"""Which models are evaluated, and which are on record already."""

import numpy as np
import pytest

from fedteddi.learning.engine import Candidate
from fedteddi.protocol.record import RoundRecord
from fedteddi.simulation.laboratory import Laboratory
from small_world import tiny_data, tiny_settings


def played(monkeypatch: pytest.MonkeyPatch, **changes: object) -> tuple[list[int], list[RoundRecord]]:
    """Play a run; return how many models the engine was asked about each time, and the run's evaluated rounds."""
    settings = tiny_settings(scheduler="random", **changes)
    laboratory, asked = Laboratory(settings, tiny_data()), list[int]()
    evaluate = laboratory.engine.class_accuracy

    def counted(models: list[Candidate]) -> np.ndarray:
        asked.append(len(models))
        return evaluate(models)

    monkeypatch.setattr(laboratory.engine, "class_accuracy", counted)
    run = laboratory.new_run(settings)
    while not run.over:
        laboratory.advance([run])
    return asked, [record for record in run.records if record.is_evaluated]


def test_the_model_of_frames_without_rounds_is_evaluated_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """It begins frames 0, 1 and 2 unchanged, and is another after round 1: four evaluations on record, two made."""
    asked, records = played(monkeypatch, rounds=[0, 0, 1], evaluation__every=1)
    assert asked == [1, 1]
    assert [(record.frame, record.round) for record in records] == [(0, 0), (1, 0), (2, 0), (2, 1)]
    assert records[0].class_accuracy == records[1].class_accuracy == records[2].class_accuracy
    assert records[3].class_accuracy != records[2].class_accuracy


def test_a_model_with_more_outputs_is_evaluated_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """Frames 1 and 2 bring a class each, and an expanding head answers with it from then on."""
    asked, _ = played(monkeypatch, rounds=[0, 0, 1], evaluation__every=1, training__head="expanding")
    assert asked == [1, 1, 1, 1]


def test_the_best_model_of_a_frame_is_evaluated_where_the_next_one_begins(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Rounds 0 and 1 of every frame: the model of lowest loss need not be that of the last round."""
    asked, _ = played(monkeypatch, rounds=[1, 1, 1], evaluation__every=1)
    assert asked == [1] * 6
