"""σ̂ from some of the clients: who is asked, what comes of it, and what a missing variance costs."""

import math
from typing import Any

import numpy as np
import pytest

from fedteddi import InputError, make_scheduler
from fedteddi.aggregation import FedAvg
from fedteddi.protocol.checks import received_reports
from fedteddi.protocol.gradient_std import measured_gradient_std, who_measures
from fedteddi.protocol.messages import Answers, Report, Request
from fedteddi.protocol.server import server_round
from fedteddi.protocol.state import RoundFacts, ServerState
from fedteddi.settings import Settings, override, parse_settings, read_settings, write_settings
from fedteddi.simulation.play import RunOptions, play_runs
from fedteddi.wireless.environment import Environment
from small_world import tiny_data, tiny_settings

HELD = np.array([[30, 0], [10, 10], [0, 60]])  # D = 30, 20, 60
TRAINED = HELD * np.array([[2], [3], [1]])  # 60 each
VARIANCE = {0: 1.0, 1: 4.0, 2: 9.0}


def settings(clients: Any = 2, **changes: Any) -> Settings:
    return parse_settings(
        {
            "rounds": [3],
            "training": {"local_steps": 6, "batch_size": 10},
            "radio": {"total_hz": 1e12, "deadline_s": 100.0},
            "estimates": {"gradient_std_clients": clients, "first_class_norm": "ones", "class_norm_every": 9},
        }
    ).changed(**changes)


def reports(request: Request, variance: dict[int, Any]) -> Answers:
    return Answers(
        {
            n: Report(data_counts=HELD[n], batch_counts=TRAINED[n], gradient_variance=variance.get(n))
            for n in request.clients
        },
        {},
    )


def new_state() -> ServerState:
    return ServerState(
        weights=np.zeros(4),
        class_norm=np.ones(2),
        classes_seen=np.zeros(2, dtype=bool),
        times_scheduled=np.zeros(3, dtype=np.int64),
    )


def play(
    state: ServerState, chosen: Settings, variance: dict[int, Any], *, unasked: bool = False
) -> tuple[RoundFacts, frozenset[int] | None]:
    """One round of clients that send the variances they are asked for, or all they have."""
    world = Environment.make(chosen.radio, 0, 3, 60)
    game = server_round(state, chosen, make_scheduler("fedteddi"), FedAvg(), world, model_bits=1000.0)
    request = next(game)
    asked = request.variance_from
    sent = {n: v for n, v in variance.items() if unasked or asked is None or n in asked}
    try:
        upload = game.send(reports(request, sent))
        game.send(Answers({n: np.ones(4) for n in upload.clients}, {}))
    except StopIteration as stop:
        return stop.value, asked
    raise AssertionError("one round has no third request")


@pytest.mark.parametrize("wrong", [0, -3, 2.0, True, "some", [3]])
def test_only_all_or_a_whole_number_of_clients(wrong: Any) -> None:
    with pytest.raises(InputError, match=r"estimates\.gradient_std_clients=.*: give \"all\", or how many"):
        Settings().changed(estimates__gradient_std_clients=wrong)


def test_the_setting_travels_as_text() -> None:
    for word, value in (("30", 30), ("all", "all")):
        chosen = override(Settings(), [f"estimates.gradient_std_clients={word}"])
        assert chosen.estimates.gradient_std_clients == value
        assert read_settings(write_settings(chosen), "here") == chosen


def test_the_draw_is_keyed_and_complete() -> None:
    """Two of three clients: other seeds, frames and rounds draw others, the same key the same ones."""
    drawn = [who_measures(settings(), seed, frame, 1, 3) for seed in range(8) for frame in range(8)]
    assert drawn == [who_measures(settings(), seed, frame, 1, 3) for seed in range(8) for frame in range(8)]
    assert set(drawn) == {frozenset(pair) for pair in ((0, 1), (0, 2), (1, 2))}
    for everyone in (3, 4, "all"):
        assert who_measures(settings(everyone), 0, 0, 1, 3) is None


def test_every_client_is_drawn_equally_often() -> None:
    """30 of 100 in 400 rounds: each 120 times, with a standard deviation of √(400 · 0.3 · 0.7) = 9.2."""
    chosen = settings(30)
    times = np.zeros(100)
    for number in range(1, 401):
        times[sorted(who_measures(chosen, 0, 1, number, 100) or ())] += 1
    assert times.sum() == 400 * 30
    assert np.abs(times - 120).max() < 5 * 9.2


