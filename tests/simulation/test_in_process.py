"""What clients answer: from which images, with which draws."""

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from fedteddi.learning.gpu.engine import Stacked
from fedteddi.learning.statistics import gradient_variance
from fedteddi.protocol.messages import SKETCH_SIZE, Request
from fedteddi.protocol.vectors import pooled_norms, valid_gradients
from fedteddi.randomness import keyed_rng
from fedteddi.simulation.in_process import InProcess
from fedteddi.simulation.laboratory import Laboratory
from fedteddi.simulation.run import Run
from small_world import tiny_data, tiny_settings


def world(**changes: object) -> tuple[Laboratory, Run]:
    settings = tiny_settings(**changes)
    laboratory = Laboratory(settings, tiny_data())
    return laboratory, laboratory.new_run(settings)


def ask(kind: str, run: Run, **more: object) -> Request:
    given = {"frame": 0, "round": 1, "weights": run.state.weights, "clients": tuple(range(6))}
    return Request(kind=kind, **(given | more))  # type: ignore[arg-type]


def test_class_gradients_are_sums_over_the_drawn_images_of_a_class() -> None:
    """‖g_c‖ of D7 from one backward pass per image: all images of each class that each client holds are asked for."""
    laboratory, run = world()
    counts = run.plan.frames[0].counts
    asked = [(run.clients, ask("class_gradients", run, samples=counts))]
    part = InProcess(laboratory.engine, laboratory.data, everyone=False)  # as one device of a fleet
    found, norms = (runtime.exchange(asked)[0].given[-1] for runtime in (part, laboratory.runtime))
    np.testing.assert_array_equal(found.counts, norms.counts)
    np.testing.assert_array_equal(found.counts, counts.sum(axis=0))
    held = np.concatenate(run.plan.frames[0].held)
    labels = laboratory.data.train_labels.numpy()[held]
    model = laboratory.model
    model.load(run.state.weights)
    model.module.eval()
    for c in np.flatnonzero(found.counts):
        total = torch.zeros_like(model.weights)
        for sample in held[labels == c]:
            images, label = laboratory.data.training_batch(np.array([sample]))
            loss = F.cross_entropy(model.module(images), label)
            total += torch.cat(
                [g.flatten() for g in torch.autograd.grad(loss, list(model.module.parameters()))]
            )
        torch.testing.assert_close(found.gradient_sum[c], total, rtol=1e-4, atol=1e-4)
        assert norms.norms[c] == pytest.approx(float(total.norm()), rel=1e-5)


def test_class_gradients_of_two_seeds_in_lock_step_are_their_own() -> None:
    laboratory, first = world()
    second = laboratory.new_run(first.settings.changed(seed=1))
    asked = [(r.clients, ask("class_gradients", r, samples=r.plan.frames[0].counts)) for r in (first, second)]
    together = laboratory.runtime.exchange(asked)
    for own, answer in zip(asked, together, strict=True):
        own[0].world.begin([])  # forgets what was drawn
        (alone,) = laboratory.runtime.exchange([own])
        np.testing.assert_array_equal(alone.given[-1].norms, answer.given[-1].norms)
    one, other = (answer.given[-1].norms for answer in together)
    assert one[0] != other[0]


@pytest.mark.parametrize("sent", ["full", "sketch"])
@pytest.mark.parametrize("layers", ["all", "head"])
def test_a_server_makes_the_same_of_norms_as_of_gradients(layers: str, sent: str) -> None:
    """To the bit."""
    laboratory, run = world(estimates__class_norm_layers=layers, estimates__class_gradients=sent)
    counts = run.plan.frames[0].counts
    asked = [(run.clients, ask("class_gradients", run, samples=counts))]
    part = InProcess(laboratory.engine, laboratory.data, everyone=False)
    size = SKETCH_SIZE if sent == "sketch" else laboratory.model.size if layers == "all" else None
    told = []
    for runtime in (part, laboratory.runtime):
        valid, rejections = valid_gradients(
            runtime.exchange(asked)[0], range(6), counts, run.state.weights, size
        )
        told.append(pooled_norms(valid, counts.shape[1], rejections))
        assert not rejections.causes
    np.testing.assert_array_equal(*told)
    assert (told[0][0] > 0).any()


