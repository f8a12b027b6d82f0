"""The task: a small network on the Fashion-MNIST subset that comes with fedteddi. Put yours here."""

from functools import cache

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from fedteddi.learning.datasets.dataset import Dataset, load_dataset

NODE_SAMPLES, HELD_OUT = 200, 40  # of each node
Loader = DataLoader[tuple[Tensor, ...]]


class Net(nn.Sequential):
    """Two convolutions and two linear layers."""

    def __init__(self) -> None:
        super().__init__(
            *(
                nn.Conv2d(1, 8, 5),
                nn.ReLU(),
                nn.MaxPool2d(2),
                nn.Conv2d(8, 16, 5),
                nn.ReLU(),
                nn.MaxPool2d(2),
            ),
            *(nn.Flatten(), nn.Linear(256, 64), nn.ReLU(), nn.Linear(64, 10)),
        )


@cache
def _data() -> Dataset:
    return load_dataset("fashion-mnist")


def _loader(images: Tensor, labels: Tensor, batch_size: int, shuffle: bool) -> Loader:
    pixels = images.reshape(-1, 1, 28, 28).float() / 255 - 0.5
    return DataLoader(TensorDataset(pixels, labels.long()), batch_size=batch_size, shuffle=shuffle)


def load_data(number: int, batch_size: int) -> tuple[Loader, Loader]:
    """Return a node's training and held-out data: it holds two classes, and neighbours share one."""
    data, rng = _data(), np.random.default_rng(number)
    mine = {number % 10, (number + 1) % 10}
    own = rng.permutation(np.flatnonzero(np.isin(data.train_labels.numpy(), list(mine))))[:NODE_SAMPLES]
    training, held_out = own[HELD_OUT:], own[:HELD_OUT]
    return (
        _loader(data.train_images[training], data.train_labels[training], batch_size, shuffle=True),
        _loader(data.train_images[held_out], data.train_labels[held_out], batch_size, shuffle=False),
    )


def load_test_data() -> Loader:
    """Return the test images."""
    data = _data()
    return _loader(data.test_images, data.test_labels, 500, shuffle=False)


def trained(model: nn.Module, loader: Loader, epochs: int, learning_rate: float) -> float:
    """Train in place; return the mean loss of all batches."""
    optimizer = torch.optim.SGD(model.parameters(), lr=learning_rate, momentum=0.9)
    losses = []
    for _ in range(epochs):
        for images, labels in loader:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(images), labels)
            torch.autograd.backward(loss)
            optimizer.step()
            losses.append(loss.item())
    return float(np.mean(losses))


@torch.no_grad()
def evaluated(model: nn.Module, loader: Loader) -> tuple[float, float]:
    """Return the mean loss and the accuracy."""
    total, right, count = 0.0, 0, 0
    for images, labels in loader:
        scores = model(images)
        total += nn.functional.cross_entropy(scores, labels, reduction="sum").item()
        right += int((scores.argmax(dim=1) == labels).sum())
        count += len(labels)
    return total / count, right / count
