"""The same scheduler on Flower: the simulator's results on its Simulation Engine, and faults on real processes."""

import json
import os
import re
import signal
import sys
import time
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from fedteddi import Settings, simulate
from fedteddi.flower.app import FINISHED
from fedteddi.flower.records import settings_of
from fedteddi.protocol.messages import Answers, Request
from fedteddi.registry import load_object
from fedteddi.simulation.in_process import Asked, InProcess
from fedteddi.simulation.laboratory import Laboratory

ROOT = Path(__file__).parents[2]
APP = Path(__file__).parent / "app"
STEP_S = 240.0  # a machine with two busy cores is slow at starting processes


@pytest.fixture
def launcher() -> ModuleType:
    """The example's launcher, which the demonstrations use too."""
    return sys.modules[load_object(f"{ROOT / 'examples' / 'flower-fashion' / 'fleet.py'}:Fleet").__module__]


def app_settings(**changes: Any) -> Settings:
    """The settings that the app's configuration gives, as Flower flattens it."""
    config = tomllib.loads((APP / "pyproject.toml").read_text())["tool"]["flwr"]["app"]["config"]
    flat = {}
    for key, value in config.items():
        flat |= {f"{key}.{k}": v for k, v in value.items()} if isinstance(value, dict) else {key: value}
    return settings_of(flat).changed(**changes)


def written(out: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (out / "rounds.jsonl").read_text().splitlines()]


