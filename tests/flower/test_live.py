"""Devices whose data change by themselves: what the server makes of it, and when frames begin."""

from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from flwr.app import Message, MetricRecord, RecordDict

from fedteddi import InputError, Settings
from fedteddi.flower import client_app, play
from fedteddi.flower.device import Holding, live_holding
from fedteddi.flower.frames import FrameEnds, changed_share
from fedteddi.learning.datasets.dataset import Dataset
from fedteddi.protocol.state import ServerState
from fedteddi.results.reading import read_run
from fedteddi.settings import FleetSettings
from fedteddi.simulation import known
from memory_fleet import Clock, MemoryGrid, patient
from small_world import tiny_data

NUM_CLASSES = 5


def with_classes(counts: list[int]) -> Dataset:
    """The tiny data of a device that holds so many samples of each class."""
    data = tiny_data()
    some = np.concatenate([np.flatnonzero(data.train_labels.numpy() == c)[:n] for c, n in enumerate(counts)])
    return replace(data, train_images=data.train_images[some], train_labels=data.train_labels[some])


class Living(MemoryGrid):
    """Device n holds `counts(n, frame, round)` when it is asked about that round; round 0: as a frame begins."""

    def __init__(self, settings: Settings, folder: Path, counts: Any) -> None:
        super().__init__(settings, folder)
        self.counts, self.now, self.asked = counts, (0, 0), 0
        self.app = client_app(self._holding)

    def _holding(self, _settings: Settings, number: int) -> Holding:
        self.asked += 1
        return live_holding(number, with_classes(self.counts(number, *self.now)))

    def _push(self, message: Message) -> str:
        asked = message.content.config_records.get("asked", {})
        if "frame" in asked:
            self.now = (asked["frame"], asked.get("round", 0))
        return super()._push(message)


def living(**changes: Any) -> Settings:
    return patient(**{"fleet__data": "reported", "radio__total_hz": 1e9, "scheduler": "random"} | changes)


def played(grid: MemoryGrid, settings: Settings, **more: Any) -> Any:
    return play(grid, settings, **{"say": lambda _: None, "data": tiny_data()} | more)  # type: ignore[arg-type]


def rounds_of(record: Any) -> list[tuple[int, int]]:
    return [(one.frame, one.round) for one in record.records]


def test_evaluation_follows_what_devices_report(tmp_path: Path) -> None:
    """The scenario says classes 0 to 2; devices hold 3 and 4, in frame 1 two of them class 0 too.

    Counts: frame 0 6·(0,0,0,10,20), so shares 1/3 and 2/3; frame 1 with twice 30 of class 0: (60, 60, 120)/240.
    """

    def counts(number: int, frame: int, _round: int) -> list[int]:
        return [30 if frame and number < 2 else 0, 0, 0, 10, 20]

    settings = living(rounds=[1, 2], scenario__arrivals=[], fleet__max_sample_share=1.0)
    record = played(Living(settings, tmp_path, counts), settings)
    assert rounds_of(record) == [(0, 0), (0, 1), (1, 0), (1, 1), (1, 2)]
    for one in record.records:
        accuracy = np.array(one.class_accuracy)
        held = np.array([0, 0, 0, 10, 20]) if one.frame == 0 else np.array([60, 0, 0, 60, 120])
        seen = held > 0
        assert one.balanced == pytest.approx(accuracy[seen].mean())
        assert one.global_ == pytest.approx(accuracy @ held / held.sum())
    assert [one.scheduled_new for one in record.records if one.round] == [0, 2, 2]
    assert all(len(one.clients) == 6 for one in record.records if one.round)


def change_at(changing: int, frame: int, round: int) -> Any:
    """From that round on, the first `changing` devices hold class 3, which nobody held before."""

    def counts(number: int, *now: int) -> list[int]:
        new = number < changing and now >= (frame, round)
        return [12, 12, 0, 20 if new else 0, 0]

    return counts


@pytest.mark.parametrize(
    ("changing", "expected"),
    [
        (2, [(0, 0), (0, 1), (0, 2), (0, 3), (1, 0), (1, 1), (1, 2)]),
        (1, [(0, 0), (0, 1), (0, 2), (0, 3), (0, 4), (0, 5), (1, 0), (1, 1), (1, 2)]),
    ],
)
def test_a_frame_begins_when_enough_devices_have_changed(
    changing: int, expected: list[tuple[int, int]], tmp_path: Path
) -> None:
    """Data change in round 3: two of six are above a quarter, one is not, and the frame's five rounds are played.

    Whoever changed has drifted since the old frame began: from (½, ½) to (12, 12, 20)/44, which is 2·20/44 in L1.
    """
    settings = living(rounds=[5, 2], scenario__arrivals=[], fleet__frames="detected", scheduler="fedteddi")
    grid = Living(settings, tmp_path, change_at(changing, 0, 3))
    record = played(grid, settings)
    assert rounds_of(record) == expected
    last = record.records[expected.index((1, 0)) - 1]
    assert last.is_evaluated  # the frame's last model may be its best
    assert record.records[expected.index((1, 0)) + 1].objective["drift"] > 0
    before = [one for one in record.records if one.frame == 0 and one.round]
    assert [one.objective["drift"] for one in before] == [0.0] * len(before)


