"""Local training: τ SGD steps from given weights on given samples, as jobs that know nothing of each other."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from fedteddi.learning.data import Dataset
from fedteddi.learning.flat import FlatModel


@dataclass(frozen=True, kw_only=True, eq=False)
class TrainJob:
    """One client's local training. Everything random about it is decided already, or follows from its seed."""

    weights: Tensor  # where to start, [P]
    samples: np.ndarray  # which training images, step by step: [τ, b]
    flips: np.ndarray | None  # which of them are mirrored: [τ, b]
    learning_rate: float
    momentum: float
    dropout_seed: int


@dataclass(frozen=True, eq=False)
class Trained:
    """Where a job ended, and its mean loss over the steps."""

    weights: Tensor
    mean_loss: float


def train(jobs: list[TrainJob], model: FlatModel, data: Dataset) -> list[Trained]:
    """Run jobs one after another on all cores: on a CPU that beats batching them (docs/metrics.md)."""
    return [_train_one(job, model, data) for job in jobs]


def _train_one(job: TrainJob, model: FlatModel, data: Dataset) -> Trained:
    model.load(job.weights)
    model.module.train()
    velocity = torch.zeros_like(model.weights)  # the momentum buffer starts at zero in every round
    losses = []
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(job.dropout_seed)
        for step, samples in enumerate(job.samples):
            batch = data.training_batch(samples, None if job.flips is None else job.flips[step])
            loss, gradient = model.loss_gradient(*batch)
            velocity.mul_(job.momentum).add_(gradient)
            model.weights.sub_(velocity, alpha=job.learning_rate)
            losses.append(loss)
    return Trained(model.weights.clone(), float(np.mean(losses)))
