"""The server's broadcast as part of the round's time: by hand, from the radio to the record."""

import dataclasses
import json
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fedteddi import InputError, example_round, make_scheduler, scheduler_names, simulate
from fedteddi.aggregation import FedAvg
from fedteddi.protocol.messages import Answers, Report, Request
from fedteddi.protocol.record import RoundRecord
from fedteddi.protocol.round_json.answer import answer_round, finish_s
from fedteddi.protocol.round_json.reports import read_round, write_round
from fedteddi.protocol.server import server_round
from fedteddi.protocol.state import RoundFacts, ServerState
from fedteddi.schedulers.everyone import Everyone
from fedteddi.schedulers.schedule import AnyScheduler, checked_choice, remembers
from fedteddi.schedulers.view import RoundView
from fedteddi.settings import Settings, parse_settings
from fedteddi.wireless.channels import Draws
from fedteddi.wireless.environment import Environment
from fedteddi.wireless.radio import Radio
from small_world import tiny_data, tiny_settings

# 1 W, N0 = 1e-9 W/Hz. A gain of 8e-7 carries 800 bit/s over 800 Hz (their noise is 8e-7 W: log2(1 + 1) = 1), and from
# a server of 2.5 W 2,000 bit/s over 2 kHz (2e-6 W of noise, 2e-6 W of signal).
GAIN, BITS = 8e-7, 4000.0
RADIO = {
    "power_dbm": 30.0,
    "noise_dbm_per_hz": -60.0,
    "downlink_hz": 2000.0,
    "downlink_power_dbm": 10 * math.log10(2500.0),
    "seconds_per_sample": 0.05,  # 60 samples: 3 s
    "samples_per_second": 1e15,
    "deadline_s": 10.0,
    "total_hz": 2500.0,
}


def test_the_broadcast_by_hand() -> None:
    """1 W over 1 kHz, 1 µW of noise: gains of 1e-6 and 3e-6 are 1,000 and 2,000 bit/s, so 4 and 2 s for 4,000 bits."""
    radio = Radio(power_dbm=-300.0, noise_dbm_per_hz=-60.0)  # the clients' power has no part in it
    gain = np.array([1e-6, 3e-6, 0.0])
    found = radio.broadcast_s(gain, model_bits=4000.0, downlink_hz=1000.0, downlink_power_dbm=30.0)
    np.testing.assert_allclose(found, [4.0, 2.0, np.inf], rtol=1e-12)


class Steady:
    """The same gain for everyone, but for a client that is out of reach."""

    def __init__(self, lost: int | None = None) -> None:
        self.lost = lost

    def gains(self, positions_m: np.ndarray, draws: Draws) -> np.ndarray:  # noqa: ARG002
        gain = np.full(len(positions_m), GAIN)
        gain[slice(0, 0) if self.lost is None else self.lost] = 0.0
        return gain


def settings(**radio: Any) -> Settings:
    return parse_settings(
        {"rounds": [3], "training": {"local_steps": 6, "batch_size": 10}, "radio": RADIO | radio}
    )


def played(chosen: Settings, rule: AnyScheduler, lost: int | None = None) -> RoundFacts:
    """A round of three clients of 20 samples each."""
    world = dataclasses.replace(Environment.make(chosen.radio, 0, 3, 60), channel=Steady(lost))
    state = ServerState(
        weights=np.zeros(4),
        class_norm=np.ones(2),
        classes_seen=np.zeros(2, dtype=bool),
        times_scheduled=np.zeros(3, dtype=np.int64),
    )

    def answer(request: Request) -> Answers:
        counts = {"data_counts": np.array([10, 10]), "batch_counts": np.array([30, 30])}
        given = {n: Report(**counts) if request.kind == "report" else np.ones(4) for n in request.clients}
        return Answers(given, {})

    game = server_round(state, chosen, rule, FedAvg(), world, model_bits=BITS)
    request = next(game)
    while True:
        try:
            request = game.send(answer(request))
        except StopIteration as stop:
            return stop.value


