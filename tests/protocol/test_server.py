"""The server's round with hand-made clients: averaging, failures, empty rounds, what is asked and when."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fedteddi import make_scheduler
from fedteddi.aggregation import FedAvg
from fedteddi.aggregation.fedavg import weighted_sum
from fedteddi.protocol.class_norms import spread_over_clients
from fedteddi.protocol.messages import Answers, ClassGradients, Report, Request
from fedteddi.protocol.server import server_round
from fedteddi.protocol.state import RoundFacts, ServerState
from fedteddi.settings import Settings, parse_settings
from fedteddi.wireless.environment import Environment

COUNTS = np.array([[30, 0], [10, 10], [0, 60]])  # D = 30, 20, 60
BATCHES = COUNTS * np.array([[2], [3], [1]])  # τ·b = 60 of them: 6 steps of 10


def settings(**changes: Any) -> Settings:
    return parse_settings(
        {
            "rounds": [3],
            "training": {"local_steps": 6, "batch_size": 10},
            "radio": {"total_hz": 1e12, "deadline_s": 100.0},
        }
    ).changed(**changes)


def new_state() -> ServerState:
    return ServerState(
        weights=np.zeros(4),
        class_norm=np.ones(2),
        classes_seen=np.zeros(2, dtype=bool),
        times_scheduled=np.zeros(3, dtype=np.int64),
    )


def play(
    state: ServerState,
    chosen: Settings,
    answer: Callable[[Request], Answers],
    scheduler: str = "random",
) -> tuple[RoundFacts, list[Request]]:
    world = Environment.make(chosen.radio, 0, 3, 60)
    game = server_round(state, chosen, make_scheduler(scheduler), FedAvg(), world, model_bits=1000.0)
    asked = [next(game)]
    while True:
        try:
            asked.append(game.send(answer(asked[-1])))
        except StopIteration as stop:
            return stop.value, asked


def honest(request: Request) -> Answers:
    """Client n uploads the vector (n+1, n+1, n+1, n+1)."""
    if request.kind == "report":
        report = {
            n: Report(data_counts=COUNTS[n], batch_counts=BATCHES[n], gradient_variance=4.0)
            for n in request.clients
        }
        return Answers(report, {})
    if request.kind == "upload":
        return Answers({n: np.full(4, n + 1.0) for n in request.clients}, {})
    sums = {0: np.array([3.0, 4.0, 0.0, 0.0]), 1: np.array([0.0, 10.0, 0.0, 0.0])}
    return Answers({-1: ClassGradients(gradient_sum=sums, counts=np.array([1, 2]))}, {})


def test_models_are_averaged_by_samples() -> None:
    """(30·1 + 20·2 + 60·3)/110 = 250/110."""
    state = new_state()
    facts, asked = play(state, settings(), honest)
    assert sorted(facts.schedule.clients) == [0, 1, 2]
    np.testing.assert_allclose(state.weights, 250 / 110)
    assert [request.kind for request in asked] == ["report", "upload"]
    assert state.times_scheduled.tolist() == [1, 1, 1]
    assert (state.round, state.rounds_done) == (1, 1)


def test_an_upload_that_does_not_arrive_leaves_the_others_to_share() -> None:
    """Without client 2: (30·1 + 20·2)/50 = 1.4."""

    def answer(request: Request) -> Answers:
        full = honest(request)
        if request.kind == "upload":
            return Answers({n: w for n, w in full.given.items() if n != 2}, {2: "gone"})
        return full

    state = new_state()
    facts, _ = play(state, settings(), answer)
    np.testing.assert_allclose(state.weights, 1.4)
    assert facts.failures == {2: "gone"}
    assert state.times_scheduled.tolist() == [1, 1, 0]


def test_a_client_that_does_not_report_drops_out_before_the_mixes() -> None:
    """Clients 0 and 2 report: the schedule speaks of them by their own numbers."""

    def answer(request: Request) -> Answers:
        full = honest(request)
        if request.kind == "report":
            return Answers({n: r for n, r in full.given.items() if n != 1}, {1: "late"})
        return full

    state = new_state()
    facts, asked = play(state, settings(), answer)
    assert facts.reported == (0, 2)
    assert sorted(asked[1].clients) == [0, 2]
    np.testing.assert_allclose(state.weights, (30 * 1 + 60 * 3) / 90)


@pytest.mark.parametrize("lost", ["report", "upload"])
def test_no_upload_at_all_keeps_the_model_and_the_round_counts(lost: str) -> None:
    def answer(request: Request) -> Answers:
        return (
            Answers({}, dict.fromkeys(request.clients, "gone")) if request.kind == lost else honest(request)
        )

    state = new_state()
    facts, _ = play(state, settings(), answer)
    assert state.weights.tolist() == [0.0] * 4
    assert state.rounds_done == 1
    assert facts.failures == {0: "gone", 1: "gone", 2: "gone"}


def test_an_empty_schedule_costs_the_deadline() -> None:
    state = new_state()
    facts, asked = play(state, settings(radio__deadline_s=1e-3), honest)
    assert facts.schedule.clients == ()
    assert facts.round_s == 1e-3
    assert state.weights.tolist() == [0.0] * 4
    assert [request.kind for request in asked] == ["report"]


def test_learning_rate_falls_over_all_rounds_and_never_resets() -> None:
    state, rates = new_state(), []
    for _ in range(2):
        _, asked = play(state, settings(), honest)
        rates.append(asked[0].learning_rate)
    state.enter_frame(0)
    _, asked = play(state, settings(), honest)
    rates.append(asked[0].learning_rate)
    assert rates == pytest.approx([0.01, 0.01 * 0.9992, 0.01 * 0.9992**2])


def test_class_norms_are_estimated_at_the_frames_start_and_after_each_round() -> None:
    """Gradient sums (3, 4, 0, 0) over 1 image and (0, 10, 0, 0) over 2: norms 5 and 5 (exact)."""
    state = new_state()
    facts, asked = play(state, settings(estimates__class_norm="exact"), honest, scheduler="fedteddi")
    assert [request.kind for request in asked] == ["report", "class_gradients", "upload", "class_gradients"]
    assert state.class_norm.tolist() == [5.0, 5.0]
    assert facts.gradient_std == pytest.approx(2.0)  # √4
    assert facts.terms is not None
    _, asked = play(state, settings(), honest, scheduler="fedteddi")
    assert [request.kind for request in asked] == ["report", "upload", "class_gradients"]


def test_class_norms_every_other_round_and_from_ones() -> None:
    chosen = settings(estimates__class_norm_every=2, estimates__first_class_norm="ones")
    state = new_state()
    kinds = [[r.kind for r in play(state, chosen, honest, scheduler="fedteddi")[1]] for _ in range(2)]
    assert kinds == [["report", "upload"], ["report", "upload", "class_gradients"]]


def test_a_rule_is_only_told_what_it_needs() -> None:
    assert play(new_state(), settings(), honest, scheduler="random")[1][0].needs == frozenset()
    asked = play(new_state(), settings(), honest, scheduler="fedteddi")[1]
    assert asked[0].needs == {"gradient_std", "class_norm"}


def test_images_for_class_gradients_come_from_all_clients() -> None:
    counts = np.array([[30, 0], [10, 10], [0, 60]])
    drawn = spread_over_clients(counts, 64, np.random.default_rng(0))
    assert drawn.sum(axis=0).tolist() == [40, 64]  # only 40 of class 0 exist
    assert (drawn <= counts).all()


def test_weighted_sum() -> None:
    np.testing.assert_allclose(
        weighted_sum([np.array([1.0, 0.0]), np.array([0.0, 4.0])], np.array([0.25, 0.75])), [0.25, 3.0]
    )


def test_a_new_frame_makes_the_present_the_past() -> None:
    state = new_state()
    play(state, settings(), honest)
    state.enter_frame(1)
    assert state.previous_mix[2].tolist() == [0.0, 1.0]
    assert state.times_scheduled.tolist() == [0, 0, 0]
    assert (state.frame, state.round) == (1, 0)


def test_a_client_that_misses_the_last_report_keeps_its_past() -> None:
    """Client 1 reports in round 1 and not in round 2; in the next frame its mix of this one is still known."""

    def late(request: Request) -> Answers:
        full = honest(request)
        if request.kind == "report":
            return Answers({n: r for n, r in full.given.items() if n != 1}, {1: "late"})
        return full

    state = new_state()
    play(state, settings(), honest)
    play(state, settings(), late)
    state.enter_frame(1)
    assert set(state.previous_mix) == {0, 1, 2}


def test_a_rule_sees_who_is_who_among_those_who_report() -> None:
    """Clients 0 and 2 report: positions 0 and 1 are they, and the state goes by their ids."""

    def answer(request: Request) -> Answers:
        full = honest(request)
        if request.kind == "report":
            return Answers({n: r for n, r in full.given.items() if n != 1}, {1: "late"})
        return full

    state = new_state()
    state.scheduler_state = np.zeros(3, dtype=np.int64)
    facts, _ = play(state, settings(), answer, scheduler="age-of-update")
    assert sorted(facts.schedule.clients) == [0, 2]
    assert state.scheduler_state.tolist() == [0, 1, 0]


def test_a_trace_names_clients_by_their_own_numbers() -> None:
    """Client 0 does not report: the two others are 0 and 1 in the view, and 1 and 2 on record."""

    def without_0(request: Request) -> Answers:
        answers = honest(request)
        return Answers({n: own for n, own in answers.given.items() if n != 0}, {0: "it is gone"})

    facts, _ = play(new_state(), settings(evaluation__trace=True), without_0, scheduler="fedteddi")
    assert facts.schedule.trace is not None
    assert [step.client for step in facts.schedule.trace.admissions] == list(facts.schedule.clients)
    assert set(facts.schedule.clients) <= {1, 2}
    assert 2 in facts.schedule.clients
