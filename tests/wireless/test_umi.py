"""TR 38.901 UMi against its tables, by hand and by statistics."""

import numpy as np
import pytest
from scipy import stats

from fedteddi.wireless.channels import Draws, UMi
from fedteddi.wireless.channels.umi import no_sight_loss_db, sight_loss_db, sight_probability


def test_umi_path_loss_by_hand() -> None:
    """3.5 GHz, heights 10 and 1.5 m: the breakpoint is at 4 · 9 · 0.5 · 3.5e9/3e8 = 210 m; 20 log10(3.5) = 10.8814.

    100 m: d_3D = √(100² + 8.5²) = 100.3606, log10 = 2.001563: 32.4 + 42.0328 + 10.8814 = 85.3142 in sight, without
    35.3 · 2.001563 + 22.4 + 21.3 · 0.544068 = 104.6438. 250 m: log10 d_3D = 2.398191, and beyond the breakpoint
    32.4 + 95.9276 + 10.8814 − 9.5 · log10(210² + 8.5²) = 139.2090 − 44.1289 = 95.0801.
    """
    at = np.array([100.0, 250.0])
    np.testing.assert_allclose(sight_loss_db(at, 3.5, 1.5), [85.3142, 95.0801], atol=1e-3)
    assert no_sight_loss_db(np.array([100.0]), 3.5, 1.5)[0] == pytest.approx(104.6438, abs=1e-3)


def test_umi_path_loss_has_no_step_and_no_sight_is_never_better() -> None:
    around = np.array([210.0 - 1e-6, 210.0 + 1e-6])
    assert np.diff(sight_loss_db(around, 3.5, 1.5))[0] == pytest.approx(0.0, abs=1e-6)
    distances = np.linspace(10, 5000, 2000)
    assert (no_sight_loss_db(distances, 28.0, 22.5) >= sight_loss_db(distances, 28.0, 22.5)).all()


def test_umi_line_of_sight_by_hand() -> None:
    """36 m: 1/2 + e^(−1)/2 = 0.683940; 100 m: 0.18 + 0.82 e^(−100/36) = 0.230985."""
    found = sight_probability(np.array([1.0, 18.0, 36.0, 100.0]))
    np.testing.assert_allclose(found, [1.0, 1.0, 0.683940, 0.230985], atol=1e-6)


def test_umi_draws_sight_once_and_shadowing_every_round() -> None:
    """20,000 clients at 100 m in 40 rounds. Sight adds 19 dB, so a client's mean, ± 1.24 dB at most, tells it.

    0.231 of them have it; deviations of 4 and 7.82 dB from round to round, means 85.31 and 104.64 dB.
    """
    where_m = np.full((20_000, 2), [100.0, 0.0])
    loss_db = np.array([-10 * np.log10(UMi().gains(where_m, Draws(0, 0, k))) for k in range(1, 41)])
    in_sight = loss_db.mean(axis=0) < 93.0
    assert in_sight.mean() == pytest.approx(0.230985, abs=5 * np.sqrt(0.231 * 0.769 / 20_000))
    for group, mean_db, std_db in ((in_sight, 85.3142, 4.0), (~in_sight, 104.6438, 7.82)):
        found = loss_db[:, group]
        assert found.mean() == pytest.approx(mean_db, abs=5 * std_db / np.sqrt(found.size))
        assert stats.kstest((found[0] - mean_db) / std_db, "norm").pvalue > 0.01
        assert abs(np.corrcoef(found[0], found[1])[0, 1]) < 5 / np.sqrt(len(found[0]))


def test_umi_counts_whoever_is_nearer_as_at_10_metres() -> None:
    near, ten = (UMi().gains(np.array([[d, 0.0]]), Draws(0, 0, 1)) for d in (1.0, 10.0))
    np.testing.assert_array_equal(near, ten)