def test_what_has_drifted_is_measured_since_the_frame_began() -> None:
    state = ServerState(
        weights=np.zeros(1),
        class_norm=np.ones(2),
        classes_seen=np.ones(2, bool),
        times_scheduled=np.zeros(3, int),
    )
    state.hear([0, 1], np.array([[1.0, 0.0], [0.5, 0.5]]), np.array([4, 6]))
    state.hear([0, 2], np.array([[0.0, 1.0], [1.0, 0.0]]), np.array([8, 2]))
    assert changed_share(state.first_mix, state.current_mix, 0.1) == pytest.approx(1 / 3)
    assert state.num_samples == {0: 8, 1: 6, 2: 2}
    state.enter_frame(1)
    assert {n: mix.tolist() for n, mix in state.previous_mix.items()} == {0: [1, 0], 1: [0.5, 0.5], 2: [1, 0]}
    assert (state.first_mix, state.current_mix) == ({}, {})
    assert state.seen_before == {0, 1}


@pytest.mark.parametrize(("moved", "counted"), [(0.099, False), (0.1001, True)])
def test_a_mix_has_changed_from_a_distance_on(moved: float, counted: bool) -> None:
    first, now = {0: np.array([0.5, 0.5])}, {0: np.array([0.5 + moved / 2, 0.5 - moved / 2])}
    assert changed_share(first, now, 0.1) == float(counted)
    assert changed_share({}, now, 0.1) == 0.0


def test_frames_begin_on_a_clock(tmp_path: Path, clock: Clock) -> None:
    """Every line that is printed takes 10 s here, and the frame's own is the first: after round k it is 10k s old.

    25 s are over after round 3; the last frame has all its rounds.
    """

    def say(_line: str) -> None:
        clock.now += 10.0

    settings = living(rounds=[9, 9, 4], scenario__arrivals=[], fleet__frames="clock", fleet__frame_s=25.0)
    grid = Living(settings, tmp_path, lambda *_: [12, 12, 0, 0, 0])
    record = played(grid, settings, say=say, out=tmp_path / "run")
    kept = read_run(tmp_path / "run")
    assert kept.finished
    assert kept.settings.rounds == record.settings.rounds == [3, 3, 4]  # what tables count by
    lengths = [sum(one.frame == frame and one.round > 0 for one in record.records) for frame in range(3)]
    assert lengths == [3, 3, 4]


def test_a_scheduled_frame_never_ends_early(clock: Clock) -> None:
    ends, state = FrameEnds(FleetSettings()), SimpleNamespace(first_mix={}, current_mix={})
    ends.hear(0)
    clock.now += 1e9
    assert not ends.over(state)  # type: ignore[arg-type]


def test_an_interruption_forgets_no_baseline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stopped in round 2, before the change: the resumed server sees it all the same, against the old baseline."""
    monkeypatch.setattr("fedteddi.simulation.session.CHECKPOINT_EVERY_S", 0.0)
    settings = living(rounds=[5, 2], scenario__arrivals=[], fleet__frames="detected")
    counts = change_at(2, 0, 3)
    whole = played(Living(settings, tmp_path / "a", counts), settings)

    def stop(line: str) -> None:
        if line.startswith("frame 0 round 2"):
            raise KeyboardInterrupt

    for say in (stop, lambda _: None):
        with suppress(KeyboardInterrupt):
            grid = Living(settings, tmp_path / "b", counts)
            parts = played(grid, settings, say=say, out=tmp_path / "run", resume=True)
    assert rounds_of(parts) == rounds_of(whole)
    assert [one.scheduled_new for one in parts.records] == [one.scheduled_new for one in whole.records]
    assert [one.class_accuracy for one in parts.records] == [one.class_accuracy for one in whole.records]


def test_a_living_device_is_asked_in_every_round(tmp_path: Path) -> None:
    """Six devices: once when each is made, with its first message, then for the frame's mix and each of two rounds."""
    settings = living(rounds=[2], scenario__arrivals=[])
    grid = Living(settings, tmp_path, lambda *_: [12, 12, 0, 0, 0])
    played(grid, settings)
    assert grid.asked == 6 * (1 + 1 + 2)


