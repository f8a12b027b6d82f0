"""Clients that send nonsense: each is left out with its reason, the others' round goes on, the model stays clean."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import pytest
import torch

from fedteddi import make_scheduler
from fedteddi.aggregation import FedAvg
from fedteddi.errors import DivergedError
from fedteddi.protocol.messages import (
    ALL_CLIENTS,
    UPDATE_SKETCH_SIZE,
    Answers,
    ClassGradients,
    ClassNorms,
    Report,
    Request,
)
from fedteddi.protocol.server import server_round
from fedteddi.protocol.state import RoundFacts, ServerState
from fedteddi.schedulers.rules.fedteddi import FedTeddi
from fedteddi.schedulers.rules.random import Random
from fedteddi.settings import Settings, parse_settings
from fedteddi.wireless.environment import Environment

COUNTS = np.array([[30, 0], [10, 10], [0, 60]])  # D = 30, 20, 60
BATCHES = COUNTS * np.array([[2], [3], [1]])  # 60 each: 6 steps of 10
SKETCH = np.linspace(-1.0, 1.0, UPDATE_SKETCH_SIZE)
NEEDS: dict[str, Any] = {
    **{"gradient_variance": 4.0, "loss": 1.0, "update_norm": 1.0},
    "update_sketch": SKETCH,
}
BAD = 1  # the client that misbehaves
WITHOUT_BAD = (30 * 1 + 60 * 3) / 90  # clients n upload n + 1

Twist = Callable[[Request, dict[int, Any]], None]


class Everybody(Random):
    """Schedules all who fit, and asks for what FedTeddi asks for."""

    name: ClassVar[str] = "everybody"
    needs: ClassVar[frozenset[str]] = FedTeddi.needs


def settings(**changes: Any) -> Settings:
    return parse_settings(
        {
            "rounds": [9],
            "training": {"local_steps": 6, "batch_size": 10},
            "radio": {"total_hz": 1e12, "deadline_s": 100.0},
        }
    ).changed(**changes)


def new_state(weights: Any = None) -> ServerState:
    return ServerState(
        weights=np.zeros(4) if weights is None else weights,
        class_norm=np.ones(2),
        classes_seen=np.zeros(2, dtype=bool),
        times_scheduled=np.zeros(3, dtype=np.int64),
    )


def answered(request: Request, twist: Twist, vector: Callable[[list[float]], Any]) -> Answers:
    given: dict[int, Any] = {}
    for n in request.clients:
        if request.kind == "report":
            given[n] = Report(data_counts=COUNTS[n], batch_counts=BATCHES[n], **NEEDS)
        elif request.kind == "upload":
            given[n] = vector([n + 1.0] * 4)
        else:
            assert request.samples is not None
            counts = np.minimum(request.samples[n], 1)
            rows = {c: vector([5.0, 0.0, 0.0, 0.0]) for c in np.flatnonzero(counts)}
            given[n] = ClassGradients(gradient_sum=rows, counts=counts)
    twist(request, given)
    return Answers(given, {})


def play(
    twist: Twist,
    state: ServerState | None = None,
    scheduler: str = "",
    chosen: Settings | None = None,
    vector: Callable[[list[float]], Any] = np.array,
) -> tuple[ServerState, RoundFacts]:
    state, chosen = state or new_state(), chosen or settings()
    world = Environment.make(chosen.radio, 0, 3, 60)
    rule = make_scheduler(scheduler) if scheduler else Everybody()
    game = server_round(state, chosen, rule, FedAvg(), world, model_bits=1000.0)
    request = next(game)
    while True:
        try:
            request = game.send(answered(request, twist, vector))
        except StopIteration as stop:
            return state, stop.value


def reporting(**parts: Any) -> Twist:
    def twist(request: Request, given: dict[int, Any]) -> None:
        if request.kind == "report":
            honest = {"data_counts": COUNTS[BAD], "batch_counts": BATCHES[BAD], **NEEDS}
            given[BAD] = Report(**(honest | parts))

    return twist


def sending(kind: str, value: Any, client: int = BAD) -> Twist:
    def twist(request: Request, given: dict[int, Any]) -> None:
        if request.kind == kind:
            given[client] = value

    return twist


BAD_REPORTS: dict[str, tuple[dict[str, Any], str]] = {
    "no counts": ({"data_counts": None}, "data_counts is missing"),
    "too many classes": ({"data_counts": np.ones(3)}, "data_counts has shape (3,), not (2,)"),
    "a table": ({"batch_counts": np.ones((2, 2))}, "batch_counts has shape (2, 2), not (2,)"),
    "words": ({"data_counts": "many"}, "data_counts holds something other than numbers"),
    "booleans": ({"data_counts": np.array([True, True])}, "data_counts holds something other than numbers"),
    "ragged": ({"data_counts": [[1], [2, 3]]}, "data_counts is of type list, not an array"),
    "negative": ({"data_counts": np.array([30, -10])}, "data_counts holds a negative number"),
    "NaN counts": ({"data_counts": np.array([np.nan, 1.0])}, "other than whole numbers"),
    "infinite counts": ({"data_counts": np.array([np.inf, 1.0])}, "other than whole numbers"),
    "half a sample": ({"batch_counts": np.array([29.5, 30.5])}, "other than whole numbers"),
    "nothing held": ({"data_counts": np.array([0, 0])}, "data_counts are all 0"),
    "absurdly much": ({"data_counts": np.array([10**12, 10])}, "more than 1e+09 samples"),
    "absurd in sum": ({"data_counts": np.array([10**9, 10**9])}, "add up to more than 1e+09"),
    "overflow": ({"data_counts": np.array([2**64 - 1, 2], dtype=np.uint64)}, "more than 1e+09 samples"),
    "too small batches": ({"batch_counts": np.array([30, 29])}, "do not add up to 60 (τ·b)"),
    "a class it has not": (
        {"data_counts": np.array([20, 0])},
        "more of a class than data_counts allow",
    ),
    "more than it can draw": (  # 6 batches hold at most 6 of its 3 images of class 1: 18
        {"data_counts": np.array([17, 3]), "batch_counts": np.array([41, 19])},
        "more of a class than data_counts allow",
    ),
    "no variance": ({"gradient_variance": None}, "gradient_variance is missing"),
    "NaN variance": ({"gradient_variance": np.nan}, "gradient_variance=nan is not finite"),
    "infinite variance": ({"gradient_variance": np.inf}, "gradient_variance=inf is not finite"),
    "negative variance": ({"gradient_variance": -1.0}, "gradient_variance=-1 lies outside"),
    "variance in words": ({"gradient_variance": "4"}, "gradient_variance is of type str, not a number"),
    "an endless integer": ({"gradient_variance": 10**400}, "gradient_variance is above"),
    "negative time": ({"compute_s": -0.1}, "compute_s=-0.1 lies outside"),
    "NaN time": ({"compute_s": np.nan}, "compute_s=nan is not finite"),
    "endless time": ({"compute_s": 1e30}, "compute_s=1e+30 lies outside"),
    "negative gain": ({"channel_gain": -1e-9}, "channel_gain=-1e-09 lies outside"),
    "infinite gain": ({"channel_gain": np.inf}, "channel_gain=inf is not finite"),
}


@pytest.mark.parametrize("case", BAD_REPORTS)
def test_a_bad_report_costs_its_sender_the_round(case: str) -> None:
    parts, why = BAD_REPORTS[case]
    state, facts = play(reporting(**parts))
    assert why in facts.failures[BAD]
    assert list(facts.failures) == [BAD]
    assert facts.reported == (0, 2)
    np.testing.assert_allclose(state.weights, WITHOUT_BAD)
    assert np.isfinite(state.class_norm).all()


@pytest.mark.parametrize(("scheduler", "part"), [("power-of-choice", "loss"), ("best-norm", "update_norm")])
@pytest.mark.parametrize("value", [None, np.nan, -np.inf])
def test_what_other_rules_ask_for_is_checked_too(scheduler: str, part: str, value: Any) -> None:
    _, facts = play(reporting(**{part: value}), scheduler=scheduler)
    assert facts.failures[BAD].startswith(part)


BAD_SKETCHES: dict[str, tuple[Any, str]] = {
    "none": (None, "update_sketch is missing"),
    "a number": (1.0, "update_sketch has shape (), not (127,)"),
    "too long": (np.zeros(128), "update_sketch has shape (128,), not (127,)"),
    "a table": (SKETCH[None], "update_sketch has shape (1, 127), not (127,)"),
    "words": (["x"] * 127, "update_sketch holds something other than numbers"),
    "ragged": ([[1], [2, 3]], "update_sketch is of type list, not an array"),
    "NaN": (np.where(SKETCH > 0, np.nan, SKETCH), "update_sketch=nan is not finite"),
    "infinite": (SKETCH - np.inf, "update_sketch=-inf is not finite"),
    "huge": (SKETCH * 1e101, "update_sketch=-1e+101 lies outside -1e+100 to 1e+100"),
}


@pytest.mark.parametrize("case", BAD_SKETCHES)
def test_a_bad_sketch_costs_its_sender_the_round(case: str) -> None:
    value, why = BAD_SKETCHES[case]
    state, facts = play(reporting(update_sketch=value), scheduler="divfl")
    assert facts.failures == {BAD: why}
    assert facts.reported == (0, 2)
    np.testing.assert_allclose(state.weights, WITHOUT_BAD)


def test_a_sketch_may_travel_in_single_precision_or_as_a_list() -> None:
    for value in (SKETCH.astype(np.float32), SKETCH.tolist(), np.zeros(UPDATE_SKETCH_SIZE, dtype=int)):
        _, facts = play(reporting(update_sketch=value), scheduler="divfl")
        assert facts.failures == {}


def test_what_was_not_asked_for_is_not_looked_at() -> None:
    unasked = {"loss": np.nan, "update_norm": "x", "update_sketch": [[1], [2, 3]], "gradient_variance": None}
    _, facts = play(reporting(**unasked), scheduler="random")
    assert facts.failures == {}
    assert facts.reported == (0, 1, 2)


def test_counts_may_travel_as_whole_floats_or_lists() -> None:
    state, facts = play(reporting(data_counts=[10.0, 10.0], batch_counts=np.array([30, 30], dtype=np.uint8)))
    assert facts.failures == {}
    np.testing.assert_allclose(state.weights, 250 / 110)


def test_something_that_is_no_report_at_all() -> None:
    _, facts = play(sending("report", {"data_counts": [1, 2]}))
    assert facts.failures == {BAD: "report is of type dict, not a report"}


def test_whoever_was_not_asked_is_not_heard() -> None:
    """Client 7 does not exist; client 1, whose report was refused, uploads all the same."""

    def twist(request: Request, given: dict[int, Any]) -> None:
        reporting(data_counts=None)(request, given)
        given[7] = given[0]
        if request.kind == "upload":
            given[BAD] = np.full(4, 1e6)

    state, facts = play(twist, scheduler="random")
    assert facts.reported == (0, 2)
    np.testing.assert_allclose(state.weights, WITHOUT_BAD)


def as_torch(values: list[float]) -> torch.Tensor:
    return torch.tensor(values)


BAD_UPLOADS: dict[str, tuple[Any, str]] = {
    "nothing": (None, "upload is of type NoneType"),
    "words": ("weights", "upload is of type str"),
    "a list": ([2.0] * 4, "upload is of type list"),
    "too short": ([2.0] * 3, "upload has shape (3,), not (4,)"),
    "too long": ([2.0] * 5, "upload has shape (5,), not (4,)"),
    "one NaN": ([2.0, np.nan, 2.0, 2.0], "not finite"),
    "infinity": ([2.0, 2.0, np.inf, 2.0], "not finite"),
    "both infinities": ([np.inf, -np.inf, 2.0, 2.0], "not finite"),
}


@pytest.mark.parametrize("case", BAD_UPLOADS)
@pytest.mark.parametrize("vector", [np.array, as_torch], ids=["numpy", "torch"])
def test_a_bad_upload_never_touches_the_model(case: str, vector: Callable[[list[float]], Any]) -> None:
    value, why = BAD_UPLOADS[case]
    if isinstance(value, list) and case != "a list":
        value = vector(value)
    state, facts = play(sending("upload", value), new_state(vector([0.0] * 4)), vector=vector)
    assert why in facts.failures[BAD]
    assert list(facts.failures) == [BAD]
    np.testing.assert_allclose(np.asarray(state.weights), WITHOUT_BAD, rtol=1e-6)
    assert state.times_scheduled.tolist() == [1, 0, 1]


def test_uploads_of_another_type_or_with_more_dimensions() -> None:
    for value in (np.full(4, 2), np.full(4, 2.0, dtype=np.float32), np.full((4, 1), 2.0), np.full(4, 2j)):
        state, facts = play(sending("upload", value))
        assert list(facts.failures) == [BAD]
        assert state.weights.dtype == np.float64
        np.testing.assert_allclose(state.weights, WITHOUT_BAD)


ONE = np.array([1, 1])
BAD_GRADIENTS: dict[str, tuple[Any, str]] = {
    "nothing": (None, "class gradients are of type NoneType"),
    "counts of another size": (ClassGradients(gradient_sum={}, counts=np.ones(3)), "has shape (3,)"),
    "negative counts": (ClassGradients(gradient_sum={}, counts=-ONE), "a negative number"),
    "more than asked": (ClassGradients(gradient_sum={}, counts=ONE * 10**6), "over more images"),
    "a class without its gradient": (ClassGradients(gradient_sum={0: np.ones(4)}, counts=ONE), "every class"),
    "no rows at all": (ClassGradients(gradient_sum=5, counts=ONE), "every class"),
    "wrong size": (ClassGradients(gradient_sum=np.ones((2, 3)), counts=ONE), "has shape (3,), not (4,)"),
    "NaN": (ClassGradients(gradient_sum=np.full((2, 4), np.nan), counts=ONE), "not finite"),
    "norms of a part": (ClassNorms(norms=np.full(2, 9.0), counts=ONE), "are of type ClassNorms"),
    "beyond all squares": (ClassGradients(gradient_sum=np.full((2, 4), 1e200), counts=ONE), "not finite"),
}


@pytest.mark.parametrize("case", BAD_GRADIENTS)
def test_bad_class_gradients_are_left_out_of_the_estimate(case: str) -> None:
    """The others' gradients are (5, 0, 0, 0) an image: both norms are 5. The upload still counts."""
    value, why = BAD_GRADIENTS[case]
    state, facts = play(sending("class_gradients", value), chosen=settings(estimates__class_norm="exact"))
    assert why in facts.failures[BAD]
    assert state.class_norm.tolist() == [5.0, 5.0]
    np.testing.assert_allclose(state.weights, 250 / 110)


