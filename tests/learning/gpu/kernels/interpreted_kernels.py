"""Runs the Triton kernels on the CPU, by Triton's interpreter, against PyTorch's own layers. Started by test_slow.py.

The interpreter must be chosen before Triton is imported, hence a process of its own.
"""

import os

os.environ["TRITON_INTERPRET"] = "1"

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from fedteddi.learning.augmentation import draw_views, viewed
from fedteddi.learning.cpu import SideBySide
from fedteddi.learning.dropout import KeyedDropout, draw_keys, layer_offset
from fedteddi.learning.engine import Probe, TrainJob
from fedteddi.learning.flat import FlatModel
from fedteddi.learning.gpu import layers as gpu_layers
from fedteddi.learning.gpu import layout as gpu_layout
from fedteddi.learning.gpu import programs as gpu_programs
from fedteddi.learning.gpu.engine import Stacked
from fedteddi.learning.gpu.kernels.conv import (
    conv_product,
    images_product,
    stacked_conv,
    weight_product,
    weight_squares,
)
from fedteddi.learning.gpu.kernels.conv_tiles import Tile, product_tile, weight_tile
from fedteddi.learning.gpu.kernels.elementwise import relu_of_sum, stepped
from fedteddi.learning.gpu.kernels.images import gathered
from fedteddi.learning.gpu.kernels.norm import stacked_norm
from fedteddi.learning.gpu.kernels.pool import pooled
from fedteddi.learning.gpu.kernels.turned import turned
from fedteddi.learning.gpu.programs import updated
from fedteddi.learning.models import ResidualBlock, make_model
from small_world import tiny_data

# jobs, images a job, side, channels in, channels out, taps down and across, stride, padding
CONVOLUTIONS: list[tuple[int, int, int, int, int, int | tuple[int, int], int, int]] = [
    (2, 3, 8, 3, 16, 3, 1, 1),  # few channels: the block is not full
    (2, 2, 9, 20, 24, 3, 2, 1),  # a stride, odd sizes
    (2, 1, 7, 5, 128, 3, 2, 1),  # the same with several blocks to a tap
    (1, 2, 8, 16, 8, 1, 2, 0),  # a shortcut's 1×1
    (1, 2, 9, 6, 4, 2, 3, 0),  # a stride past the taps: pixels that nothing has seen
    (1, 1, 10, 4, 32, 5, 3, 2),  # 1 to 4 taps to a pixel
    (2, 2, 7, 5, 6, 3, 1, 0),  # no padding
    (1, 40, 16, 4, 4, 3, 1, 1),  # pixels enough for several parts
    (1, 1, 4, 80, 72, 3, 1, 1),  # more channels than a block
    (2, 1, 5, 64, 32, 3, 1, 1),  # a block of channels belongs to one tap, or several taps to a block
    (2, 2, 9, 6, 8, (3, 2), 2, 1),  # taps that are not square
    (1, 2, 8, 5, 20, (1, 4), 3, 0),
]
TILES = [Tile(64, 16, 32, 8, 2), Tile(16, 32, 16, 4, 4), Tile(256, 64, 128, 8, 3)]
TILED = [(2, 2, 9, 20, 24, 3, 2, 1), (1, 1, 4, 80, 72, 3, 1, 1), (2, 1, 5, 64, 32, 3, 2, 1)]
NORMS = [(6, 16, 8), (1, 8, 8), (20, 32, 4), (5, 64, 8), (30, 32, 4), (18, 64, 32)]  # side, channels, groups


def close(found: torch.Tensor, expected: torch.Tensor) -> None:
    torch.testing.assert_close(found, expected, rtol=1e-3, atol=2e-3)


