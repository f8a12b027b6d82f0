"""Milliseconds of local training on a GPU: one by one, by vmap, and ours, beside what the device could do at best.

    python benchmarks/gpu.py [--device cuda] [--jobs 64] [--repeats 5]

The paper's CNN: per 64 client-steps of 32 images. ResNet-18: per client-step. A client-step is forward, backward,
dropout, momentum and update. "Ours" runs whole jobs of 10 steps through the engine, with everything it does on the way.
The shares set what must be done at least beside a large matrix product and a large copy in the same run: the model's
arithmetic, and its traffic if no tensor moved more often than needed. One by one and vmap round products to TF32. Then
what the estimators cost, in client-steps.
"""

import argparse
import copy
import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap
from torch.nn import functional as F
from torch.utils.flop_counter import FlopCounterMode

from fedteddi.learning.datasets.dataset import Dataset
from fedteddi.learning.engine import Candidate, Probe, TrainJob
from fedteddi.learning.flat import FlatModel
from fedteddi.learning.gpu.engine import Stacked
from fedteddi.learning.models import make_model

BATCH, STEPS = 32, 10


def images(classes: int, count: int = 2000) -> Dataset:
    """Random images of CIFAR's shape: what they show does not matter for time."""
    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 256, size=(count, 3, 32, 32), dtype=np.uint8)
    labels = np.arange(count) % classes
    return Dataset.from_arrays("noise", pixels, labels, pixels, labels)


def milliseconds(work: Callable[[], object], device: torch.device, repeats: int) -> float:
    """Return the median time of some work, after two tries that do not count."""
    found = []
    for repeat in range(repeats + 2):
        _wait(device)
        start = time.perf_counter()
        work()
        _wait(device)
        if repeat >= 2:
            found.append(1e3 * (time.perf_counter() - start))
    return statistics.median(found)


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def ceilings(device: torch.device, repeats: int, size: int) -> dict[str, float]:
    """Return the best TFLOP/s of a matrix product in TF32 and bf16, and TB/s of a copy."""
    torch.set_float32_matmul_precision("high")
    found = {}
    for name, dtype in (("tf32", torch.float32), ("bf16", torch.bfloat16)):
        a = torch.randn(size, size, device=device, dtype=dtype)
        ms = milliseconds(lambda a=a: a @ a, device, repeats)  # type: ignore[misc]
        found[f"{name} TFLOP/s"] = 2 * size**3 / ms / 1e9
    source = torch.empty(16 * size * size, device=device)
    target = torch.empty_like(source)
    found["copy TB/s"] = (
        2 * 4 * source.numel() / milliseconds(lambda: target.copy_(source), device, repeats) / 1e9
    )
    return found


def one_by_one(module: nn.Module, data: Dataset, jobs: int, device: torch.device, repeats: int) -> float:
    """Return the time of one plain PyTorch step for each of some models."""
    torch.set_float32_matmul_precision("high")
    models = [make_copy(module, device) for _ in range(jobs)]
    optimisers = [torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.5) for model in models]
    batch, labels = (v.to(device) for v in data.training_batch(np.arange(BATCH)))

    def step() -> None:
        for model, optimiser in zip(models, optimisers, strict=True):
            optimiser.zero_grad()
            F.cross_entropy(model(batch), labels).backward()  # type: ignore[no-untyped-call]
            optimiser.step()

    return milliseconds(step, device, repeats)


def make_copy(module: nn.Module, device: torch.device) -> nn.Module:
    """Return a copy of a module on a device, ready to train."""
    return copy.deepcopy(module).to(device).train()


def by_vmap(module: nn.Module, data: Dataset, jobs: int, device: torch.device, repeats: int) -> float:
    """Return the time of one step of some models by torch.func.vmap, as its tutorial does it."""
    torch.set_float32_matmul_precision("high")
    plain = make_copy(module, device)
    weights = {name: p.detach().expand(jobs, *p.shape).clone() for name, p in plain.named_parameters()}
    velocity = {name: torch.zeros_like(p) for name, p in weights.items()}
    batch, labels = (v.to(device) for v in data.training_batch(np.arange(BATCH)))
    batches, answers = batch.expand(jobs, *batch.shape).clone(), labels.expand(jobs, -1)

    def loss(own: dict[str, Tensor], inputs: Tensor, targets: Tensor) -> Tensor:
        return F.cross_entropy(functional_call(plain, own, (inputs,)), targets)

    gradients = vmap(grad(loss), randomness="different")

    def step() -> None:
        for name, g in gradients(weights, batches, answers).items():
            velocity[name].mul_(0.5).add_(g)
            weights[name].sub_(velocity[name], alpha=0.01)

    return milliseconds(step, device, repeats)


def jobs_of(model: FlatModel, data: Dataset, jobs: int, device: torch.device) -> list[TrainJob]:
    """Return jobs of 10 steps."""
    rng = np.random.default_rng(0)
    shape = (STEPS, BATCH)
    weights = model.weights.to(device)
    return [
        TrainJob(
            weights=weights,
            samples=rng.integers(0, len(data.train_labels), shape),
            views=rng.random(shape) < 0.5,
            learning_rate=0.01,
            momentum=0.5,
            dropout_keys=rng.integers(-(2**31), 2**31, (STEPS, 2), dtype=np.int32),
        )
        for _ in range(jobs)
    ]


