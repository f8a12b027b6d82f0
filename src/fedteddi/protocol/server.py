"""One round of the server, Algorithm 1 line by line. It asks through `Request`s and does not know who answers."""

import dataclasses
from collections.abc import Generator
from contextlib import suppress

import numpy as np

from fedteddi.aggregation import Aggregation, State, Vector
from fedteddi.heterogeneity.objective import ObjectiveTerms
from fedteddi.heterogeneity.sharing import bounded_counts
from fedteddi.protocol.checks import ReceivedReports, received_reports
from fedteddi.protocol.claims import bounded_reports
from fedteddi.protocol.class_norms import update_class_norm
from fedteddi.protocol.costs import NOTHING, Cost, report_numbers, sending, upload_times_s
from fedteddi.protocol.gradient_std import measured_gradient_std, who_measures
from fedteddi.protocol.messages import SKETCH_SIZE, Answers, Request
from fedteddi.protocol.rejections import Failures
from fedteddi.protocol.rollback import asked_clients, make_room, recover, suspect
from fedteddi.protocol.round_json.answer import finish_s
from fedteddi.protocol.state import RoundFacts, ServerState, ask, check_not_diverged
from fedteddi.protocol.uploads import received_uploads
from fedteddi.protocol.vectors import (
    NotFiniteError,
    aggregated,
    drop_not_finite,
    shows_not_finite,
    valid_uploads,
)
from fedteddi.randomness import keyed_rng
from fedteddi.schedulers.objectives import HasObjective, checked_terms, has_objective
from fedteddi.schedulers.schedule import AnyScheduler, Schedule, checked_choice, recorded_trace, unlimited
from fedteddi.schedulers.view import ON_REQUEST, RoundView
from fedteddi.settings import Settings
from fedteddi.wireless.environment import Environment

# What a rule may need beyond the class mixes and the channel. A rule that does not say gets these two.
UNSAID_NEEDS = frozenset({"gradient_std", "class_norm"})
NOBODY = Schedule(clients=(), bandwidth_hz=())
Uploading = Generator[Request, Answers, list[int]]


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
    game = _Round(state, settings, rule, aggregation, world, model_bits, head_size, baseline_objective)
    try:
        return (yield from game.play())
    except BaseException as error:
        recover(state, before, error, settings, game.failures)
        return game.facts(_Picked())  # nobody was scheduled


@dataclasses.dataclass(frozen=True, eq=False)
class _Picked:
    """The scheduler's choice, by the clients' own numbers, and what follows from it."""

    schedule: Schedule = NOBODY
    data_mix: dict[int, np.ndarray] = dataclasses.field(default_factory=dict)  # of all who reported
    terms: ObjectiveTerms | None = None
    finish_s: tuple[float, ...] = ()
    compute_s: tuple[float, ...] = ()  # of the scheduled
    download_s: tuple[float, ...] | None = None  # of the scheduled
    all_compute_s: float = 0.0
    gradient_std: float | None = None


