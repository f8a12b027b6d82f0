"""Local training as a seam: FedProx against autograd on its own loss, both engines, resuming, faulty rules."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from fedteddi import InputError, compare, simulate
from fedteddi.learning.cpu import SideBySide
from fedteddi.learning.dropout import draw_keys
from fedteddi.learning.engine import TrainJob
from fedteddi.learning.flat import FlatModel
from fedteddi.learning.gpu.engine import Stacked
from fedteddi.learning.local_training import LOCAL_TRAINING, FedProx, LocalTraining, make_local_training
from fedteddi.learning.local_training.laws import LAWS, check_local_training
from small_world import tiny_data, tiny_settings

STEPS, BATCH = 4, 8


def net() -> nn.Module:
    torch.manual_seed(1)
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 6), nn.Tanh(), nn.Linear(6, 5))


def job_of(model: FlatModel, rule: LocalTraining | None, seed: int = 0) -> TrainJob:
    rng = np.random.default_rng(seed)
    return TrainJob(
        weights=model.weights.clone(),
        samples=rng.integers(0, 300, (STEPS, BATCH)),
        views=None,
        learning_rate=0.2,
        momentum=0.5,
        dropout_keys=draw_keys(rng, STEPS),
        rule=rule,
    )


def test_fedprox_descends_its_own_loss() -> None:
    """v ← m v + ∇(F + μ/2 ‖w − w_0‖²), w ← w − η v, where autograd derives the penalty, too."""
    data, model, mu = tiny_data(), FlatModel(net()), 3.0
    job = job_of(model, FedProx(mu=mu))
    plain = net()
    parameters = list(plain.parameters())
    start = [p.detach().clone() for p in parameters]
    velocity = [torch.zeros_like(p) for p in parameters]
    for samples in job.samples:
        images, labels = data.training_batch(samples)
        away = sum(((p - s) ** 2).sum() for p, s in zip(parameters, start, strict=True))
        loss = nn.functional.cross_entropy(plain(images), labels) + mu / 2 * away
        gradients = torch.autograd.grad(loss, parameters)
        with torch.no_grad():
            for p, v, g in zip(parameters, velocity, gradients, strict=True):
                v.mul_(0.5).add_(g)
                p.sub_(0.2 * v)
    expected = torch.cat([p.detach().flatten() for p in parameters])
    (found,) = SideBySide(model, data).train([job])
    torch.testing.assert_close(found.weights, expected, rtol=1e-5, atol=1e-6)
    (without,) = SideBySide(model, data).train([job_of(model, None)])
    assert (found.weights - without.weights).abs().max() > 0.01
    assert found.update_norm < without.update_norm  # it is held near the start


def test_the_two_engines_agree_and_rules_may_differ_within_a_list() -> None:
    data, model = tiny_data(), FlatModel(net())
    rules = [None, FedProx(mu=3.0), FedProx(mu=0.5), None, FedProx(mu=3.0)]
    jobs = [job_of(model, rule, seed) for seed, rule in enumerate(rules)]
    many = Stacked(model, data, "cpu").train(jobs)
    for mine, theirs in zip(many, SideBySide(model, data).train(jobs), strict=True):
        torch.testing.assert_close(mine.weights, theirs.weights, rtol=1e-4, atol=1e-5)


def test_frozen_weights_stay_whatever_a_rule_says() -> None:
    class Everywhere:
        def direction(self, gradient, weights, start):  # type: ignore[no-untyped-def]  # noqa: ARG002
            return gradient + 1.0

    data, module = tiny_data(), net()
    module[1].weight.requires_grad_(False)
    model = FlatModel(module)
    for engine in (SideBySide(model, data), Stacked(model, data, "cpu")):
        job = job_of(model, Everywhere())
        (found,) = engine.train([job])
        assert torch.equal(found.weights[: 6 * 64], job.weights[: 6 * 64])
        assert not torch.isclose(found.weights[6 * 64 :], job.weights[6 * 64 :]).any()


def test_without_a_proximal_term_fedprox_is_sgd() -> None:
    """μ = 0 changes no schedule, record or accuracy; μ = 5 does."""
    runs = [
        simulate(tiny_settings(rounds=[2, 2, 0], **changes), data=tiny_data()).records
        for changes in (
            {},
            {"training__local_training": "fedprox", "training__local_training_options": {"mu": 0.0}},
            {"training__local_training": "fedprox", "training__local_training_options": {"mu": 5.0}},
        )
    ]
    assert runs[1] == runs[0]
    assert runs[2] != runs[0]


def test_a_resumed_fedprox_run_is_the_uninterrupted_one(tmp_path: Path) -> None:
    settings = tiny_settings(training__local_training="fedprox", rounds=[2, 3, 0])
    whole = simulate(settings, data=tiny_data())
    simulate(settings, data=tiny_data(), out=tmp_path / "run", time_limit_s=0)
    again = simulate(settings, data=tiny_data(), out=tmp_path / "run", resume=True)
    assert again.records == whole.records


def test_the_centralised_bound_has_no_proximal_term() -> None:
    study = compare(
        tiny_settings(training__local_training="fedprox", rounds=[1, 0, 0]),
        schedulers=["centralised", "everyone"],
        seeds=[0],
        data=tiny_data(),
    )
    assert [run.settings.training.local_training for run in study.runs] == ["sgd", "fedprox"]


@pytest.mark.parametrize("name", LOCAL_TRAINING.built_in())
def test_every_rule_keeps_the_invariants(name: str) -> None:
    assert check_local_training(make_local_training(name)) == {}


FAULTY = {
    "Raises": ("raise ValueError('no')", "ValueError: no"),
    "Exits": ("import sys; sys.exit(3)", r"called sys\.exit\(3\)"),
    "Short": ("return gradient[:2]", "return a tensor like the gradient"),
    "Text": ("return 'left'", "returned str"),
    "Infinite": ("return gradient / 0", "not finite"),
    "Changes": ("return gradient.add_(start)", "changed what it was given"),
    "Remembers": ("self.seen = getattr(self, 'seen', 0) + 1; return gradient * self.seen", "keep no memory"),
    "Norm": ("return gradient / gradient.norm()", "work entry by entry"),
}


@pytest.mark.parametrize("name", FAULTY)
def test_a_faulty_rule_is_refused_before_anything_runs(name: str, tmp_path: Path) -> None:
    body, message = FAULTY[name]
    file = tmp_path / "mine.py"
    file.write_text(f"class {name}:\n    def direction(self, gradient, weights, start):\n        {body}\n")
    settings = tiny_settings(training__local_training=f"{file}:{name}")
    with pytest.raises(InputError, match=message) as refused:
        simulate(settings, data=tiny_data(), out=tmp_path / "run")
    assert f"mine.py:{name}" in str(refused.value)
    assert not (tmp_path / "run").exists()
    assert len(LAWS) == 4


def test_what_is_no_rule_is_refused_with_its_remedy(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("class Nothing:\n    pass\n")
    with pytest.raises(InputError, match="must be a class with direction"):
        make_local_training(f"{tmp_path}/mine.py:Nothing")
    with pytest.raises(InputError, match="did you mean 'fedprox'"):
        make_local_training("fedporx")
    with pytest.raises(InputError, match="fedprox has no option 'nu'"):
        make_local_training("fedprox", nu=1.0)
    with pytest.raises(InputError, match="mu=-1"):
        make_local_training("fedprox", mu=-1.0)