def least_bytes(module: nn.Module, batch: Tensor, precision: str) -> float:
    """Return the bytes that one client-step must move if every tensor is moved only as often as the arithmetic asks.

    A layer's output is written, read by the next layer and again on the way back; its gradient is written and read. A
    weight is read forward, backward and by the update, and written; its momentum is read and written, its gradient
    written and read. ReLU, dropout and pooling are taken as part of the layer before them.
    """
    values = 0

    def count(_layer: nn.Module, _inputs: object, output: Tensor) -> None:
        nonlocal values
        values += output.numel()

    layers = [layer for layer in module.modules() if isinstance(layer, nn.Conv2d | nn.GroupNorm | nn.Linear)]
    hooks = [layer.register_forward_hook(count) for layer in layers]
    with torch.no_grad():
        module(batch)
    for hook in hooks:
        hook.remove()
    weights = sum(p.numel() for p in module.parameters())
    return 5.0 * (2 if precision == "bf16" else 4) * values + 8.0 * 4 * weights


def profile(engine: Stacked, jobs: list[TrainJob]) -> None:
    """Print which kernels the time goes into."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as seen:
        engine.train(jobs)
        torch.cuda.synchronize()
    print(seen.key_averages().table(sort_by="self_cuda_time_total", row_limit=25, max_name_column_width=60))


def estimators(engine: Stacked, data: Dataset, jobs: list[TrainJob], repeats: int) -> dict[str, float]:
    """Return the time of one client's probe, by what is asked."""
    probes = [Probe(job.weights, job.samples[0], None if job.views is None else job.views[0]) for job in jobs]
    models = [job.weights for job in jobs]
    work: dict[str, Callable[[], object]] = {
        "gradient variance of a batch": lambda: engine.gradient_variances(probes),
        "loss of a batch": lambda: engine.losses(probes),
        "gradient of a batch": lambda: engine.gradients(probes),
        "accuracy on a batch": lambda: engine.class_accuracy([Candidate(m) for m in models]),
    }
    found = {name: milliseconds(ask, engine.device, repeats) / len(jobs) for name, ask in work.items()}
    found["accuracy on a batch"] *= BATCH / len(data.test_labels)
    return found


def main() -> None:
    """Print the table, and write it as JSON."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--jobs", type=int, nargs="*", default=[64, 256], help="jobs at once, for the CNN")
    parser.add_argument("--resnet-jobs", type=int, default=64)
    parser.add_argument("--precision", nargs="*", default=["tf32", "bf16"])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--size", type=int, default=8192, help="of the matrices for the ceilings")
    parser.add_argument("--models", nargs="*", default=["paper-cnn", "resnet18"])
    parser.add_argument("--only-ours", action="store_true", help="leave out one by one and vmap")
    parser.add_argument("--profile", action="store_true", help="list the kernels of ours")
    parser.add_argument("--json", type=Path, default=None, help="write the numbers here too")
    options = parser.parse_args()
    device = torch.device(options.device)
    if device.type == "cuda" and not torch.cuda.is_available():
        sys.exit("no CUDA device here: try --device cpu --jobs 2 --resnet-jobs 1 --size 256")
    found: dict[str, float] = ceilings(device, options.repeats, options.size)
    for name, value in found.items():
        print(f"{name:58}{value:10.1f}", flush=True)

    def tell(name: str, ms: float, unit: str = " ms") -> None:
        found[name] = ms
        print(f"{name:58}{ms:10.2f}{unit}", flush=True)

    def tell_shares(name: str, ms: float, flop: float, moved: float, precision: str = "tf32") -> None:
        tell(name, ms)
        found[f"{name}, share of matmul"] = flop / ms / 1e9 / found[f"{precision} TFLOP/s"]
        found[f"{name}, share of copy"] = moved / ms / 1e9 / found["copy TB/s"]
        print(
            f"{'':58}{found[f'{name}, share of matmul']:10.1%} of the matmul,"
            f" {found[f'{name}, share of copy']:.1%} of the copy ceiling",
            flush=True,
        )

    for kind in options.models:
        classes, unit = (10, 64) if kind == "paper-cnn" else (100, 1)
        data = images(classes)
        module = make_model(kind, data.image_shape, classes, 0)
        with FlopCounterMode(display=False) as counter:
            batch, labels = data.training_batch(np.arange(BATCH))
            F.cross_entropy(module(batch), labels).backward()  # type: ignore[no-untyped-call]
        flop = float(counter.get_total_flops()) * unit
        each = f"{kind}, {unit} client-step{'s' * (unit > 1)}"
        sizes = options.jobs if kind == "paper-cnn" else [options.resnet_jobs]
        if not options.only_ours:
            few = min(sizes[0], 16)
            moved = least_bytes(module, batch, "tf32") * unit
            ms = one_by_one(module, data, few, device, options.repeats) / few * unit
            tell_shares(f"{each}: one by one", ms, flop, moved)
            ms = by_vmap(module, data, few, device, options.repeats) / few * unit
            tell_shares(f"{each}: vmap of {few}", ms, flop, moved)
        model = FlatModel(module)
        for precision in options.precision:
            engine = Stacked(model, data, options.device, precision)
            for jobs in sizes:
                asked = jobs_of(model, data, jobs, device)
                begun = time.perf_counter()
                engine.train(asked)
                print(f"   (first call {time.perf_counter() - begun:.0f} s)", flush=True)
                ms = milliseconds(lambda e=engine, a=asked: e.train(a), device, options.repeats)  # type: ignore[misc]
                step = ms / STEPS / jobs
                moved = least_bytes(module, batch, precision) * unit
                name = f"{each}: ours, {precision}, {jobs} at once"
                tell_shares(name, step * unit, flop, moved, precision)
                if options.profile:
                    profile(engine, asked)
            few_jobs = asked[:64]
            for name, ms in estimators(engine, data, few_jobs, options.repeats).items():
                tell(f"   {kind}, {precision}: {name}, in client-steps", ms / step, unit="")
            del engine  # its data and programs leave the device
    if options.json is not None:
        options.json.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
