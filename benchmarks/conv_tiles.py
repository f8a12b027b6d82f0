"""Which tiles suit ResNet-18's convolutions on a GPU: the present choice (learning/conv_tiles.py) and a dozen others.

    python benchmarks/conv_tiles.py [--seconds 300] [--jobs 16 64] [--precision bf16] [--kinds forward images weight]

Every line is one tile on one shape: milliseconds, TFLOP/s, and how many times as fast as the present tile. The last
line of a shape is its best. Shapes that cost most come first, because time is limited; kernels are compiled on the way,
about a second each, and kept in Triton's cache. Every result is compared with the present tile's.
"""

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from fedteddi.learning.conv_tiles import (
    SHARED_BYTES,
    Tile,
    product_bytes,
    product_tile,
    weight_bytes,
    weight_tile,
)

BATCH, LAUNCHES = 32, 10
KINDS = ("forward", "images", "weight")


class Shape(NamedTuple):
    """A convolution of ResNet-18 on 32×32 images, and how often it occurs."""

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


SHAPES = [
    Shape(64, 64, 32, 3, 1, 4),
    Shape(128, 128, 16, 3, 1, 3),
    Shape(256, 256, 8, 3, 1, 3),
    Shape(512, 512, 4, 3, 1, 3),
    Shape(64, 128, 32, 3, 2, 1),
    Shape(128, 256, 16, 3, 2, 1),
    Shape(256, 512, 8, 3, 2, 1),
    Shape(64, 128, 32, 1, 2, 1),
    Shape(128, 256, 16, 1, 2, 1),
    Shape(256, 512, 8, 1, 2, 1),
    Shape(3, 64, 32, 3, 1, 1),
]

# rows, channels in, channels out, warps, stages; those that do not fit a shape or the device are left out.
PRODUCTS = [
    Tile(128, 64, 64, 4, 4),
    Tile(128, 64, 64, 8, 3),
    Tile(64, 64, 64, 4, 4),
    Tile(256, 64, 64, 8, 3),
    Tile(128, 64, 128, 8, 3),
    Tile(128, 64, 128, 8, 4),
    Tile(128, 64, 128, 4, 3),
    Tile(256, 64, 128, 8, 3),
    Tile(64, 64, 128, 4, 4),
    Tile(128, 32, 128, 8, 4),
    Tile(128, 32, 64, 4, 4),
    Tile(128, 64, 256, 8, 3),
    Tile(64, 64, 256, 4, 3),
]
WEIGHTS = [
    Tile(64, 64, 64, 4, 4),
    Tile(64, 64, 64, 4, 3),
    Tile(128, 64, 64, 8, 3),
    Tile(128, 64, 64, 4, 2),
    Tile(64, 64, 128, 4, 4),
    Tile(64, 128, 64, 4, 4),
    Tile(64, 128, 128, 8, 3),
    Tile(64, 128, 128, 8, 4),
    Tile(128, 128, 128, 8, 2),
    Tile(64, 128, 128, 4, 3),
    Tile(64, 128, 256, 8, 3),
    Tile(32, 128, 128, 8, 4),
    Tile(256, 64, 64, 8, 2),
]


def fits(tile: Tile, inputs: int, outputs: int, kind: str, value_bytes: int) -> bool:
    """Tell whether a tile is no wider than the shape, and its loads fit into shared memory."""
    needed = (weight_bytes if kind == "weight" else product_bytes)(tile, value_bytes)
    return needed <= SHARED_BYTES and tile.inputs <= max(16, inputs) and tile.outputs <= max(16, outputs)


def candidates(shape: Shape, kind: str, value_bytes: int) -> Iterator[Tile]:
    """Give the present tile, then the others that fit."""
    outputs, inputs = (shape.inputs, shape.outputs) if kind == "images" else (shape.outputs, shape.inputs)
    side = shape.side if kind == "images" else shape.side_out
    choose, others = (weight_tile, WEIGHTS) if kind == "weight" else (product_tile, PRODUCTS)
    present = choose(BATCH * side * side, inputs, outputs, value_bytes)
    yield present
    yield from (t for t in others if t != present and fits(t, inputs, outputs, kind, value_bytes))


