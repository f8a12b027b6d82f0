"""What is said on the way: how far it is, and how long the rest takes."""

import io
import re
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console
from rich.progress import Progress

from fedteddi.cli import progress
from fedteddi.cli.output import progress_bar
from fedteddi.cli.progress import _status, time_left, watching
from fedteddi.protocol.record import RoundRecord
from fedteddi.simulation.pretrained import Pretraining


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ([(100.0, 0)], ""),  # no pace yet
        ([(0.0, 0), (90.0, 1)], ""),  # the first round: compilation says nothing about the pace
        ([(0.0, 0), (90.0, 30), (160.0, 30)], ""),  # a round that takes long
        ([(0.0, 0), (90.0, 1), (100.0, 51)], ", 10 s left"),  # five a second, 49 to go
        ([(0.0, 20), (60.0, 40), (120.0, 50)], ", 5 min left"),  # resumed; ten in a minute, fifty to go
        ([(0.0, 0), (5.0, 1), (3605.0, 2)], ", 98.0 h left"),
        ([(0.0, 0), (5.0, 1), *((65.0 + 5 * i, 10 + i) for i in range(12))], ", 7 min left"),  # only of late
        ([(0.0, 0), (5.0, 50), (10.0, 100)], ""),
    ],
)
def test_time_left(lines: list[tuple[float, int]], said: str) -> None:
    assert time_left(lines, 100) == said


def status(*records: RoundRecord) -> str:
    run = SimpleNamespace(records=list(records), settings=SimpleNamespace(name="random"))
    state: Any = SimpleNamespace(runs=[run])
    return _status(state)


def test_where_it_is_goes_by_the_last_record() -> None:
    """A frame's first record is of the model that enters it; later rounds are judged now and then only."""
    before = RoundRecord(frame=0, round=0, balanced=0.9, global_=0.8)
    entered = RoundRecord(frame=1, round=0, balanced=0.5, global_=0.6)
    played = RoundRecord(frame=1, round=1, clients=[3, 4, 5], scheduled_new=2)
    assert status() == "random"
    assert status(before) == "random frame 0 round 0, accuracy 0.900 balanced, 0.800 global"
    assert status(before, entered) == "random frame 1 round 0, accuracy 0.500 balanced, 0.600 global"
    assert status(before, entered, played) == (
        "random frame 1 round 1, accuracy 0.500 balanced, 0.600 global after round 0, scheduled 2 new + 1 old"
    )


def test_who_interrupts_is_told_how_to_go_on(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(KeyboardInterrupt), watching():
        raise KeyboardInterrupt
    assert "goes on with the same command and --resume" in " ".join(capsys.readouterr().err.split())


def test_pretraining_has_a_pace_of_its_own(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ten steps in ten seconds; then another seed's, and rounds: what was before says nothing about their pace."""
    run = SimpleNamespace(records=[], settings=SimpleNamespace(name="random"))

    def state(clock_s: float, done: int, pretraining: Pretraining | None = None) -> Any:
        monkeypatch.setattr(progress.time, "monotonic", lambda: clock_s)
        return SimpleNamespace(
            seconds={}, news=(), runs=[run], rounds_done=done, rounds_in_all=8, pretraining=pretraining
        )

    with watching() as watch:
        for clock_s, step in ((10, 1), (20, 11), (30, 21), (31, 22)):
            watch(state(clock_s, 0, Pretraining(3, step, 60, 6)))
        for clock_s, step in ((90, 1), (100, 2)):
            watch(state(clock_s, 0, Pretraining(4, step, 60, 6)))
        for clock_s, step in ((110, 1), (120, 2), (130, 30)):  # another model of that seed
            watch(state(clock_s, 0, Pretraining(4, step, 30, 3)))
        for clock_s, done in ((200, 1), (210, 2), (220, 3)):
            watch(state(clock_s, done))
    assert capsys.readouterr().err.splitlines() == [
        "pre-training, seed 3: epoch 1 of 6",
        "pre-training, seed 3: epoch 2 of 6",
        "pre-training, seed 3: epoch 3 of 6, 39 s left",
        "pre-training, seed 4: epoch 1 of 6",
        "pre-training, seed 4: epoch 1 of 6",
        "pre-training, seed 4: epoch 1 of 3",
        "pre-training, seed 4: epoch 1 of 3",
        "pre-training, seed 4: epoch 3 of 3",
        "1/8 rounds, random",
        "2/8 rounds, random",
        "3/8 rounds, 50 s left, random",
    ]


@pytest.mark.parametrize("width", [60, 80, 200])
def test_a_narrow_terminal_cuts_the_words_not_the_bar(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    written = io.StringIO()
    shown = Console(file=written, width=width, force_terminal=True, color_system=None)
    monkeypatch.setattr("fedteddi.cli.output.err", shown)
    with progress_bar() as bar:
        bar.add_task("a rule with[a] long name, " * 4 + "the end", total=12, completed=4)
    line = next(line for line in reversed(written.getvalue().splitlines()) if "rule" in line)
    assert re.search(r"━+.* 4/12 .*a rule with\[a\]", line)
    assert ("the end" in line, "…" in line) == (width == 200, width < 200)


def test_the_live_bar_begins_anew_with_every_model_and_with_the_rounds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shown = Console(file=io.StringIO(), width=100, force_terminal=True, color_system=None)
    monkeypatch.setattr("fedteddi.cli.output.err", shown)
    monkeypatch.setattr(progress, "err", shown)
    bars: list[Progress] = []
    monkeypatch.setattr(progress, "progress_bar", lambda: bars.append(progress_bar()) or bars[0])
    run = SimpleNamespace(records=[], settings=SimpleNamespace(name="random"))

    def state(done: int, pretraining: Pretraining | None = None) -> Any:
        return SimpleNamespace(
            seconds={}, news=(), runs=[run], rounds_done=done, rounds_in_all=8, pretraining=pretraining
        )

    with watching() as watch:
        for seed in (3, 4):
            for step in (1, 2):
                watch(state(0, Pretraining(seed, step, 2, 1)))
                (task,) = bars[0].tasks
                assert (task.completed, task.total, task.finished) == (step, 2, step == 2)
                assert task.description == f"pre-training, seed {seed}: epoch 1 of 1"
        watch(state(1))
        assert (task.completed, task.total, task.finished, task.description) == (1, 8, False, "random")
