"""(19): a client joins unless it raises P3; one that leaves P3 as it is joins."""

import numpy as np
import pytest

from fedteddi import RoundView, make_scheduler


def round_of(batch_mix: list[list[float]], gradient_std: float) -> RoundView:
    """Return the last round of frame 0 (no drift, λ_k = 0) with band for everyone, class norms 1, b = 4, D_n = 10."""
    mix = np.array(batch_mix)
    clients = len(mix)
    return RoundView(
        frame=0,
        round=1,
        rounds_in_frame=1,
        batch_size=4,
        total_hz=1e6,
        num_samples=np.full(clients, 10),
        batch_mix=mix,
        data_mix=mix,
        previous_data_mix=mix,
        needed_hz=np.ones(clients),
        channel_gain=np.ones(clients),
        times_scheduled=np.zeros(clients, dtype=int),
        gradient_std=gradient_std,
        class_norm=np.ones(mix.shape[1]),
    )


@pytest.mark.parametrize("rule", ["fedteddi", "fedcgd"])
def test_a_client_that_changes_nothing_joins(rule: str) -> None:
    """All mixes are equal and σ = 0, so P3 is exactly 0 for every set: (19) asks for a rise, and there is none."""
    chosen = make_scheduler(rule).select(round_of([[1, 0]] * 4, 0.0), np.random.default_rng(0))
    assert sorted(chosen.clients) == [0, 1, 2, 3]


@pytest.mark.parametrize("rule", ["fedteddi", "fedcgd"])
@pytest.mark.parametrize(("gradient_std", "size"), [(3.41, 1), (3.42, 3)])
def test_a_client_that_raises_p3_does_not_join(rule: str, gradient_std: float, size: int) -> None:
    """Mixes (1/2, 1/2), (1, 0), (0, 1): the first is the global mix and joins with U = 0.

    A second makes the mix (3/4, 1/4) or (1/4, 3/4): the divergence rises by 1/2, the variance falls by
    σ/√4 · (1 − 1/√2). It joins from σ = 1/(1 − 1/√2) = 2 + √2 = 3.4142… on; the third then takes all of it back.
    """
    view = round_of([[0.5, 0.5], [1, 0], [0, 1]], gradient_std)
    chosen = make_scheduler(rule).select(view, np.random.default_rng(0))
    assert chosen.clients[0] == 0
    assert len(chosen.clients) == size
