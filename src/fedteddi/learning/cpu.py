"""The engine for a CPU: jobs and probes one after another on all cores, which there beats batching them."""

from collections.abc import Sequence

import numpy as np
from torch import Tensor

from fedteddi.learning.datasets.dataset import Dataset
from fedteddi.learning.engine import Candidate, OnStep, Probe, Trained, TrainJob
from fedteddi.learning.evaluation import class_accuracy
from fedteddi.learning.flat import FlatModel
from fedteddi.learning.statistics import class_gradient, gradient_variance, mean_loss
from fedteddi.learning.training import train_one


class OneByOne:
    """Trains and measures models of one shape on one data set."""

    name, together = "cpu", False

    def __init__(self, model: FlatModel, data: Dataset) -> None:
        self.model, self.data = model, data
        self._tested: list[tuple[Candidate, np.ndarray]] = []  # lately: runs of a seed start from one model

    def place(self, weights: Tensor) -> Tensor:
        """Bring weights to the CPU."""
        return weights.cpu()

    def train(self, jobs: Sequence[TrainJob], on_step: OnStep | None = None) -> list[Trained]:
        """Run the jobs."""
        return [train_one(job, self.model, self.data, on_step) for job in jobs]

    def gradient_variances(self, probes: Sequence[Probe]) -> list[tuple[float, float]]:
        """Return the per-sample gradients' variance and the mean loss, for every probe."""
        return [gradient_variance(self.model, *self._batch(probe)) for probe in probes]

    def losses(self, probes: Sequence[Probe]) -> list[float]:
        """Return the mean loss of every probe."""
        return [mean_loss(self.model, *self._batch(probe)) for probe in probes]

    def gradients(self, probes: Sequence[Probe]) -> list[Tensor]:
        """Return the gradient of the mean loss of every probe, [P]."""
        return [class_gradient(self.model, *self._batch(probe)) for probe in probes]

    def class_accuracy(self, models: Sequence[Candidate]) -> np.ndarray:
        """Return the per-class test accuracy of every model, [models, C]."""
        return np.stack([self._accuracy(model) for model in models])

    def _accuracy(self, model: Candidate) -> np.ndarray:
        for known, accuracy in self._tested:  # weights are never changed in place
            if known.weights is model.weights and _equal(known.outputs, model.outputs):
                return accuracy
        self.model.load(model.weights, model.outputs)
        accuracy = class_accuracy(self.model, self.data)
        self._tested = [*self._tested[-7:], (model, accuracy)]
        return accuracy

    def _batch(self, probe: Probe) -> tuple[Tensor, Tensor]:
        self.model.load(probe.weights, probe.outputs)
        return self.data.training_batch(probe.samples, probe.views)


def _equal(one: np.ndarray | None, other: np.ndarray | None) -> bool:
    return one is other or (one is not None and other is not None and np.array_equal(one, other))
