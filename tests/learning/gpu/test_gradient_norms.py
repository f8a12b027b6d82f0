"""Norms of gradients of images and of groups of them, against every image as a model of its own, and the CPU's."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from fedteddi.learning import sample_norms
from fedteddi.learning.cpu import SideBySide
from fedteddi.learning.engine import NO_IMAGE, Probe
from fedteddi.learning.flat import FlatModel
from fedteddi.learning.gpu.engine import Stacked
from fedteddi.learning.gpu.gradient_norms import Squares, squares_by_image
from fedteddi.learning.gpu.programs import Programs, Question
from fedteddi.learning.gpu.sheets import sheets_of
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
            self.head(values=images.flatten(1)) if hasattr(self.head, "group_squares") else self.plain(images)
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
    """Three models with two rows of 7 images, mirrored or not, and one of them with fewer; also if only a few images'
    products may be held at a time.
    """
    data, rng = tiny_data(), np.random.default_rng(2)
    model = FlatModel(make(kind))
    engine = Stacked(model, data, device)
    close = {"rtol": 1e-5 if device == "cpu" else 1e-4, "atol": 0}
    assert engine.programs.by_layer is (kind not in BY_IMAGE)
    models = [model.weights * scale for scale in (1, 1.1, 0.9)]
    probes = [Probe(own, rng.integers(0, 300, 7), rng.random(7) < 0.5) for own in models for _ in range(2)]
    uneven = [replace(probe, samples=probe.samples[:4], views=None) if place == 3 else probe
              for place, probe in enumerate(probes)]  # fmt: skip
    params, question = asked(engine, uneven, 7)
    found, losses = engine.programs.gradient_squares(params, question, 7, each=True)
    alone, expected_losses = by_image(engine.programs, params, question, 7)
    torch.testing.assert_close(found.of_images, alone.of_images, **close)
    torch.testing.assert_close(found.of_sums, alone.of_sums, **close)
    torch.testing.assert_close(losses, expected_losses)
    one = SideBySide(model, data)
    expected = one.gradient_variances(probes)
    np.testing.assert_allclose(engine.gradient_variances(probes), expected, rtol=10 * close["rtol"])
    norms = one.gradient_norms(uneven)
    assert engine.gradient_norms(uneven) == pytest.approx(norms, rel=10 * close["rtol"])
    head = slice(model.size - 5, model.size)
    assert engine.gradient_norms(uneven, head) == pytest.approx(one.gradient_norms(uneven, head), rel=1e-3)
    monkeypatch.setattr(sample_norms, "BYTES_AT_ONCE", 20_000)
    again, _ = engine.programs.gradient_squares(params, question, 7, each=True)
    torch.testing.assert_close(again.of_images, found.of_images, **close)
    torch.testing.assert_close(again.of_sums, found.of_sums, **close)


def asked(engine: Stacked, probes: list[Probe], width: int) -> tuple[tuple[Tensor, ...], Question]:
    """Return the parameters and the question that the engine makes of probes."""
    sheets = sheets_of(probes, width)
    return engine._params(sheets), engine._question(sheets, width, max(len(sheet.rows) for sheet in sheets))


def by_image(
    programs: Programs, params: tuple[Tensor, ...], question: Question, width: int
) -> tuple[Squares, Tensor]:
    """Return the same norms from the gradients themselves."""
    images, labels = programs._labelled(question)
    there = (question.samples != NO_IMAGE).flatten()

    def losses(params: tuple[Tensor, ...], images: Tensor) -> Tensor:
        return torch.where(there, programs.each_loss(params, images, labels), 0)

    return squares_by_image(losses, params, images, programs.trained, width)


def test_equal_images_have_no_spread() -> None:
    """Differences of large sums may come out below 0, a variance not."""
    data = tiny_data()
    model = FlatModel(make("convolutions"))
    engine = Stacked(model, data, "cpu")
    ((variance, _),) = engine.gradient_variances([Probe(model.weights, np.full(8, 3))])
    ((other, _),) = engine.gradient_variances([Probe(model.weights, np.arange(0, 160, 20))])
    assert 0 <= variance < 1e-5 * other


def test_bf16_keeps_two_digits() -> None:
    """Norms are added up in full from rounded activations: nothing is lost beyond what rounding them loses."""
    data = tiny_data()
    model = FlatModel(make("paper-cnn-same"))
    engine = Stacked(model, data, "cpu", "bf16")
    probes = [Probe(model.weights, np.arange(start, start + 32)) for start in (0, 100, 200)]
    params, question = asked(engine, probes, 32)
    found, _ = engine.programs.gradient_squares(params, question, 32, each=True)
    alone, _ = by_image(engine.programs, params, question, 32)
    torch.testing.assert_close(found.of_images, alone.of_images, rtol=5e-3, atol=0)
    expected = [row[0] for row in SideBySide(model, data).gradient_variances(probes)]
    variances = [row[0] for row in engine.gradient_variances(probes)]
    np.testing.assert_allclose(variances, expected, rtol=0.03)


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
