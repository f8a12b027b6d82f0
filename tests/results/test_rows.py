"""A row for each rule: how far its runs are, and accuracies that all of them have after the round that is named."""

from typing import Any

import pytest

from fedteddi.protocol.record import RoundRecord
from fedteddi.results.folder import Failure
from fedteddi.results.rows import Row, _label, accuracy_lines, rows_of
from fedteddi.settings import Settings

ROUNDS = [0, 4]


class Run:
    """A run that has been evaluated after these rounds of frame 1, and has played so many."""

    def __init__(self, rule: str, seed: int, done: int, found: dict[int, float], **more: Any) -> None:
        self.settings = Settings().changed(
            name=rule, seed=seed, rounds=ROUNDS, radio__deadline_s=more.get("deadline_s", 1.0)
        )
        self.records = [
            RoundRecord(
                frame=1,
                round=k,
                clients=[0] * 2 * k,
                scheduled_new=k,
                balanced=found.get(k),
                global_=None if k not in found else found[k] / 2,
            )
            for k in range(done + 1)
        ]
        self.rounds_done, self.finished = done, done == 4
        self.failure = Failure(1, done, "diverged") if more.get("failed") else None


def rows(*runs: Run) -> list[Row]:
    return rows_of(
        {f"{r.settings.name}-d{r.settings.radio.deadline_s:g}-s{r.settings.seed}": r for r in runs}
    )


def test_means_are_over_the_runs_of_a_rule_after_a_round_that_all_have_reached() -> None:
    """Seed 0 was last evaluated after round 4, seed 1 after round 2: both have 2, of accuracy 0.4 and 0.6."""
    (row,) = rows(Run("a", 0, 4, {0: 0.1, 2: 0.4, 4: 0.9}), Run("a", 1, 3, {0: 0.1, 2: 0.6}))
    assert (row.evaluated, row.balanced, row.global_) == ((1, 2), pytest.approx(0.5), pytest.approx(0.25))
    assert (row.last, row.rounds_done, row.rounds_in_all) == ((1, 3), 7, 8)
    assert (row.clients, row.new) == (7, 3.5)  # (8 + 6) / 2, (4 + 3) / 2
    assert (row.runs, row.finished, row.failed, row.state) == (2, 1, 0, "playing")


def test_there_is_no_accuracy_where_one_has_none_yet() -> None:
    late = Run("a", 1, 0, {})
    late.records = []
    (row,) = rows(Run("a", 0, 2, {0: 0.1, 2: 0.4}), late)
    assert (row.evaluated, row.balanced, row.clients, row.state) == (None, None, None, "playing")
    (row,) = rows(late)
    assert (row.last, row.state, accuracy_lines([row], 80)) == (None, "starting", ["starting: a"])
    other = Run("a", 2, 1, {1: 0.3})  # not evaluated after the same rounds
    (row,) = rows(Run("a", 0, 2, {0: 0.1, 2: 0.4}), other)
    assert row.balanced is None


def test_runs_that_failed_do_not_count() -> None:
    failed = Run("a", 1, 1, {0: 0.9}, failed=True)
    (row,) = rows(Run("a", 0, 4, {4: 0.5}), failed)
    assert (row.balanced, row.failed, row.state) == (0.5, 1, "finished, 1 failed")
    (row,) = rows(failed)
    assert (row.state, row.balanced) == ("failed", None)
    assert accuracy_lines([row], 80) == ["failed: a"]


def test_rows_are_called_by_rule_deadline_and_level() -> None:
    def labels(*names: str, deadlines: tuple[float, ...] = (1.0, 1.0)) -> list[str]:
        runs = {
            name: Run("a" if "a-" in name else "everyone", 0, 0, {}, deadline_s=deadline)
            for name, deadline in zip(names, deadlines, strict=True)
        }
        return [row.label for row in rows_of(runs)]

    assert labels("a-d1-s0", "everyone-s0") == ["a", "everyone"]
    assert labels("a-d0.8-s0", "a-d1.2-s0", deadlines=(0.8, 1.2)) == ["a 0.8 s", "a 1.2 s"]
    assert labels("tau-5/a-d1-s0", "baseline/a-d1-s0") == ["tau-5/a", "baseline/a"]
    assert labels("a-alpha0.1-s0", "a-alpha1-s0") == ["a-alpha0.1", "a-alpha1"]
    assert [row.label for row in rows_of({"": Run("a", 0, 0, {})})] == ["a"]


def test_lines_name_every_rule_with_the_round_and_stay_within_the_width() -> None:
    names = [f"a-rather-long-rule-{i}" for i in range(21)]
    runs = [Run(name, 0, 2, {0: 0.1, 2: i / 100}) for i, name in enumerate(names)]
    lines = accuracy_lines(rows(*runs, Run("slow", 0, 1, {0: 0.25})), 78)
    assert max(map(len, lines)) <= 78
    assert lines[0].startswith("balanced accuracy after frame 1 round 2: a-rather-long-rule-0 0.000,")
    assert lines[-1] == "balanced accuracy after frame 1 round 0: slow 0.250"
    text = " ".join(line.strip() for line in lines)
    assert all(f"{name} {i / 100:.3f}" in text for i, name in enumerate(names))


def test_of_a_sweep_the_rule_comes_first_and_keys_are_short() -> None:
    """Names are cut at their ends: what tells the rows apart must not stand there."""
    settings = Settings().changed(name="random", scheduler="random")
    keys = [f"scenario.alpha=0.1,radio.deadline_s={time}/random-d1" for time in (0.8, 1.2)]
    assert [_label(key, settings, True) for key in keys] == [
        "random alpha=0.1 deadline_s=0.8",
        "random alpha=0.1 deadline_s=1.2",
    ]
