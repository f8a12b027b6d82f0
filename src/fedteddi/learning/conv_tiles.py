"""How much of a convolution one program of its kernels works on at a time: a function of the shape, and nothing else.

`python benchmarks/conv_tiles.py` times alternatives on a device; what it finds best belongs here.
"""

from typing import NamedTuple

SMALLEST = 16  # of what matrix units take
WIDE = 128  # channels or pixels at a time that are not summed over
DEEP = 64  # that are
SHARED_BYTES = 227 * 1024  # that a program may have: H100 and H200


class Tile(NamedTuple):
    """Pixels, taps·channels in, channels out: powers of two from 16; warps that share it, and loads under way."""

    rows: int
    inputs: int
    outputs: int
    warps: int = 4
    stages: int = 3


def product_tile(pixels: int, taps: int, inputs: int, outputs: int, value_bytes: int) -> Tile:
    """Return the tile of [pixels, taps·inputs] @ [taps·inputs, outputs]: a convolution, or its images' gradient."""
    rows, wide = _fitting(pixels, WIDE), _fitting(outputs, WIDE)
    tile = Tile(rows, _fitting(taps * inputs, DEEP), wide, _warps(rows * wide))
    return _with_room(tile, product_bytes(tile, value_bytes))


def weight_tile(pixels: int, taps: int, inputs: int, outputs: int, value_bytes: int) -> Tile:
    """Return the tile of [taps·inputs, pixels] @ [pixels, outputs]: the weights' gradient."""
    deep, wide = _fitting(taps * inputs, WIDE), _fitting(outputs, WIDE)
    tile = Tile(_fitting(pixels, DEEP), deep, wide, _warps(deep * wide))
    return _with_room(tile, weight_bytes(tile, value_bytes))


def product_bytes(tile: Tile, value_bytes: int) -> int:
    """Return the shared memory that a product's loads take."""
    return tile.stages * value_bytes * (tile.rows + tile.outputs) * tile.inputs


def weight_bytes(tile: Tile, value_bytes: int) -> int:
    """Return the shared memory that the loads of a weights' gradient take."""
    return tile.stages * value_bytes * (tile.inputs + tile.outputs) * tile.rows


def _fitting(number: int, most: int) -> int:
    """Return the power of two that holds so many, or the most that go at a time."""
    return max(SMALLEST, min(most, 1 << (number - 1).bit_length()))


def _warps(sums: int) -> int:
    """Return how many warps share so many sums, which they hold in registers."""
    return 8 if sums >= WIDE * WIDE else 4


def _with_room(tile: Tile, needed: int) -> Tile:
    """Take back loads under way until they fit."""
    return tile._replace(stages=min(tile.stages, SHARED_BYTES // (needed // tile.stages)))
