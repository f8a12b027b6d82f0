"""Asking for class gradients, and re-estimating L̂^(c) from them (docs/paper.md D7)."""

import dataclasses
from collections.abc import Generator

import numpy as np

from fedteddi.heterogeneity.estimates import estimate_class_norm
from fedteddi.heterogeneity.sharing import bounded_class_counts, bounded_counts
from fedteddi.protocol.checks import ReceivedReports
from fedteddi.protocol.claims import bounded_gradients
from fedteddi.protocol.costs import gradient_numbers
from fedteddi.protocol.messages import ALL_CLIENTS, Answers, Request
from fedteddi.protocol.rejections import Failures
from fedteddi.protocol.state import ServerState, ask, check_not_diverged
from fedteddi.protocol.vectors import NotFiniteError, pooled_norms, valid_gradients
from fedteddi.randomness import keyed_rng
from fedteddi.settings import Settings
from fedteddi.wireless.environment import Environment

# numpy draws from no more than this.
MOST_TO_DRAW_FROM = 10**9 - 1


def update_class_norm(
    state: ServerState,
    settings: Settings,
    received: ReceivedReports,
    scheduled: list[int],
    world: Environment,
    failures: Failures,
    size: int | None,
    *,
    first: bool = False,
) -> Generator[Request, Answers, np.ndarray]:
    """Ask for class gradients at the current model and re-estimate L̂^(c) (docs/paper.md D7).

    Return how many numbers each of those who reported sent for it, [n].
    """
    number = 0 if first else state.round  # the frame's start has draws of its own
    wanted = _images_wanted(state, settings, received, world, number)
    answers = yield dataclasses.replace(
        ask("class_gradients", state, received.clients), round=number, samples=wanted
    )
    parts, rejections = valid_gradients(answers, received.clients, wanted, state.weights, size)
    sent = gradient_numbers(parts, wanted, received.clients, size or 0)
    server = settings.server
    parts = bounded_gradients(parts, server.claim_factor)
    norms, drawn = pooled_norms(parts, len(state.class_norm), rejections)
    failures.note(answers.failed, rejections, about="class gradients: ")
    if ALL_CLIENTS in rejections.not_finite:  # it speaks for all of them
        raise NotFiniteError
    check_not_diverged(state, settings, rejections, parts)
    if not parts:
        return sent
    state.class_norm = estimate_class_norm(
        norms[:, None],  # a gradient's norm stands for it: both estimates use nothing else
        drawn > 0,
        state.class_norm,
        batch_mix=received.batch_mix,
        num_samples=bounded_counts(received.num_samples, server.max_sample_share),
        scheduled=np.searchsorted(received.clients, scheduled),
        kind=settings.estimates.class_norm,
    )
    return sent


def _images_wanted(
    state: ServerState, settings: Settings, received: ReceivedReports, world: Environment, number: int
) -> np.ndarray:
    """Return how many images of each class to ask of each client, [N, C]; equal questions are drawn once a seed."""
    bound, most = settings.server.max_sample_share, settings.estimates.class_gradient_samples
    believed = bounded_class_counts(received.class_counts, received.num_samples, bound).astype(np.int64)
    wanted = np.zeros((len(state.times_scheduled), len(state.class_norm)), dtype=np.int64)
    wanted[list(received.clients)] = world.draws.once(
        state.frame,
        number,
        ("spread", believed.shape, believed.tobytes(), most),
        lambda: spread_over_clients(
            believed, most, keyed_rng(world.seed, "estimates", frame=state.frame, round=number)
        ),
    )
    return wanted


def spread_over_clients(counts: np.ndarray, samples: int, rng: np.random.Generator) -> np.ndarray:
    """Draw up to `samples` images of each class from the union of all clients' data: how many from whom, [n, C]."""
    wanted = np.zeros_like(counts)
    for c in range(counts.shape[1]):
        held = counts[:, c]
        held = held // (int(held.sum()) // MOST_TO_DRAW_FROM + 1)  # the same shares, nearly
        wanted[:, c] = rng.multivariate_hypergeometric(held, min(samples, int(held.sum())))
    return wanted
