"""What can be a tracker, what is said where one cannot be had, and the numbers that a round has for them."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from cli_runner import Outcome as CliOutcome
from fedteddi import InputError
from fedteddi.protocol.record import RoundRecord
from fedteddi.tracking import FunctionTracker, TrackedRun, make_tracker, metrics, named_trackers


class Book:
    def on_round(self, run: TrackedRun, record: RoundRecord) -> None: ...


def test_names_classes_instances_and_functions_are_trackers(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "class Mine:\n    def __init__(self, to=1):\n        self.to = to\n"
        "    def on_round(self, run, record): pass\n"
        "def heard(run, record): return record\n"
    )
    assert make_tracker(f"{tmp_path}/mine.py:Mine[to=here]").to == "here"  # type: ignore[attr-defined]
    assert isinstance(make_tracker(f"{tmp_path}/mine.py:heard"), FunctionTracker)
    book = Book()
    assert isinstance(make_tracker(Book), Book)
    assert make_tracker(book) is book
    assert list(named_trackers([book, print])) == ["python:Book", "builtins:print"]
    assert named_trackers(()) == {}
    with pytest.raises(
        InputError, match=r"no tracker is called 'tensorbord' \(did you mean 'tensorboard'\?\)"
    ):
        named_trackers("tensorbord")
    with pytest.raises(InputError, match="is not a tracker: it must be a class with on_round"):
        named_trackers(Path)
    with pytest.raises(InputError, match="two trackers are called python:Book"):
        named_trackers([book, Book()])
    with pytest.raises(InputError, match="has no option 'tot'"):
        named_trackers(f"{tmp_path}/mine.py:Mine[tot=1]")


@pytest.mark.parametrize(
    "name",
    ["tensorboard", "mlflow", "wandb", "trackio"],
)
def test_a_missing_extra_is_one_sentence_before_anything_is_written(
    cli: Callable[..., CliOutcome], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    for module in (name, f"{name}.tracking", f"{name}.entities"):
        monkeypatch.setitem(sys.modules, module, None)
    done = cli("run", "--track", name, "--out", tmp_path / "run")
    assert done.code == 2
    assert f"error: the tracker {name} needs {name}, which is not installed" in done.err
    assert done.err.splitlines()[-1].endswith(f"pip install 'fedteddi[{name}]'")
    assert not (tmp_path / "run").exists()


def test_metrics_are_numbers_and_leave_out_what_a_round_cannot_say() -> None:
    entered = RoundRecord(frame=1, round=0, balanced=0.5, global_=0.25, class_accuracy=[0.5, None])
    assert metrics(entered) == {
        "frame": 1.0,
        "round": 0.0,
        "accuracy/balanced": 0.5,
        "accuracy/global": 0.25,
        "accuracy/class_0": 0.5,
    }
    played = RoundRecord(
        frame=1,
        round=2,
        clients=[4, 7, 8],
        scheduled_new=2,
        bandwidth_hz=[1.0, 2.0, 4.0],
        round_s=0.75,
        uplink_bits=96.0,
        energy_j=1.5,
        failures={"7": "late"},
        objective={"total": float("nan"), "variance": 2.0},
    )
    assert metrics(played) == {
        "frame": 1.0,
        "round": 2.0,
        "scheduled/clients": 3.0,
        "scheduled/new": 2.0,
        "scheduled/failures": 1.0,
        "cost/round_s": 0.75,
        "cost/uplink_bits": 96.0,
        "cost/energy_j": 1.5,
        "cost/bandwidth_hz": 7.0,
        "objective/variance": 2.0,
    }