def test_heads_of_another_size_than_most() -> None:
    """The server does not know how large a head is: two of three say 2 numbers."""

    def twist(request: Request, given: dict[int, Any]) -> None:
        for n, part in given.items():
            if request.kind == "class_gradients":
                size = 3 if n == BAD else 2
                rows = {c: np.full(size, 3.0) for c in part.gradient_sum}
                given[n] = ClassGradients(gradient_sum=rows, counts=part.counts)

    chosen = settings(estimates__class_norm="exact", estimates__class_norm_layers="head")
    state, facts = play(twist, chosen=chosen)
    assert "not (2,)" in facts.failures[BAD]
    np.testing.assert_allclose(state.class_norm, np.sqrt(18))


def test_huge_claims_do_not_break_the_draw_of_images() -> None:
    """Together they claim more than numpy can draw from."""

    def twist(request: Request, given: dict[int, Any]) -> None:
        if request.kind == "report":
            for n in (0, 2):
                counts = np.where(COUNTS[n] > 0, 10**9, 0)
                given[n] = Report(data_counts=counts, batch_counts=BATCHES[n], **NEEDS)
            given[BAD] = Report(data_counts=np.array([5 * 10**8] * 2), batch_counts=BATCHES[BAD], **NEEDS)

    state, facts = play(twist)
    assert facts.failures == {}
    assert np.isfinite(state.weights).all()


