"""Sections 2 and 4: mixes, drift, divergence, P3 and the estimates, with numbers derived by hand."""

import math

import numpy as np
import pytest

from fedteddi import InputError, Objective, collective_divergence, temporal_drift
from fedteddi.heterogeneity.drift import unweighted_drift
from fedteddi.heterogeneity.estimates import (
    estimate_class_norm,
    exact_class_norm,
    paper_class_norm,
    pooled_gradient_std,
)
from fedteddi.heterogeneity.mixes import class_mix, pooled_mix, sample_shares, uniform_mix
from fedteddi.heterogeneity.objective import drift_weight, sampling_variance
from fedteddi.scenario.paper_cifar10 import batch_counts, paper_cifar10_counts


def test_class_mix_and_shares() -> None:
    """(3, 1) of 4 are (3/4, 1/4); 1 and 3 samples weigh 1/4 and 3/4; pooled: ¼·(¾, ¼) + ¾·(0, 1) = (3/16, 13/16)."""
    mix = class_mix(np.array([[3, 1], [0, 5]]))
    np.testing.assert_allclose(mix, [[0.75, 0.25], [0, 1]])
    np.testing.assert_allclose(sample_shares(np.array([1, 3])), [0.25, 0.75])
    np.testing.assert_allclose(pooled_mix(np.array([1, 3]), mix), [3 / 16, 13 / 16])


def test_uniform_mix_counts_only_classes_seen() -> None:
    np.testing.assert_allclose(uniform_mix(np.array([True, False, True])), [0.5, 0, 0.5])


def test_temporal_drift() -> None:
    """(½, ½, 0) → (¼, ¼, ½) with norms (1, 2, 4): ¼·1 + ¼·2 + ½·4 = 2.75; unweighted ¼ + ¼ + ½ = 1."""
    now, before = np.array([[0.25, 0.25, 0.5]]), np.array([[0.5, 0.5, 0.0]])
    assert temporal_drift(now, before, np.array([1.0, 2.0, 4.0])) == pytest.approx([2.75])
    assert unweighted_drift(now, before) == pytest.approx([1.0])
    assert temporal_drift(now, now, np.ones(3)).tolist() == [0.0]


def test_every_drifted_client_of_the_paper_ties_in_unweighted_drift() -> None:
    """Half of the data is new, so half the old shares go and half the new appear: ½ + ½ = 1, for all 12."""
    before, after = paper_cifar10_counts(np.random.default_rng(0))
    drift = unweighted_drift(class_mix(after), class_mix(before))
    assert sorted(np.round(drift, 12)) == [0.0] * 18 + [1.0] * 12


def test_collective_divergence() -> None:
    """|0.5 − 0.2|·10 + |0.5 − 0.8|·1 = 3.3."""
    assert collective_divergence(
        np.array([0.5, 0.5]), np.array([0.2, 0.8]), np.array([10.0, 1.0])
    ) == pytest.approx(3.3)


def test_sampling_variance_and_drift_weight() -> None:
    """28/√(4·49) = 2; λ falls from 2·(1 − 1/4) in round 1 of 4 to 0 in round 4."""
    assert sampling_variance(28.0, 4, 49) == pytest.approx(2.0)
    assert [drift_weight(2.0, k, 4) for k in (1, 2, 4)] == [1.5, 1.0, 0.0]


def test_objective_terms_by_hand() -> None:
    """Clients 0 (1 sample, all class 0, drift 4) and 1 (3 samples, all class 1, drift 0), b = 2, σ = 4, λ = ½.

    Set {0, 1}: variance 4/√(2·2) = 2; mix (¼, ¾) against target (½, ½) with norms (2, 6): ¼·2 + ¼·6 = 2;
    drift ¼·4 = 1; P3 = 2 + 2 − ½·1 = 3.5. Set {0}: variance 4/√2, divergence ½·2 + ½·6 = 4, drift 4.
    """
    objective = Objective(
        num_samples=np.array([1, 3]),
        batch_mix=np.eye(2),
        drift=np.array([4.0, 0.0]),
        target_mix=np.array([0.5, 0.5]),
        class_norm=np.array([2.0, 6.0]),
        gradient_std=4.0,
        batch_size=2,
        drift_weight=0.5,
    )
    both, first = objective.terms([0, 1]), objective.terms([0])
    assert (both.variance, both.divergence, both.drift) == pytest.approx((2.0, 2.0, 1.0))
    assert (both.utility, both.total) == pytest.approx((1.5, 3.5))
    assert (first.variance, first.divergence, first.drift) == pytest.approx((4 / math.sqrt(2), 4.0, 4.0))


