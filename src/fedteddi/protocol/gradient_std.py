"""Whose gradient variances a round asks for, and σ̂ from those that came (docs/paper.md D5)."""

from fedteddi.heterogeneity.estimates import pooled_gradient_std
from fedteddi.heterogeneity.sharing import bounded_counts
from fedteddi.protocol.checks import ReceivedReports
from fedteddi.randomness import keyed_rng
from fedteddi.settings import Settings


def who_measures(
    settings: Settings, seed: int, frame: int, round: int, clients: int
) -> frozenset[int] | None:
    """Draw who is asked for a gradient variance in a round, whatever the scheduler; None: everyone."""
    wanted = settings.estimates.gradient_std_clients
    if wanted == "all" or wanted >= clients:
        return None
    drawn = keyed_rng(seed, "variance", frame=frame, round=round).choice(clients, wanted, replace=False)
    return frozenset(drawn.tolist())


def measured_gradient_std(
    received: ReceivedReports, asked: frozenset[int] | None, settings: Settings
) -> float | None:
    """Return σ̂ over those who were asked for a variance and reported; None if nobody was.

    α is renormalised over them, and `server.max_sample_share` bounds it there.
    """
    rows = [row for row, client in enumerate(received.clients) if asked is None or client in asked]
    if not rows:
        return None
    counted = bounded_counts(received.num_samples[rows], settings.server.max_sample_share)
    variance = received.numbers("gradient_variance", rows)
    return pooled_gradient_std(variance, counted, pool=settings.estimates.gradient_std)