def test_a_round_with_a_downlink_by_hand() -> None:
    """2 s of download and 3 s of computing leave 5 s of 10: 800 bit/s, hence 800 Hz each, and all end at 10 s.

    Each sends for 5 s at 1 W and computes for 3 s at 1 W: 24 J. A report is 4 numbers, 128 bits, sent over a third of
    2,500 Hz: an SNR of 0.96, so 833.3 · log2(1.96) = 809.06 bit/s, three of them 0.4746 J.
    """
    facts = played(settings(), make_scheduler("random"))
    assert sorted(facts.schedule.clients) == [0, 1, 2]
    np.testing.assert_allclose(facts.schedule.bandwidth_hz, 800.0, rtol=1e-9)
    assert facts.download_s is not None
    np.testing.assert_allclose(facts.download_s, 2.0, rtol=1e-9)
    np.testing.assert_allclose(facts.compute_s, 3.0, rtol=1e-9)
    np.testing.assert_allclose(facts.finish_s, 10.0, rtol=1e-9)
    assert facts.round_s == pytest.approx(10.0)
    record = RoundRecord.of(facts, np.zeros(3), settings().radio, BITS)
    assert record.energy_j == pytest.approx(24.0 + 0.4746, abs=1e-4)
    assert record.as_json()["download_s"] == pytest.approx([2.0, 2.0, 2.0])
    assert RoundRecord.from_json(record.as_json()) == record


def test_without_one_the_same_round_has_two_seconds_more() -> None:
    """7 s are left: 571.4 bit/s, less than 800 Hz; and the record has no word about downloads."""
    off = settings(downlink_hz=0.0, downlink_power_dbm=46.0)
    facts = played(off, make_scheduler("random"))
    needed_hz = Radio(power_dbm=30.0, noise_dbm_per_hz=-60.0).needed_hz(
        np.array([GAIN]), np.array([3.0]), deadline_s=10.0, model_bits=BITS
    )
    np.testing.assert_allclose(facts.schedule.bandwidth_hz, needed_hz[0], rtol=1e-9)
    assert needed_hz[0] < 800.0
    assert facts.download_s is None
    assert "download_s" not in RoundRecord.of(facts, np.zeros(3), off.radio, BITS).as_json()


def test_whoever_is_out_of_reach_or_late_with_it_is_not_scheduled() -> None:
    """Client 1 hears nothing; at T_max = 5 s nobody has time left, and at 5.1 s nobody's channel carries 40 kbit/s."""
    assert sorted(played(settings(), make_scheduler("random"), lost=1).schedule.clients) == [0, 2]
    for deadline_s in (5.0, 5.1):
        facts = played(settings(deadline_s=deadline_s), make_scheduler("random"))
        assert facts.schedule.clients == ()
        assert facts.round_s == deadline_s


def test_spare_band_is_shared_from_the_time_on_when_all_are_ready() -> None:
    """2,500 Hz for three: 833.3 Hz each, 833.3 · log2(1.96) = 809.06 bit/s, 4.944 s after second 5."""
    facts = played(settings(), make_scheduler("random", spare_band="share"))
    np.testing.assert_allclose(facts.finish_s, 5.0 + 4.94401, atol=1e-4)


def test_the_bound_without_a_band_has_no_downlink_either() -> None:
    facts = played(settings(), Everyone())
    assert facts.download_s is None
    np.testing.assert_allclose(facts.finish_s, 3.0, rtol=1e-9)


def test_the_servers_power_without_a_downlink_has_no_effect_and_is_refused() -> None:
    with pytest.raises(
        InputError, match=r"radio.downlink_power_dbm=30 has no effect without radio.downlink_hz"
    ):
        simulate(tiny_settings(radio__downlink_power_dbm=30.0), data=tiny_data())


def test_a_run_with_a_downlink_records_it_and_needs_more_band() -> None:
    """The plain run's t_cp stay; every download is that of its client's gain; nobody ends after T_max."""
    chosen = tiny_settings(rounds=[3, 0, 0], radio__downlink_hz=1e5)
    records = simulate(chosen, data=tiny_data()).records
    plain = simulate(tiny_settings(rounds=[3, 0, 0]), data=tiny_data()).records
    assert all(record.download_s is None for record in plain)
    assert records[0] == plain[0]
    for record, other in zip(records[1:4], plain[1:4], strict=True):
        assert record.download_s is not None
        assert len(record.download_s) == len(record.clients) > 0
        assert all(0 < down < 1 for down in record.download_s)
        assert max(record.finish_s) <= chosen.radio.deadline_s * (1 + 1e-9)
        both = set(record.clients) & set(other.clients)
        for n in both:
            here, there = list(record.clients).index(n), list(other.clients).index(n)
            assert record.compute_s[here] == other.compute_s[there]
            assert record.bandwidth_hz[here] > other.bandwidth_hz[there]


