"""Runs that are being written by another process: read as far as they are, whatever happens to them meanwhile."""

import json
import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from fedteddi import InputError
from fedteddi.protocol.record import RoundRecord
from fedteddi.results.folder import Failure, RunFolder, locked
from fedteddi.results.following import FollowedFolder, FollowedRun
from fedteddi.settings import Settings

ROUNDS = [1, 2]
WRITTEN = [RoundRecord(frame=f, round=k) for f, rounds in enumerate(ROUNDS) for k in range(rounds + 1)]
RECORDS = [RoundRecord.from_json(json.loads(json.dumps(record.as_json()))) for record in WRITTEN]


def begun(path: Path, records: int = 0) -> RunFolder:
    folder = RunFolder(path)
    folder.start(Settings().changed(rounds=ROUNDS, name=path.name), {})
    for record in RECORDS[:records]:
        folder.append(record, {})
    return folder


def test_every_round_can_be_read_as_soon_as_it_is_appended(tmp_path: Path) -> None:
    folder = begun(tmp_path / "a")
    run = FollowedRun(tmp_path / "a")
    assert not run.look()
    for number, record in enumerate(RECORDS, start=1):
        assert not run.finished
        folder.append(record, {})
        assert run.look()
        assert run.records == RECORDS[:number]
    assert (run.finished, run.rounds_done, run.look()) == (True, 3, False)
    folder.close()


def test_half_a_line_waits_for_its_other_half(tmp_path: Path) -> None:
    begun(tmp_path / "a", 2).close()
    file = tmp_path / "a" / "rounds.jsonl"
    whole = file.read_bytes()
    run = FollowedRun(tmp_path / "a")
    file.write_bytes(whole[:-5])
    run.look()
    assert run.records == RECORDS[:1]
    assert not run.look()
    file.write_bytes(whole)
    run.look()
    assert run.records == RECORDS[:2]


def test_a_run_that_is_cut_back_to_its_checkpoint_is_read_anew(tmp_path: Path) -> None:
    begun(tmp_path / "a", 4).close()
    run = FollowedRun(tmp_path / "a")
    run.look()
    file = tmp_path / "a" / "rounds.jsonl"
    os.truncate(file, len(b"".join(file.read_bytes().splitlines(keepends=True)[:2])))
    run.look()
    assert run.records == RECORDS[:2]


def test_runs_appear_in_levels_and_one_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    folder = FollowedFolder(tmp_path)
    assert not folder.look()
    assert (folder.runs, folder.over) == ({}, False)
    begun(tmp_path / "baseline" / "a-d1-s0", 5).close()
    begun(tmp_path / "tau-5" / "b-d1-s0", 1).close()
    begun(tmp_path / "report" / "x").close()
    (tmp_path / "c").mkdir()  # a folder that was made, and nothing in it yet
    assert folder.look()
    assert list(folder.runs) == ["baseline/a-d1-s0", "tau-5/b-d1-s0"]
    assert not folder.over
    RunFolder(tmp_path / "tau-5" / "b-d1-s0").fail(Failure(0, 1, "diverged"))
    assert folder.look()
    assert folder.over
    begun(tmp_path / "d-d1-s0", 1).close()
    (tmp_path / "d-d1-s0" / "rounds.jsonl").write_text("not json\n")
    folder.look()
    assert list(folder.broken) == ["d-d1-s0"]
    assert "rounds.jsonl cannot be read" in folder.broken["d-d1-s0"]
    assert list(folder.runs) == ["baseline/a-d1-s0", "tau-5/b-d1-s0"]


def test_one_run_is_a_folder_of_one_and_nothing_is_an_error(tmp_path: Path) -> None:
    begun(tmp_path / "a", 5).close()
    folder = FollowedFolder(tmp_path / "a")
    folder.look()
    assert (list(folder.runs), folder.over) == ([""], True)
    with pytest.raises(InputError, match=r"there is no folder .*nothing: give a run's folder"):
        FollowedFolder(tmp_path / "nothing").look()


def test_whether_somebody_plays_them_is_seen_without_locking(tmp_path: Path) -> None:
    begun(tmp_path / "runs" / "a", 1).close()
    whole, one = FollowedFolder(tmp_path / "runs"), FollowedFolder(tmp_path / "runs" / "a")
    assert whole.is_held is False  # there is no lock at all
    with locked(tmp_path / "runs"):
        assert (whole.is_held, one.is_held) == (True, True)
        with pytest.raises(InputError, match="in use by another process"), locked(tmp_path / "runs"):
            pass
    gone = subprocess.run(
        [sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, check=True
    )
    lock = tmp_path / "runs" / ".lock"
    lock.write_text(f"{platform.node()} {int(gone.stdout)} x")
    assert (whole.is_held, one.is_held) == (False, False)
    lock.write_text(f"another-{platform.node()} 1 x")
    assert (whole.is_held, one.is_held) == (None, None)
    lock.write_text("")
    assert whole.is_held is False