@pytest.mark.slow
def test_the_simulation_engine_gives_the_simulators_results(
    launcher: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Schedules are the same, and weights within rounding, for FedTeddi and two rivals; two frames, six clients."""
    rules, out = ("fedteddi", "power-of-choice", "best-norm"), tmp_path / "out"
    (out / "stage").mkdir(parents=True)
    (out / "rules.txt").write_text(" ".join(rules))
    arrivals = "[{frame = 1, clients = 2, classes = [6, 7], samples = 20}]"
    config = f"""out='{out}' rounds='[1, 3]' scenario.arrivals='{arrivals}' radio.total_hz=3e5"""
    monkeypatch.setenv("FLEET_STAGE", str(out / "stage"))
    with launcher.Fleet(tmp_path, simulate=True, app=APP) as fleet:
        fleet.start_superlink()
        status, text = fleet.run(config, 6, STEP_S, show=False)
    assert status == 0, text[-3000:]
    assert FINISHED in text, text[-3000:]
    settings = app_settings(
        rounds=[1, 3],
        scenario__clients=6,
        scenario__arrivals=tomllib.loads(f"x = {arrivals}")["x"],
        radio__total_hz=3e5,
    )
    for rule in rules:
        expected = simulate(settings, scheduler=rule, out=tmp_path / rule)
        found = written(out / rule)
        assert len(found) == len(expected.records) == 6, text[-3000:]
        for mine, theirs in zip(found, expected.records, strict=True):
            assert mine.get("clients", ()) == theirs.clients
            assert mine.get("bandwidth_hz", []) == pytest.approx(list(theirs.bandwidth_hz), rel=1e-9)
            assert mine.get("failures", {}) == {}
            assert mine["class_accuracy"] == pytest.approx(theirs.class_accuracy, abs=0.051)
        assert any(len(record.get("clients", ())) not in (0, 6) for record in found)  # a choice was made
        one, other = (weights_of(folder) for folder in (out / rule, tmp_path / rule))
        assert float((one - other).norm()) <= 1e-4 * float(other.norm())
        assert float((other - weights_of_start(settings)).norm()) > 1e-2  # they did move


def weights_of(folder: Path) -> Any:
    import safetensors.torch

    return safetensors.torch.load_file(folder / "checkpoint.safetensors")["weights"]


def weights_of_start(settings: Settings) -> Any:
    return Laboratory(settings).new_run(settings).state.weights


class Losing(InProcess):
    """Loses the answers of some clients at some steps, as the broken fleet does."""

    def __init__(self, *world: Any) -> None:
        super().__init__(*world)
        self.lost: set[tuple[str, int, int]] = set()  # step, round, client

    def exchange(self, asked: Asked) -> list[Answers]:
        found = super().exchange(asked)
        return [self._without(answers, request) for answers, (_, request) in zip(found, asked, strict=True)]

    def _without(self, answers: Answers, request: Request) -> Answers:
        gone = {n for n in request.clients if (request.kind, request.round, n) in self.lost}
        given = {client: answer for client, answer in answers.given.items() if client not in gone}
        return Answers(given, dict.fromkeys(gone, "lost"))


# Deadlines that a machine with busy cores keeps, too, if nothing is broken.
REPORT_S, UPLOAD_S = 60, 30
# What the test does to the fleet in a round, and what the record must say of whom.
FAULTS: dict[int, dict[int, str]] = {
    2: {1: f"no answer within {UPLOAD_S} s"},  # killed between report and upload
    4: {3: f"no answer within {REPORT_S} s"},  # answers late
    5: {0: "its app raised an error: .*the instrument is broken"},
    6: {2: "it refused: it holds no trained model"},  # restarted between report and upload
    7: dict.fromkeys(range(4), f"no answer within {UPLOAD_S} s|it is gone"),  # all killed
}
LAST = 8


@pytest.mark.slow
def test_faults_on_real_processes(
    launcher: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every round ends, names who failed and why, averages what arrived, and the run goes on to its end."""
    out = tmp_path / "out"
    stage = out / "stage"
    stage.mkdir(parents=True)
    (out / "rules.txt").write_text("random")
    monkeypatch.setenv("FLEET_STAGE", str(stage))
    holds = ("upload-2", "report-3", "report-4", "report-5", "report-6", "upload-6", "upload-7", "report-8")
    for name in holds:
        (stage / f"{name}.hold").touch()
    # So much bandwidth that everyone who reports is scheduled.
    config = f"out='{out}' rounds='[{LAST}]' radio.total_hz=1e9"
    config += f" fleet.report_s={REPORT_S}.0 fleet.upload_s={UPLOAD_S}.0"
    with launcher.Fleet(tmp_path, simulate=False, app=APP) as fleet:
        fleet.start_superlink()
        for number in range(4):
            fleet.start_node(number)
        for number in range(4):
            fleet.wait_for_node(number)
        running = fleet.start_run(config, 4)

        @contextmanager
        def held(step: str) -> Iterator[None]:
            """Do something to the fleet while the server waits before a step."""
            until = time.monotonic() + STEP_S
            while not (stage / f"{step}.here").exists():
                assert time.monotonic() < until, fleet.log("run")[-3000:] + fleet.log("superlink")[-3000:]
                assert running.poll() is None, fleet.log("run")[-3000:]
                time.sleep(0.1)
            yield
            (stage / f"{step}.hold").unlink()

        def kill(number: int, how: signal.Signals) -> None:
            os.killpg(fleet.nodes[number].pid, how)
            fleet.nodes[number].wait(20)

        with held("upload-2"):
            kill(1, signal.SIGKILL)
        with held("report-3"):
            fleet.start_node(1)
            fleet.wait_for_node(1, starts=2)
        with held("report-4"):
            (stage / "late-3").write_text(str(REPORT_S + 10))
        with held("report-5"):
            (stage / "late-3").unlink()
            (stage / "raise-0").touch()
        with held("report-6"):
            (stage / "raise-0").unlink()
        with held("upload-6"):
            kill(2, signal.SIGTERM)
            fleet.start_node(2)
            fleet.wait_for_node(2, starts=2)
        with held("upload-7"):
            for number in range(4):
                kill(number, signal.SIGKILL)
        with held("report-8"):
            for number in range(4):
                fleet.start_node(number)
            for number, starts in enumerate((2, 3, 3, 2)):
                fleet.wait_for_node(number, starts)
        status, text = fleet.wait_for_run(running, STEP_S, show=False)
    assert status == 0, text[-3000:]
    assert FINISHED in text, text[-3000:]

    found = written(out / "random")
    assert [record["round"] for record in found] == list(range(LAST + 1))
    for record in found:
        failures = record.get("failures", {})
        wanted = FAULTS.get(record["round"], {})
        assert {int(client) for client in failures} == set(wanted), (record["round"], failures)
        for client, why in wanted.items():
            assert re.match(why, failures[str(client)])
    # α renormalised over what arrived: the models are those of a simulation that loses the same answers.
    settings = app_settings(rounds=[LAST], radio__total_hz=1e9)
    laboratory = Laboratory(settings)
    losing = Losing(laboratory.engine, laboratory.data)
    for record in found[1:]:
        for client in map(int, record["failures"]):
            losing.lost.add(("upload" if client in record["clients"] else "report", record["round"], client))
    expected = simulate(settings, scheduler="random", runtime=losing, out=tmp_path / "expected")
    for mine, theirs in zip(found, expected.records, strict=True):
        assert mine.get("clients", ()) == theirs.clients
        assert mine["class_accuracy"] == pytest.approx(theirs.class_accuracy, abs=0.051)
    one, other = (weights_of(folder) for folder in (out / "random", tmp_path / "expected"))
    assert float((one - other).norm()) <= 1e-4 * float(other.norm())
    assert not any(launcher.alive(process.pid) for process in fleet.nodes.values())
    assert found[7]["class_accuracy"] == found[6]["class_accuracy"]  # nothing arrived: the old model is kept
    assert found[8]["class_accuracy"] != found[7]["class_accuracy"]
    assert len(found[8]["clients"]) == 4
