"""The invariants of trackers hold for every built-in one that is installed; and each catches who breaks it."""

import sys
from pathlib import Path
from typing import Any

import pytest

from cli_runner import Outcome
from fedteddi.protocol.record import RoundRecord
from fedteddi.tracking import TRACKERS, TrackedRun, make_tracker
from fedteddi.tracking.laws import LAWS, check_tracker

OPTIONS = {"wandb": {"mode": "offline"}}


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of SQLAlchemy, about MLflow's tables
@pytest.mark.parametrize("name", TRACKERS.built_in())
def test_every_built_in_tracker_keeps_them(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reason = "Trackio wants Pillow < 13" if name == "trackio" else f"an extra: pip install 'fedteddi[{name}]'"
    monkeypatch.setenv("TRACKIO_DIR", str(tmp_path))
    pytest.importorskip(name, reason=reason)
    monkeypatch.chdir(tmp_path)
    assert check_tracker(make_tracker(name, **OPTIONS.get(name, {}))) == {}


class Good:
    def on_round(self, run: TrackedRun, record: RoundRecord) -> None: ...


class Deaf(Good):
    def on_round(self, run: TrackedRun, record: RoundRecord) -> None:  # noqa: ARG002
        record.accuracy("balanced")  # not every round is evaluated


class Strict(Good):
    def on_end(self, run: TrackedRun, outcome: str) -> None:  # noqa: ARG002
        {"finished": 0, "stopped": 1}[outcome]


class Keeper(Good):
    def on_start(self, run: TrackedRun) -> dict[str, str]:
        return {"id": run.name}


class Greedy(Good):
    def on_round(self, run: TrackedRun, record: RoundRecord) -> None:  # noqa: ARG002
        record.clients.clear()  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("tracker", "law", "fault"),
    [
        (Deaf, "every round of every run", "raised ValueError: frame 1, round 2 was not evaluated"),
        (Strict, "every round of every run", "raised KeyError: 'failed'"),
        (Keeper, "what it keeps is text", "on_start returned a dict"),
        (Greedy, "leaves its input as it was", "changed the record of frame 0, round 1"),
    ],
)
def test_each_catches_who_breaks_it(tracker: Any, law: str, fault: str) -> None:
    found = check_tracker(tracker())
    assert found[law].startswith(fault)
    assert check_tracker(Good()) == {}
    assert check_tracker(lambda run, record: (run, record)) == {}


def test_the_command_tries_them(cli: Any, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("def heard(run, record):\n    return run.step(record)\n")
    done: Outcome = cli("check", f"{tmp_path}/mine.py:heard", "--kind", "tracker")
    assert done.code == 0
    assert done.out.splitlines()[-2].endswith(f"keeps all {len(LAWS)} invariants.")
    sys.modules.pop("mine", None)
