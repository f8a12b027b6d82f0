"""One round of the server, Algorithm 1 line by line. It asks through `Request`s and does not know who answers."""

import dataclasses
import math
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fedteddi.errors import DivergedError
from fedteddi.heterogeneity.estimates import estimate_class_norm, pooled_gradient_std
from fedteddi.heterogeneity.mixes import class_mix, sample_shares
from fedteddi.heterogeneity.objective import ObjectiveTerms
from fedteddi.protocol.answer import finish_s
from fedteddi.protocol.environment import Environment
from fedteddi.protocol.messages import Answers, ClassGradients, Report, Request, Vector
from fedteddi.randomness import keyed_rng
from fedteddi.schedulers.rules.fedteddi import FedTeddi
from fedteddi.schedulers.schedule import Schedule, Scheduler, checked_choice
from fedteddi.schedulers.view import RoundView
from fedteddi.settings import Settings

# What a rule may need beyond the class mixes and the channel. A rule that does not say gets these two.
UNSAID_NEEDS = frozenset({"gradient_std", "class_norm"})
Asking = Generator[Request, Answers, Any]


@dataclass(kw_only=True)
class ServerState:
    """What the server carries from round to round."""

    weights: Vector
    class_norm: np.ndarray  # L̂, [C]
    classes_seen: np.ndarray  # [C]
    times_scheduled: np.ndarray  # in this frame, [N]
    previous_mix: dict[int, np.ndarray] = field(default_factory=dict)  # of the frame before, by client
    current_mix: dict[int, np.ndarray] = field(default_factory=dict)
    frame: int = 0
    round: int = 0  # rounds done in this frame
    rounds_done: int = 0  # in all frames: the learning rate never resets

    def enter_frame(self, frame: int) -> None:
        """New data has arrived: what was current is now the past."""
        self.frame, self.round = frame, 0
        self.previous_mix, self.current_mix = self.current_mix, {}
        self.times_scheduled = np.zeros_like(self.times_scheduled)


@dataclass(frozen=True, kw_only=True)
class RoundFacts:
    """What happened in one round, for the record."""

    frame: int
    round: int
    reported: tuple[int, ...]
    failures: dict[int, str]
    schedule: Schedule
    gradient_std: float | None
    class_norm: tuple[float, ...] | None
    terms: ObjectiveTerms | None
    finish_s: tuple[float, ...]
    compute_s: tuple[float, ...]  # of the scheduled
    all_compute_s: float  # of all who reported, added up
    round_s: float


def needs_of(rule: Scheduler) -> frozenset[str]:
    """Return what a rule says it needs."""
    return frozenset(getattr(rule, "needs", UNSAID_NEEDS))


def server_round(
    state: ServerState, settings: Settings, rule: Scheduler, world: Environment, model_bits: float
) -> Generator[Request, Answers, RoundFacts]:
    """Run one round: everybody trains and reports, the rule picks, the scheduled upload, the server averages.

    If numbers stop being finite it raises `DivergedError`, and the state is the one before the round.
    """
    before = dataclasses.replace(state, times_scheduled=state.times_scheduled.copy())
    try:
        return (yield from _round(state, settings, rule, world, model_bits))
    except _NotFinite:
        frame, number = state.frame, state.round
        for part in dataclasses.fields(state):
            setattr(state, part.name, getattr(before, part.name))
        raise DivergedError(
            f"training diverged in frame {frame}, round {number}:"
            f" lower training.learning_rate={settings.training.learning_rate:g}",
            frame,
            number,
        ) from None


