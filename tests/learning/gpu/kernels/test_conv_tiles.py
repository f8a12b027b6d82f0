"""The tile choice is fit for matrix units and a device's shared memory, for any shape."""

from collections.abc import Callable

import pytest

from fedteddi.learning.gpu.kernels.conv_tiles import (
    SHARED_BYTES,
    Tile,
    product_bytes,
    product_tile,
    weight_bytes,
    weight_tile,
)

CHANNELS = [1, 3, 16, 20, 64, 100, 128, 256, 512, 2048]


@pytest.mark.parametrize("value_bytes", [2, 4])
@pytest.mark.parametrize(
    ("choose", "needed"),
    [(product_tile, product_bytes), (weight_tile, weight_bytes)],
    ids=["product", "weight"],
)
def test_tiles_are_valid(
    choose: Callable[..., Tile], needed: Callable[[Tile, int], int], value_bytes: int
) -> None:
    """Powers of two from 16; no block of channels that would be empty; shared memory of an A100 or later suffices."""
    for pixels in (1, 16, 512, 32768):
        for inputs in CHANNELS:
            for outputs in CHANNELS:
                tile = choose(pixels, 9, inputs, outputs, value_bytes)
                for side in tile[:3]:
                    assert side >= 16
                    assert side & (side - 1) == 0
                assert tile.inputs < max(17, 2 * 9 * inputs)
                assert tile.outputs < max(17, 2 * outputs)
                assert tile.warps in (1, 2, 4, 8)
                assert 1 <= tile.stages <= 6
                assert needed(tile, value_bytes) <= 163 * 1024 or value_bytes == 4
                assert needed(tile, value_bytes) <= 227 * 1024


def test_tiles_of_our_models() -> None:
    """What was fastest on an H200: whole channels of one tap, several taps only where channels are very few."""
    assert product_tile(32 * 32 * 32, 9, 64, 64, 2) == Tile(128, 64, 64, 4, 3)
    assert product_tile(32 * 8 * 8, 9, 256, 256, 2) == Tile(128, 64, 256, 8, 3)
    assert product_tile(32 * 32 * 32, 9, 32, 32, 2) == Tile(128, 32, 32, 4, 3)
    assert product_tile(32 * 32 * 32, 9, 3, 32, 2) == Tile(128, 32, 32, 4, 3)
    assert weight_tile(32 * 16 * 16, 9, 128, 128, 2) == Tile(64, 64, 128, 4, 4)
    assert weight_tile(32 * 4 * 4, 9, 512, 512, 2) == Tile(64, 128, 128, 4, 3)


def test_exact_products_are_short() -> None:
    """They are unrolled into single sums: a compiler would work on long ones for minutes."""
    for channels in CHANNELS:
        for tile in (
            product_tile(32768, 9, channels, 256, 4, exact=True),
            weight_tile(32768, 9, channels, 256, 4, exact=True),
        ):
            assert tile.rows * tile.inputs * tile.outputs / (32 * tile.warps) <= 512


def test_shared_memory_holds_what_is_loaded() -> None:
    """Of every load under way, both factors of a product: pixels by inputs and inputs by outputs, or the like."""
    tile = Tile(rows=128, inputs=64, outputs=256, stages=3)
    assert product_bytes(tile, 2) == 3 * 2 * (128 * 64 + 64 * 256)
    assert weight_bytes(tile, 4) == 3 * 4 * (64 * 128 + 128 * 256)


def test_a_device_with_less_shared_memory_has_fewer_loads_under_way() -> None:
    large, small = product_tile(2048, 9, 256, 256, 2), product_tile(2048, 9, 256, 256, 2, 99 * 1024)
    assert (large.stages, small.stages) == (3, 2)
    assert large._replace(stages=2) == small
    assert product_bytes(small, 2) <= 99 * 1024 < product_bytes(large, 2) <= SHARED_BYTES
    assert weight_tile(2048, 9, 256, 256, 4, 16 * 1024).stages == 1
