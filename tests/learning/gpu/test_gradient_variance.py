"""The variance of per-sample gradients by layer, against every image as a model of its own, and against the CPU's."""

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from fedteddi.learning import sample_norms
from fedteddi.learning.cpu import SideBySide
from fedteddi.learning.engine import Probe
from fedteddi.learning.flat import FlatModel
from fedteddi.learning.gpu.engine import Stacked
from fedteddi.learning.gpu.gradient_variance import variance_by_image
from fedteddi.learning.models import ResidualBlock, make_model
from fedteddi.learning.sample_norms import gram_squares, grams_cost_less, outer_squares, product_squares
from small_world import tiny_data


class Tokens(nn.Module):
    """Linear layers over sequences, [b, T, d]: a long one and a short one."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.wide, self.head = nn.Linear(8, 6), nn.Linear(24, 32), nn.Linear(64, 5)

    def forward(self, images: Tensor) -> Tensor:
        long = torch.tanh(self.inner(images[:, 0])).reshape(len(images), 2, 24)
        return self.head(torch.tanh(self.wide(long)).flatten(1))


class Twice(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner, self.head = nn.Linear(64, 64), nn.Linear(64, 5)

    def forward(self, images: Tensor) -> Tensor:
        return self.head(torch.tanh(self.inner(torch.tanh(self.inner(images.flatten(1))))))


class Patches(nn.Module):
    """Makes a batch of more rows than images."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.head = nn.Linear(16, 4), nn.Linear(16, 5)

    def forward(self, images: Tensor) -> Tensor:
        return self.head(torch.tanh(self.inner(images.reshape(-1, 16))).reshape(-1, 16))


class Named(nn.Module):
    """Gives a layer its input by name."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(64, 5)

    def forward(self, images: Tensor) -> Tensor:
        return (
            self.head(values=images.flatten(1))
            if hasattr(self.head, "sample_squares")
            else self.plain(images)
        )

    def plain(self, images: Tensor) -> Tensor:
        return self.head(images.flatten(1))


class Scaled(nn.Module):
    """A layer of one's own, which has no stacked form."""

    def __init__(self) -> None:
        super().__init__()
        self.scale, self.head = nn.Parameter(torch.linspace(0.5, 1.5, 64)), nn.Linear(64, 5)

    def forward(self, images: Tensor) -> Tensor:
        return self.head(torch.tanh(images.flatten(1) * self.scale))


def convolutions() -> nn.Sequential:
    """A stride, a 1×1, dilation, padding and none; few places and many; a ReLU that overwrites what it is given."""
    return nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(inplace=True),
        nn.Conv2d(8, 16, 3, stride=2, padding=1), nn.GroupNorm(4, 16), nn.ReLU(),
        nn.Conv2d(16, 12, 1, bias=False), nn.GroupNorm(4, 12), nn.Tanh(),
        nn.Conv2d(12, 16, 2, padding=(1, 0), dilation=(1, 2)), nn.ReLU(),
        nn.Conv2d(16, 40, 2), nn.Flatten(), nn.Linear(160, 5),
    )  # fmt: skip


def frozen(*which: str) -> nn.Module:
    net = convolutions()
    for name, p in net.named_parameters():
        p.requires_grad_(not name.startswith(which))
    return net


def make(kind: str) -> nn.Module:
    torch.manual_seed(3)
    made = {
        "convolutions": convolutions,
        "residual": lambda: nn.Sequential(
            ResidualBlock(1, 8, 2, 8), ResidualBlock(8, 8, 1, 8), nn.Flatten(), nn.Linear(128, 5)
        ),
        "frozen start": lambda: frozen("0.", "2."),
        "frozen weights": lambda: frozen("0.weight", "3.weight", "12.weight"),
        "frozen biases": lambda: frozen("0.bias", "3.bias", "12.bias"),
        "tokens": Tokens,
        "twice": Twice,
        "patches": Patches,
        "named": Named,
        "scaled": Scaled,
    }
    return made[kind]() if kind in made else make_model(kind, (1, 8, 8), 5, 0)


DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]
BY_IMAGE = ("twice", "patches", "named", "scaled")


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    "kind",
    [
        "small_world:tiny_model", "paper-cnn-same", "convolutions", "residual", "frozen start", "frozen weights",
        "frozen biases", "tokens", *BY_IMAGE,
    ],
)  # fmt: skip
def test_by_layer_is_by_image_is_the_cpus(kind: str, device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three jobs of 7 images, mirrored or not; also if only a few images' products may be held at a time."""
    data, rng = tiny_data(), np.random.default_rng(2)
    model = FlatModel(make(kind))
    engine = Stacked(model, data, device, compiled=False)
    close = {"rtol": 1e-5 if device == "cpu" else 1e-4, "atol": 0}
    assert engine.programs.by_layer is (kind not in BY_IMAGE)
    probes = [
        Probe(model.weights * scale, rng.integers(0, 300, 7), rng.random(7) < 0.5) for scale in (1, 1.1, 0.9)
    ]
    question = engine._question(probes, 7)
    params = engine._params(probes)
    found, losses = engine.programs.spread(params, question)
    each = engine.programs._image_losses(question)
    alone, expected_losses = variance_by_image(each, params, engine.programs.trained, 7)
    torch.testing.assert_close(found, alone, **close)
    torch.testing.assert_close(losses, expected_losses)
    for row, expected in zip(found.tolist(), SideBySide(model, data).gradient_variances(probes), strict=True):
        assert row == pytest.approx(expected[0], rel=10 * close["rtol"])
    monkeypatch.setattr(sample_norms, "BYTES_AT_ONCE", 20_000)
    torch.testing.assert_close(engine.programs.spread(params, question)[0], found, **close)


def test_equal_images_have_no_spread() -> None:
    """Differences of large sums may come out below 0, a variance not."""
    data = tiny_data()
    model = FlatModel(make("convolutions"))
    engine = Stacked(model, data, "cpu", compiled=False)
    ((variance, _),) = engine.gradient_variances([Probe(model.weights, np.full(8, 3))])
    ((other, _),) = engine.gradient_variances([Probe(model.weights, np.arange(0, 160, 20))])
    assert 0 <= variance < 1e-5 * other


def test_bf16_keeps_two_digits() -> None:
    """Norms are added up in full from rounded activations: nothing is lost beyond what rounding them loses."""
    data = tiny_data()
    model = FlatModel(make("paper-cnn-same"))
    engine = Stacked(model, data, "cpu", "bf16", compiled=False)
    probes = [Probe(model.weights, np.arange(start, start + 32)) for start in (0, 100, 200)]
    question = engine._question(probes, 32)
    params, each = engine._params(probes), engine.programs._image_losses(question)
    found, _ = engine.programs.spread(params, question)
    torch.testing.assert_close(
        found, variance_by_image(each, params, engine.programs.trained, 32)[0], rtol=5e-3, atol=0
    )
    expected = [row[0] for row in SideBySide(model, data).gradient_variances(probes)]
    np.testing.assert_allclose(found.numpy(), expected, rtol=0.03)


def test_three_ways_to_a_products_norm() -> None:
    rng = torch.Generator().manual_seed(0)
    given, back = torch.randn(4, 6, 5, generator=rng), torch.randn(4, 6, 7, generator=rng)
    expected = torch.einsum("nli,nlo->nio", given.double(), back.double()).square().sum(dim=(1, 2))
    torch.testing.assert_close(product_squares(given, back), expected, rtol=1e-5, atol=0)
    torch.testing.assert_close(gram_squares(given, back), expected, rtol=1e-5, atol=0)
    single = product_squares(given[:, :1], back[:, :1])
    torch.testing.assert_close(outer_squares(given[:, 0], back[:, 0]), single, rtol=1e-5, atol=0)
    assert grams_cost_less(16, 4608, 512)
    assert grams_cost_less(64, 2304, 256)
    assert not grams_cost_less(256, 1152, 128)
    assert not grams_cost_less(1024, 576, 64)