def convolution(
    jobs: int,
    b: int,
    side: int,
    channels: int,
    outputs: int,
    taps: int | tuple[int, int],
    stride: int,
    pad: int,
    biased: bool,
) -> None:
    images = torch.randn(jobs * b, side, side + 1, channels, requires_grad=True)
    down, across = (taps, taps) if isinstance(taps, int) else taps
    weight = torch.randn(jobs, down, across, channels, outputs, requires_grad=True)
    bias = torch.randn(jobs, outputs, requires_grad=True) if biased else None
    found = stacked_conv(images, weight, bias, stride, pad)
    parts = []
    for job in range(jobs):
        own = images[job * b : (job + 1) * b].permute(0, 3, 1, 2)
        shift = None if bias is None else bias[job]
        parts.append(F.conv2d(own, weight[job].permute(3, 2, 0, 1), shift, stride=stride, padding=pad))
    expected = torch.cat(parts).permute(0, 2, 3, 1)
    close(found, expected)
    back = torch.randn_like(expected)
    given = [images, weight] if bias is None else [images, weight, bias]
    for mine, theirs in zip(
        torch.autograd.grad(found, given, back), torch.autograd.grad(expected, given, back), strict=True
    ):
        close(mine, theirs)


def squared(
    jobs: int, b: int, side: int, channels: int, outputs: int, taps: int, stride: int, pad: int
) -> None:
    """Squared norms are those of the gradients that are written down, of jobs and of single images."""
    images = torch.randn(jobs * b, side, side, channels)
    high = (side + 2 * pad - taps) // stride + 1
    back = torch.randn(jobs * b, high, high, outputs)
    for groups in (jobs, jobs * b):
        product = weight_product(images, back, groups, (taps, taps), stride, pad)
        found = weight_squares(images, back, groups, taps, taps, stride, pad)
        torch.testing.assert_close(found, product.double().square().sum(dim=(1, 2, 3)), rtol=1e-4, atol=0)


def tiles(
    jobs: int, b: int, side: int, channels: int, outputs: int, taps: int, stride: int, pad: int
) -> None:
    """Any tile gives what the usual one gives."""
    images = torch.randn(jobs * b, side, side, channels)
    weight = torch.randn(jobs, taps * taps, channels, outputs)
    geometry = ((taps, taps), stride, pad)
    made = conv_product(images, weight, None, *geometry)
    of_images = images_product(made, weight, (side, side), *geometry)
    of_weight = weight_product(images, made, jobs, *geometry)
    for tile in TILES:
        close(conv_product(images, weight, None, *geometry, tile), made)
        close(images_product(made, weight, (side, side), *geometry, tile), of_images)
        # Sums over all pixels of values that are sums themselves: large, so looked at in relation.
        found = weight_product(images, made, jobs, *geometry, tile)
        close(found / of_weight.abs().max(), of_weight / of_weight.abs().max())


def resnet18() -> list[tuple[int, int, int, int, int]]:
    """Return the different convolutions of the model on 32×32 images: side, channels in and out, taps, stride."""
    found = []

    def note(layer: nn.Conv2d, given: tuple[torch.Tensor], _made: torch.Tensor) -> None:
        found.append(
            (given[0].shape[2], layer.in_channels, layer.out_channels, layer.kernel_size[0], layer.stride[0])
        )

    model = make_model("resnet18", (3, 32, 32), 100, 0)
    for layer in model.modules():
        if isinstance(layer, nn.Conv2d):
            layer.register_forward_hook(note)
    with torch.no_grad():
        model(torch.zeros(1, 3, 32, 32))
    return list(dict.fromkeys(found))


