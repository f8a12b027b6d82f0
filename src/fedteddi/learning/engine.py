"""What an engine is asked to do: train jobs, probe models, evaluate them. Jobs know nothing of each other."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from fedteddi.learning.flat import FlatModel
from fedteddi.learning.local_training import LocalTraining

NO_IMAGE = -1  # fills up a step that has fewer images than the others
ALL = slice(None)  # of a model's weights
OnStep = Callable[[int], None]  # called with how many of its steps a job has taken


@dataclass(frozen=True, kw_only=True, eq=False)
class TrainJob:
    """Some SGD steps from given weights on given images. Everything random about it is decided already."""

    weights: Tensor  # where to start, [P]
    samples: np.ndarray  # which training images, step by step: [τ, b]; NO_IMAGE for none
    views: np.ndarray | None  # how each of them is seen (augmentation.py): [τ, b]; None: as it is
    learning_rate: float | np.ndarray  # the same for all steps, or [τ]
    momentum: float
    dropout_keys: np.ndarray  # [τ, 2]
    weight_decay: float = 0.0
    outputs: np.ndarray | None = None  # the classes that the model has outputs for, [C]; None: all
    rule: LocalTraining | None = None  # what its steps follow; None: plain SGD


@dataclass(frozen=True, eq=False)
class Trained:
    """Where a job ended, its mean loss over the steps, and how far it moved."""

    weights: Tensor
    mean_loss: float
    update_norm: float


@dataclass(frozen=True, eq=False)
class Probe:
    """A question about a model, [P], and some training images, [m]; dropout is off."""

    weights: Tensor
    samples: np.ndarray
    views: np.ndarray | None = None  # [m]
    outputs: np.ndarray | None = None  # as of a TrainJob


@dataclass(frozen=True, eq=False)
class Candidate:
    """A model, [P], to be tested on all test images."""

    weights: Tensor
    outputs: np.ndarray | None = None  # as of a TrainJob


class Engine(Protocol):
    """Something that trains and measures models: one by one on a CPU, or stacked on a GPU.

    What it answers about one job or probe does not depend on the others in the list.
    """

    model: FlatModel  # of which shape the models are
    name: str  # the device and, on a GPU, its precision: what rounding depends on
    device: torch.device  # where its models are
    together: bool  # whether a long list is quicker than its entries one after another

    @property
    def side_by_side(self) -> int:
        """How many jobs it can run at a time without a bit of them changing."""

    def place(self, weights: Tensor) -> Tensor:
        """Bring weights to where the engine works."""

    def train(self, jobs: Sequence[TrainJob], on_step: OnStep | None = None) -> list[Trained]:
        """Run the jobs; `on_step` is called after each step of those in hand, with how many they took."""

    def train_apart(self, jobs: Sequence[TrainJob], on_step: OnStep | None = None) -> list[Trained]:
        """Run the jobs, each as if it were the only one: long training would magnify the least rounding."""

    def gradient_variances(self, probes: Sequence[Probe]) -> list[tuple[float, float]]:
        """Return 1/(m−1) Σ_i ‖g_i − ḡ‖² (docs/paper.md D5) and the mean loss, for every probe."""

    def losses(self, probes: Sequence[Probe]) -> list[float]:
        """Return the mean loss of every probe."""

    def gradients(self, probes: Sequence[Probe]) -> list[Tensor]:
        """Return the gradient of the mean loss of every probe, [P]."""

    def gradient_norms(self, probes: Sequence[Probe], part: slice = ALL) -> list[float]:
        """Return the norm of every probe's gradient, summed over its images, in a part of the weights [P]."""

    def class_accuracy(self, models: Sequence["Candidate"]) -> np.ndarray:
        """Return the per-class test accuracy of every model, [models, C]; NaN for a class without test images."""
