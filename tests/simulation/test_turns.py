"""Two halves of many runs that take turns: the same results, told to the caller; the end of one is the other's."""

import itertools
import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fedteddi import InputError, compare
from fedteddi.experiment import Progress
from fedteddi.learning.gpu.engine import Stacked
from fedteddi.protocol.record import RoundRecord
from fedteddi.results.runs import Study
from fedteddi.simulation import laboratory, turns
from fedteddi.simulation.laboratory import Laboratory
from small_world import tiny_data, tiny_settings

RULES, SEEDS = ["random", "fedteddi"], [0, 1, 2]


class Telling(Stacked):
    """The GPU's engine, on a CPU; knows which threads asked it, and may fail."""

    asked_by: set[str]
    fail_in: str = ""  # a thread's name begins so

    def train(self, jobs: Any, on_step: Any = None) -> Any:
        """Train, or fail."""
        asking = threading.current_thread().name
        self.asked_by.add(asking)
        if self.fail_in and asking.startswith(self.fail_in):
            raise InputError("the device is gone")
        return super().train(jobs, on_step)


@pytest.fixture(autouse=True)
def _stacked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("FEDTEDDI_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(laboratory, "make_engine", lambda model, data, *_: Telling(model, data, "cpu"))
    monkeypatch.setattr(turns, "LEAST_RUNS", 2)
    monkeypatch.setattr(Telling, "asked_by", set(), raising=False)
    monkeypatch.setattr("fedteddi.simulation.session.CHECKPOINT_EVERY_S", 0.0)


def play(**options: Any) -> Study:
    """Six runs, by three seeds."""
    return compare(tiny_settings(), schedulers=RULES, seeds=SEEDS, data=tiny_data(), **options)


def rounds_of(study: Study) -> list[tuple[object, ...]]:
    """What was decided in every round of every run."""
    return [
        (run.scheduler, run.settings.seed, record.frame, record.round, tuple(record.clients))
        for run in study.runs
        for record in run.records
    ]


def test_halves_decide_as_one_would_and_tell_the_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[tuple[str, int, int]] = []

    def watch(progress: Progress) -> None:
        told.append((threading.current_thread().name, progress.rounds_done, progress.rounds_in_all))
        assert all(seconds >= 0 for seconds in progress.seconds.values())

    switches = sys.getswitchinterval()
    by_turns = play(watch=watch)
    assert len(Telling.asked_by) == 2
    assert {thread for thread, *_ in told} == {threading.current_thread().name}
    assert told[-1][1] == told[-1][2] == sum(round > 0 for _, _, _, round, _ in rounds_of(by_turns))
    assert sys.getswitchinterval() == switches
    monkeypatch.setattr(turns, "LEAST_RUNS", 5)
    Telling.asked_by.clear()
    as_one = play()
    assert Telling.asked_by == {threading.current_thread().name}
    assert rounds_of(by_turns) == rounds_of(as_one)
    for one, other in zip(by_turns.runs, as_one.runs, strict=True):
        losses = [[record.loss for record in run.records if record.loss is not None] for run in (one, other)]
        assert losses[0] == pytest.approx(losses[1], rel=1e-3)


def test_halves_hold_whole_seeds() -> None:
    def cut(seeds: list[int]) -> list[set[int]]:
        first = tiny_settings()
        made = Laboratory(first, tiny_data())
        runs = [made.new_run(first.changed(seed=seed)) for seed in seeds]
        return [{run.settings.seed for run in half} for half in turns.halves(runs, made.engine)]

    assert cut([0, 0, 0, 1, 1, 2]) == [{0}, {1, 2}]
    assert cut([0, 0, 0, 0]) == [{0}]
    assert cut([0, 0, 1]) == [{0, 1}]  # too few for two halves


def test_a_failure_in_one_half_ends_the_other_and_nothing_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = play()
    monkeypatch.setattr(Telling, "fail_in", "fedteddi-turns_1")
    with pytest.raises(InputError, match="the device is gone"):
        play(out=tmp_path / "runs")
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("fedteddi-turns")]
    monkeypatch.setattr(Telling, "fail_in", "")
    assert rounds_of(play(out=tmp_path / "runs", resume=True)) == rounds_of(whole)


def test_a_model_that_diverges_before_the_first_round_is_on_record(tmp_path: Path) -> None:
    """All six are pre-trained before they are cut into halves: that they failed must be written there, too."""
    settings = tiny_settings(training__pretrain_epochs=1, training__pretrain_learning_rate=1e38)
    study = compare(settings, schedulers=RULES, seeds=SEEDS, data=tiny_data(), out=tmp_path / "runs")
    assert [run.failure is not None for run in study.runs] == [True] * 6
    assert len([*(tmp_path / "runs").glob("*/failed.json")]) == 6


def test_halves_share_the_time_that_their_rounds_take(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every step takes 12 s by this clock: of two runs a round counts 3 s each while two halves play, then 6 s."""
    clock = itertools.count(0, 12)
    monkeypatch.setattr(laboratory, "time", SimpleNamespace(perf_counter=lambda: next(clock)))
    made = Laboratory(tiny_settings(), tiny_data())
    runs = [made.new_run(tiny_settings(scheduler=rule)) for rule in RULES]
    took: list[float] = []
    for run in runs:
        monkeypatch.setattr(run, "keep", lambda _, timing: took.append(timing.get("seconds", 0.0)))
        monkeypatch.setattr(run, "records", [RoundRecord(frame=0, round=0)])
    for at_once in (2, 1):
        made.advance(runs, None, at_once)
    assert took == [3.0, 3.0, 6.0, 6.0]


def test_an_interruption_stops_both_halves(tmp_path: Path) -> None:
    def interrupt(progress: Progress) -> None:
        if progress.rounds_done >= 6:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        play(out=tmp_path / "runs", watch=interrupt)
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("fedteddi-turns")]
    stopped = rounds_of(play(out=tmp_path / "runs", resume=True, time_limit_s=0.0))
    whole = rounds_of(play())
    assert 0 < len(stopped) < len(whole)
    assert rounds_of(play(out=tmp_path / "runs", resume=True)) == whole