def work_of(shape: Shape, kind: str, jobs: int, dtype: torch.dtype) -> Callable[[Tile], Tensor]:
    """Return a function that does one convolution, or one of its gradients, with a tile."""
    from fedteddi.learning.triton_conv import conv_product, images_product, weight_product

    pad, taps = shape.taps // 2, (shape.taps, shape.taps)
    made = torch.Generator(device="cuda").manual_seed(0)

    def values(*size: int) -> Tensor:
        return torch.randn(*size, device="cuda", generator=made).to(dtype)

    images = values(jobs * BATCH, shape.side, shape.side, shape.inputs)
    back = values(jobs * BATCH, shape.side_out, shape.side_out, shape.outputs)
    weight = values(jobs, shape.taps**2, shape.inputs, shape.outputs) / (shape.taps**2 * shape.inputs) ** 0.5
    ways: dict[str, Callable[[Tile], Tensor]] = {
        "forward": lambda tile: conv_product(images, weight, None, taps, shape.stride, pad, tile),
        "images": lambda tile: images_product(
            back, weight, (shape.side, shape.side), taps, shape.stride, pad, tile
        ),
        "weight": lambda tile: weight_product(images, back, jobs, taps, shape.stride, pad, tile),
    }
    return ways[kind]


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


def compare(shape: Shape, kind: str, jobs: int, dtype: torch.dtype, ends: float) -> list[dict[str, object]]:
    """Time the tiles of one shape, print each, the best once more at the end."""
    print(f"\n{shape}, {kind}, {jobs} jobs", flush=True)
    work = work_of(shape, kind, jobs, dtype)
    rows: list[dict[str, object]] = []
    times: dict[Tile, float] = {}
    expected, present = torch.empty(0), None
    for tile in candidates(shape, kind, dtype.itemsize):
        if present is not None and time.monotonic() > ends:
            break
        try:
            found = work(tile)
            ms = milliseconds(lambda tile=tile: work(tile))  # type: ignore[misc]
        except Exception as error:  # a tile that this device or this Triton does not take: say so, go on
            print(f"   {told(tile)}   does not run: {type(error).__name__} {str(error)[:60]}", flush=True)
            continue
        expected, present = (found, tile) if present is None else (expected, present)
        off = float((found - expected).float().norm() / expected.float().norm())
        if off > 0.01:
            print(f"   {told(tile)}   WRONG by {off:.0%}", flush=True)
            continue
        times[tile] = ms
        print(f"   {line(tile, ms, times[present], shape.flop * jobs)}", flush=True)
        rows.append({"shape": str(shape), "kind": kind, "jobs": jobs, "tile": tile, "ms": ms})
    if times and present is not None:
        best = min(times, key=times.__getitem__)
        print(f"=> {line(best, times[best], times[present], shape.flop * jobs)}   best", flush=True)
    return rows


def told(tile: Tile) -> str:
    """Return a tile in words of one length."""
    return (
        f"{tile.rows:4} rows {tile.inputs:4} in {tile.outputs:4} out {tile.warps} warps {tile.stages} stages"
    )


def line(tile: Tile, ms: float, present_ms: float, flop: float) -> str:
    """Return a row of the table."""
    return f"{told(tile)} {ms:9.4f} ms {flop / ms / 1e9:7.1f} TFLOP/s {present_ms / ms:6.2f}×"


def main() -> None:
    """Print the tables until time is up, and write them as JSON if asked."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--seconds", type=float, default=300, help="stop after the tile under way then")
    parser.add_argument("--jobs", type=int, nargs="*", default=[16, 64])
    parser.add_argument("--precision", choices=["bf16", "tf32"], default="bf16")
    parser.add_argument("--kinds", nargs="*", choices=KINDS, default=list(KINDS))
    parser.add_argument(
        "--shapes", type=int, nargs="*", default=list(range(len(SHAPES))), help="by place in SHAPES"
    )
    parser.add_argument("--json", type=Path, default=None, help="write the numbers here too")
    options = parser.parse_args()
    if not torch.cuda.is_available():
        sys.exit("no CUDA device here: tiles can be timed on a GPU only")
    torch.set_float32_matmul_precision("high")
    dtype = torch.bfloat16 if options.precision == "bf16" else torch.float32
    ends, found = time.monotonic() + options.seconds, []
    print(f"{torch.cuda.get_device_name()}, {options.precision}, batches of {BATCH}")
    for place in options.shapes:
        for kind in options.kinds:
            for jobs in options.jobs:
                if time.monotonic() > ends:
                    continue
                found += compare(SHAPES[place], kind, jobs, dtype, ends)
                if options.json is not None:  # after each, in case the machine goes
                    options.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    if time.monotonic() > ends:
        print(f"\nstopped after {options.seconds:.0f} s: --shapes and --kinds choose what is left")


if __name__ == "__main__":
    main()
