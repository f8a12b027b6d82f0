"""Norm clipping, median and trimmed mean against plain loops, and what one upload can do to each."""

import math
from typing import Any

import numpy as np
import pytest
import torch

from fedteddi import InputError
from fedteddi.aggregation import NormClipping, Received, make_aggregation
from fedteddi.aggregation.norm_clipping import lower_median, vector_norm

VECTORS = pytest.mark.parametrize("vector", [np.asarray, torch.tensor], ids=["numpy", "torch"])


def received(model: Any, uploads: list[Any], shares: list[float] | None = None) -> Received:
    count = len(uploads)
    return Received(
        frame=0,
        round=1,
        model=model,
        uploads=tuple(uploads),
        shares=np.array(shares or [1 / count] * count),
        client_id=np.arange(count),
    )


def made(vector: Any, count: int) -> Received:
    rng = np.random.default_rng(count)
    model, *uploads = rng.normal(size=(count + 1, 50)).astype(np.float32)
    return received(vector(model), [vector(upload) for upload in uploads])


@VECTORS
@pytest.mark.parametrize("count", [1, 2, 3, 6, 7, 15])
def test_the_median_is_every_coordinates(vector: Any, count: int) -> None:
    asked = made(vector, count)
    found = np.asarray(make_aggregation("median").aggregate(asked))  # type: ignore[arg-type]
    np.testing.assert_allclose(
        found, np.median(np.stack([np.asarray(w) for w in asked.uploads]), axis=0), rtol=1e-6
    )


@VECTORS
@pytest.mark.parametrize(
    ("count", "trim", "cut"), [(2, 0.2, 0), (3, 0.2, 1), (6, 0.2, 2), (15, 0.2, 3), (7, 0, 0)]
)
def test_the_trimmed_mean_leaves_out_both_ends(vector: Any, count: int, trim: float, cut: int) -> None:
    """⌈0.2 · 6⌉ = 2 and ⌈0.2 · 15⌉ = 3 at each end; of two uploads nothing."""
    asked = made(vector, count)
    found = np.asarray(make_aggregation("trimmed-mean", trim=trim).aggregate(asked))  # type: ignore[arg-type]
    columns = np.stack([np.asarray(w) for w in asked.uploads]).T.tolist()
    expected = [sum(sorted(column)[cut : count - cut]) / (count - 2 * cut) for column in columns]
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)


@VECTORS
def test_clipping_by_hand(vector: Any) -> None:
    """From w = (1, 1): updates (3, 4), (0, −2), (100, 0), of norms 5, 2, 100: m = 5, and 100 becomes 5.

    w + ¼ (3, 4) + ¼ (0, −2) + ½ (5, 0) = (1 + 0.75 + 2.5, 1 + 1 − 0.5). Of two, the lower of those and (0.1 √2, 5)
    counts: of (0.1414, 5, 8, 9) the second, 5.
    """
    rule, model = NormClipping(), vector([1.0, 1.0])
    first = rule.initial_state(model)
    assert first == pytest.approx([0.1 * math.sqrt(2)])
    uploads = [vector([4.0, 5.0]), vector([1.0, -1.0]), vector([101.0, 1.0])]
    after, medians = rule.aggregate(received(model, uploads, [0.25, 0.25, 0.5]), first)
    np.testing.assert_allclose(np.asarray(after), [4.25, 1.5], rtol=1e-6)
    assert medians == pytest.approx([*first, 5.0])
    uploads = [vector([9.0, 1.0]), vector([1.0, 10.0])]
    after, medians = rule.aggregate(received(model, uploads), medians)
    np.testing.assert_allclose(np.asarray(after), [3.5, 3.5], rtol=1e-6)
    assert medians == pytest.approx([*first, 5.0, 8.0])


@VECTORS
@pytest.mark.parametrize("value", [10.0, 1e18, 1e37, 3e38])
def test_one_of_six_moves_the_model_no_further_than_another_would(vector: Any, value: float) -> None:
    """Its share is 1/6, and its update becomes as long as the third shortest is, however large it was."""
    game = made(vector, 6)
    spoilt = [*game.uploads[:5], vector(np.full(50, value, dtype=np.float32))]
    rule = NormClipping()
    one, _ = rule.aggregate(received(game.model, spoilt), [])
    norms = sorted(float(np.linalg.norm(np.asarray(w) - np.asarray(game.model))) for w in game.uploads[:5])
    still, _ = rule.aggregate(received(game.model, [*game.uploads[:5], game.model]), [])
    assert np.isfinite(np.asarray(one)).all()
    assert float(np.linalg.norm(np.asarray(one) - np.asarray(still))) <= norms[3] * 2 / 6 + 1e-4


def test_a_first_upload_alone_is_held_against_the_model_itself() -> None:
    """‖w‖ = 5, so that an update of 300 becomes 0.5; then at most twice that, and so on: it grows where it must."""
    rule, model = NormClipping(), np.array([3.0, 4.0])
    medians: list[float] = rule.initial_state(model)
    far = np.array([303.0, 4.0])
    moved = []
    for _ in range(6):
        after, medians = rule.aggregate(received(model, [far]), medians)
        moved.append(float(np.linalg.norm(after - model)))
    assert moved[0] == pytest.approx(0.5)
    assert moved == sorted(moved)
    assert moved[-1] <= 0.5 * 2**5


def test_norms_of_numbers_at_the_ends_of_float32() -> None:
    for value in (1e-40, 1e-20, 1.0, 1e20, 3e38):
        many = np.full(4, value, dtype=np.float32)
        assert vector_norm(many) == pytest.approx(2 * float(many[0]), rel=1e-5)
        assert vector_norm(torch.from_numpy(many)) == pytest.approx(2 * float(many[0]), rel=1e-5)
    assert vector_norm(np.zeros(3)) == 0.0
    assert vector_norm(np.array([np.inf, 1.0])) == vector_norm(np.array([np.nan])) == math.inf
    assert lower_median([4.0, 1.0, 3.0, 2.0]) == 2.0


@pytest.mark.parametrize(
    ("name", "options"),
    [("norm-clipping", {"factor": 0}), ("norm-clipping", {"window": 0}), ("trimmed-mean", {"trim": 0.5})],
)
def test_options_are_checked(name: str, options: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=next(iter(options))):
        make_aggregation(name, **options)