def test_a_client_can_fail_twice_in_a_round() -> None:
    def twist(request: Request, given: dict[int, Any]) -> None:
        sending("upload", None)(request, given)
        sending("class_gradients", None)(request, given)

    _, facts = play(twist)
    assert facts.failures[BAD].count(";") == 2  # class gradients are asked twice in a frame's first round


def all_send(kind: str, spoil: Callable[[Any], Any], clients: tuple[int, ...] = (0, 1, 2)) -> Twist:
    def twist(request: Request, given: dict[int, Any]) -> None:
        if request.kind == kind:
            for n in set(clients) & set(given):
                given[n] = spoil(given[n])

    return twist


NAN_REPORT = Report(data_counts=COUNTS[0], batch_counts=BATCHES[0], gradient_variance=np.nan)


def pooled_nan(request: Request, given: dict[int, Any]) -> None:
    if request.kind == "class_gradients":
        given.clear()
        given[ALL_CLIENTS] = ClassGradients(gradient_sum=np.full((2, 4), np.nan), counts=ONE)


def pooled_nan_norms(request: Request, given: dict[int, Any]) -> None:
    if request.kind == "class_gradients":
        given.clear()
        given[ALL_CLIENTS] = ClassNorms(norms=np.array([np.nan, 1.0]), counts=ONE)


