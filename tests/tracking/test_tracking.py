"""Trackers hear of every record of every run once, whatever happens; and nothing happens to the runs."""

import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cli_runner import Outcome as CliOutcome
from fedteddi import compare, simulate
from fedteddi.errors import TrackingWarning
from fedteddi.experiment import Progress
from fedteddi.protocol.record import RoundRecord
from fedteddi.simulation.parallel.groups import _reader
from fedteddi.tracking import (
    Outcome,
    TrackedRun,
)
from fedteddi.tracking.tracking import Tracking
from small_world import tiny_data, tiny_settings

# [2, 5, 4] rounds in three frames, each with a round 0: 14 records of every run.
STEPS = list(range(14))
RULES = ["fedteddi", "random"]


class Book:
    """A tracker that writes down what it is told; all that were made write into the same book."""

    pages: list[tuple[Any, ...]]

    def on_start(self, run: TrackedRun) -> str:
        self.pages.append(("start", run.name, run.told, run.kept))
        return f"id of {run.name}"

    def on_round(self, run: TrackedRun, record: RoundRecord) -> None:
        self.pages.append((run.name, run.step(record)))

    def on_end(self, run: TrackedRun, outcome: Outcome) -> None:
        self.pages.append(("end", run.name, outcome))

    def steps(self, run: str) -> list[int]:
        return [page[1] for page in self.pages if page[0] == run]

    def others(self) -> list[tuple[Any, ...]]:
        return [page for page in self.pages if page[0] in ("start", "end")]


@pytest.fixture
def book() -> Book:
    made = Book()
    made.pages = []
    return made


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEDTEDDI_CACHE", str(tmp_path / "cache"))


class Killed(BaseException):
    """In place of a signal: nothing of ours may catch it."""


def kill_after(rounds: int) -> Callable[[Progress], None]:
    def watch(state: Progress) -> None:
        if state.rounds_done >= rounds:
            raise Killed

    return watch


def play(tmp_path: Path, **more: Any) -> None:
    given = {"schedulers": RULES, "seeds": [0], "data": tiny_data(), "out": tmp_path / "runs"}
    compare(tiny_settings(), **(given | more))


NAMES = ["fedteddi-d1-s0", "random-d1-s0"]


def test_it_hears_of_every_record_in_order_with_a_start_and_an_end(tmp_path: Path, book: Book) -> None:
    seen: list[tuple[str, int, RoundRecord]] = []
    play(tmp_path, track=book, on_round=lambda run, record: seen.append((run.name, run.step(record), record)))
    assert book.others() == [
        *(("start", name, 0, None) for name in NAMES),
        *(("end", name, "finished") for name in NAMES),
    ]
    for name in NAMES:
        assert book.steps(name) == STEPS
        own = [(step, record) for run, step, record in seen if run == name]
        assert [step for step, _ in own] == STEPS
        lines = (tmp_path / "runs" / name / "rounds.jsonl").read_text().splitlines()
        assert [record.as_json() for _, record in own] == [json.loads(line) for line in lines]
    first = [name for name, step, _ in seen if step == 3]
    assert first == NAMES  # in lock-step, not one run after the other


def test_steps_count_over_frames() -> None:
    """Frame 1 begins after the round 0 and two rounds of frame 0, frame 2 after six more."""
    run = TrackedRun(name="x", group="y", settings=tiny_settings())
    places = [(0, 0), (0, 2), (1, 0), (1, 5), (2, 0), (2, 4)]
    assert [run.step(RoundRecord(frame=f, round=k)) for f, k in places] == [0, 2, 3, 8, 9, 13]