def test_pooled_gradient_std() -> None:
    """Variances 4 and 16 with 1 and 3 samples: √(¼·4 + ¾·16) = √13; the linear mean is ¼·2 + ¾·4 = 3.5."""
    variance, held = np.array([4.0, 16.0]), np.array([1, 3])
    assert pooled_gradient_std(variance, held) == pytest.approx(math.sqrt(13))
    assert pooled_gradient_std(variance, held, pool="std") == pytest.approx(3.5)


def test_class_norms_by_hand() -> None:
    """Gradients (3, 4) and (0, 2) have norms 5 and 2.

    Mixes (1, 0) and (½, ½) of equal size have the global mix (¾, ¼); client 0 deviates by (¼, ¼), client 1 too:
    |p − p̄|/‖p − p̄‖₁ = ½ for both classes, so the paper's estimate is (2.5, 1).
    """
    gradients, mix = np.array([[3.0, 4.0], [0.0, 2.0]]), np.array([[1.0, 0.0], [0.5, 0.5]])
    assert exact_class_norm(gradients).tolist() == [5.0, 2.0]
    np.testing.assert_allclose(paper_class_norm(gradients, mix, np.array([1, 1]), np.array([0])), [2.5, 1.0])


def test_class_norm_takes_the_largest_share_among_the_scheduled() -> None:
    """Three clients of equal size, mixes e1, e2, e3: p̄ = ⅓ each; client 0 deviates (⅔, ⅓, ⅓), in all 4/3.

    Shares ½, ¼, ¼: with client 0 alone L̂ = (½, ¼, ¼)·‖g‖, with all three (½, ½, ½)·‖g‖.
    """
    args = (np.eye(3), np.eye(3), np.ones(3))
    np.testing.assert_allclose(paper_class_norm(*args, np.array([0])), [0.5, 0.25, 0.25])
    np.testing.assert_allclose(paper_class_norm(*args, np.array([0, 1, 2])), [0.5, 0.5, 0.5])


def test_class_norm_keeps_the_old_value_where_there_is_nothing_to_learn() -> None:
    """D7: a class without data, an empty schedule, and a client that equals the global mix (0/0)."""
    gradients, previous = np.array([[3.0, 4.0], [0.0, 2.0]]), np.array([7.0, 8.0])
    mix, held = np.array([[1.0, 0.0], [0.5, 0.5]]), np.array([1, 1])

    def estimate(
        scheduled: list[int], has_data: list[bool], mix: np.ndarray = mix, kind: str = "paper"
    ) -> list[float]:
        return estimate_class_norm(
            gradients,
            np.array(has_data),
            previous,
            batch_mix=mix,
            num_samples=held,
            scheduled=np.array(scheduled, dtype=int),
            kind=kind,  # type: ignore[arg-type]
        ).tolist()

    assert estimate([0], [True, True]) == pytest.approx([2.5, 1.0])
    assert estimate([0], [True, False]) == pytest.approx([2.5, 8.0])
    assert estimate([], [True, True]) == [7.0, 8.0]
    assert estimate([], [True, True], kind="exact") == [7.0, 8.0]
    assert estimate([1], [True, True], kind="exact") == [5.0, 2.0]
    same = np.array([[0.5, 0.5], [0.5, 0.5]])
    assert estimate([0, 1], [True, True], mix=same) == [7.0, 8.0]


def test_papers_class_norm_is_below_half_and_shuns_new_classes() -> None:
    """Positive and negative deviations sum to the same, so no class can have more than half of ‖p_n − p‖₁.

    In the paper's CIFAR-10 layout with eight random clients: about 0.39 of ‖g_c‖ for the common classes 0-2
    and 0.22 for the new ones, as an independent prototype measured.
    """
    common, new = [], []
    for seed in range(300):
        rng = np.random.default_rng(seed)
        _, held = paper_cifar10_counts(rng)
        mix = class_mix(batch_counts(held, 10, 32, rng))
        share = paper_class_norm(np.eye(10), mix, held.sum(axis=1), rng.permutation(30)[:8])
        assert share.max() <= 0.5 + 1e-12
        common.append(share[:3].mean())
        new.append(share[6:].mean())
    assert np.mean(common) == pytest.approx(0.39, abs=0.03)
    assert np.mean(new) == pytest.approx(0.22, abs=0.03)


def test_equal_mixes_are_equal_whatever_the_rounding() -> None:
    """D7's 0/0: with one mix for all and unequal D_n, p_n − p is rounding noise, not a direction."""
    for seed in range(50):
        rng = np.random.default_rng(seed)
        mix = np.tile(rng.dirichlet(np.ones(5)), (6, 1))
        assert np.isnan(paper_class_norm(np.eye(5), mix, rng.integers(1, 1000, size=6), np.arange(6))).all()


def test_what_has_no_answer_is_refused() -> None:
    with pytest.raises(InputError, match="without samples"):
        class_mix(np.array([[1, 2], [0, 0]]))