def of_resnet18(side: int, channels: int, outputs: int, taps: int, stride: int) -> None:
    """The tiles that an H200 takes for 32 images in bf16, on 2 images in float32 (the interpreter has no bf16)."""
    jobs, b, pad = 2, 2, taps // 2
    images = torch.randn(jobs * b, side, side, channels, requires_grad=True)
    weight = (torch.randn(jobs, taps**2, channels, outputs) / taps / channels**0.5).requires_grad_()
    expected = torch.cat(
        [
            F.conv2d(
                own.permute(0, 3, 1, 2), w.unflatten(0, (taps, taps)).permute(3, 2, 0, 1), None, stride, pad
            )
            for own, w in zip(images.split(b), weight, strict=True)
        ]
    ).permute(0, 2, 3, 1)
    back = torch.randn_like(expected)
    of_images, of_weight = torch.autograd.grad(expected, [images, weight], back)
    geometry, pixels = ((taps, taps), stride, pad), 32 * (side // stride) ** 2
    tile = product_tile(pixels, taps**2, channels, outputs, 2)
    close(conv_product(images, weight, None, *geometry, tile), expected)
    tile = product_tile(pixels, taps**2, outputs, channels, 2)
    close(images_product(back, weight, (side, side), *geometry, tile), of_images)
    tile = weight_tile(pixels, taps**2, channels, outputs, 2)
    close(weight_product(images, back, jobs, *geometry, tile), of_weight)


def norm(side: int, channels: int, groups: int, relu: bool) -> None:
    jobs, b = 2, 3
    values = (2 * torch.randn(jobs * b, side, side, channels) + 1).requires_grad_()
    weight = torch.randn(jobs, channels, requires_grad=True)
    bias = torch.randn(jobs, channels, requires_grad=True)
    found = stacked_norm(values, weight, bias, groups, 1e-5, relu)
    parts = [
        F.group_norm(
            values[job * b : (job + 1) * b].permute(0, 3, 1, 2), groups, weight[job], bias[job], 1e-5
        )
        for job in range(jobs)
    ]
    expected = torch.cat(parts).permute(0, 2, 3, 1)
    expected = expected.relu() if relu else expected
    close(found, expected)
    back = torch.randn_like(expected)
    given = [values, weight, bias]
    for mine, theirs in zip(
        torch.autograd.grad(found, given, back), torch.autograd.grad(expected, given, back), strict=True
    ):
        close(mine, theirs)


def pooling(side: int, wide: int, channels: int, p: float) -> None:
    """Odd sides leave a row or column out; of equal values the first counts; masks are those of the layer."""
    jobs, b = 2, 3
    values = torch.randn(jobs * b, side, wide, channels)
    values[0, :2, :2] = 1.5
    values.requires_grad_()
    layer = KeyedDropout(p, layer=1)
    layer.key = torch.tensor([[5, -7], [123456789, -987654321]], dtype=torch.int32)
    expected = layer(F.max_pool2d(values.permute(0, 3, 1, 2), 2)).permute(0, 2, 3, 1)
    found = pooled(values, layer.key if p else None, layer_offset(1), p)
    torch.testing.assert_close(found, expected)
    back = torch.randn_like(expected)
    torch.testing.assert_close(
        torch.autograd.grad(found, values, back), torch.autograd.grad(expected, values, back)
    )


def elementwise() -> None:
    """The positive part of a sum, and an SGD step: also of more values than a program takes."""
    one, other = (torch.randn(2, 7, 9, 10, requires_grad=True) for _ in range(2))
    found, expected = relu_of_sum(one, other), torch.relu(one + other)
    torch.testing.assert_close(found, expected)
    back = torch.randn_like(expected)
    for mine, theirs in zip(
        torch.autograd.grad(found, [one, other], back),
        torch.autograd.grad(expected, [one, other], back),
        strict=True,
    ):
        torch.testing.assert_close(mine, theirs)
    rates, momenta, decays = torch.rand(3), torch.rand(3), torch.rand(3)
    for shape in ((3, 5), (3, 3, 3, 16, 9)):
        weights, velocity, gradient = torch.randn(shape), torch.randn(shape), torch.randn(shape)
        mine = (weights.clone(), velocity.clone())
        updated(weights, velocity, gradient, rates, momenta, decays)
        stepped(*mine, gradient, rates, momenta, decays)
        torch.testing.assert_close(mine, (weights, velocity))


def turning(down: int, across: int, inputs: int, outputs: int) -> None:
    """A parameter in the middle of flat weights, there and back: not one bit may change, inside of it or outside."""
    numbers = down * across * inputs * outputs
    flat = torch.randn(3, 7 + numbers + 5)
    param = torch.empty(3, down, across, inputs, outputs)
    turned(flat, 7, param, to_flat=False)
    own = flat[:, 7 : 7 + numbers].view(3, outputs, inputs, down, across)
    assert torch.equal(param, own.permute(0, 3, 4, 2, 1))
    found = torch.zeros_like(flat)
    turned(found, 7, param, to_flat=True)
    assert torch.equal(found[:, 7 : 7 + numbers], flat[:, 7 : 7 + numbers])
    assert not found[:, :7].any() and not found[:, 7 + numbers :].any()  # noqa: PT018


def batches(side: int, wide: int, colours: int, augment: str) -> None:
    """Some images of bytes, as they are, mirrored or moved; NO_IMAGE takes the first."""
    rng = np.random.default_rng(0)
    source = torch.from_numpy(rng.integers(0, 256, (20, side, wide, colours), dtype=np.uint8))
    samples = torch.from_numpy(rng.integers(-1, 20, 30))
    drawn = draw_views(rng, (30,), augment)
    views = None if drawn is None else torch.from_numpy(drawn)
    mean, std = torch.rand(colours), 1 + torch.rand(colours)
    images = source[samples.clamp(min=0)]
    expected = ((images if views is None else viewed(images, views)).float() - mean) / std
    torch.testing.assert_close(gathered(source, samples, views, mean, std, torch.float32), expected)


def engine() -> None:
    """The whole engine with the kernels in it, against the one for CPUs: training, σ̂, gradients, accuracy."""
    kernels = gpu_layers.Kernels(
        stacked_conv, weight_squares, stacked_norm, pooled, relu_of_sum, gathered, stepped, turned
    )
    for module in (gpu_layers, gpu_programs, gpu_layout):
        module.on_gpu, module.gpu_kernels = lambda _values: True, lambda: kernels
    data = tiny_data()
    net = nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1), nn.GroupNorm(8, 8), nn.ReLU(), nn.MaxPool2d(2), nn.Dropout(0.2),
        ResidualBlock(8, 16, 2, 8), nn.Flatten(), nn.Linear(64, 5),
    )  # fmt: skip
    model = FlatModel(net)
    rng = np.random.default_rng(0)
    jobs = [
        TrainJob(
            weights=model.weights * (1 + 0.05 * number),
            samples=rng.integers(0, 300, (2, 6)),
            views=rng.random((2, 6)) < 0.5,
            learning_rate=0.02,
            momentum=0.5,
            dropout_keys=draw_keys(rng, 2),
        )
        for number in range(3)
    ]
    one, many = SideBySide(model, data), Stacked(model, data, "cpu")
    assert many.programs.by_layer
    assert all(m.kernel is not None for m in many.programs.stacked.modules() if hasattr(m, "kernel"))
    assert many.programs.kernels is kernels
    for mine, theirs in zip(many.train(jobs), one.train(jobs), strict=True):
        torch.testing.assert_close(mine.weights, theirs.weights, rtol=1e-3, atol=1e-4)
        assert not torch.equal(mine.weights, model.weights)
    probes = [Probe(job.weights, job.samples[0]) for job in jobs[:2]]
    found, expected = many.gradient_variances(probes), one.gradient_variances(probes)
    np.testing.assert_allclose(found, expected, rtol=2e-3)
    np.testing.assert_allclose(many.gradient_norms(probes), one.gradient_norms(probes), rtol=1e-3)
    close(torch.stack(many.gradients(probes)), torch.stack(one.gradients(probes)))
    np.testing.assert_allclose(many.losses(probes), one.losses(probes), rtol=1e-3)


if __name__ == "__main__":
    torch.manual_seed(0)
    engine()
    for shape in CONVOLUTIONS:
        for biased in (False, True):
            convolution(*shape, biased)
    for tiled in TILED:
        tiles(*tiled)
        squared(*tiled)
    for p in (0.0, 0.3):
        for side, wide in ((4, 6), (7, 5)):
            pooling(side, wide, 8, p)
    elementwise()
    for taps in ((3, 3), (1, 1), (2, 3)):
        for sizes in ((3, 32), (40, 33)):
            turning(*taps, *sizes)
    for augment in ("none", "flip", "crop-flip"):
        batches(9, 12, 3, augment)
    layers = resnet18()
    for layer in layers:
        of_resnet18(*layer)
    for size in NORMS:
        for relu in (False, True):
            norm(*size, relu)
    done = f"{2 * len(CONVOLUTIONS)} convolutions, {len(TILES) * len(TILED)} of other tiles"
    print(f"the engine, {done}, {len(layers)} of ResNet-18, and {2 * len(NORMS)} norms agree")