def test_reports_measure_the_first_batch() -> None:
    laboratory, run = world()
    request = ask("report", run, needs=frozenset({"gradient_std", "loss"}))
    (answer,) = laboratory.runtime.exchange([(run.clients, request)])
    for client, report in answer.given.items():
        samples, views, _ = run.clients.batches(0, 1, client)
        assert views is not None
        laboratory.model.load(run.state.weights)
        variance, loss = gradient_variance(
            laboratory.model, *laboratory.data.training_batch(samples[0], views[0])
        )
        assert (report.gradient_variance, report.loss) == (pytest.approx(variance), pytest.approx(loss))
        expected = np.bincount(laboratory.data.train_labels.numpy()[samples.ravel()], minlength=5)
        np.testing.assert_array_equal(report.batch_counts, expected)


@pytest.mark.parametrize("stacked", [False, True])
def test_sketches_are_of_each_clients_update(stacked: bool) -> None:
    """The projection of w_n − w_{k−1} by plain loops, on either engine; other numbers are not measured for it.

    Entry j, with the seed's sign, joins number j mod 127. Alone, a client says the same to the bit, as on a fleet.
    """
    laboratory, run = world()
    engine = Stacked(laboratory.model, laboratory.data, "cpu") if stacked else laboratory.engine
    request = ask("report", run, needs=frozenset({"update_sketch"}))
    (answer,) = InProcess(engine, laboratory.data).exchange([(run.clients, request)])
    signs = keyed_rng(run.settings.seed, "sketch").integers(0, 2, size=laboratory.model.size, dtype="int8")
    for client, report in answer.given.items():
        assert (report.gradient_variance, report.loss, report.update_norm) == (None, None, None)
        (trained,) = laboratory.engine.train([run.clients.job(request, client)])
        moved, found = (trained.weights - run.state.weights).double().numpy(), np.zeros(127)
        for j, (value, sign) in enumerate(zip(moved, signs, strict=True)):
            found[j % 127] += value if sign else -value
        assert (report.update_sketch.dtype, report.update_sketch.shape) == (np.float64, (127,))
        np.testing.assert_allclose(report.update_sketch, found, rtol=1e-3, atol=1e-5 if stacked else 1e-7)
        assert np.linalg.norm(found) == pytest.approx(trained.update_norm, rel=0.4)
        if not stacked:
            alone = ask("report", run, needs=frozenset({"update_sketch"}), clients=(client,))
            run.clients.parked.clear()
            (again,) = laboratory.runtime.exchange([(run.clients, alone)])
            np.testing.assert_array_equal(again.given[client].update_sketch, report.update_sketch)


def test_draws_differ_between_seeds_clients_and_rounds() -> None:
    laboratory, run = world()
    other = laboratory.new_run(run.settings.changed(seed=1))
    samples, views, keys = run.clients.batches(0, 1, 2)
    for again in (other.clients.batches(0, 1, 2), run.clients.batches(0, 2, 2), run.clients.batches(0, 1, 3)):
        assert not np.array_equal(samples, again[0])
        assert not np.array_equal(views, again[1])  # type: ignore[arg-type]
        assert not np.intersect1d(keys, again[2]).size
    assert len(np.unique(keys)) == keys.size  # every step has its own
    plain = laboratory.new_run(run.settings.changed(training__augment="none"))
    assert plain.clients.batches(0, 1, 2)[1] is None
    np.testing.assert_array_equal(plain.clients.batches(0, 1, 2)[0], samples)


def test_about_half_of_the_images_are_mirrored() -> None:
    _, run = world(training__local_steps=10)
    views = np.stack([run.clients.batches(0, k, n)[1] for k in range(1, 6) for n in range(6)])  # type: ignore[misc]
    assert abs(views.mean() - 0.5) < 5 * 0.5 / np.sqrt(views.size)
