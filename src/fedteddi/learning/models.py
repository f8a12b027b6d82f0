"""The models: the paper's CNN and ResNet-18 with GroupNorm, small ones for images and features, or anyone's own.

docs/paper.md says which reading of the paper each of them is.
"""

import copy
import inspect
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from fedteddi.errors import InputError
from fedteddi.registry import Kind, find, must, one_sentence

Shape = tuple[int, ...]  # of one input: an image's channels, height and width, or how many features
Build = Callable[[Any, int], nn.Module]  # most models know only some shapes
GROUPS = 8  # of the CNNs' norms


def _block(channels_in: int, channels: int, padding: int = 1) -> list[nn.Module]:
    return [nn.Conv2d(channels_in, channels, 3, padding=padding), nn.GroupNorm(GROUPS, channels), nn.ReLU()]


def paper_cnn(image_shape: tuple[int, int, int], num_classes: int, padding: int = 0) -> nn.Module:
    """Two times two unpadded 3×3 convolutions with pooling and dropout, then 120 units.

    259,282 parameters for CIFAR-10.
    """
    channels, height, width = image_shape
    lost = 4 * (1 - padding)  # pixels a side that two convolutions take away
    height, width = (((size - lost) // 2 - lost) // 2 for size in (height, width))
    return nn.Sequential(
        *_block(channels, 32, padding),
        *_block(32, 32, padding),
        nn.MaxPool2d(2),
        nn.Dropout(0.2),
        *_block(32, 64, padding),
        *_block(64, 64, padding),
        nn.MaxPool2d(2),
        nn.Dropout(0.3),
        nn.Flatten(),
        nn.Linear(64 * height * width, 120),
        nn.ReLU(),
        nn.Linear(120, num_classes),
    )


def paper_cnn_same(image_shape: tuple[int, int, int], num_classes: int) -> nn.Module:
    """The paper's CNN with 'same' padding, as in our first study; 558,802 parameters for CIFAR-10."""
    return paper_cnn(image_shape, num_classes, padding=1)


def small_cnn(image_shape: tuple[int, int, int], num_classes: int) -> nn.Module:
    """Two 3×3 convolutions with pooling, then 32 units: quick on a CPU."""
    channels, height, width = image_shape
    return nn.Sequential(
        *_block(channels, 16),
        nn.MaxPool2d(2),
        *_block(16, 32),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(32 * (height // 4) * (width // 4), 32),
        nn.ReLU(),
        nn.Linear(32, num_classes),
    )


def mlp(input_shape: Shape, num_classes: int) -> nn.Module:
    """Two layers of 64 units: for features, or as the smallest model of images."""
    return nn.Sequential(
        nn.Flatten(),
        nn.Linear(math.prod(input_shape), 64),
        nn.ReLU(),
        nn.Linear(64, 64),
        nn.ReLU(),
        nn.Linear(64, num_classes),
    )


class ReLUOfSum(nn.Module):
    """The positive part of a sum."""

    def forward(self, one: Tensor, other: Tensor) -> Tensor:
        """Add two tensors."""
        return torch.relu(one + other)


class ResidualBlock(nn.Module):
    """Two 3×3 convolutions and a shortcut, which is a 1×1 convolution where the shape changes."""

    def __init__(self, channels_in: int, channels: int, stride: int, groups: int) -> None:
        super().__init__()
        self.main = nn.Sequential(
            nn.Conv2d(channels_in, channels, 3, stride, 1, bias=False),
            nn.GroupNorm(groups, channels),
            nn.ReLU(),
            nn.Conv2d(channels, channels, 3, 1, 1, bias=False),
            nn.GroupNorm(groups, channels),
        )
        self.shortcut = nn.Sequential()
        if stride != 1 or channels_in != channels:
            self.shortcut = nn.Sequential(
                nn.Conv2d(channels_in, channels, 1, stride, bias=False), nn.GroupNorm(groups, channels)
            )
        self.join = ReLUOfSum()

    def forward(self, images: Tensor) -> Tensor:
        """Add the shortcut to the convolutions."""
        joined: Tensor = self.join(self.main(images), self.shortcut(images))
        return joined


def resnet18(image_shape: tuple[int, int, int], num_classes: int, groups: int = 32) -> nn.Module:
    """ResNet-18 for small images (3×3 stem) with GroupNorm of 32 groups; 11,220,132 parameters for CIFAR-100."""
    layers: list[nn.Module] = [
        nn.Conv2d(image_shape[0], 64, 3, 1, 1, bias=False),
        nn.GroupNorm(groups, 64),
        nn.ReLU(),
    ]
    channels = 64
    for width, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
        layers += [ResidualBlock(channels, width, stride, groups), ResidualBlock(width, width, 1, groups)]
        channels = width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, num_classes))


def resnet18_gn8(image_shape: tuple[int, int, int], num_classes: int) -> nn.Module:
    """ResNet-18 with GroupNorm of 8 groups, as in our first study."""
    return resnet18(image_shape, num_classes, groups=8)


BUILT_IN: dict[str, Build] = {
    "small-cnn": small_cnn,
    "mlp": mlp,
    "paper-cnn": paper_cnn,
    "paper-cnn-same": paper_cnn_same,
    "resnet18": resnet18,
    "resnet18-gn8": resnet18_gn8,
}
MODELS = Kind(
    name="models",
    one="model",
    built_in=lambda: BUILT_IN,
    your_own="give your own as module:callable",
    check=must(
        callable,
        "is no model: it must be a torch.nn.Module, its class, or a function (input_shape, num_classes)",
    ),
)


def make_model(name: str, input_shape: Shape, num_classes: int, seed: int) -> nn.Module:
    """Make a model by name, or by `module:callable` or `file.py:callable`, with weights drawn from the seed.

    A callable gets (input_shape, num_classes), or nothing if it takes nothing, and returns an nn.Module that maps
    inputs to class scores. A module that exists already is copied, with the weights that it has.
    """
    part = find(MODELS, name)
    if len(input_shape) != 3 and part.value in BUILT_IN.values() and name != "mlp":
        raise InputError(
            f"the model {name} takes images, the data has inputs of shape {input_shape}: use training.model=mlp, or"
            " give your own"
        )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        with one_sentence(f"the model {name} could not be made"):
            model = _made(part.value, input_shape, num_classes)
    if not isinstance(model, nn.Module):
        raise InputError(f"the model {name} made a {type(model).__name__}: it must return a torch.nn.Module")
    if not any(p.requires_grad for p in model.parameters()):
        raise InputError(f"the model {name} has nothing to train: give it parameters")
    with torch.no_grad(), _dropout_once(name, model):
        try:
            scores = model(torch.zeros(2, *input_shape))
        except (Exception, SystemExit) as error:
            raise InputError(f"the model {name} cannot take inputs of shape {input_shape}: {error}") from None
    if scores.shape != (2, num_classes):
        raise InputError(
            f"the model {name} gives {tuple(scores.shape)} for 2 inputs: it must give (2, {num_classes})"
        )
    if any(True for _ in model.buffers()):
        raise InputError(
            f"the model {name} has buffers, such as BatchNorm's running mean, which averaging would not"
            " treat well: use GroupNorm instead"
        )
    return model


def _made(build: Any, input_shape: Shape, num_classes: int) -> Any:
    """Return the module that a module, its class or a function stands for."""
    if isinstance(build, nn.Module):
        return copy.deepcopy(build)
    try:
        takes = inspect.signature(build)
    except (TypeError, ValueError):  # not written in Python
        return build(input_shape, num_classes)
    if _fits(takes) and not _fits(takes, input_shape, num_classes):
        return build()
    return build(input_shape, num_classes)


def _fits(takes: inspect.Signature, *given: Any) -> bool:
    try:
        takes.bind(*given)
    except TypeError:
        return False
    return True


@contextmanager
def _dropout_once(name: str, model: nn.Module) -> Iterator[None]:
    """Refuse a model that calls one nn.Dropout twice while active: what is dropped follows from the layer's number."""
    used: list[nn.Module] = []
    hooks = [
        layer.register_forward_hook(lambda own, _given, _result: used.append(own))
        for layer in model.modules()
        if type(layer) is nn.Dropout
    ]
    yield
    for hook in hooks:
        hook.remove()
    if len(set(used)) < len(used):
        raise InputError(
            f"the model {name} uses one nn.Dropout in several places, where it would drop the same entries: give each"
            " place a Dropout of its own"
        )
