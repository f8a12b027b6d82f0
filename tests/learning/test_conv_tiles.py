"""The tile choice is fit for matrix units and a device's shared memory, for any shape."""

from collections.abc import Callable

import pytest

from fedteddi.learning.conv_tiles import Tile, product_bytes, product_tile, weight_bytes, weight_tile

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
