"""Local training, one job after another: SGD with momentum, the buffer zero at the start."""

import numpy as np
import torch

from fedteddi.learning.datasets.dataset import Dataset
from fedteddi.learning.dropout import set_key
from fedteddi.learning.engine import NO_IMAGE, OnStep, Trained, TrainJob
from fedteddi.learning.flat import FlatModel
from fedteddi.learning.local_training import checked_direction


def train_one(job: TrainJob, model: FlatModel, data: Dataset, on_step: OnStep | None = None) -> Trained:
    """Run one job; `model` lends its shape and is left with the result."""
    model.load(job.weights, job.outputs)
    model.module.train()
    velocity = torch.zeros_like(model.weights)
    rates = np.broadcast_to(job.learning_rate, len(job.samples))
    losses = []
    for step, row in enumerate(job.samples):
        there = row != NO_IMAGE
        views = None if job.views is None else job.views[step][there]
        set_key(model.module, job.dropout_keys[step])
        loss, gradient = model.loss_gradient(*data.training_batch(row[there], views))
        if job.rule is not None:
            gradient = checked_direction(job.rule, gradient, model.weights, job.weights) * model.trainable
        velocity.mul_(job.momentum).add_(gradient)
        if job.weight_decay:
            velocity.add_(model.weights * model.trainable, alpha=job.weight_decay)
        model.weights.sub_(velocity, alpha=float(rates[step]))
        losses.append(loss)
        if on_step is not None:
            on_step(step + 1)
    moved = float(torch.linalg.vector_norm((model.weights - job.weights).double()))
    return Trained(model.weights.clone(), float(np.mean(losses)), moved)
