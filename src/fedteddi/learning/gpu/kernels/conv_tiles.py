"""How much of a convolution one program of its kernels works on at a time: a function of the shape, and nothing else.

`python benchmarks/conv_tiles.py` times alternatives on a device; what it finds best belongs here.
"""

from typing import NamedTuple

SMALLEST = 16  # of what matrix units take
EXACT = 64  # the most pixels, or channels, of a tile in full single precision
SHARED_BYTES = 227 * 1024  # that a program may have on an H100 or H200


class Tile(NamedTuple):
    """Pixels, taps·channels in, channels out: powers of two from 16; warps that share it, and loads under way."""

    rows: int
    inputs: int
    outputs: int
    warps: int = 4
    stages: int = 3


def product_tile(
    pixels: int,
    taps: int,
    inputs: int,
    outputs: int,
    value_bytes: int,
    shared_bytes: int = SHARED_BYTES,
    exact: bool = False,
) -> Tile:
    """Return the tile of [pixels, taps·inputs] @ [taps·inputs, outputs]: a convolution, or its images' gradient.

    Exact products are no work for matrix units: a tile becomes one long list of sums, which must not be too long.
    """
    rows, wide = (
        _fitting(pixels, EXACT if exact else 128),
        _fitting(outputs, EXACT if exact else 512 // value_bytes),
    )
    # A block that holds several taps reckons a place for every value, which pays only where channels are very few.
    deep = _fitting(inputs if inputs >= 32 else taps * inputs, SMALLEST if exact else 64)
    tile = Tile(rows, deep, wide, warps=8 if wide >= 128 else 4)
    return _with_room(tile, product_bytes(tile, value_bytes), shared_bytes)


def weight_tile(
    pixels: int,
    taps: int,
    inputs: int,
    outputs: int,
    value_bytes: int,
    shared_bytes: int = SHARED_BYTES,
    exact: bool = False,
) -> Tile:
    """Return the tile of [taps·inputs, pixels] @ [pixels, outputs]: the weights' gradient."""
    if exact:
        deep, wide = _fitting(taps * inputs, EXACT), _fitting(outputs, EXACT)
        return Tile(SMALLEST, deep, wide)
    wide = _fitting(outputs, 128)
    deep = _fitting(taps * inputs, 64 if pixels >= 1024 else 128)
    tile = Tile(
        _fitting(pixels, 128 if wide <= 32 else 64), deep, wide, stages=4 if deep == 64 <= wide else 3
    )
    return _with_room(tile, weight_bytes(tile, value_bytes), shared_bytes)


def product_bytes(tile: Tile, value_bytes: int) -> int:
    """Return the shared memory that a product's loads take."""
    return tile.stages * value_bytes * (tile.rows + tile.outputs) * tile.inputs


def weight_bytes(tile: Tile, value_bytes: int) -> int:
    """Return the shared memory that the loads of a weights' gradient take."""
    return tile.stages * value_bytes * (tile.inputs + tile.outputs) * tile.rows


def _fitting(number: int, most: int) -> int:
    """Return the power of two that holds so many, or the most that go at a time."""
    return max(SMALLEST, min(most, 1 << (number - 1).bit_length()))


def _with_room(tile: Tile, needed: int, shared_bytes: int) -> Tile:
    """Take back loads under way until they fit."""
    return tile._replace(stages=max(1, min(tile.stages, shared_bytes // (needed // tile.stages))))
