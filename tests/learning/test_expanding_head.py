"""`training.head = expanding`: a model without outputs for classes that nobody has seen (docs/paper.md D10)."""

import numpy as np
import pytest
import torch
from torch import nn

from fedteddi import InputError, simulate
from fedteddi.learning.cpu import SideBySide
from fedteddi.learning.dropout import draw_keys
from fedteddi.learning.engine import Candidate, Probe, TrainJob
from fedteddi.learning.flat import FlatModel
from small_world import tiny_data, tiny_settings

SEEN = np.array([True, True, True, False, False])


def net(outputs: int) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 9), nn.ReLU(), nn.Linear(9, outputs))


def test_closed_outputs_are_a_smaller_head() -> None:
    """Training, σ̂, gradients and accuracy are those of a net that has three outputs only; closed weights stay."""
    data = tiny_data()
    wide = FlatModel(net(5))
    small = FlatModel(net(3))
    kept = ~wide.of_outputs(~SEEN)
    assert int((~kept).sum()) == 2 * 10  # two rows of nine weights and a bias
    small.load(wide.weights[kept])
    engines = SideBySide(wide, data), SideBySide(small, data)
    start, samples = wide.weights.clone(), np.arange(64).reshape(4, 16)  # of classes 0 and 1
    given = {"samples": samples, "views": None, "learning_rate": 0.1, "momentum": 0.5}
    keys = draw_keys(np.random.default_rng(0), 4)
    jobs = (
        TrainJob(weights=start, outputs=SEEN, dropout_keys=keys, **given),
        TrainJob(weights=start[kept], dropout_keys=keys, **given),
    )
    (ours,), (theirs,) = (engine.train([job]) for engine, job in zip(engines, jobs, strict=True))
    torch.testing.assert_close(ours.weights[kept], theirs.weights)
    assert torch.equal(ours.weights[~kept], start[~kept])
    probes = Probe(ours.weights, np.arange(30), outputs=SEEN), Probe(theirs.weights, np.arange(30))
    (mine,), (its,) = (e.gradient_variances([p]) for e, p in zip(engines, probes, strict=True))
    assert mine == pytest.approx(its, rel=1e-4)
    (gradient,), (expected,) = (e.gradients([p]) for e, p in zip(engines, probes, strict=True))
    torch.testing.assert_close(gradient[kept], expected)
    assert not gradient[~kept].any()
    (accuracy,) = engines[0].class_accuracy([Candidate(ours.weights, SEEN)])
    with torch.no_grad():
        small.load(theirs.weights)
        guesses = small.module(data.normalised(data.test_images)).argmax(dim=1)
    for c in range(3):
        assert accuracy[c] == pytest.approx(float((guesses[data.test_labels == c] == c).float().mean()))
    assert not accuracy[3:].any()


def test_a_model_is_tested_again_when_its_outputs_open() -> None:
    """The same weights at the end of one frame and the start of the next are two different models."""
    data = tiny_data()
    engine = SideBySide(FlatModel(net(5)), data)
    weights = engine.model.weights.clone()
    weights[-1] += 100.0  # all images are class 4's, once it has an output
    closed, opened = engine.class_accuracy([Candidate(weights, SEEN), Candidate(weights, np.ones(5, bool))])
    assert closed[4] == 0
    assert opened.tolist() == [0, 0, 0, 0, 1]


def test_a_run_closes_what_nobody_has_seen() -> None:
    """Frame 0 knows classes 0 to 2, frame 1 class 3 too, frame 2 all: until then their accuracy is 0.

    With all outputs, the untrained model of round 0 would say 3 or 4 for some images.
    """
    settings = tiny_settings(training__head="expanding")
    record = simulate(settings, data=tiny_data())
    for entry in record.records:
        if entry.class_accuracy is not None:
            assert not any(entry.class_accuracy[3 + entry.frame :])
    plain = simulate(tiny_settings(), data=tiny_data())
    assert record.records[0].class_accuracy != plain.records[0].class_accuracy


def test_outputs_that_are_to_come_enter_as_they_were_made() -> None:
    """Pre-training decays all weights, but a new output of an expanded head is a fresh one."""
    from fedteddi.simulation.laboratory import Laboratory

    settings = tiny_settings(
        training__head="expanding", training__pretrain_epochs=3, training__pretrain_weight_decay=0.1
    )
    laboratory = Laboratory(settings, tiny_data())
    run = laboratory.new_run(settings)
    first = run.state.weights.clone()
    (trained,) = laboratory.pretrained.weights([run])
    closed = laboratory.model.of_outputs(~run.plan.classes_seen(0))
    assert int(closed.sum()) == 2 * (8 * 64 + 1)
    assert torch.equal(trained[closed], first[closed])
    assert not torch.isclose(trained[~closed], first[~closed]).all()


def test_a_fleet_cannot_expand_its_head() -> None:
    from fedteddi.flower import play

    with pytest.raises(InputError, match=r"training\.head='expanding' needs to know"):
        play(None, tiny_settings(training__head="expanding"))  # type: ignore[arg-type]
