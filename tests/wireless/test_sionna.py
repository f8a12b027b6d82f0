"""Sionna's TR 38.901 UMi against ours, where both model the same thing; without Sionna, what a user is told."""

import sys

import numpy as np
import pytest
from scipy import stats

from fedteddi import InputError
from fedteddi.settings import RadioSettings
from fedteddi.wireless import cell
from fedteddi.wireless.channels import Draws, Sionna, UMi, make_channel
from fedteddi.wireless.channels.umi import no_sight_loss_db, sight_loss_db, sight_probability

EXTRA = "Sionna is an extra: pip install 'fedteddi[sionna]'"


@pytest.fixture
def channel() -> Sionna:
    pytest.importorskip("sionna.phy", reason=EXTRA)
    return Sionna()


def test_without_it_a_run_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sionna", None)
    monkeypatch.setitem(sys.modules, "sionna.phy", None)
    with pytest.raises(
        InputError, match=r"needs Sionna \(.*\): pip install 'fedteddi\[sionna\]', or use radio.chan"
    ):
        make_channel(RadioSettings(channel="sionna"))


def line(distances_m: np.ndarray) -> np.ndarray:
    return np.stack([distances_m, np.zeros_like(distances_m)], axis=1)


@pytest.mark.parametrize("in_sight", [True, False])
def test_path_loss_is_ours(channel: Sionna, in_sight: bool) -> None:
    """Light at 299,792,458 m/s moves the breakpoint by 0.07 %: beyond it 19 log10(1.000692) = 0.0057 dB."""
    distances_m = np.array([10.0, 30.0, 100.0, 209.0, 215.0, 250.0, 1000.0])
    scenario = channel.scenario()
    scenario.set_topology(**channel.topology(line(distances_m)), los=in_sight)
    found = scenario.basic_pathloss[0, 0].numpy()
    ours = (sight_loss_db if in_sight else no_sight_loss_db)(distances_m, 3.5, 1.5)
    np.testing.assert_allclose(found[:4], ours[:4], atol=1e-9)
    np.testing.assert_allclose(found[4:], ours[4:], atol=0.006)


def test_the_chance_of_a_line_of_sight_and_the_shadowings_deviation_are_ours(channel: Sionna) -> None:
    distances_m = np.array([10.0, 18.0, 36.0, 100.0, 250.0])
    for in_sight, std_db in ((True, 4.0), (False, 7.82)):
        scenario = channel.scenario()
        scenario.set_topology(**channel.topology(line(distances_m)), los=in_sight)
        np.testing.assert_allclose(
            scenario.los_probability[0, 0].numpy(), sight_probability(distances_m), rtol=1e-12
        )
        np.testing.assert_allclose(10 * scenario.lsp_log_std[0, 0, :, 3].numpy(), std_db, rtol=1e-12)


def test_gains_have_the_distribution_of_ours(channel: Sionna) -> None:
    """200 seeds of 12 clients on a ring of 100 m, 52 m apart, where Sionna correlates by e^(−52/13) = 0.02.

    0.231 are in sight: variance 0.231·4² + 0.769·7.82² + 0.231·0.769·19.33² = 117 = 10.8².
    """
    angle = np.arange(12) * np.pi / 6
    ring_m = 100.0 * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    found, ours = (
        10 * np.log10([model.gains(ring_m, Draws(seed, 0, 1)) for seed in range(200)])
        for model in (channel, UMi())
    )
    assert stats.ks_2samp(found.ravel(), ours.ravel()).pvalue > 0.01
    assert found.mean() == pytest.approx(ours.mean(), abs=5 * 10.8 * np.sqrt(2 / 2400))


def test_sight_stays_and_shadowing_is_redrawn_unless_it_is_static(channel: Sionna) -> None:
    """100 clients, 60 rounds: a client's deviation over rounds is 4 or 7.82 dB, with an error of 1/√118 of that."""
    where_m = cell.positions_of(0, 100)
    db = 10 * np.log10([channel.gains(where_m, Draws(0, 0, number)) for number in range(1, 61)])
    std_db = db.std(axis=0, ddof=1)
    nearer = np.where(std_db < 5.6, 4.0, 7.82)
    np.testing.assert_allclose(std_db, nearer, rtol=5 / np.sqrt(118))
    assert 0.1 < (nearer == 4.0).mean() < 0.6
    one, other = (Sionna(shadowing="static").gains(where_m, Draws(0, 0, number)) for number in (1, 2))
    np.testing.assert_array_equal(one, other)


def test_whoever_else_draws_from_sionna_notices_nothing(channel: Sionna) -> None:
    config = pytest.importorskip("sionna.phy", reason=EXTRA).config
    before = config.torch_rng("cpu").get_state().clone()
    channel.gains(cell.positions_of(0, 5), Draws(0, 0, 1))
    assert (config.torch_rng("cpu").get_state() == before).all()


def test_more_clients_than_it_can_correlate_are_refused(channel: Sionna) -> None:
    with pytest.raises(InputError, match=r"at most 2000 clients, not 2001: use radio.channel='umi'"):
        channel.gains(np.full((2001, 2), 100.0), Draws(0, 0, 1))