def _round(
    state: ServerState, settings: Settings, rule: Scheduler, world: Environment, model_bits: float
) -> Generator[Request, Answers, RoundFacts]:
    state.round += 1
    frame, number, needs = state.frame, state.round, needs_of(rule)
    rate = settings.training.learning_rate * settings.training.decay**state.rounds_done

    # Broadcast w_{k−1}; every client runs τ steps and sends a few numbers.
    everyone = tuple(range(len(state.times_scheduled)))
    answers = yield _ask("report", state, everyone, needs=needs, learning_rate=rate)
    reports: Mapping[int, Report] = answers.given
    failures = dict(answers.failed)
    for report in reports.values():
        _check_finite(report.gradient_variance, report.loss, report.update_norm)
    reported = tuple(sorted(reports))  # non-reporters drop out before the mixes are computed

    # At the start of a frame, L̂^(c) is estimated at w_{l,0} over all clients (docs/paper.md D6).
    estimated = "class_norm" in needs and settings.estimates.first_class_norm == "estimated"
    if number == 1 and reported and estimated:
        yield from update_class_norm(state, settings, reports, list(reported), world.seed, first=True)

    # Pick S and each member's bandwidth.
    chosen, terms, view = Schedule(clients=(), bandwidth_hz=()), None, None
    if reported:
        view = round_view(state, settings, reports, reported, world, model_bits, needs)
        rng = keyed_rng(world.seed, "scheduler", frame=frame, round=number)
        chosen = checked_choice(rule, view, rng)
        if chosen.clients and needs >= UNSAID_NEEDS:
            judge = rule if isinstance(rule, FedTeddi) else FedTeddi()
            terms = judge.objective(view).terms(chosen.clients)
    scheduled = tuple(reported[place] for place in chosen.clients)

    # Only S uploads; α is renormalised over what arrived; nothing at all keeps the old model.
    arrived: dict[int, Vector] = {}
    if scheduled:
        answers = yield _ask("upload", state, scheduled, learning_rate=rate)
        failures |= answers.failed
        arrived = {n: answers.given[n] for n in scheduled if n in answers.given}
    if arrived:
        held = np.array([reports[n].data_counts.sum() for n in arrived])
        state.weights = weighted_sum(list(arrived.values()), sample_shares(held))
        _check_weights(state.weights)
        state.times_scheduled[list(arrived)] += 1

    # Re-estimate L̂^(c) at w_k.
    if arrived and "class_norm" in needs and number % settings.estimates.class_norm_every == 0:
        yield from update_class_norm(state, settings, reports, list(arrived), world.seed)
    state.rounds_done += 1
    if view is not None:
        state.current_mix |= dict(zip(reported, view.data_mix, strict=True))

    times = () if view is None else finish_s(view, chosen) or ()
    compute_s = np.zeros(0) if view is None or view.compute_s is None else view.compute_s
    return RoundFacts(
        frame=frame,
        round=number,
        reported=reported,
        failures=failures,
        schedule=dataclasses.replace(chosen, clients=scheduled, trace=None),
        gradient_std=view.gradient_std if view is not None and "gradient_std" in needs else None,
        class_norm=tuple(map(float, state.class_norm)) if "class_norm" in needs else None,
        terms=terms,
        finish_s=times,
        compute_s=tuple(float(s) for s in compute_s[list(chosen.clients)]),
        all_compute_s=float(compute_s.sum()),
        round_s=max(times, default=settings.radio.deadline_s),  # an empty round costs T_max
    )


def round_view(
    state: ServerState,
    settings: Settings,
    reports: Mapping[int, Report],
    reported: tuple[int, ...],
    world: Environment,
    model_bits: float,
    needs: frozenset[str],
) -> RoundView:
    """Put the reports together into what a scheduler sees; clients are numbered among those who reported."""
    frame, number = state.frame, state.round
    rows = [reports[n] for n in reported]
    members = list(reported)
    gain = _measured([r.channel_gain for r in rows], world.channel_gain(frame, number)[members])
    compute_s = _measured([r.compute_s for r in rows], world.compute_s(frame, number)[members])
    counts = np.stack([r.data_counts for r in rows])
    data_mix = class_mix(counts)
    previous = [state.previous_mix.get(n, mix) for n, mix in zip(reported, data_mix, strict=True)]
    state.classes_seen = state.classes_seen | (counts.sum(axis=0) > 0)
    held, sigma = counts.sum(axis=1), 0.0
    if "gradient_std" in needs:
        variance = np.array([r.gradient_variance for r in rows], dtype=np.float64)
        sigma = pooled_gradient_std(variance, held, pool=settings.estimates.gradient_std)
    return RoundView(
        frame=frame,
        round=number,
        rounds_in_frame=settings.rounds[frame],
        batch_size=settings.training.batch_size,
        total_hz=settings.radio.total_hz,
        num_samples=held,
        batch_mix=class_mix(np.stack([r.batch_counts for r in rows])),
        data_mix=data_mix,
        previous_data_mix=np.stack(previous),
        needed_hz=world.radio.needed_hz(
            gain, compute_s, deadline_s=settings.radio.deadline_s, model_bits=model_bits
        ),
        channel_gain=gain,
        times_scheduled=state.times_scheduled[members],
        gradient_std=sigma,
        class_norm=state.class_norm,
        loss=np.array([r.loss for r in rows], dtype=np.float64) if "loss" in needs else None,
        update_norm=np.array([r.update_norm for r in rows], dtype=np.float64)
        if "update_norm" in needs
        else None,
        classes_seen=state.classes_seen,
        compute_s=compute_s,
        deadline_s=settings.radio.deadline_s,
        model_bits=model_bits,
    )