# --- a round as JSON


def with_downloads(change: Callable[[np.ndarray], None] = lambda _: None) -> RoundView:
    """The example round, with downloads of 0.1 s."""
    view = example_round(0)
    download_s = np.full(view.num_clients, 0.1)
    change(download_s)
    assert view.compute_s is not None
    needed_hz = Radio().needed_hz(
        view.channel_gain, download_s + view.compute_s, deadline_s=1.0, model_bits=float(view.model_bits or 0)
    )
    return dataclasses.replace(view, download_s=download_s, needed_hz=needed_hz)


def delay_2_and_3(download_s: np.ndarray) -> None:
    compute_s = example_round(0).compute_s
    assert compute_s is not None
    download_s[2:4] = np.inf, 1.1 - compute_s[3]


def test_a_round_with_downloads_is_read_as_it_was_written() -> None:
    view = with_downloads(delay_2_and_3)
    text = write_round(view)
    assert json.loads(text)["download_s"][2] is None
    read = read_round(text).view
    np.testing.assert_array_equal(read.download_s, view.download_s)
    np.testing.assert_array_equal(read.needed_hz, view.needed_hz)
    computed = read_round(write_round(view, Radio(), with_needed_hz=False)).view
    np.testing.assert_allclose(computed.needed_hz, view.needed_hz, rtol=1e-12)


def test_a_schedule_of_it_ends_in_time_and_says_who_downloads_too_long() -> None:
    round = read_round(write_round(with_downloads(delay_2_and_3), Radio()))
    rule = make_scheduler("best-channel")
    schedule = rule.select(round.view, np.random.default_rng(0))  # type: ignore[call-arg]
    answer = answer_round(round, rule, schedule, 0)
    assert answer.finish_s is not None
    np.testing.assert_allclose(answer.finish_s, 1.0, rtol=1e-9)
    assert answer.infeasible[2] == "out of reach: the model never arrives"
    assert answer.infeasible[3] == "downloads and computes for 1.1 s, the deadline is 1 s"
    assert answer.warnings == ()


@pytest.mark.parametrize("name", scheduler_names())
def test_every_scheduler_keeps_to_the_time_that_downloads_leave(name: str) -> None:
    """Whoever reads `compute_s` where `ready_s` is meant grants too little, or ends too late."""
    view, rule = with_downloads(delay_2_and_3), make_scheduler(name)
    state = rule.initial_state(view.num_clients) if remembers(rule) else None
    chosen, _ = checked_choice(rule, view, np.random.default_rng(0), state)
    assert chosen.clients
    done_s = finish_s(view, chosen)
    assert done_s is not None
    assert max(done_s) <= 1.0 + 1e-9


def test_ready_is_download_and_computing() -> None:
    view, plain = with_downloads(), example_round(0)
    assert view.compute_s is not None
    np.testing.assert_array_equal(view.ready_s, 0.1 + view.compute_s)
    np.testing.assert_array_equal(plain.ready_s, plain.compute_s)
    assert dataclasses.replace(plain, compute_s=None).ready_s is None


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"download_s": np.full(30, -0.1)}, r"download_s\[0\]=-0.1: give a number, at least 0, or inf"),
        ({"download_s": np.full(30, np.nan)}, r"download_s\[0\]=nan"),
        ({"download_s": np.ones(2)}, "download_s has 2 entries: give 30"),
        ({"download_s": np.zeros(30), "compute_s": None}, "download_s needs compute_s, which is missing"),
        (
            {"download_s": np.ones(30)},
            r"download_s \+ compute_s\[\d+\]=1\..* leaves no time before deadline_s=1",
        ),
    ],
)
def test_impossible_downloads_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        dataclasses.replace(example_round(0), **changes)
