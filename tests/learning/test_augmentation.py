"""Views of images: mirrored as drawn, moved by at most four pixels over black, the same on every engine."""

import numpy as np
import torch

from fedteddi.learning.augmentation import MOST_PIXELS, draw_views, viewed
from small_world import tiny_data

SIDE = 2 * MOST_PIXELS + 1


def padded_crop(image: np.ndarray, mirrored: bool, down: int, across: int) -> np.ndarray:
    """Mirror an image [H, W, channels], surround it with four black pixels, cut a window at (down, across) from 0."""
    image = image[:, ::-1] if mirrored else image
    padded = np.pad(image, [(MOST_PIXELS, MOST_PIXELS), (MOST_PIXELS, MOST_PIXELS), (0, 0)])
    return padded[down : down + len(image), across : across + image.shape[1]]


def test_every_view_is_a_window_of_the_padded_image() -> None:
    """All 2 · 81 codes, each against slicing a padded image; all windows occur, and code 0 is the image itself."""
    image = np.random.default_rng(0).integers(1, 256, size=(7, 6, 3), dtype=np.uint8)
    codes = np.arange(2 * SIDE**2, dtype=np.int16)
    found = viewed(torch.from_numpy(np.stack([image] * len(codes))), torch.from_numpy(codes)).numpy()
    expected = {
        padded_crop(image, mirrored, down, across).tobytes()
        for mirrored in (False, True)
        for down in range(SIDE)
        for across in range(SIDE)
    }
    assert {view.tobytes() for view in found} == expected
    np.testing.assert_array_equal(found[0], image)
    np.testing.assert_array_equal(found[1], image[:, ::-1])


def test_half_are_mirrored_and_every_move_is_as_likely() -> None:
    """Of 81,000 draws: half ± 5 sd of a coin (0.5/√81000 = 0.0018), each move 1000 ± 5√1000."""
    codes = draw_views(np.random.default_rng(0), (1000, SIDE**2), "crop-flip")
    assert codes is not None
    assert abs((codes & 1).mean() - 0.5) < 0.009
    counts = np.bincount((codes >> 1).ravel(), minlength=SIDE**2)
    assert len(counts) == SIDE**2
    assert np.abs(counts - 1000).max() < 5 * 1000**0.5
    assert draw_views(np.random.default_rng(0), (4,), "none") is None


def test_crops_begin_with_the_flips_draws() -> None:
    """So that the two augmentations differ in the crops only."""
    flips, codes = (draw_views(np.random.default_rng(3), (50, 4), how) for how in ("flip", "crop-flip"))
    assert flips is not None
    assert codes is not None
    np.testing.assert_array_equal((codes & 1).astype(bool), flips)


def test_a_training_batch_is_cropped_before_it_is_normalised() -> None:
    """What moves in is black (byte 0), as in a padded photograph, not the mean pixel."""
    data = tiny_data()
    down_right = 2 * (
        (0 * SIDE + 0 - SIDE**2 // 2) % SIDE**2
    )  # the window at (0, 0): all pixels move by four
    images, _ = data.training_batch(np.array([7]), np.array([down_right], dtype=np.int16))
    image = data.train_images[7, 0].numpy()
    expected = np.zeros_like(image)
    expected[4:, 4:] = image[:4, :4]
    np.testing.assert_allclose(
        images[0, 0].numpy(), (expected - float(data.mean)) / float(data.std), rtol=1e-6, atol=1e-6
    )
