"""The model of the whole run and everything that is differentiated, by plain autograd in double precision."""

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from fedteddi.learning.datasets.dataset import Dataset
from paper import whole_run_draws as drawn

Weights = list[Tensor]
Step = tuple[np.ndarray, np.ndarray, np.ndarray]  # images, which are mirrored, dropout's key


def two_layer_model(image_shape: tuple[int, int, int], num_classes: int) -> nn.Module:
    """The model of the comparison, as a user would give it: one convolution, two dropouts, two layers."""
    channels, height, width = image_shape
    return nn.Sequential(
        nn.Conv2d(channels, 4, 3),
        nn.GroupNorm(2, 4),
        nn.ReLU(),
        nn.Dropout(0.2),
        nn.Flatten(),
        nn.Linear(4 * (height - 2) * (width - 2), 12),
        nn.ReLU(),
        nn.Dropout(0.3),
        nn.Linear(12, num_classes),
    )


def scores(weights: Weights, images: Tensor, key: np.ndarray | None = None) -> Tensor:
    """Return the same model's class scores; with a key, dropout is on."""
    kernel, kernel_bias, scale, shift, inner, inner_bias, outer, outer_bias = weights
    values = F.conv2d(images, kernel, kernel_bias)
    values = F.relu(F.group_norm(values, 2, scale, shift))
    values = dropped(values, key, 0, 0.2).flatten(1)
    values = F.relu(values @ inner.T + inner_bias)
    return dropped(values, key, 1, 0.3) @ outer.T + outer_bias


def dropped(values: Tensor, key: np.ndarray | None, layer: int, p: float) -> Tensor:
    """Set the entries to 0 that the key drops, and scale the others by 1/(1 − p)."""
    if key is None:
        return values
    keep = torch.from_numpy(drawn.dropout_mask(key, layer, values.numel(), p)).view_as(values)
    return values * keep / (1 - p)


class Learner:
    """Normalised images, the model, and its loss, gradients and training."""

    def __init__(self, data: Dataset, seed: int) -> None:
        self.labels, self.classes = data.train_labels.numpy(), data.num_classes
        mean, std = data.mean.double(), data.std.double()
        self.images = (data.train_images.double() - mean) / std
        self.test_images = (data.test_images.double() - mean) / std
        self.test_labels = data.test_labels.numpy()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            model = two_layer_model(data.image_shape, data.num_classes)
        self.weights: Weights = [p.detach().double() for p in model.parameters()]

    def batch(self, images: Any, mirrored: np.ndarray | None = None) -> tuple[Tensor, Tensor]:
        """Return images and labels; those marked are mirrored left to right."""
        values = [
            self.images[i].flip(-1) if mirrored is not None and mirrored[j] else self.images[i]
            for j, i in enumerate(images)
        ]
        return torch.stack(values), torch.from_numpy(self.labels[images])

    def loss(self, weights: Weights, images: Any, mirrored: Any = None, key: Any = None) -> Tensor:
        """Return the mean cross-entropy."""
        values, labels = self.batch(images, mirrored)
        return F.cross_entropy(scores(weights, values, key), labels)

    def gradient(self, weights: Weights, images: Any, mirrored: Any = None, key: Any = None) -> Weights:
        """Return the gradient of the mean loss by autograd."""
        leaves = [p.clone().requires_grad_() for p in weights]
        return list(torch.autograd.grad(self.loss(leaves, images, mirrored, key), leaves))

    def sgd(
        self, weights: Weights, steps: list[Step], rates: list[float], momentum: float, decay: float = 0.0
    ) -> Weights:
        """Local training: the momentum buffer starts at zero."""
        buffer = [torch.zeros_like(p) for p in weights]
        for (images, mirrored, key), rate in zip(steps, rates, strict=True):
            gradient = self.gradient(weights, images, mirrored, key)
            buffer = [momentum * v + g + decay * p for v, g, p in zip(buffer, gradient, weights, strict=True)]
            weights = [p - rate * v for p, v in zip(weights, buffer, strict=True)]
        return weights

    def variance(self, step: Step) -> float:
        """σ̂² of a client: 1/(b−1) Σ‖g_i − ḡ‖² on its first batch, dropout off, one backward pass an image (D5)."""
        images, mirrored, _ = step
        each = [
            torch.cat([g.ravel() for g in self.gradient(self.weights, [i], [m])])
            for i, m in zip(images, mirrored, strict=True)
        ]
        mean = sum(each) / len(each)
        return sum(float((g - mean) @ (g - mean)) for g in each) / (len(each) - 1)