def test_who_is_killed_and_resumed_tells_nothing_twice(
    tmp_path: Path, book: Book, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The checkpoint is that of the start, so all rounds are played again; those told before are not told again."""
    monkeypatch.setattr("fedteddi.simulation.session.CHECKPOINT_EVERY_S", 1e9)
    monkeypatch.setattr(
        "fedteddi.tracking.tracking.Tracking.end", lambda *_: None
    )  # no process ends so orderly
    with pytest.raises(Killed):
        play(tmp_path, track=book, watch=kill_after(9))
    before = {name: book.steps(name) for name in NAMES}
    assert all(3 < len(steps) < 14 for steps in before.values())
    monkeypatch.undo()
    monkeypatch.setenv("FEDTEDDI_CACHE", str(tmp_path / "cache"))
    play(tmp_path, track=book, resume=True)
    assert {name: book.steps(name) for name in NAMES} == dict.fromkeys(NAMES, STEPS)
    resumed = [page for page in book.others() if page[0] == "start"][2:]
    assert resumed == [("start", name, len(before[name]), f"id of {name}") for name in NAMES]
    play(tmp_path, track=book, resume=True)  # everything is over: nothing is opened
    assert len(book.pages) == 2 * (14 + 2 + 1)


def test_who_died_before_the_end_was_told_says_it_when_resumed(
    tmp_path: Path, book: Book, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fedteddi.tracking.tracking.Tracking.end", lambda *_: None)
    play(tmp_path, track=book)
    monkeypatch.undo()
    assert not [page for page in book.pages if page[0] == "end"]
    play(tmp_path, track=book, resume=True)
    assert book.pages[-4:] == [
        page for name in NAMES for page in (("start", name, 14, f"id of {name}"), ("end", name, "finished"))
    ]


def test_one_that_joins_later_hears_of_the_rounds_before_and_a_function_of_those_played_now(
    tmp_path: Path, book: Book
) -> None:
    now: list[int] = []
    simulate(tiny_settings(), data=tiny_data(), out=tmp_path / "one")
    simulate(
        tiny_settings(),
        data=tiny_data(),
        out=tmp_path / "one",
        resume=True,
        track=book,
        on_round=lambda _run, record: now.append(record.round),
    )
    assert book.steps("one") == STEPS
    assert now == []


@pytest.mark.parametrize("deed", ["on_start", "on_round", "on_end"])
def test_one_that_fails_ends_no_run_and_is_named_once(tmp_path: Path, book: Book, deed: str) -> None:
    class Broken(Book):
        pages: list[tuple[Any, ...]] = []  # noqa: RUF012

    def fails(*_: Any) -> None:
        raise SystemExit("no server") if deed == "on_start" else RuntimeError("no server")

    broken = Broken()
    setattr(broken, deed, fails)
    play(tmp_path / "without")
    with pytest.warns(TrackingWarning) as found:
        play(tmp_path / "with", track=[broken, book])
    assert len(found) == 1
    assert "the tracker python:Broken failed" in str(found[0].message)
    assert "no server" in str(found[0].message)
    assert "the runs go on without it; --resume tells it the rest" in str(found[0].message)
    for name in NAMES:  # nothing of the runs, and nothing of what the other tracker hears, has changed
        rounds = [tmp_path / way / "runs" / name / "rounds.jsonl" for way in ("without", "with")]
        assert rounds[0].read_bytes() == rounds[1].read_bytes()
        assert book.steps(name) == STEPS


def test_what_a_failed_tracker_missed_it_hears_when_the_run_is_resumed(tmp_path: Path, book: Book) -> None:
    told: list[tuple[str, int]] = []

    class Flaky:
        def on_round(self, run: TrackedRun, record: RoundRecord) -> None:
            if len(told) == 5 and not book.pages:
                raise OSError("disk full")
            told.append((run.name, run.step(record)))

    with pytest.warns(TrackingWarning, match=r"python:Flaky failed \(OSError: disk full \(test_tracking"):
        play(tmp_path, track=Flaky())
    book.pages.append(("mended",))
    play(tmp_path, track=Flaky(), resume=True)
    for name in NAMES:
        assert [step for run, step in told if run == name] == STEPS


def test_the_warning_is_one_line_of_the_command(
    cli: Callable[..., CliOutcome], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text("class Mine:\n    def on_round(self, run, record):\n        1 / 0\n")
    done = cli(
        "run", "--rounds", 1, "--track", "mine.py:Mine", "--out", "run", "--set", "training.pretrain_epochs=0"
    )
    assert done.code == 0, done.err
    lines = [line for line in done.err.splitlines() if line.startswith("warning: the tracker")]
    assert lines == [
        "warning: the tracker mine.py:Mine failed (ZeroDivisionError: division by zero (mine.py, line 3)): the runs go"
        " on without it; --resume tells it the rest once that is corrected"
    ]


def test_marks_that_cannot_be_read_are_named_and_what_was_played_is_not_told(
    tmp_path: Path, book: Book
) -> None:
    simulate(tiny_settings(), data=tiny_data(), out=tmp_path / "one", track=book)
    (tmp_path / "one" / "tracking.json").write_text("{")
    with pytest.warns(TrackingWarning, match=r"tracking\.json cannot be read .*not told of the rounds"):
        simulate(tiny_settings(), data=tiny_data(), out=tmp_path / "one", track=book, resume=True)
    assert book.steps("one") == STEPS


def test_a_run_that_fails_and_one_that_is_stopped_say_so(tmp_path: Path, book: Book) -> None:
    play(tmp_path, track=book, schedulers=["random"], time_limit_s=0.0)
    assert book.pages == []  # nothing was played
    diverging = tiny_settings(training__learning_rate=1e30)
    compare(diverging, schedulers=["random"], seeds=[0], data=tiny_data(), track=book)
    assert book.pages[-1] == ("end", "random-d1-s0", "failed")


def test_with_a_cluster_what_workers_write_is_told_as_it_appears(tmp_path: Path, book: Book) -> None:
    """The process that asks plays nothing; a worker that dies is cut back to its checkpoint and writes again."""
    play(tmp_path)
    folder, names = tmp_path / "runs", NAMES
    whole = {name: (folder / name / "rounds.jsonl").read_bytes().splitlines(keepends=True) for name in names}
    tracking = Tracking({"book": book})
    tracking.begin(dict.fromkeys(names, tiny_settings()), folder, dict.fromkeys(names, 0))
    read = _reader(folder, names, tracking)
    for lines in (3, 9, 5, 11, 14):  # cut back to 5 after 9
        for name in names:
            half = whole[name][lines][:7] if lines < 14 else b""
            (folder / name / "rounds.jsonl").write_bytes(b"".join(whole[name][:lines]) + half)
        read()
        assert {name: len(book.steps(name)) for name in names} == dict.fromkeys(
            names, max(lines, 9) if lines > 3 else 3
        )
    assert {name: book.steps(name) for name in names} == dict.fromkeys(names, STEPS)


def test_nothing_is_written_about_trackers_where_there_are_none(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        play(tmp_path, on_round=lambda *_: None)
    assert list((tmp_path / "runs").glob("*/tracking.json")) == []
