"""One round of the server, Algorithm 1 line by line. It asks through `Request`s and does not know who answers."""

import dataclasses
from collections.abc import Generator

import numpy as np

from fedteddi.aggregation import Aggregation, Received, Vector
from fedteddi.errors import DivergedError, InputError
from fedteddi.heterogeneity.estimates import pooled_gradient_std
from fedteddi.heterogeneity.mixes import sample_shares
from fedteddi.heterogeneity.sharing import bounded_counts
from fedteddi.protocol.checks import Failures, ReceivedReports, received_reports
from fedteddi.protocol.class_norms import update_class_norm
from fedteddi.protocol.messages import Answers, Request
from fedteddi.protocol.round_json.answer import finish_s
from fedteddi.protocol.state import RoundFacts, ServerState, ask, check_not_diverged
from fedteddi.protocol.vectors import (
    NotFiniteError,
    aggregated,
    drop_not_finite,
    valid_uploads,
)
from fedteddi.randomness import keyed_rng
from fedteddi.schedulers.objectives import HasObjective, checked_terms, has_objective
from fedteddi.schedulers.schedule import AnyScheduler, Schedule, Trace, checked_choice
from fedteddi.schedulers.view import RoundView
from fedteddi.settings import Settings
from fedteddi.wireless.environment import Environment

# What a rule may need beyond the class mixes and the channel. A rule that does not say gets these two.
UNSAID_NEEDS = frozenset({"gradient_std", "class_norm"})


def needs_of(rule: AnyScheduler | HasObjective) -> frozenset[str]:
    """Return what a rule says it needs."""
    return frozenset(getattr(rule, "needs", UNSAID_NEEDS))


def server_round(
    state: ServerState,
    settings: Settings,
    rule: AnyScheduler,
    aggregation: Aggregation,
    world: Environment,
    model_bits: float,
    head_size: int | None = None,
    baseline_objective: HasObjective | None = None,
) -> Generator[Request, Answers, RoundFacts]:
    """Run one round: everybody trains and reports, the rule picks, the scheduled upload, the server aggregates.

    Every answer is checked before it is used; a client whose answer is invalid is dropped, and the round goes on.
    If training itself leaves the finite numbers (docs/metrics.md says how this differs from one broken client) it
    raises `DivergedError`. A round that does not come to its end leaves the state as it was. `head_size` is the length
    of the last layer's gradients; where nobody says, it is what most of them have. `baseline_objective` evaluates the
    sets of rules without an objective of their own.
    """
    before = dataclasses.replace(state, times_scheduled=state.times_scheduled.copy())
    try:
        return (
            yield from _round(
                state, settings, rule, aggregation, world, model_bits, head_size, baseline_objective
            )
        )
    except BaseException as error:
        frame, number = state.frame, state.round
        for part in dataclasses.fields(state):
            setattr(state, part.name, getattr(before, part.name))
        if not isinstance(error, NotFiniteError):
            raise
        raise DivergedError(
            f"{str(error) or 'training diverged'} in frame {frame}, round {number}:"
            f" lower training.learning_rate={settings.training.learning_rate:g}",
            frame,
            number,
        ) from None


def _round(
    state: ServerState,
    settings: Settings,
    rule: AnyScheduler,
    aggregation: Aggregation,
    world: Environment,
    model_bits: float,
    head_size: int | None,
    baseline_objective: HasObjective | None,
) -> Generator[Request, Answers, RoundFacts]:
    state.round += 1
    size = len(state.weights) if settings.estimates.class_norm_layers == "all" else head_size
    frame, number, needs = state.frame, state.round, needs_of(rule)
    rate = settings.training.learning_rate * settings.training.decay**state.rounds_done

    # Broadcast w_{k−1}; every client runs τ steps and sends a few numbers.
    everyone = tuple(range(len(state.times_scheduled)))
    answers = yield ask("report", state, everyone, needs=needs, learning_rate=rate)
    received, rejections = received_reports(answers, everyone, needs, len(state.class_norm), settings)
    failures = Failures(answers.failed, rejections)
    check_not_diverged(state, rejections, anybody=received is not None)
    # Non-reporters drop out before the mixes are computed.
    reported = () if received is None else received.clients

    # At the start of a frame, L̂^(c) is estimated at w_{l,0} over all clients (docs/paper.md D6).
    estimated = "class_norm" in needs and settings.estimates.first_class_norm == "estimated"
    if number == 1 and received is not None and estimated:
        yield from update_class_norm(
            state, settings, received, list(reported), world, failures, size, first=True
        )

    # Pick S and each member's bandwidth.
    chosen, terms, view = Schedule(clients=(), bandwidth_hz=()), None, None
    if received is not None:
        view = round_view(state, settings, received, world, model_bits, needs)
        rng = keyed_rng(world.seed, "scheduler", frame=frame, round=number)
        chosen, state.scheduler_state = checked_choice(rule, view, rng, state.scheduler_state)
        evaluating = rule if has_objective(rule) else baseline_objective
        if (
            chosen.clients and evaluating is not None and needs >= needs_of(evaluating)
        ):  # else it lacks numbers
            terms = checked_terms(evaluating, view, chosen.clients)
    scheduled = tuple(reported[index] for index in chosen.clients)
    trace = _trace(rule, chosen, reported) if settings.evaluation.trace else None

    # Only S uploads; α is renormalised over what arrived; nothing at all keeps the old model.
    arrived: dict[int, Vector] = {}
    if received is not None and scheduled:
        answers = yield ask("upload", state, scheduled, learning_rate=rate)
        arrived, rejections = valid_uploads(answers, scheduled, state.weights)
        drop_not_finite(arrived, rejections)
        failures.note(answers.failed, rejections)
        check_not_diverged(state, rejections, anybody=bool(arrived))
        if arrived:
            uploads = _uploads(state, settings, received, arrived)
            state.weights, state.aggregation = aggregated(
                aggregation, settings.server.aggregation, uploads, state.aggregation
            )
            state.not_finite = frozenset()
            state.times_scheduled[list(arrived)] += 1

    # Re-estimate L̂^(c) at w_k.
    due = "class_norm" in needs and number % settings.estimates.class_norm_every == 0
    if received is not None and arrived and due:
        yield from update_class_norm(state, settings, received, list(arrived), world, failures, size)
    state.rounds_done += 1
    if view is not None:
        state.current_mix |= dict(zip(reported, view.data_mix, strict=True))

    times = () if view is None else finish_s(view, chosen) or ()
    compute_s = np.zeros(0) if view is None or view.compute_s is None else view.compute_s
    return RoundFacts(
        frame=frame,
        round=number,
        reported=reported,
        failures=failures.causes,
        schedule=dataclasses.replace(chosen, clients=scheduled, trace=trace),
        gradient_std=view.gradient_std if view is not None and "gradient_std" in needs else None,
        class_norm=tuple(map(float, state.class_norm)) if "class_norm" in needs else None,
        terms=terms,
        finish_s=times,
        compute_s=tuple(float(s) for s in compute_s[list(chosen.clients)]),
        all_compute_s=float(compute_s.sum()),
        round_s=max(times, default=settings.radio.deadline_s),  # an empty round costs T_max
        epsilon_spent=settings.privacy.epsilon * (frame + 1) or None,  # one release a frame
    )


