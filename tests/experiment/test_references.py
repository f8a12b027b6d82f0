"""The reference bounds of a comparison: everyone without limits, and all data in one place."""

from pathlib import Path

import numpy as np
import pytest
import torch

from fedteddi import InputError, Schedule, compare, example_round, read_study, simulate
from fedteddi.experiment import run_name, variant
from fedteddi.learning.engine import TrainJob
from fedteddi.results import tables
from fedteddi.schedulers.schedule import schedule_faults
from fedteddi.simulation.laboratory import Laboratory
from small_world import tiny_data, tiny_settings

ALL = ["random", "everyone", "centralised"]


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEDTEDDI_CACHE", str(tmp_path / "cache"))


def test_everyone_is_what_a_band_for_all_and_all_the_time_would_give() -> None:
    """Random order, as `random` has with so much band that all fit: the same sums, and so the same bits.

    Even 1 ms, in which nobody could upload, is no limit. Only the modelled upload is not there: a client is done when
    it has computed, and the energy is that of computing, 1 W × Σ t_cp.
    """
    settings = tiny_settings(rounds=[2, 2, 0], scheduler="random")
    bound = compare(
        settings, schedulers=["everyone"], seeds=[0], data=tiny_data(), radio__deadline_s=1e-3
    ).runs[0]
    wide = simulate(settings, data=tiny_data(), radio__total_hz=1e18, radio__deadline_s=1e6)
    radio = {"bandwidth_hz", "finish_s", "round_s", "energy_j"}
    for mine, theirs in zip(bound.records, wide.records, strict=True):
        assert {k: v for k, v in mine.as_json().items() if k not in radio} == {
            k: v for k, v in theirs.as_json().items() if k not in radio
        }
        if mine.round:
            assert sorted(mine.clients) == [0, 1, 2, 3, 4, 5]
            assert mine.bandwidth_hz == []
            assert mine.finish_s == mine.compute_s
            assert mine.round_s == max(mine.compute_s)
            assert mine.energy_j == pytest.approx(sum(mine.compute_s), rel=1e-12)
    assert (bound.settings.scheduler, bound.settings.radio.total_hz) == ("everyone", settings.radio.total_hz)


def test_bounds_of_earlier_versions_are_read(tmp_path: Path) -> None:
    """They were `random` with 10^18 Hz and 10^6 s: the same experiment as the runs beside them."""
    settings = tiny_settings(rounds=[1, 1, 0])
    study = compare(settings, schedulers=["random"], seeds=[0], data=tiny_data(), out=tmp_path / "study")
    simulate(
        settings,
        data=tiny_data(),
        out=tmp_path / "study" / "everyone-s0",
        name="everyone",
        scheduler="random",
        radio__total_hz=1e18,
        radio__deadline_s=1e6,
    )
    again = read_study(tmp_path / "study")
    assert again.deadlines_s == study.deadlines_s
    assert again.schedulers == ["random", "everyone"]
    assert again.table("clients_a_round")["mean"].tolist()[1] == 6.0


def test_a_bound_that_gives_bandwidth_or_a_client_that_is_not_there_is_refused() -> None:
    view = example_round()
    both = Schedule(clients=(0, 99), bandwidth_hz=())
    assert schedule_faults(view, both, limited=False) == [
        "client 99 does not exist: there are 30, counted from 0"
    ]
    given = Schedule(clients=(0,), bandwidth_hz=(1.0,))
    assert schedule_faults(view, given, limited=False) == ["1 bandwidths, though it has no band to give"]
    assert schedule_faults(view, Schedule(clients=(0, 0), bandwidth_hz=()), limited=False) == [
        "client 0 is scheduled more than once"
    ]


def test_centralised_trains_one_model_on_everybodys_samples() -> None:
    """Six clients, b = 8: two steps on 48 images each, from the same start; what is uploaded is the model."""
    settings = tiny_settings()
    laboratory = Laboratory(settings, tiny_data())
    pooled, plain = (
        laboratory.new_run(variant(settings, name, 0, 1.0)) for name in ("centralised", "random")
    )
    samples, views, keys = pooled.clients.batches(0, 1, 0)
    assert samples.shape == (2, 48)
    held = np.concatenate(plain.plan.frames[0].held)
    assert all(
        (np.bincount(step, minlength=300) <= np.bincount(held, minlength=300)).all() for step in samples
    )
    laboratory.advance([pooled])
    start = pooled.state.weights
    laboratory.advance([pooled])
    job = TrainJob(
        weights=start,
        samples=samples,
        views=views,
        learning_rate=0.05,
        momentum=0.5,
        dropout_keys=keys,
    )
    assert torch.equal(pooled.state.weights, laboratory.engine.train([job])[0].weights)
    assert pooled.records[1].clients == [0]


