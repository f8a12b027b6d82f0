"""Centralised training: it stands for frame 0, and as the reference bound `centralised`."""

import math
from collections.abc import Callable

import numpy as np
import torch

from fedteddi.learning.data import Dataset
from fedteddi.learning.flat import FlatModel
from fedteddi.randomness import keyed_rng
from fedteddi.settings import TrainingSettings


def pretrain(
    model: FlatModel,
    data: Dataset,
    samples: np.ndarray,
    settings: TrainingSettings,
    seed: int,
    progress: Callable[[int], None] = lambda _epoch: None,
) -> None:
    """Train `model` in place on the pooled samples [M]: SGD with momentum, weight decay and a cosine schedule."""
    steps_per_epoch = math.ceil(len(samples) / settings.pretrain_batch_size)
    steps = settings.pretrain_epochs * steps_per_epoch
    velocity = torch.zeros_like(model.weights)
    model.module.train()
    step = 0
    with torch.random.fork_rng(devices=[]):
        for epoch in range(settings.pretrain_epochs):
            rng = keyed_rng(seed, "batches", step=1 + epoch)
            torch.manual_seed(int(rng.integers(2**62)))
            for batch in np.array_split(rng.permutation(samples), steps_per_epoch):
                flips = rng.random(len(batch)) < 0.5 if settings.augment == "flip" else None
                _, gradient = model.loss_gradient(*data.training_batch(batch, flips))
                velocity.mul_(settings.pretrain_momentum).add_(gradient)
                velocity.add_(model.weights, alpha=settings.pretrain_weight_decay)
                rate = 0.5 * settings.pretrain_learning_rate * (1 + math.cos(math.pi * step / steps))
                model.weights.sub_(velocity, alpha=rate)
                step += 1
            progress(epoch + 1)