@dataclasses.dataclass(eq=False)
class _Round:
    """One round; what it changes, it changes in `state`, which `server_round` restores if the round fails."""

    state: ServerState
    settings: Settings
    rule: AnyScheduler
    aggregation: Aggregation
    world: Environment
    model_bits: float
    head_size: int | None
    baseline_objective: HasObjective | None
    failures: Failures = dataclasses.field(default_factory=Failures)
    reports: Cost = NOTHING
    class_gradients: Cost = NOTHING

    def play(self) -> Generator[Request, Answers, RoundFacts]:
        """Algorithm 1, line by line."""
        self.state.round += 1
        picked = _Picked()
        # Broadcast w_{k−1}; every client runs τ steps and sends a few numbers.
        received = yield from self._collect_reports()
        # Non-reporters drop out before the mixes are computed; without any report the old model is kept.
        if received is not None:
            # At the start of a frame, L̂^(c) is estimated at w_{l,0} over all clients (docs/paper.md D6).
            if self.state.round == 1 and self.settings.estimates.first_class_norm == "estimated":
                yield from self._estimate_class_norm(received, list(received.clients), first=True)
            # Pick S and each member's bandwidth.
            picked = self._pick(received)
            # Only S uploads; the server aggregates what arrived.
            arrived = yield from self._collect_uploads(received, picked)
            # Re-estimate L̂^(c) at w_k.
            if arrived and self.state.round % self.settings.estimates.class_norm_every == 0:
                yield from self._estimate_class_norm(received, arrived)
            self.state.hear(received.clients, received.data_mix, received.num_samples)
        self.state.rounds_done += 1
        return self.facts(picked)

    @property
    def needs(self) -> frozenset[str]:
        return needs_of(self.rule)

    @property
    def learning_rate(self) -> float:
        training = self.settings.training
        return training.learning_rate * training.decay**self.state.rounds_done

    def _collect_reports(self) -> Generator[Request, Answers, ReceivedReports | None]:
        state, everyone = self.state, asked_clients(self.state, self.failures)
        asked = who_measures(
            self.settings, self.world.seed, state.frame, state.round, len(state.times_scheduled)
        )
        request = ask(
            "report",
            state,
            everyone,
            needs=self.needs,
            variance_from=asked,
            learning_rate=self.learning_rate,
        )
        answers = yield request
        received, rejections = received_reports(answers, request, len(state.class_norm), self.settings)
        self.failures.note(answers.failed, rejections)
        check_not_diverged(state, self.settings, rejections, () if received is None else received.clients)
        if received is None:
            return None
        received = bounded_reports(received, self.settings.server.claim_factor)
        self.reports = self._sending(received, report_numbers(received, self.settings.privacy.epsilon > 0))
        if "gradient_std" in self.needs:
            found = measured_gradient_std(received, asked, self.settings)
            state.gradient_std = state.gradient_std if found is None else found
        return received

    def _estimate_class_norm(
        self, received: ReceivedReports, scheduled: list[int], *, first: bool = False
    ) -> Generator[Request, Answers, None]:
        if "class_norm" in self.needs:
            estimates = self.settings.estimates
            size = len(self.state.weights) if estimates.class_norm_layers == "all" else self.head_size
            size = SKETCH_SIZE if estimates.class_gradients == "sketch" else size
            sent = yield from update_class_norm(
                self.state, self.settings, received, scheduled, self.world, self.failures, size, first=first
            )
            self.class_gradients += self._sending(received, sent)

    def _sending(self, received: ReceivedReports, numbers: np.ndarray) -> Cost:
        """Return the cost of a message of so many numbers, [n], from each of those who reported."""
        cost = sending(numbers, self._gain(received), self.world.radio, self.settings.radio)
        return (
            Cost(cost.bits) if unlimited(self.rule) else cost
        )  # without a band, nobody knows how long it takes

    def _gain(self, received: ReceivedReports) -> np.ndarray:
        """Return |H|² of those who reported, [n]: as measured, or else as modelled."""
        modelled = self.world.channel_gain(self.state.frame, self.state.round)[list(received.clients)]
        return received.measured("channel_gain", modelled)

    def _pick(self, received: ReceivedReports) -> _Picked:
        state, view = self.state, self._view(received)
        rng = keyed_rng(self.world.seed, "scheduler", frame=state.frame, round=state.round)
        chosen, state.scheduler_state = checked_choice(self.rule, view, rng, state.scheduler_state)
        evaluating, terms = self.rule if has_objective(self.rule) else self.baseline_objective, None
        if (
            chosen.clients and evaluating is not None and self.needs >= needs_of(evaluating)
        ):  # it has its numbers
            terms = checked_terms(evaluating, view, chosen.clients)
        scheduled = tuple(received.clients[index] for index in chosen.clients)
        trace = (
            recorded_trace(self.rule, chosen, received.clients) if self.settings.evaluation.trace else None
        )
        compute_s = np.zeros(0) if view.compute_s is None else view.compute_s
        return _Picked(
            schedule=dataclasses.replace(chosen, clients=scheduled, trace=trace),
            data_mix=dict(zip(received.clients, view.data_mix, strict=True)),
            terms=terms,
            finish_s=finish_s(view, chosen) or (),
            compute_s=tuple(compute_s[list(chosen.clients)].tolist()),
            download_s=None
            if view.download_s is None
            else tuple(view.download_s[list(chosen.clients)].tolist()),
            all_compute_s=float(compute_s.sum()),
            gradient_std=view.gradient_std if "gradient_std" in self.needs else None,
        )

    def _view(self, received: ReceivedReports) -> RoundView:
        """Put the reports together into what a scheduler sees; clients are numbered among those who reported."""
        state, settings, needs = self.state, self.settings, self.needs
        frame, number, members = state.frame, state.round, list(received.clients)
        gain = self._gain(received)
        compute_s = received.measured("compute_s", self.world.compute_s(frame, number)[members])
        # A bound without a band spares the broadcast, too.
        download_s = None if unlimited(self.rule) else self.world.download_s(gain, self.model_bits)
        ready_s = compute_s if download_s is None else download_s + compute_s
        previous = [state.previous_mix.get(n, mix) for n, mix in zip(members, received.data_mix, strict=True)]
        state.classes_seen = state.classes_seen | (received.data_mix.max(axis=0) > 0)
        counted = bounded_counts(received.num_samples, settings.server.max_sample_share)
        return RoundView(
            frame=frame,
            round=number,
            rounds_in_frame=settings.rounds[frame],
            batch_size=settings.training.batch_size,
            total_hz=settings.radio.total_hz,
            num_samples=counted,
            batch_mix=received.batch_mix,
            data_mix=received.data_mix,
            previous_data_mix=np.concatenate(previous).reshape(len(members), -1),
            needed_hz=self.world.needed_hz(frame, number, gain, ready_s, self.model_bits),
            channel_gain=gain,
            times_scheduled=state.times_scheduled[members],
            gradient_std=state.gradient_std if "gradient_std" in needs else 0.0,
            class_norm=state.class_norm,
            **{name: received.numbers(name) if name in needs else None for name in ON_REQUEST},
            classes_seen=state.classes_seen,
            compute_s=compute_s,
            download_s=download_s,
            deadline_s=settings.radio.deadline_s,
            model_bits=self.model_bits,
            client_id=np.array(members),
        )

    def _collect_uploads(self, received: ReceivedReports, picked: _Picked) -> Uploading:
        """Aggregate the uploads of S; α is renormalised over what arrived, nothing at all keeps the old model."""
        state, scheduled = self.state, picked.schedule.clients
        if not scheduled:
            return []
        upload_s = upload_times_s(picked.finish_s, picked.compute_s, picked.download_s)
        answers = yield ask("upload", state, scheduled, learning_rate=self.learning_rate, upload_s=upload_s)
        arrived, rejections = valid_uploads(answers, scheduled, state.weights)
        after = None
        trusting = self.settings.server.quarantine_rounds == 0
        if arrived and trusting and shows_not_finite(self.aggregation):  # on a GPU every look is a wait
            with suppress(NotFiniteError):
                after = self._aggregated(received, arrived)
        if after is None:
            drop_not_finite(arrived, rejections)
        self.failures.note(answers.failed, rejections)
        check_not_diverged(state, self.settings, rejections, arrived)
        make_room(state, self.settings, scheduled if len(scheduled) == 1 else tuple(arrived), self.failures)
        if arrived:
            suspect(state, self.settings, arrived)
            state.weights, state.aggregation = after or self._aggregated(received, arrived)
            state.not_finite = frozenset()
            state.times_scheduled[list(arrived)] += 1
        return list(arrived)

    def _aggregated(self, received: ReceivedReports, arrived: dict[int, Vector]) -> tuple[Vector, State]:
        uploads = received_uploads(self.state, self.settings, received, arrived)
        name = self.settings.server.aggregation
        return aggregated(self.aggregation, name, uploads, self.state.aggregation)

    def facts(self, picked: _Picked) -> RoundFacts:
        """Return what the round came to."""
        state, settings = self.state, self.settings
        return RoundFacts(
            frame=state.frame,
            round=state.round,
            reported=tuple(picked.data_mix),
            failures=self.failures.causes,
            schedule=picked.schedule,
            gradient_std=picked.gradient_std,
            class_norm=tuple(state.class_norm.tolist()) if "class_norm" in self.needs else None,
            terms=picked.terms,
            finish_s=picked.finish_s,
            compute_s=picked.compute_s,
            download_s=picked.download_s,
            all_compute_s=picked.all_compute_s,
            round_s=max(picked.finish_s, default=settings.radio.deadline_s),  # an empty round costs T_max
            reports=self.reports,
            class_gradients=self.class_gradients,
            epsilon_spent=settings.privacy.epsilon * (state.frame + 1) or None,  # one release a frame
        )
