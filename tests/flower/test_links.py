"""Messages in bytes as they were sent, and links that are measured by their uploads."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import Message

from fedteddi import InputError, Settings
from fedteddi.flower import play
from fedteddi.flower.links import MOST_BITS_PER_HZ, Links, gain_of_rate
from fedteddi.flower.records import content_bytes, settings_of
from fedteddi.protocol.messages import SKETCH_SIZE, Report
from fedteddi.settings import RadioSettings
from fedteddi.wireless.radio import Radio, watts_from_dbm
from fedteddi.wireless.uplink import rate_bps
from memory_fleet import Clock, MemoryGrid, patient
from small_world import tiny_data

KIND = {"train.report": "report", "query.upload": "upload", "query.class_gradients": "class_gradients"}


def played(grid: MemoryGrid, settings: Settings) -> Any:
    return play(grid, settings, say=lambda _: None, data=tiny_data())  # type: ignore[arg-type]


class Listening(MemoryGrid):
    """Adds up what nodes answer, by kind of message, with the lengths of the arrays' own buffers."""

    def __init__(self, *world: Any) -> None:
        super().__init__(*world)
        self.heard: dict[str, int] = {}
        self.numbers: dict[str, int] = {}

    def _push(self, message: Message) -> str:
        number, kind = super()._push(message), message.metadata.message_type
        reply = self.waiting.get(number)
        if kind in KIND and reply is not None:
            arrays = [a for record in reply.content.array_records.values() for a in record.values()]
            self.heard[KIND[kind]] = self.heard.get(KIND[kind], 0) + sum(len(a.data) for a in arrays)
            count = sum(math.prod(a.shape) for a in arrays)
            self.numbers[KIND[kind]] = self.numbers.get(KIND[kind], 0) + count
        return number


def test_a_fleet_sends_sketches_unless_told_otherwise(tmp_path: Path) -> None:
    """Every class gradient that travels has 509 numbers; with `full` it has as many as the head: 8·8·8·5 + 5 = 2565."""
    settings = patient(rounds=[1], fleet__class_gradients="sketch")
    rows = {}
    for how in ("sketch", "full"):
        grid = Listening(settings.changed(fleet__class_gradients=how), tmp_path / how)
        record = played(grid, settings.changed(fleet__class_gradients=how))
        assert record.settings.estimates.class_gradients == how
        rows[how] = grid.numbers["class_gradients"]
    assert rows["sketch"] % SKETCH_SIZE == 0
    assert rows["sketch"] * 2565 == rows["full"] * SKETCH_SIZE  # as many gradients were sent
    assert settings_of({}).estimates.class_gradients == "sketch"
    assert settings_of({"fleet.class-gradients": "full"}).estimates.class_gradients == "full"


def test_bytes_are_recorded_as_they_were_sent(tmp_path: Path) -> None:
    """Arrays: their buffers, and a key each; the rest of a report is a few numbers of 8 bytes."""
    settings = patient(rounds=[1], fleet__class_gradients="sketch")
    grid = Listening(settings, tmp_path)
    record = played(grid, settings).records[-1]
    weights = 8 * 9 + 8 + 2 * 8 + 2565  # convolution, GroupNorm, head
    assert set(record.message_bytes) == {"report", "upload", "class_gradients"}
    uploads = len(record.clients)
    assert grid.numbers["upload"] == uploads * weights
    assert record.message_bytes["upload"] == grid.heard["upload"] + uploads * len("vector")
    # A report: two histograms of 5 classes and a variance (8 bytes each), and the names of these three parts.
    names = len("data_counts") + len("batch_counts") + len("gradient_variance")
    assert record.message_bytes["report"] == 6 * (8 * 11 + names)
    assert record.message_bytes["class_gradients"] >= grid.heard["class_gradients"] > 0


class Slow(MemoryGrid):
    """Uploads take as long as their device's link needs; the clock stands still otherwise."""

    def __init__(self, settings: Settings, folder: Path, clock: Clock, bytes_per_s: dict[int, float]) -> None:
        super().__init__(settings, folder)
        self.clock, self.bytes_per_s = clock, bytes_per_s
        self.due: dict[str, float] = {}
        self.held_s: list[float] = []

    def _push(self, message: Message) -> str:
        before = self.clock.now
        number = super()._push(message)
        held = self.clock.now - before  # what the app slept
        self.clock.now = before  # devices wait side by side
        if message.metadata.message_type == "query.upload":
            rate = self.bytes_per_s[message.metadata.dst_node_id - 100]
            self.due[number] = before + held + content_bytes(self.waiting[number].content) / rate
            self.held_s.append(held)
        return number

    def pull_messages(self, message_ids: Any) -> Any:
        return super().pull_messages([n for n in message_ids if self.due.get(n, 0.0) <= self.clock.now])


