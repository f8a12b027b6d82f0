"""What is said on the way: how far it is, and how long the rest takes."""

import io
import re
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console
from rich.progress import Progress as RichProgress

from fedteddi.cli import progress
from fedteddi.cli.output import progress_bar
from fedteddi.cli.progress import progress_table, watching
from fedteddi.protocol.record import RoundRecord
from fedteddi.results.pace import time_left
from fedteddi.results.rows import Row
from fedteddi.settings import Settings
from fedteddi.simulation.pretrained import Pretraining
from fedteddi.simulation.progress import Progress


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


def test_who_interrupts_is_told_how_to_go_on(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(KeyboardInterrupt), watching():
        raise KeyboardInterrupt
    assert "goes on with the same command and --resume" in " ".join(capsys.readouterr().err.split())


def state(
    rules: dict[str, list[RoundRecord]], pretraining: Pretraining | None = None, rounds: int = 8
) -> Progress:
    """How far a run of each rule is that has these records."""
    runs: dict[str, Any] = {
        f"{rule}-d1-s0": SimpleNamespace(
            settings=Settings().changed(name=rule, rounds=[rounds]),
            records=records,
            rounds_done=records[-1].round if records else 0,
            finished=False,
            failure=None,
        )
        for rule, records in rules.items()
    }
    return Progress.of(runs, {}, pretraining=pretraining)


def at(number: int, accuracy: float | None = None) -> RoundRecord:
    return RoundRecord(frame=0, round=number, balanced=accuracy, global_=accuracy)


def test_pretraining_has_a_pace_of_its_own(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ten steps in ten seconds; then another seed's, and rounds: what was before says nothing about their pace."""

    def hear(clock_s: float, done: int, pretraining: Pretraining | None = None) -> None:
        monkeypatch.setattr(progress.time, "monotonic", lambda: clock_s)
        watch(state({"random": [at(done)] if done else []}, pretraining))

    with watching() as watch:
        for clock_s, step in ((10, 1), (20, 11), (30, 21), (31, 22)):
            hear(clock_s, 0, Pretraining(3, step, 60, 6))
        for clock_s, step in ((90, 1), (100, 2)):
            hear(clock_s, 0, Pretraining(4, step, 60, 6))
        for clock_s, step in ((110, 1), (120, 2), (130, 30)):  # another model of that seed
            hear(clock_s, 0, Pretraining(4, step, 30, 3))
        for clock_s, done in ((200, 1), (210, 2), (220, 3)):
            hear(clock_s, done)
    assert capsys.readouterr().err.splitlines() == [
        "pre-training, seed 3: epoch 1 of 6",
        "pre-training, seed 3: epoch 2 of 6",
        "pre-training, seed 3: epoch 3 of 6, 39 s left",
        "pre-training, seed 4: epoch 1 of 6",
        "pre-training, seed 4: epoch 1 of 6",
        "pre-training, seed 4: epoch 1 of 3",
        "pre-training, seed 4: epoch 1 of 3",
        "pre-training, seed 4: epoch 3 of 3",
        "1/8 rounds",
        "  playing: random",
        "2/8 rounds",
        "  playing: random",
        "3/8 rounds, 50 s left",
        "  playing: random",
    ]


def test_lines_are_about_all_rules_and_every_accuracy_has_its_round(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Both were evaluated after round 5, and one of them is at round 7 already."""
    with watching() as watch:
        watch(state({"fedteddi": [at(5, 0.75), at(6), at(7)], "random": [at(5, 0.5)]}))
    assert capsys.readouterr().err.splitlines() == [
        "12/16 rounds",
        "  balanced accuracy after frame 0 round 5: fedteddi 0.750, random 0.500",
    ]


def test_lines_about_a_hundred_runs_fit_80_columns(capsys: pytest.CaptureFixture[str]) -> None:
    names = [f"rule-{number:03}" for number in range(100)]
    with watching() as watch:
        watch(state({name: [at(5, 0.123)] for name in names}))
    lines = capsys.readouterr().err.splitlines()
    assert max(map(len, lines)) <= 80
    assert len(lines) < 30
    found = re.findall(r"rule-\d{3} 0\.123", " ".join(lines))
    assert [one.split()[0] for one in found] == names


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


def row(label: str, **more: Any) -> Row:
    given: dict[str, Any] = {
        "runs": 5,
        "finished": 0,
        "failed": 0,
        "rounds_done": 120,
        "rounds_in_all": 1500,
        "last": (1, 24),
        "evaluated": (1, 20),
        "balanced": 0.5125,
        "global_": 0.75,
        "clients": 9.5,
        "new": 2.0,
    }
    return Row(label=label, **(given | more))


def drawn(rows: list[Row], width: int, most: int = 100, **more: Any) -> list[str]:
    shown = Console(file=io.StringIO(), width=width)
    shown.print(progress_table(rows, width, most, **more))
    text: str = shown.file.getvalue()  # type: ignore[attr-defined]
    return [line.rstrip() for line in text.splitlines()]


def test_a_row_for_each_rule_and_only_names_are_cut() -> None:
    rows = [row("fedteddi"), row("a-scheduler-with-a-very-long-name-and-options", failed=1)]
    # The name has what is left of 80: 34, and two between columns of 8, 8, 6, 6 and 8.
    assert drawn(rows, 80) == [
        f"{'scheduler':34}    rounds  balanced  global   after  state",
        f"{'fedteddi':34}  120/1500     0.512   0.750  f1 r20  playing",
        "a-scheduler-with-a-very-long-name…  120/1500     0.512   0.750  f1 r20  1 failed",
    ]
    for width in (60, 80, 96, 120):
        lines = drawn(rows, width)
        assert len(lines) == 3
        assert max(map(len, lines)) <= width
        assert all("120/1500" in line and "0.512" in line and "f1 r20" in line for line in lines[1:])
        assert ("9.5 (2)" in lines[1]) == (width >= 96)
    assert drawn([row("x", finished=5)], 80, idle=True)[1].endswith("finished")
    assert drawn([row("x", last=None, evaluated=None, balanced=None, global_=None, clients=None)], 80)[
        1
    ].split() == [
        "x",
        "120/1500",
        "starting",
    ]
    assert drawn([row("x", failed=5, balanced=None)], 80)[1].endswith("failed")
    assert drawn([row("x")], 80, idle=True)[1].endswith("stopped")


def test_more_rules_than_lines_are_counted() -> None:
    lines = drawn([row(f"rule-{number}") for number in range(30)], 80, most=10)
    assert len(lines) == 10
    assert lines[-1] == "and 22 more"


def test_the_live_bar_begins_anew_with_every_model_and_with_the_rounds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    written = io.StringIO()
    shown = Console(file=written, width=100, force_terminal=True, color_system=None)
    monkeypatch.setattr("fedteddi.cli.output.err", shown)
    monkeypatch.setattr(progress, "err", shown)
    monkeypatch.setattr(progress, "LIVE_EVERY_S", 0.0)
    bars: list[RichProgress] = []
    monkeypatch.setattr(progress, "progress_bar", lambda: bars.append(progress_bar()) or bars[0])
    with watching() as watch:
        for seed in (3, 4):
            for step in (1, 2):
                watch(state({"random": []}, Pretraining(seed, step, 2, 1)))
                (task,) = bars[0].tasks
                assert (task.completed, task.total, task.finished) == (step, 2, step == 2)
                assert task.description == f"pre-training, seed {seed}: epoch 1 of 1"
        watch(state({"random": [at(1, 0.625)], "fedteddi": [at(1, 0.875)]}))
        assert (task.completed, task.total, task.finished, task.description) == (2, 16, False, "rounds")
    screen = written.getvalue().rpartition("scheduler")[2]
    assert re.search(r"random +1/8 +0\.625 +0\.625 +f0 r1", screen)
    assert re.search(r"fedteddi +1/8 +0\.875 +0\.875 +f0 r1", screen)