def test_sigma_is_unbiased_where_clients_hold_the_same() -> None:
    """Equal D_n: the mean of σ̂² over 400 draws of 10 of 40 is the mean variance, within five standard errors."""
    variance = np.random.default_rng(0).gamma(2.0, size=40)
    held = np.tile([6, 6], (40, 1))
    parts = {
        n: Report(data_counts=row, batch_counts=row * 5, gradient_variance=float(variance[n]))
        for n, row in enumerate(held)
    }
    found = []
    for number in range(1, 401):
        asked = who_measures(settings(10), 0, 0, number, 40)
        request = Request(
            kind="report",
            frame=0,
            round=number,
            weights=np.zeros(1),
            clients=tuple(range(40)),
            variance_from=asked,
        )
        received, _ = received_reports(Answers(parts, {}), request, 2, settings(10))
        assert received is not None
        found.append((measured_gradient_std(received, asked, settings(10)) or 0.0) ** 2)
    error = variance.std(ddof=1) * math.sqrt((1 / 10 - 1 / 40) / 400)
    assert abs(np.mean(found) - variance.mean()) < 5 * error


def test_sigma_is_pooled_over_those_asked() -> None:
    """σ² = Σ D_n var_n / Σ D_n over the two; the third is a normal report, whatever variance it sends unasked."""
    for unasked in (False, True):
        state = new_state()
        facts, asked = play(state, settings(), VARIANCE, unasked=unasked)
        assert asked is not None
        assert len(asked) == 2
        total = HELD.sum(axis=1)
        expected = sum(total[n] * VARIANCE[n] for n in asked) / sum(total[n] for n in asked)
        assert facts.gradient_std == pytest.approx(math.sqrt(expected))
        assert facts.reported == (0, 1, 2)
        assert facts.failures == {}


@pytest.mark.parametrize("nonsense", ["high", float("nan"), -1.0, 10**400])
def test_what_an_unasked_client_says_of_its_variance_is_not_looked_at(nonsense: Any) -> None:
    asked = play(new_state(), settings(), VARIANCE)[1] or frozenset()
    said = VARIANCE | {n: nonsense for n in range(3) if n not in asked}
    facts, _ = play(new_state(), settings(), said, unasked=True)
    assert facts.failures == {}
    assert facts.gradient_std == play(new_state(), settings(), VARIANCE)[0].gradient_std


def test_an_asked_client_without_a_variance_is_rejected() -> None:
    asked = sorted(play(new_state(), settings(), VARIANCE)[1] or ())
    facts, _ = play(new_state(), settings(), {asked[0]: VARIANCE[asked[0]]})
    assert facts.failures == {asked[1]: "gradient_variance is missing"}
    assert facts.gradient_std == pytest.approx(math.sqrt(VARIANCE[asked[0]]))


def test_the_last_sigma_stays_where_nobody_sends_one() -> None:
    state = new_state()
    facts, _ = play(state, settings(), {})
    assert facts.gradient_std == 0.0  # before the first
    before = play(state, settings(), VARIANCE)[0].gradient_std
    after, asked = play(state, settings(), {})
    assert before
    assert after.gradient_std == before
    assert set(after.failures) == asked


def test_a_large_client_is_bounded_among_those_asked() -> None:
    """`server.max_sample_share` = 0.5: of two clients nobody counts for more than the other."""
    facts, asked = play(new_state(), settings(server__max_sample_share=0.5), VARIANCE)
    assert facts.gradient_std == pytest.approx(math.sqrt(np.mean([VARIANCE[n] for n in asked or ()])))


def records(chosen: Settings, **how: Any) -> list[dict[str, Any]]:
    found = play_runs({"": chosen}, RunOptions(data=tiny_data(), **how))
    return [record.as_json() for record in found[""].records]


@pytest.mark.parametrize("scheduler", ["fedteddi", "fedcgd"])
def test_as_many_as_there_are_equals_all(scheduler: str) -> None:
    chosen = tiny_settings(scheduler=scheduler)
    everyone = records(chosen)
    assert records(chosen.changed(estimates__gradient_std_clients=6)) == everyone
    assert records(chosen.changed(estimates__gradient_std_clients=2)) != everyone


def test_the_scheduler_has_no_say_in_who_measures() -> None:
    """Two rules that start from one model measure the same σ̂ in their first round."""
    chosen = tiny_settings(estimates__gradient_std_clients=2)
    first = [
        records(chosen.changed(scheduler=name, scheduler_options=options))[1]["gradient_std"]
        for name, options in (("fedteddi", {}), ("fedcgd", {}), ("fedteddi", {"search": "refined"}))
    ]
    assert first[0] == first[1] == first[2] > 0