@pytest.mark.parametrize("pace", [False, True])
def test_a_link_is_measured_by_its_uploads(pace: bool, tmp_path: Path, clock: Clock) -> None:
    """Rates of 5 to 10 kB/s are found within the 0.1 s at which answers are looked for, paced or not."""
    settings = patient(
        rounds=[2],
        scheduler="random",
        radio__total_hz=1e9,
        radio__deadline_s=20.0,
        fleet__uplink="measured",
        fleet__pace=pace,
    )
    rates = {n: 5e3 + 1e3 * n for n in range(6)}
    grid = Slow(settings, tmp_path, clock, rates)
    record = played(grid, settings).records[1]
    assert len(record.clients) == 6
    size = record.message_bytes["upload"] / 6
    for number, rate in rates.items():
        seconds = size * 8 / record.uplink_bps[str(number)]
        assert size / rate <= seconds + 1e-9 <= size / rate + 0.1 + 1e-6
    if pace:  # each for as long as its share of the band takes: until the deadline, but for computing
        assert grid.held_s[:6] == pytest.approx(
            [done - own for done, own in zip(record.finish_s, record.compute_s, strict=True)]
        )
    else:
        assert grid.held_s == [0.0] * 12


def test_bandwidth_follows_the_measured_rate(tmp_path: Path, clock: Clock) -> None:
    """Round 1 goes by the model of the cell; in round 2 B* is what Shannon's rate, at the measured gain, asks for."""
    settings = patient(
        rounds=[2], scheduler="random", radio__total_hz=1e6, radio__deadline_s=4.0, fleet__uplink="measured"
    )
    rates = {n: 20e3 + 10e3 * n for n in range(6)}
    _, first, second = played(Slow(settings, tmp_path, clock, rates), settings).records
    measured = {int(n): bps for n, bps in first.uplink_bps.items()}
    radio = Radio()
    power_w, noise = watts_from_dbm(radio.power_dbm), watts_from_dbm(radio.noise_dbm_per_hz)
    both = [n for n in second.clients if n in measured]
    assert len(both) >= 3
    for number in both:
        place = second.clients.index(number)
        left_s = second.finish_s[place] - second.compute_s[place]
        gain = np.array([gain_of_rate(measured[number], settings.radio)])
        rate = rate_bps(second.bandwidth_hz[place], power_w, gain, noise)[0]
        assert rate * left_s == pytest.approx(32 * 2661, rel=1e-6)  # D_s, 2661 numbers
    order = sorted(both, key=lambda n: measured[n] * (4.0 - second.compute_s[second.clients.index(n)]))
    bands = [second.bandwidth_hz[second.clients.index(n)] for n in order]
    assert bands == sorted(bands, reverse=True)


@pytest.mark.parametrize("bps", [1.0, 1e4, 2e6, 3e7])
def test_the_gain_of_a_rate_gives_that_rate(bps: float) -> None:
    settings = RadioSettings()
    gain = np.array([gain_of_rate(bps, settings)])
    power_w, noise = watts_from_dbm(settings.power_dbm), watts_from_dbm(settings.noise_dbm_per_hz)
    assert rate_bps(settings.total_hz, power_w, gain, noise)[0] == pytest.approx(bps, rel=1e-9)


def test_whoever_needs_all_the_time_that_is_left_needs_all_the_band() -> None:
    """D_s = rate × time left: B* = B. Beyond 100 bit/s/Hz a gain is cut off, and B* stays a number above 0."""
    settings, radio, model_bits = RadioSettings(), Radio(), 1e6
    gains = np.array([gain_of_rate(bps, settings) for bps in (2e6, 4e6, 1e15)])
    assert gains[2] == gain_of_rate(MOST_BITS_PER_HZ * settings.total_hz, settings)
    needed = radio.needed_hz(gains, np.full(3, 0.5), deadline_s=1.0, model_bits=model_bits)
    assert needed[0] == pytest.approx(settings.total_hz, rel=1e-9)
    assert 0 < needed[2] < needed[1] < needed[0] / 2


def test_times_are_smoothed_and_short_ones_are_not_believed() -> None:
    """1000 bytes in 1 s, then in 3 s: 0.7·1 + 0.3·3 = 1.6 s, so 5000 bit/s; a time of 0 s counts as 0.1 s."""
    links = Links(RadioSettings())
    assert links.bps(0) == 0.0
    links.note(0, 1000, 1.0)
    links.note(0, 1000, 3.0)
    assert links.bps(0) == pytest.approx(5000.0)
    links.note(1, 1000, 0.0)
    assert links.bps(1) == pytest.approx(80_000.0)
    links.note(2, 0, 1.0)
    assert 2 not in links.s_per_bit


def test_a_stated_gain_comes_first() -> None:
    links = Links(RadioSettings())
    links.note(0, 1000, 1.0)
    assert links.completed(0, Report(channel_gain=1e-9)).channel_gain == 1e-9
    assert links.completed(0, Report()).channel_gain == gain_of_rate(8000.0, links.radio)
    assert links.completed(1, Report()).channel_gain is None


def test_an_old_rate_is_forgotten() -> None:
    """Else a device that is too slow to be scheduled would never be measured again: it counts for ten reports."""
    links = Links(RadioSettings())
    links.note(0, 1000, 1.0)
    gains = [links.completed(0, Report()).channel_gain for _ in range(12)]
    assert gains == [gain_of_rate(8000.0, links.radio)] * 10 + [None] * 2
    links.note(0, 1000, 2.0)
    assert links.completed(0, Report()).channel_gain == gain_of_rate(4000.0, links.radio)


def test_a_hold_must_fit_into_the_upload(tmp_path: Path) -> None:
    settings = patient(rounds=[1], fleet__pace=True, fleet__upload_s=0.5)
    with pytest.raises(
        InputError, match=r"fleet.pace=true holds uploads back .* raise fleet.upload_s above it"
    ):
        played(MemoryGrid(settings, tmp_path), settings)
