"""What the real libraries hold in the end is what is on record: every number of every round, once."""

import struct
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from fedteddi import compare
from fedteddi.experiment import Progress
from fedteddi.results.reading import read_study
from fedteddi.settings.flat import flattened
from fedteddi.tracking import metrics
from small_world import tiny_data, tiny_settings

EXTRA = "{0} is an extra: pip install 'fedteddi[{0}]'"
NAMES = ["fedteddi-d1-s0", "random-d1-s0"]
Held = dict[int, dict[str, float]]  # numbers by step and name


class Killed(BaseException):
    """In place of a signal."""


def kill(state: Progress) -> None:
    if state.rounds_done >= 9:
        raise Killed


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder to play into; nothing is written elsewhere."""
    monkeypatch.setenv("FEDTEDDI_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "runs"


def play(runs: Path, track: str, **more: Any) -> None:
    compare(
        tiny_settings(),
        schedulers=["fedteddi", "random"],
        seeds=[0],
        data=tiny_data(),
        out=runs,
        track=track,
        **more,
    )


def play_with_an_interruption(runs: Path, track: str) -> None:
    """Two processes' worth: the first is interrupted after a few rounds, and its checkpoint is that of the start."""
    with pytest.raises(Killed):
        play(runs, track, watch=kill)
    play(runs, track, resume=True)


def on_record(runs: Path) -> dict[str, Held]:
    """What every tracker should hold of each run: a step for each of the 14 records."""
    study = read_study(runs)
    return {
        f"{run.scheduler}-d1-s0": {step: metrics(record) for step, record in enumerate(run.records)}
        for run in study.runs
    }


def test_tensorboard(runs: Path) -> None:
    events = pytest.importorskip(
        "tensorboard.backend.event_processing.event_accumulator", reason=EXTRA.format("tensorboard")
    )
    play_with_an_interruption(runs, "tensorboard")
    for name, expected in on_record(runs).items():
        found = events.EventAccumulator(str(runs / name), size_guidance={events.SCALARS: 0})
        found.Reload()
        held: Held = {step: {} for step in range(14)}
        for tag in found.Tags()["scalars"]:
            steps = [event.step for event in found.Scalars(tag)]
            assert len(steps) == len(set(steps)), tag
            for event in found.Scalars(tag):
                held[event.step][tag] = event.value
        assert held == {
            step: pytest.approx(numbers, rel=1e-6) for step, numbers in expected.items()
        }  # 32 bits
        assert found.Tags()["tensors"] == ["settings/text_summary"]


def test_tensorboard_wants_a_folder(runs: Path) -> None:
    pytest.importorskip("tensorboard", reason=EXTRA.format("tensorboard"))
    with pytest.warns(UserWarning, match=r"no folder for event files: give out=, or tensorboard\[folder=…\]"):
        compare(tiny_settings(), schedulers=["random"], seeds=[0], data=tiny_data(), track="tensorboard")
    play(runs, f"tensorboard[folder={runs.parent / 'boards'}]")
    assert [len(list((runs.parent / "boards" / name).iterdir())) for name in NAMES] == [1, 1]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of SQLAlchemy, about MLflow's tables
def test_mlflow(runs: Path) -> None:
    tracking = pytest.importorskip("mlflow.tracking", reason=EXTRA.format("mlflow"))
    uri = f"sqlite:///{runs.parent}/kept.db"
    play_with_an_interruption(runs, f"mlflow[uri={uri}]")
    client = tracking.MlflowClient(uri)
    experiment = client.get_experiment_by_name("runs")
    found = {run.info.run_name: run for run in client.search_runs([experiment.experiment_id])}
    assert sorted(found) == NAMES
    for name, expected in on_record(runs).items():
        run = found[name]
        assert run.info.status == "FINISHED"
        settings = flattened(next(r.settings for r in read_study(runs).runs if name.startswith(r.scheduler)))
        assert run.data.params == {key: str(value) for key, value in settings.items()}
        held: Held = {step: {} for step in range(14)}
        for key in run.data.metrics:
            for point in client.get_metric_history(run.info.run_id, key):
                assert key not in held[point.step]
                held[point.step][key] = point.value
        assert held == expected


def wandb_records(file: Path) -> Iterator[Any]:
    """Read a file of W&B's: 7 bytes, then blocks of 32 KiB with pieces of records (checksum, length, kind, data)."""
    from wandb.proto import wandb_internal_pb2

    content, at, record = file.read_bytes(), 7, b""
    while at + 7 <= len(content):
        left = 32768 - at % 32768
        if left < 7:
            at += left
            continue
        _, length, kind = struct.unpack("<IHB", content[at : at + 7])
        record += content[at + 7 : at + 7 + length]
        at += 7 + length
        if kind in (1, 4):  # a whole one, or the last piece
            yield wandb_internal_pb2.Record.FromString(record)
            record = b""


def test_wandb_offline(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wandb = pytest.importorskip("wandb", reason=EXTRA.format("wandb"))
    monkeypatch.setenv("WANDB_MODE", "offline")
    folders = [
        runs.parent / "first",
        runs.parent / "second",
    ]  # files are named by the second they were begun in
    for folder, more in zip(folders, ({"watch": kill}, {"resume": True}), strict=True):
        folder.mkdir()
        monkeypatch.setenv("WANDB_DIR", str(folder))
        with pytest.raises(Killed) if "watch" in more else nullcontext():
            play(runs, "wandb[project=p]", **more)
    wandb.teardown()  # its own process may still be writing
    held: dict[str, Held] = {}
    ids: dict[str, set[str]] = {}
    files = [file for folder in folders for file in sorted(folder.glob("wandb/offline-run-*/run-*.wandb"))]
    assert len(files) == 4  # two runs, interrupted once
    for file in files:
        records = list(wandb_records(file))
        run = next(record.run for record in records if record.WhichOneof("record_type") == "run")
        assert (run.project, run.run_group) == ("p", "runs")
        ids.setdefault(run.display_name, set()).add(run.run_id)
        steps = held.setdefault(run.display_name, {})
        for record in records:
            if record.WhichOneof("record_type") == "history":
                items = {
                    item.key or "/".join(item.nested_key): item.value_json for item in record.history.item
                }
                step = int(items["_step"])
                assert step not in steps
                steps[step] = {key: float(value) for key, value in items.items() if key[0] != "_"}
    assert {name: len(own) for name, own in ids.items()} == dict.fromkeys(
        NAMES, 1
    )  # W&B joins them by that id
    assert held == on_record(runs)


def test_trackio(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRACKIO_DIR", str(runs.parent / "kept"))
    pytest.importorskip("trackio", reason=EXTRA.format("trackio"))
    from trackio.sqlite_storage import SQLiteStorage

    play_with_an_interruption(runs, "trackio[project=p]")
    for name, expected in on_record(runs).items():
        logs = SQLiteStorage.get_logs("p", f"runs/{name}")
        steps = [log.pop("step") for log in logs]
        assert steps == list(range(14))
        held = [{key: value for key, value in log.items() if key != "timestamp"} for log in logs]
        assert held == [expected[step] for step in steps]