def test_every_bound_starts_from_the_same_pretrained_model(tmp_path: Path) -> None:
    """One cached model a seed, and the same numbers at round 0, whatever the scheduler."""
    settings = tiny_settings(training__pretrain_epochs=1, rounds=[0, 2, 0])
    study = compare(settings, schedulers=ALL, seeds=[0, 1], data=tiny_data())
    assert len(list((tmp_path / "cache" / "pretrained").iterdir())) == 2
    for seed in (0, 1):
        starts = [study.of(name)[seed].evaluated(0)[0] for name in ALL]
        assert starts[0].class_accuracy == starts[1].class_accuracy == starts[2].class_accuracy
        assert starts[0].loss == starts[2].loss
        assert starts[0].global_ == pytest.approx(starts[2].global_, rel=1e-12)


def test_bounds_have_no_deadline_and_are_read_back_with_their_rivals(tmp_path: Path) -> None:
    settings = tiny_settings(rounds=[2, 1, 0])
    study = compare(
        settings, schedulers=ALL, seeds=[0], deadlines_s=[0.9, 1.0], data=tiny_data(), out=tmp_path / "study"
    )
    names = sorted(run_name(run.settings) for run in study.runs)
    assert names == ["centralised-s0", "everyone-s0", "random-d0.9-s0", "random-d1-s0"]
    again = read_study(tmp_path / "study")
    assert again.deadlines_s == [0.9, 1.0]
    table = tables.summary(again, 0).set_index(["deadline s", "scheduler"])
    assert table.loc[(0.9, "centralised"), ["clients a round", "seconds", "energy J"]].tolist() == ["–"] * 3
    assert table.loc[(1.0, "everyone"), ["clients a round", "seconds"]].tolist() == ["6.0", "–"]
    resumed = compare(
        settings,
        schedulers=ALL,
        seeds=[0],
        deadlines_s=[0.9, 1.0],
        data=tiny_data(),
        out=tmp_path / "study",
        resume=True,
    )
    assert [run.records for run in resumed.runs] == [run.records for run in study.runs]


def test_a_bound_of_another_experiment_is_not_mixed_in(tmp_path: Path) -> None:
    compare(
        tiny_settings(rounds=[1, 0, 0]),
        schedulers=["random"],
        seeds=[0],
        data=tiny_data(),
        out=tmp_path / "study",
    )
    compare(
        tiny_settings(rounds=[1, 0, 0], training__batch_size=4),
        schedulers=["centralised"],
        seeds=[0],
        data=tiny_data(),
        out=tmp_path / "other",
    )
    (tmp_path / "other" / "centralised-s0").rename(tmp_path / "study" / "centralised-s0")
    with pytest.raises(InputError, match=r"training\.batch_size"):
        read_study(tmp_path / "study")


def test_bounds_alone_can_be_reported(tmp_path: Path) -> None:
    study = compare(
        tiny_settings(rounds=[2, 0, 0]),
        schedulers=ALL[1:],
        seeds=[0],
        data=tiny_data(),
        out=tmp_path / "study",
    )
    ax = read_study(tmp_path / "study").accuracy_figure().axes[0]
    assert ax.get_title() == "no limits"
    assert [line.get_label() for line in ax.get_lines()] == ["centralised", "everyone"]
    assert study.table("final_balanced")["scheduler"].tolist() == ["everyone", "centralised"]


def test_measured_traces_of_clients_do_not_concern_data_in_one_place(tmp_path: Path) -> None:
    gains = tmp_path / "gains.csv"
    lines = [f"0,1,{client},1e-9" for client in range(6)]
    gains.write_text("frame,round,client,value\n" + "\n".join(lines) + "\n")
    settings = tiny_settings(rounds=[1, 0, 0], radio__gain_trace=str(gains))
    compare(settings, schedulers=ALL, seeds=[0], data=tiny_data(), out=tmp_path / "study")
    assert read_study(tmp_path / "study").of("centralised")[0].settings.radio.gain_trace == ""


def test_the_names_of_bounds_are_taken(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text("class everyone:\n    name = 'everyone'\n    def select(self, view, rng): ...\n")
    with pytest.raises(
        InputError, match="everyone is the name of a reference bound: give your class another"
    ):
        compare(tiny_settings(), schedulers=[f"{file}:everyone"], seeds=[0], data=tiny_data())


def test_pooled_is_a_setting_of_its_own() -> None:
    """48 of 144 samples in each of two steps."""
    record = simulate(
        tiny_settings(rounds=[1, 0, 0], scenario__pooled=True, training__batch_size=48, scheduler="random"),
        data=tiny_data(),
    )
    assert record.counts.shape == (3, 1, 5)
    assert record.counts[0].sum() == 6 * 24