@pytest.mark.parametrize(
    "norms", [np.full(2, 9.0), np.full(3, 9.0), None], ids=["sound", "of another size", "missing"]
)
def test_norms_for_all_clients(norms: Any) -> None:
    """9 is the norm of a sum over 3 images."""

    def twist(request: Request, given: dict[int, Any]) -> None:
        if request.kind == "class_gradients":
            given.clear()
            given[ALL_CLIENTS] = ClassNorms(norms=norms, counts=3 * ONE)

    before = new_state().class_norm
    state, facts = play(twist, chosen=settings(estimates__class_norm="exact"))
    sound = norms is not None and len(norms) == 2
    np.testing.assert_array_equal(state.class_norm, [3.0, 3.0] if sound else before)
    assert ("class norms" in str(facts.failures)) is not sound


@pytest.mark.parametrize(
    "twist",
    [
        all_send("report", lambda _: NAN_REPORT),
        all_send("upload", lambda w: w * np.nan),
        all_send("class_gradients", lambda g: replace(g, gradient_sum=np.full((2, 4), np.nan))),
        pooled_nan,
        pooled_nan_norms,
    ],
    ids=["reports", "uploads", "class gradients", "pooled class gradients", "pooled norms"],
)
def test_everybodys_numbers_gone_is_divergence(twist: Twist) -> None:
    state = new_state()
    with pytest.raises(DivergedError, match="training diverged in frame 0, round 1"):
        play(twist, state)
    assert state.weights.tolist() == [0.0] * 4
    assert (state.round, state.not_finite) == (0, frozenset())