def update_class_norm(
    state: ServerState,
    settings: Settings,
    reports: Mapping[int, Report],
    scheduled: list[int],
    seed: int,
    *,
    first: bool = False,
) -> Asking:
    """Ask for class gradients at the current model and re-estimate L̂^(c) (docs/paper.md D7)."""
    reported = sorted(reports)
    counts = np.stack([reports[n].data_counts for n in reported])  # [n, C]
    number = 0 if first else state.round  # the frame's start has draws of its own
    rng = keyed_rng(seed, "estimates", frame=state.frame, round=number)
    wanted = np.zeros((len(state.times_scheduled), counts.shape[1]), dtype=np.int64)
    wanted[reported] = spread_over_clients(counts, settings.estimates.class_gradient_samples, rng)
    answers = yield dataclasses.replace(
        _ask("class_gradients", state, tuple(reported)), round=number, samples=wanted
    )
    found: list[ClassGradients] = list(answers.given.values())
    if not found:
        return
    drawn = np.sum([part.counts for part in found], axis=0)  # [C]
    norms = pooled_norms(found, drawn)
    _check_finite(*norms)
    state.class_norm = estimate_class_norm(
        norms[:, None],  # a gradient's norm stands for it: both estimates use nothing else
        drawn > 0,
        state.class_norm,
        batch_mix=class_mix(np.stack([reports[n].batch_counts for n in reported])),
        num_samples=counts.sum(axis=1),
        scheduled=np.searchsorted(reported, scheduled),
        kind=settings.estimates.class_norm,
    )


def spread_over_clients(counts: np.ndarray, samples: int, rng: np.random.Generator) -> np.ndarray:
    """Draw up to `samples` images of each class from the union of all clients' data: how many from whom, [n, C]."""
    wanted = np.zeros_like(counts)
    for c in range(counts.shape[1]):
        wanted[:, c] = rng.multivariate_hypergeometric(counts[:, c], min(samples, int(counts[:, c].sum())))
    return wanted


def pooled_norms(found: list[ClassGradients], drawn: np.ndarray) -> np.ndarray:
    """Return ‖g_c‖ of the mean gradient over all images drawn of each class, [C]; 0 where there were none."""
    norms = np.zeros(len(drawn))
    for c in np.flatnonzero(drawn):
        total = sum(part.gradient_sum[c] for part in found if part.counts[c])
        norms[c] = math.sqrt(float((total * total).sum())) / drawn[c]
    return norms


def weighted_sum(vectors: list[Vector], shares: np.ndarray) -> Vector:
    """Return Σ α_n w_n."""
    total = vectors[0] * float(shares[0])
    for vector, share in zip(vectors[1:], shares[1:], strict=True):
        total = total + vector * float(share)
    return total


class _NotFinite(Exception):
    """A number that training made is infinite, or no number."""


def _check_finite(*values: float | None) -> None:
    if not all(math.isfinite(value) for value in values if value is not None):
        raise _NotFinite


def _check_weights(weights: Vector) -> None:
    """0 times a weight is 0 unless it is infinite or no number; so this works for any kind of vector."""
    with np.errstate(invalid="ignore"):
        _check_finite(float((weights * 0).sum()))


def _ask(kind: Any, state: ServerState, clients: tuple[int, ...], **more: Any) -> Request:
    return Request(
        kind=kind, frame=state.frame, round=state.round, weights=state.weights, clients=clients, **more
    )


def _measured(given: list[float | None], modelled: np.ndarray) -> np.ndarray:
    return np.array([m if g is None else g for g, m in zip(given, modelled, strict=True)], dtype=np.float64)
