"""The built-in models layer by layer: what each gives, what it weighs, and the whole forward pass by hand."""

from collections.abc import Callable, Iterator

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from fedteddi.learning.models import make_model

Layer = tuple[str, tuple[int, ...], int]  # kind, shape of what it gives for one image, parameters
CIFAR, FASHION = (3, 32, 32), (1, 28, 28)


def unusual(name: str, shape: tuple[int, int, int], classes: int) -> nn.Module:
    """Make a model whose every parameter matters: scales are not 1 and shifts not 0."""
    model = make_model(name, shape, classes, seed=0)
    torch.manual_seed(1)
    with torch.no_grad():
        for p in model.parameters():
            p.add_(0.2 * torch.randn_like(p) if p.dim() == 1 else 0.02 * torch.randn_like(p))
    return model


def layers_of(model: nn.Module, shape: tuple[int, int, int]) -> list[Layer]:
    """Return the layers in the order in which an image passes them."""
    found: list[Layer] = []

    def note(layer: nn.Module, _given: object, result: Tensor) -> None:
        found.append(
            (type(layer).__name__, tuple(result.shape[1:]), sum(p.numel() for p in layer.parameters()))
        )

    hooks = [
        m.register_forward_hook(note)
        for m in model.modules()
        if not [*m.children()] and not isinstance(m, nn.Sequential)
    ]
    model(torch.zeros(1, *shape))
    for hook in hooks:
        hook.remove()
    return found


def conv_block(channels_in: int, channels: int, size: int) -> list[Layer]:
    """A 3×3 convolution with bias (9·in·out + out), GroupNorm (a scale and a shift a channel), ReLU."""
    gives = (channels, size, size)
    return [
        ("Conv2d", gives, 9 * channels_in * channels + channels),
        ("GroupNorm", gives, 2 * channels),
        ("ReLU", gives, 0),
    ]


@pytest.mark.parametrize(
    ("name", "sizes", "parameters"),
    [
        ("paper-cnn", (30, 28, 14, 12, 10, 5), 259_282),
        ("paper-cnn-same", (32, 32, 16, 16, 16, 8), 558_802),
    ],
)
def test_paper_cnn_layer_by_layer(name: str, sizes: tuple[int, ...], parameters: int) -> None:
    """Sizes are those after the 1st and 2nd convolution, the 1st pooling, the 3rd and 4th, the 2nd pooling.

    A padded convolution keeps the size, an unpadded one takes two pixels; pooling halves it. Parameters: convolutions
    3→32, 32→32, 32→64, 64→64 have 896 + 9,248 + 18,496 + 36,928 = 65,568, their norms 2·(32 + 32 + 64 + 64) = 384,
    the head 120·10 + 10 = 1,210, the layer before it 64·s²·120 + 120, s = 8: 491,640, s = 5: 192,120.
    """
    first, second, pooled, third, fourth, last = sizes
    flat = 64 * last * last
    expected = [
        *conv_block(3, 32, first),
        *conv_block(32, 32, second),
        ("MaxPool2d", (32, pooled, pooled), 0),
        ("Dropout", (32, pooled, pooled), 0),
        *conv_block(32, 64, third),
        *conv_block(64, 64, fourth),
        ("MaxPool2d", (64, last, last), 0),
        ("Dropout", (64, last, last), 0),
        ("Flatten", (flat,), 0),
        ("Linear", (120,), flat * 120 + 120),
        ("ReLU", (120,), 0),
        ("Linear", (10,), 1210),
    ]
    assert layers_of(make_model(name, CIFAR, 10, seed=0), CIFAR) == expected
    assert sum(weighs for _, _, weighs in expected) == parameters


def paper_cnn_by_hand(padding: int) -> Callable[[list[Tensor], Tensor, bool], Tensor]:
    def forward(parameters: list[Tensor], images: Tensor, training: bool) -> Tensor:
        given = iter(parameters)
        values = images
        for p in (0.2, 0.3):  # of dropout
            for _ in range(2):
                values = F.conv2d(values, next(given), next(given), padding=padding)
                values = F.group_norm(values, 8, next(given), next(given)).clamp(min=0)
            values = F.dropout(F.max_pool2d(values, 2), p, training)
        values = F.linear(values.flatten(1), next(given), next(given)).clamp(min=0)
        return F.linear(values, next(given), next(given))

    return forward