def test_scaling_comes_from_the_server(tmp_path: Path) -> None:
    """Devices that scale their images otherwise train as those that scale them as the server does."""
    settings = patient(rounds=[2], scheduler="fedteddi")
    found = []
    for name, off in (("same", 0.0), ("other", 40.0)):
        grid, app_data = MemoryGrid(settings, tmp_path / name), tiny_data()
        own = replace(app_data, mean=app_data.mean + off, std=app_data.std * (1 + off))

        def holding(_settings: Settings, number: int, own: Dataset = own) -> Holding:
            return live_holding(number, own)

        grid.app = client_app(holding)
        found.append(played(grid, settings))
    one, other = ([r.class_accuracy for r in record.records] for record in found)
    assert one == other
    assert torch.equal(found[0].trained.vector, found[1].trained.vector)
    assert len({tuple(accuracy) for accuracy in one}) > 1


@pytest.mark.parametrize("samples", [0, 2**40, 0.5, None])
def test_an_impossible_number_of_samples_is_not_believed(samples: Any, tmp_path: Path) -> None:
    """The claim of one device about what it holds as the frame begins; its report in round 1 is good."""
    settings = living(rounds=[1], scenario__arrivals=[])
    mix: dict[str, Any] = {"mix": [1.0, 0.0, 0.0, 0.0, 0.0]} | (
        {} if samples is None else {"num_samples": samples}
    )
    sent = RecordDict({"mix": MetricRecord(mix)})
    grid = Living(settings, tmp_path, lambda *_: [12, 12, 0, 0, 0])
    grid.broken = lambda *asked: sent if asked == (102, "query.mix") else None
    record = played(grid, settings).records[-1]
    assert list(record.failures) == ["2"]
    why = "its answer cannot be read" if samples is None else "its num_samples is no whole number"
    assert record.failures["2"].startswith(f"class mix of frame 0: {why}")
    assert 2 in record.clients


def test_images_of_another_shape_are_refused_by_name(tmp_path: Path) -> None:
    settings = patient(rounds=[1], scheduler="random")
    grid = MemoryGrid(settings, tmp_path)
    grid.app = client_app(lambda _settings, number: live_holding(number, tiny_data(size=10)))
    failures = played(grid, settings).records[-1].failures
    assert len(failures) == 6
    assert "shape (1, 10, 10), the server's (1, 8, 8): make them alike" in failures["0"]


def test_changes_that_privacy_hides_cannot_be_detected(tmp_path: Path) -> None:
    settings = living(rounds=[1], fleet__frames="detected", privacy__epsilon=1.0)
    with pytest.raises(
        InputError, match=r"fleet.frames='detected' cannot see a change where privacy.epsilon"
    ):
        played(MemoryGrid(settings, tmp_path), settings)


def known_run(first_mix: dict[int, np.ndarray], num_samples: dict[int, int], most: int) -> Any:
    labels = np.repeat([0, 1, 2], [100, 10, 50])
    settings = Settings().changed(evaluation__loss_samples=most)
    state = SimpleNamespace(first_mix=first_mix, num_samples=num_samples, frame=1, loss_mix=None)
    return SimpleNamespace(
        state=state, settings=settings, clients=SimpleNamespace(world=SimpleNamespace(labels=labels))
    )


@pytest.mark.parametrize(
    ("most", "expected"),
    [
        (8, [2, 2, 4]),  # D_n 10 and 30: (10·(1, 0, 0) + 30·(0, 1/3, 2/3))/40 = (¼, ¼, ½)
        (2000, [10, 10, 20]),  # class 1 has 10 images, which are a quarter of 40
    ],
)
def test_losses_are_measured_on_data_like_the_devices(most: int, expected: list[int]) -> None:
    mixes = {0: np.array([1.0, 0, 0]), 1: np.array([0, 1 / 3, 2 / 3])}
    run = known_run(mixes, {0: 10, 1: 30}, most)
    samples = known.samples_like(run)
    assert np.bincount(run.clients.world.labels[samples], minlength=3).tolist() == expected
    assert len(set(samples.tolist())) == len(samples)
    assert np.array_equal(samples, known.samples_like(run))


def test_a_class_that_the_server_has_not_is_left_out() -> None:
    mixes = {0: np.array([0.5, 0, 0, 0.5])}
    run = known_run(mixes, {0: 10}, 20)
    assert run.clients.world.labels[known.samples_like(run)].tolist() == [0] * 20
    with pytest.raises(InputError, match="no image of any class that clients report"):
        known.samples_like(known_run({0: np.array([0, 0, 0, 1.0])}, {0: 10}, 20))


def test_losses_of_a_frame_are_measured_on_the_same_data_whoever_claims_more_later() -> None:
    run = known_run({0: np.array([1.0, 0, 0]), 1: np.array([0, 0, 1.0])}, {0: 10, 1: 10}, 20)
    first = known.samples_like(run)
    run.state.num_samples[1] = 30
    run.state.first_mix[2] = np.array([0, 1.0, 0])
    np.testing.assert_array_equal(known.samples_like(run), first)
    run.state.loss_mix = None  # as the next frame begins
    assert len(known.samples_like(run)) != len(first) or (known.samples_like(run) != first).any()
