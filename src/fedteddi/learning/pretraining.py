"""Centralised training that stands for frame 0: one long job on the pooled samples."""

import math

import numpy as np
from torch import Tensor

from fedteddi.learning.augmentation import draw_views
from fedteddi.learning.dropout import draw_keys
from fedteddi.learning.engine import NO_IMAGE, TrainJob
from fedteddi.randomness import keyed_rng
from fedteddi.settings import TrainingSettings


def pretraining_job(
    weights: Tensor,
    samples: np.ndarray,
    settings: TrainingSettings,
    seed: int,
    outputs: np.ndarray | None = None,
) -> TrainJob:
    """Return SGD over the samples [M], epoch by epoch, with momentum, weight decay and a cosine schedule."""
    steps_per_epoch = math.ceil(len(samples) / settings.pretrain_batch_size)
    width = math.ceil(len(samples) / steps_per_epoch)
    steps = settings.pretrain_epochs * steps_per_epoch
    rows = np.full((steps, width), NO_IMAGE, dtype=np.int64)
    keys, views = [], []
    for epoch in range(settings.pretrain_epochs):
        rng = keyed_rng(seed, "batches", step=1 + epoch)
        keys.append(draw_keys(keyed_rng(seed, "dropout", step=1 + epoch), steps_per_epoch))
        for step, batch in enumerate(np.array_split(rng.permutation(samples), steps_per_epoch)):
            rows[epoch * steps_per_epoch + step, : len(batch)] = batch
        views.append(draw_views(rng, (steps_per_epoch, width), settings.augment))
    progress = np.arange(steps) / steps
    return TrainJob(
        weights=weights,
        samples=rows,
        views=None if settings.augment == "none" else np.concatenate([v for v in views if v is not None]),
        learning_rate=0.5 * settings.pretrain_learning_rate * (1 + np.cos(np.pi * progress)),
        momentum=settings.pretrain_momentum,
        weight_decay=settings.pretrain_weight_decay,
        dropout_keys=np.concatenate(keys),
        outputs=outputs,
    )
