"""Centralised training that stands for frame 0: one long job on the pooled samples."""

import math

import numpy as np
from torch import Tensor

from fedteddi.learning.dropout import draw_keys
from fedteddi.learning.jobs import NO_IMAGE, TrainJob
from fedteddi.randomness import keyed_rng
from fedteddi.settings import TrainingSettings


def pretraining_job(weights: Tensor, samples: np.ndarray, settings: TrainingSettings, seed: int) -> TrainJob:
    """Return SGD over the samples [M], epoch by epoch, with momentum, weight decay and a cosine schedule."""
    steps_per_epoch = math.ceil(len(samples) / settings.pretrain_batch_size)
    width = math.ceil(len(samples) / steps_per_epoch)
    steps = settings.pretrain_epochs * steps_per_epoch
    rows = np.full((steps, width), NO_IMAGE, dtype=np.int64)
    flips = np.zeros((steps, width), dtype=bool)
    keys = []
    for epoch in range(settings.pretrain_epochs):
        rng = keyed_rng(seed, "batches", step=1 + epoch)
        keys.append(draw_keys(keyed_rng(seed, "dropout", step=1 + epoch), steps_per_epoch))
        for place, batch in enumerate(np.array_split(rng.permutation(samples), steps_per_epoch)):
            rows[epoch * steps_per_epoch + place, : len(batch)] = batch
        first = epoch * steps_per_epoch
        flips[first : first + steps_per_epoch] = rng.random((steps_per_epoch, width)) < 0.5
    progress = np.arange(steps) / steps
    return TrainJob(
        weights=weights,
        samples=rows,
        flips=flips if settings.augment == "flip" else None,
        learning_rate=0.5 * settings.pretrain_learning_rate * (1 + np.cos(np.pi * progress)),
        momentum=settings.pretrain_momentum,
        weight_decay=settings.pretrain_weight_decay,
        dropout_keys=np.concatenate(keys),
    )