def test_one_sound_answer_says_that_it_has_not_diverged() -> None:
    state, facts = play(all_send("upload", lambda w: w * np.nan, clients=(0, 1)))
    assert state.weights.tolist() == [3.0] * 4
    assert set(facts.failures) == {0, 1}


def test_a_broken_client_alone_does_not_end_a_run_and_two_do() -> None:
    """Only client 1 uploads anything, and that is NaN; then only client 2, likewise."""

    def only(client: int) -> Twist:
        def twist(request: Request, given: dict[int, Any]) -> None:
            if request.kind == "upload":
                for n in set(given) - {client}:
                    del given[n]
                given[client] = np.full(4, np.nan)

        return twist

    state, _ = play(only(1))
    play(only(1), state)
    assert (state.not_finite, state.rounds_done) == ({1}, 2)
    assert state.weights.tolist() == [0.0] * 4
    with pytest.raises(DivergedError):
        play(only(2), state)
    play(lambda *_: None, state)
    assert state.not_finite == frozenset()


def test_a_liar_counts_no_more_than_its_share() -> None:
    """Client 1 claims 10⁹; with 0.4 it counts as 0.4 (x + 90) = x: 60. (30·1 + 60·2 + 60·3)/150 = 2.2."""
    lie = reporting(data_counts=np.array([5 * 10**8] * 2))
    state, _ = play(lie, chosen=settings(server__max_sample_share=0.4))
    np.testing.assert_allclose(state.weights, 2.2)
    state, _ = play(lie)
    np.testing.assert_allclose(state.weights, 2.0, rtol=1e-6)


def test_a_liar_is_asked_for_no_more_images_than_its_share() -> None:
    asked: list[np.ndarray] = []

    def twist(request: Request, given: dict[int, Any]) -> None:
        reporting(data_counts=np.array([5 * 10**8] * 2))(request, given)
        if request.samples is not None:
            asked.append(request.samples)

    play(twist, chosen=settings(server__max_sample_share=0.4))
    assert asked[0][:, 0].tolist() == [30, 30, 0]  # it counts as 60, half of each class
    play(twist)
    assert asked[-1][BAD, 0] >= 63


@pytest.mark.parametrize(
    ("parts", "why"),
    [
        ({"released_mix": None}, "released_mix is missing"),
        ({"num_samples": None}, "num_samples is missing"),
        ({"num_samples": 0}, "num_samples=0"),
        ({"num_samples": -5}, "num_samples holds a negative number"),
        ({"num_samples": 10**12}, "num_samples holds more than"),
        ({"released_mix": np.array([0.5, 0.6])}, "released_mix is not a distribution"),
        ({"released_mix": np.array([1.5, -0.5])}, "released_mix is not a distribution"),
        ({"released_mix": np.array([np.nan, 1.0])}, "released_mix is not a distribution"),
        ({"released_mix": np.ones(3) / 3}, "released_mix has shape (3,)"),
    ],
)
def test_releases_are_checked_as_counts_are(parts: dict[str, Any], why: str) -> None:
    """With privacy on, true counts that somebody sends all the same are not looked at."""

    def twist(request: Request, given: dict[int, Any]) -> None:
        if request.kind == "report":
            for n in given:
                honest = {"num_samples": 10 * (n + 1), "released_mix": np.array([0.25, 0.75])}
                own = honest | parts if n == BAD else honest
                given[n] = Report(data_counts=COUNTS[n], **NEEDS, **own)

    state, facts = play(twist, chosen=settings(privacy__epsilon=1.0))
    assert why in facts.failures[BAD]
    np.testing.assert_allclose(state.weights, (10 * 1 + 30 * 3) / 40)
