"""Features and float images on the engine for GPUs against the one for CPUs. On CUDA too where it is."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from fedteddi.learning.augmentation import draw_views
from fedteddi.learning.cpu import SideBySide
from fedteddi.learning.datasets.dataset import Dataset
from fedteddi.learning.engine import Candidate, Probe, TrainJob
from fedteddi.learning.flat import FlatModel
from fedteddi.learning.gpu.engine import Stacked
from fedteddi.learning.models import make_model

DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]


class Normed(nn.Module):
    """LayerNorm has no stacked form: this one goes through vmap."""

    def __init__(self, features: int) -> None:
        super().__init__()
        self.body, self.norm, self.head = nn.Linear(features, 12), nn.LayerNorm(12), nn.Linear(12, 4)

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        return self.head(self.norm(torch.tanh(self.body(values))))


def made(shape: tuple[int, ...]) -> Dataset:
    """Uneven numbers of very different sizes, of four classes."""
    rng = np.random.default_rng(0)
    inputs = rng.normal(5, 2, size=(160, *shape)) + np.arange(160).reshape(-1, *[1] * len(shape)) % 4
    return Dataset.from_arrays("made", inputs, np.arange(160) % 4, inputs[:40], np.arange(40) % 4)


def module(name: str, shape: tuple[int, ...]) -> nn.Module:
    torch.manual_seed(1)
    if name == "normed":
        return Normed(shape[0])
    if name == "no-flatten":
        return nn.Sequential(nn.Linear(shape[0], 16), nn.ReLU(), nn.Dropout(0.2), nn.Linear(16, 4))
    return make_model(name, shape, 4, 0)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    ("name", "shape"),
    [("mlp", (7,)), ("no-flatten", (7,)), ("normed", (7,)), ("mlp", (2, 6, 5)), ("small-cnn", (2, 8, 8))],
)
def test_the_two_engines_agree(name: str, shape: tuple[int, ...], device: str) -> None:
    data = made(shape)
    model, rng = FlatModel(module(name, shape)), np.random.default_rng(2)
    one, many = SideBySide(model, data), Stacked(model, data, device)
    job = TrainJob(
        weights=model.weights.clone(),
        samples=rng.integers(0, 160, (3, 8)),
        views=draw_views(rng, (3, 8), "crop-flip") if len(shape) == 3 else None,
        learning_rate=0.05,
        momentum=0.5,
        dropout_keys=rng.integers(0, 9, (3, 2)).astype(np.int32),
    )
    jobs = [job, replace(job, weights=1.1 * job.weights, samples=job.samples[::-1].copy())]
    for mine, theirs in zip(many.train(jobs), one.train(jobs), strict=True):
        torch.testing.assert_close(mine.weights.cpu(), theirs.weights, rtol=1e-4, atol=1e-5)
        assert mine.mean_loss == pytest.approx(theirs.mean_loss, rel=1e-4)
    probes = [Probe(each.weights, np.arange(10, 26)) for each in jobs]
    for found, wanted in zip(many.gradient_variances(probes), one.gradient_variances(probes), strict=True):
        assert found == pytest.approx(wanted, rel=1e-3)
    assert many.losses(probes) == pytest.approx(one.losses(probes), rel=1e-4)
    assert many.gradient_norms(probes) == pytest.approx(one.gradient_norms(probes), rel=1e-3)
    models = [Candidate(each.weights) for each in jobs]
    np.testing.assert_allclose(many.class_accuracy(models), one.class_accuracy(models), atol=1 / 10)
    assert (many.programs.stacked is None) is (name == "normed")
