"""Which tiles suit our models' convolutions on a GPU: those of learning/gpu/kernels/conv_tiles.py, and a dozen others.

    python benchmarks/conv_tiles.py [--model resnet18] [--jobs 16] [--precision bf16] [--kinds forward images weight]

Every line is one tile on one shape: milliseconds, TFLOP/s, and how many times as fast as the present tile. The last
line of a shape is its best, the last line of all what the present and the best tiles take for all of the model's
convolutions. Shapes that cost most come first, because time is limited (--seconds); kernels are compiled beforehand by
several processes (--workers) and kept in Triton's cache. Of every result, the last job's is compared with PyTorch's own
convolution. Times include launching, most of which a whole training step hides.
"""

import argparse
import json
import multiprocessing
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from fedteddi.learning.gpu.kernels.conv_tiles import (
    SHARED_BYTES,
    Tile,
    product_bytes,
    product_tile,
    weight_bytes,
    weight_tile,
)

BATCH, LAUNCHES = 32, 10
WRONG = 0.02  # of the norm: bf16 is off by a few tenths of a percent
KINDS = ("forward", "images", "weight")


class Shape(NamedTuple):
    """A convolution of a model on 32×32 images, and how often it occurs."""

    inputs: int
    outputs: int
    side: int
    taps: int
    stride: int
    times: int

    @property
    def side_out(self) -> int:
        """Pixels down and across of what comes out."""
        return self.side // self.stride

    @property
    def flop(self) -> float:
        """Of one client's batch, one way."""
        return 2.0 * BATCH * self.side_out**2 * self.taps**2 * self.inputs * self.outputs

    def __str__(self) -> str:
        return (
            f"{self.inputs}→{self.outputs} {self.taps}×{self.taps}/{self.stride} at {self.side}×{self.side}"
        )


SHAPES = {
    "resnet18": [
        Shape(64, 64, 32, 3, 1, 4),
        Shape(128, 128, 16, 3, 1, 3),
        Shape(256, 256, 8, 3, 1, 3),
        Shape(512, 512, 4, 3, 1, 3),
        Shape(64, 128, 32, 3, 2, 1),
        Shape(128, 256, 16, 3, 2, 1),
        Shape(256, 512, 8, 3, 2, 1),
        Shape(3, 64, 32, 3, 1, 1),
        Shape(64, 128, 32, 1, 2, 1),
        Shape(128, 256, 16, 1, 2, 1),
        Shape(256, 512, 8, 1, 2, 1),
    ],
    "paper-cnn": [
        Shape(32, 32, 32, 3, 1, 1),
        Shape(64, 64, 16, 3, 1, 1),
        Shape(32, 64, 16, 3, 1, 1),
        Shape(3, 32, 32, 3, 1, 1),
    ],
}

# rows, taps·channels in, channels out, warps, stages; those that do not fit a shape or the device are left out.
PRODUCTS = [
    Tile(128, 32, 32, 4, 3),
    Tile(128, 64, 32, 4, 3),
    Tile(256, 32, 32, 4, 3),
    Tile(256, 64, 32, 8, 3),
    Tile(256, 64, 32, 4, 3),
    Tile(128, 32, 64, 4, 4),
    Tile(128, 64, 64, 4, 3),
    Tile(128, 64, 64, 4, 4),
    Tile(128, 64, 64, 8, 3),
    Tile(128, 128, 64, 4, 2),
    Tile(256, 64, 64, 8, 3),
    Tile(256, 64, 64, 4, 3),
    Tile(64, 64, 128, 4, 4),
    Tile(128, 64, 128, 4, 3),
    Tile(128, 64, 128, 8, 3),
    Tile(128, 64, 128, 8, 4),
    Tile(256, 64, 128, 8, 3),
    Tile(64, 64, 256, 4, 3),
    Tile(128, 64, 256, 8, 3),
]
WEIGHTS = [
    Tile(128, 32, 32, 4, 3),
    Tile(256, 32, 32, 4, 3),
    Tile(128, 64, 32, 4, 3),
    Tile(128, 128, 32, 4, 3),
    Tile(128, 64, 64, 4, 3),
    Tile(64, 64, 64, 4, 4),
    Tile(64, 128, 64, 4, 3),
    Tile(64, 128, 64, 4, 4),
    Tile(128, 128, 64, 8, 2),
    Tile(128, 128, 64, 4, 2),
    Tile(64, 256, 64, 8, 3),
    Tile(64, 64, 128, 4, 4),
    Tile(64, 128, 128, 8, 3),
    Tile(64, 128, 128, 8, 4),
    Tile(64, 128, 128, 4, 3),
    Tile(32, 128, 128, 8, 4),
    Tile(64, 256, 128, 8, 3),
    Tile(64, 128, 256, 8, 3),
]