def small_cnn_by_hand(parameters: list[Tensor], images: Tensor, training: bool) -> Tensor:  # noqa: ARG001
    given = iter(parameters)
    values = images
    for _ in range(2):
        values = F.conv2d(values, next(given), next(given), padding=1)
        values = F.max_pool2d(F.group_norm(values, 8, next(given), next(given)).clamp(min=0), 2)
    values = F.linear(values.flatten(1), next(given), next(given)).clamp(min=0)
    return F.linear(values, next(given), next(given))


def resnet18_by_hand(groups: int) -> Callable[[list[Tensor], Tensor, bool], Tensor]:
    def normed(values: Tensor, kernel: Tensor, stride: int, given: Iterator[Tensor]) -> Tensor:
        values = F.conv2d(values, kernel, stride=stride, padding=kernel.shape[-1] // 2)
        return F.group_norm(values, groups, next(given), next(given))

    def forward(parameters: list[Tensor], images: Tensor, training: bool) -> Tensor:  # noqa: ARG001
        given = iter(parameters)
        values = normed(images, next(given), 1, given).clamp(min=0)
        for block in range(8):  # two of each width; the first of the last three widths halves the image
            stride = 2 if block in (2, 4, 6) else 1
            inner = normed(values, next(given), stride, given).clamp(min=0)
            inner = normed(inner, next(given), 1, given)
            shortcut = normed(values, next(given), stride, given) if stride == 2 else values
            values = (inner + shortcut).clamp(min=0)
        return F.linear(values.mean(dim=(2, 3)), next(given), next(given))

    return forward


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize(
    ("name", "shape", "classes", "by_hand"),
    [
        ("paper-cnn", CIFAR, 10, paper_cnn_by_hand(padding=0)),
        ("paper-cnn-same", CIFAR, 10, paper_cnn_by_hand(padding=1)),
        ("resnet18", CIFAR, 100, resnet18_by_hand(groups=32)),
        ("resnet18-gn8", CIFAR, 100, resnet18_by_hand(groups=8)),
        ("small-cnn", FASHION, 10, small_cnn_by_hand),
    ],
)
def test_models_compute_what_is_written_here(
    name: str,
    shape: tuple[int, int, int],
    classes: int,
    by_hand: Callable[[list[Tensor], Tensor, bool], Tensor],
    training: bool,
) -> None:
    """The same scores as plain functions of the parameters; torch's dropout draws the same mask from the same seed."""
    model = unusual(name, shape, classes).train(training)
    images = torch.randn(3, *shape)
    with torch.no_grad():
        torch.manual_seed(2)
        found = model(images)
        torch.manual_seed(2)
        expected = by_hand(list(model.parameters()), images, training)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", ["resnet18", "resnet18-gn8"])
def test_resnet18_layer_by_layer(name: str) -> None:
    """Convolutions without bias, 9·in·out (shortcuts: in·out); 32, 16, 8 and 4 pixels a side; 512·100 + 100 at the end.

    Widths 64, 128, 256, 512: 1,728 (stem) + 4·36,864 + (73,728 + 3·147,456 + 8,192) + (294,912 + 3·589,824 + 32,768)
    + (1,179,648 + 3·2,359,296 + 131,072) = 11,159,232; the norms 2·(64·5 + 128·5 + 256·5 + 512·5) = 9,600;
    the head 51,300: together 11,220,132.
    """
    model = make_model(name, CIFAR, 100, seed=0)
    found = layers_of(model, CIFAR)
    convolutions = [(shape, weighs) for kind, shape, weighs in found if kind == "Conv2d"]
    expected: list[tuple[tuple[int, ...], int]] = [((64, 32, 32), 9 * 3 * 64)]
    before = 64
    for width, size in ((64, 32), (128, 16), (256, 8), (512, 4)):
        gives = (width, size, size)
        expected += [(gives, 9 * before * width), (gives, 9 * width * width)]
        expected += [(gives, before * width)] if before != width else []
        expected += [(gives, 9 * width * width)] * 2
        before = width
    assert convolutions == expected
    norms = [(shape, weighs) for kind, shape, weighs in found if kind == "GroupNorm"]
    assert norms == [(shape, 2 * shape[0]) for shape, _ in expected]
    assert found[-1] == ("Linear", (100,), 51_300)
    assert sum(p.numel() for p in model.parameters()) == 11_220_132