def round_view(
    state: ServerState,
    settings: Settings,
    received: ReceivedReports,
    world: Environment,
    model_bits: float,
    needs: frozenset[str],
) -> RoundView:
    """Put the reports together into what a scheduler sees; clients are numbered among those who reported."""
    frame, number = state.frame, state.round
    members = list(received.clients)
    gain = _measured([r.channel_gain for r in received.reports], world.channel_gain(frame, number)[members])
    compute_s = _measured([r.compute_s for r in received.reports], world.compute_s(frame, number)[members])
    previous = [state.previous_mix.get(n, mix) for n, mix in zip(members, received.data_mix, strict=True)]
    state.classes_seen = state.classes_seen | (received.data_mix.max(axis=0) > 0)
    counted, sigma = bounded_counts(received.num_samples, settings.server.max_sample_share), 0.0
    if "gradient_std" in needs:
        variance = received.numbers("gradient_variance")
        sigma = pooled_gradient_std(variance, counted, pool=settings.estimates.gradient_std)
    return RoundView(
        frame=frame,
        round=number,
        rounds_in_frame=settings.rounds[frame],
        batch_size=settings.training.batch_size,
        total_hz=settings.radio.total_hz,
        num_samples=counted,
        batch_mix=received.batch_mix,
        data_mix=received.data_mix,
        previous_data_mix=np.array(previous),
        needed_hz=world.needed_hz(frame, number, gain, compute_s, model_bits),
        channel_gain=gain,
        times_scheduled=state.times_scheduled[members],
        gradient_std=sigma,
        class_norm=state.class_norm,
        loss=received.numbers("loss") if "loss" in needs else None,
        update_norm=received.numbers("update_norm") if "update_norm" in needs else None,
        classes_seen=state.classes_seen,
        compute_s=compute_s,
        deadline_s=settings.radio.deadline_s,
        model_bits=model_bits,
        client_id=np.array(members),
    )


def _trace(rule: AnyScheduler, chosen: Schedule, reported: tuple[int, ...]) -> Trace | None:
    """Return how the set came about, by the clients' own numbers; a foreign trace may be anything."""
    if chosen.trace is None:
        return None
    try:
        return chosen.trace.renumbered(reported)
    except (AttributeError, TypeError, ValueError, IndexError) as error:
        raise InputError(
            f"{rule.name} gave a trace that cannot be recorded ({error}): correct it, or evaluation.trace = false"
        ) from None


def _uploads(
    state: ServerState, settings: Settings, received: ReceivedReports, arrived: dict[int, Vector]
) -> Received:
    clients = np.array(list(arrived))
    held = received.num_samples[np.searchsorted(received.clients, clients)]
    return Received(
        frame=state.frame,
        round=state.round,
        model=state.weights,
        uploads=tuple(arrived.values()),
        shares=sample_shares(bounded_counts(held, settings.server.max_sample_share)),
        client_id=clients,
    )


def _measured(given: list[float | None], modelled: np.ndarray) -> np.ndarray:
    if all(g is None for g in given):
        return modelled
    return np.array([m if g is None else g for g, m in zip(given, modelled, strict=True)], dtype=np.float64)
