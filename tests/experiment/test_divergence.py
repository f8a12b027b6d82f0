"""A run that diverges: it ends, it is recorded, and nobody else is disturbed."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from fedteddi import InputError, compare, read_study, simulate
from fedteddi.results.report import write_report
from fedteddi.simulation.clients import Clients
from fedteddi.simulation.laboratory import Laboratory
from small_world import tiny_data, tiny_settings

RULES = ["fedteddi", "random", "best-norm", "power-of-choice", "fed-cbs", "everyone", "centralised"]


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEDTEDDI_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def poisoned(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """Random with seed 1 learns far too fast from frame 1, round 3 on; the rounds it then tries are listed."""
    tried: list[tuple[int, int]] = []
    plain = Clients.job

    def job(clients: Clients, request: Any, client: int) -> Any:
        found = plain(clients, request, client)
        if clients.settings.name == "random" and clients.settings.seed == 1:
            tried.append((request.frame, request.round))
            if (request.frame, request.round) >= (1, 3):
                object.__setattr__(found, "learning_rate", 1e38)
        return found

    monkeypatch.setattr(Clients, "job", job)
    return tried


def play(folder: Path, **options: Any) -> Any:
    return compare(
        tiny_settings(rounds=[0, 5, 0]),
        schedulers=["random", "fedteddi"],
        seeds=[0, 1],
        data=tiny_data(),
        out=folder,
        **options,
    )


def test_the_others_go_on_to_the_bit(tmp_path: Path, poisoned: list[tuple[int, int]]) -> None:
    """The third round of frame 1 fails: round 0 of both frames and two rounds are good."""
    study = play(tmp_path / "study")
    ill = study.of("random")[1]
    assert ill.failure is not None
    assert (ill.failure.frame, ill.failure.round, ill.finished, len(ill.records)) == (1, 3, False, 4)
    assert ill.failure.cause.startswith("training diverged in frame 1, round 3: lower training.learning_rate")
    assert list(study.failures) == ["random at 1 s, seed 1"]
    assert study.unfinished == []
    for well in (study.of("random")[0], *study.of("fedteddi")):
        alone = simulate(well.settings, data=tiny_data())
        assert well.finished
        assert well.records == alone.records
    assert max(poisoned) == (1, 3)


def test_what_is_left_of_it_is_sound_and_resuming_does_not_start_it_again(
    tmp_path: Path, poisoned: list[tuple[int, int]]
) -> None:
    first = play(tmp_path / "study")
    folder = tmp_path / "study" / "random-d1-s1"
    assert json.loads((folder / "failed.json").read_text())["round"] == 3
    assert len((folder / "rounds.jsonl").read_text().splitlines()) == 4
    assert torch.isfinite(load_file(folder / "checkpoint.safetensors")["weights"]).all()
    poisoned.clear()
    again = play(tmp_path / "study", resume=True)
    assert poisoned == []
    assert again.failures == first.failures == read_study(tmp_path / "study").failures
    assert [run.records for run in again.runs] == [run.records for run in first.runs]


def test_a_crash_just_before_the_failure_is_written_costs_one_more_try(
    tmp_path: Path, poisoned: list[tuple[int, int]]
) -> None:
    first = play(tmp_path / "study")
    (tmp_path / "study" / "random-d1-s1" / "failed.json").unlink()
    poisoned.clear()
    again = play(tmp_path / "study", resume=True)
    assert set(poisoned) == {(1, 3)}
    assert again.failures == first.failures
    assert [run.records for run in again.runs] == [run.records for run in first.runs]


@pytest.mark.usefixtures("poisoned")
def test_tables_leave_it_out_and_the_page_says_so(tmp_path: Path) -> None:
    study = play(tmp_path / "study")
    made = write_report(study, tmp_path / "report")
    assert study.table("final_balanced").set_index("scheduler")["n"].to_dict() == {"random": 1, "fedteddi": 2}
    assert made.unfinished == []
    page = (tmp_path / "report" / "report.md").read_text()
    assert (
        "Failed, and left out of the tables: random at 1 s, seed 1: training diverged in frame 1, round 3"
        in page
    )


@pytest.mark.parametrize("scheduler", RULES)
@pytest.mark.parametrize("rate", [1e38, 1e10, 1e6])
def test_every_rule_says_it_in_the_same_words(scheduler: str, rate: float) -> None:
    """Wherever it shows first: in the weights, in σ, in an update's norm, in a loss, in the class gradients.

    While one client still sends finite numbers the others are left out and the run goes on: at 1e6 into frame 1.
    """
    study = compare(
        tiny_settings(training__learning_rate=rate), schedulers=[scheduler], seeds=[0], data=tiny_data()
    )
    (failure,) = study.failures.values()
    assert f"training diverged in frame {failure.frame}, round {failure.round}" in failure.cause
    assert failure.frame == 0 or rate == 1e6
    assert f"lower training.learning_rate={rate:g}" in failure.cause
    with pytest.raises(InputError, match="all runs failed; first error: training diverged"):
        study.table()


def test_a_single_run_is_an_error_and_stays_one_when_resumed(tmp_path: Path) -> None:
    settings = tiny_settings(scheduler="random", training__learning_rate=1e38)
    for resume in (False, True):
        with pytest.raises(InputError, match="seed 0: training diverged in frame 0, round 1"):
            simulate(settings, data=tiny_data(), out=tmp_path / "run", resume=resume)
    (tmp_path / "run" / "failed.json").write_text("{")
    with pytest.raises(InputError, match=r"failed\.json cannot be read"):
        simulate(settings, data=tiny_data(), out=tmp_path / "run", resume=True)


def test_a_pretraining_that_diverges_has_its_own_remedy(tmp_path: Path) -> None:
    settings = tiny_settings(training__pretrain_epochs=1, training__pretrain_learning_rate=1e38)
    study = compare(settings, schedulers=["random"], seeds=[0, 1], data=tiny_data(), out=tmp_path / "study")
    causes = {failure.cause for failure in study.failures.values()}
    assert causes == {"pre-training diverged: lower training.pretrain_learning_rate=1e+38"}
    assert len(study.failures) == 2


def test_a_failed_run_cannot_be_advanced() -> None:
    settings = tiny_settings(scheduler="random", training__learning_rate=1e38)
    laboratory = Laboratory(settings, tiny_data())
    run = laboratory.new_run(settings)
    before = run.state.weights.clone()
    laboratory.advance([run])
    laboratory.advance([run])
    assert run.failure is not None
    assert torch.equal(run.state.weights, before)
    assert (run.state.round, run.state.rounds_done) == (0, 0)
    np.testing.assert_array_equal(run.state.times_scheduled, 0)
    with pytest.raises(InputError, match="training diverged"):
        laboratory.advance([run])