def candidates(shape: Shape, kind: str, value_bytes: int) -> Iterator[Tile]:
    """Give the present tile, then the others that are no wider than the shape and fit into shared memory."""
    outputs, inputs = (shape.inputs, shape.outputs) if kind == "images" else (shape.outputs, shape.inputs)
    side = shape.side if kind == "images" else shape.side_out
    weight = kind == "weight"
    choose, others, needed = (
        (weight_tile, WEIGHTS, weight_bytes) if weight else (product_tile, PRODUCTS, product_bytes)
    )
    present = choose(BATCH * side * side, shape.taps**2, inputs, outputs, value_bytes)
    yield present
    for tile in others:
        narrow = max(16, outputs) >= tile.outputs >= min(64, outputs)
        wide = tile.inputs <= max(32, shape.taps**2 * inputs)
        if narrow and wide and needed(tile, value_bytes) <= SHARED_BYTES and tile != present:
            yield tile


class Work:
    """One convolution, or one of its gradients, for several jobs."""

    def __init__(self, shape: Shape, kind: str, jobs: int, dtype: torch.dtype) -> None:
        made = torch.Generator(device="cuda").manual_seed(0)

        def values(*size: int) -> Tensor:
            return torch.randn(*size, device="cuda", generator=made).to(dtype)

        self.shape, self.kind, self.jobs = shape, kind, jobs
        self.images = values(jobs * BATCH, shape.side, shape.side, shape.inputs)
        self.back = values(jobs * BATCH, shape.side_out, shape.side_out, shape.outputs)
        weight = values(jobs, shape.taps**2, shape.inputs, shape.outputs)
        self.weight = weight / (shape.taps**2 * shape.inputs) ** 0.5

    def by(self, tile: Tile) -> Tensor:
        """Do it with a tile."""
        from fedteddi.learning.gpu.kernels.conv import conv_product, images_product, weight_product

        taps, stride, pad = (self.shape.taps,) * 2, self.shape.stride, self.shape.taps // 2
        if self.kind == "forward":
            return conv_product(self.images, self.weight, None, taps, stride, pad, tile)
        if self.kind == "images":
            size = (self.shape.side,) * 2
            return images_product(self.back, self.weight, size, taps, stride, pad, tile)
        return weight_product(self.images, self.back, self.jobs, taps, stride, pad, tile)

    def expected(self) -> Tensor:
        """Return PyTorch's answer for the last job."""
        shape, images, back = self.shape, self.images[-BATCH:].float(), self.back[-BATCH:].float()
        images = images.permute(0, 3, 1, 2).requires_grad_()
        weight = self.weight[-1].float().view(shape.taps, shape.taps, shape.inputs, shape.outputs)
        weight = weight.permute(3, 2, 0, 1).requires_grad_()
        made = F.conv2d(images, weight, stride=shape.stride, padding=shape.taps // 2)
        of_images, of_weight = torch.autograd.grad(made, (images, weight), back.permute(0, 3, 1, 2))
        if self.kind == "weight":
            return of_weight.permute(2, 3, 1, 0).reshape(self.weight.shape[1:])
        return (made if self.kind == "forward" else of_images).detach().permute(0, 2, 3, 1)


def milliseconds(work: Callable[[], object]) -> float:
    """Return the median time of one launch among several in a row, after those that do not count."""
    found: list[float] = []
    for repeat in range(6):
        start, end = _event(), _event()
        start.record()
        for _ in range(LAUNCHES):
            work()
        end.record()
        torch.cuda.synchronize()
        if repeat:
            found.append(start.elapsed_time(end) / LAUNCHES)
    return statistics.median(found)


def _event() -> Any:
    return torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]


def compile_all(shape: Shape, kind: str, jobs: int, dtype: torch.dtype) -> None:
    """Compile the kernels of all tiles of a shape, so that Triton's cache has them."""
    torch.set_float32_matmul_precision("high")
    work = Work(shape, kind, jobs, dtype)
    for tile in candidates(shape, kind, dtype.itemsize):
        try:
            work.by(tile)
        except Exception:  # is told when it is timed
            continue


def compare(work: Work, ends: float) -> list[dict[str, Any]]:
    """Time the tiles of one shape, print each, the best once more at the end."""
    shape, kind, jobs = work.shape, work.kind, work.jobs
    print(f"\n{shape}, {kind}, {jobs} jobs", flush=True)
    expected = work.expected()
    rows: list[dict[str, Any]] = []
    tiles = list(candidates(shape, kind, work.images.element_size()))
    for tile in tiles:
        if rows and time.monotonic() > ends:
            break
        try:
            found = work.by(tile)
            own = found[-1] if kind == "weight" else found[-BATCH:]
            off = float((own.float() - expected).norm() / expected.norm())
            ms = milliseconds(partial(work.by, tile))
        except Exception as error:  # a tile that this device or this Triton does not take: say so, go on
            print(f"   {told(tile)}   does not run: {type(error).__name__} {str(error)[:60]}", flush=True)
            continue
        if not off < WRONG:
            print(f"   {told(tile)}   WRONG by {off:.0%}", flush=True)
            continue
        row = {"shape": str(shape), "kind": kind, "jobs": jobs, "tile": tile, "ms": ms, "times": shape.times}
        rows.append(row | {"present": tile == tiles[0]})
        print(f"   {line(tile, ms, rows[0]['ms'], shape.flop * jobs)}", flush=True)
    if rows:
        best = min(rows, key=lambda row: row["ms"])
        print(f"=> {line(best['tile'], best['ms'], rows[0]['ms'], shape.flop * jobs)}   best", flush=True)
    return rows


def told(tile: Tile) -> str:
    """Return a tile in words of one length."""
    return (
        f"{tile.rows:4} rows {tile.inputs:4} in {tile.outputs:4} out {tile.warps} warps {tile.stages} stages"
    )


def line(tile: Tile, ms: float, present_ms: float, flop: float) -> str:
    """Return a row of the table."""
    return f"{told(tile)} {ms:9.4f} ms {flop / ms / 1e9:7.1f} TFLOP/s {present_ms / ms:6.2f}×"


DTYPES = {"bf16": torch.bfloat16, "tf32": torch.float32}


def main() -> None:
    """Print the tables until time is up, and write them as JSON if asked."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--seconds", type=float, default=300, help="stop after the tile under way then")
    parser.add_argument("--model", choices=list(SHAPES), default="resnet18")
    parser.add_argument("--jobs", type=int, default=16)
    parser.add_argument("--precision", choices=list(DTYPES), default="bf16")
    parser.add_argument("--kinds", nargs="*", choices=KINDS, default=list(KINDS))
    parser.add_argument("--shapes", type=int, nargs="*", default=None, help="by place in SHAPES of the model")
    parser.add_argument("--workers", type=int, default=1, help="processes that compile beforehand")
    parser.add_argument("--json", type=Path, default=None, help="write the numbers here too")
    options = parser.parse_args()
    if not torch.cuda.is_available():
        sys.exit("no CUDA device here: tiles can be timed on a GPU only")
    torch.set_float32_matmul_precision("high")
    ends, found = time.monotonic() + options.seconds, []
    shapes = SHAPES[options.model]
    asked = [
        (place, kind)
        for place in options.shapes or range(len(shapes))
        for kind in options.kinds
        if kind != "images" or shapes[place].inputs > 3  # nobody asks for the gradient of the data
    ]
    print(
        f"{torch.cuda.get_device_name()}, {options.model}, {options.precision}, batches of {BATCH}",
        flush=True,
    )
    if options.workers > 1:
        dtype = DTYPES[options.precision]
        tasks = [(shapes[place], kind, options.jobs, dtype) for place, kind in asked]
        with multiprocessing.get_context("spawn").Pool(options.workers) as pool:
            pool.starmap(compile_all, tasks, chunksize=1)
    present_ms = best_ms = 0.0
    for place, kind in asked:
        if time.monotonic() > ends:
            print(f"\nstopped after {options.seconds:.0f} s: --shapes and --kinds choose what is left")
            break
        rows = compare(Work(shapes[place], kind, options.jobs, DTYPES[options.precision]), ends)
        found += rows
        if not rows or not rows[0]["present"]:
            sys.exit(f"the present tile of {shapes[place]}, {kind}, does not work here")
        present_ms += rows[0]["ms"] * rows[0]["times"]
        best_ms += min(row["ms"] for row in rows) * rows[0]["times"]
        if options.json is not None:  # after each, in case the machine goes
            options.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print(
        f"\nall that was timed, in ms a client-step: present {present_ms / options.jobs:.4f},"
        f" best {best_ms / options.jobs:.4f}"
    )


if __name__ == "__main__":
    main()
