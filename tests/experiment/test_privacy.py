"""Privacy in the simulator: one release a frame, nothing true behind it, training as before, ε added up."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedteddi import InputError, Settings, compare, simulate
from fedteddi.protocol.messages import Answers, Report
from fedteddi.schedulers.rules.fedteddi import FedTeddi
from fedteddi.schedulers.view import RoundView
from fedteddi.simulation.in_process import InProcess
from fedteddi.simulation.seed_world import SeedWorld
from small_world import tiny_data, tiny_settings


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEDTEDDI_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[RoundView]:
    """Whatever FedTeddi is shown."""
    views: list[RoundView] = []
    plain = FedTeddi.select

    def select(self: FedTeddi, view: RoundView, rng: np.random.Generator) -> Any:
        views.append(view)
        return plain(self, view, rng)

    monkeypatch.setattr(FedTeddi, "select", select)
    return views


def test_the_scheduler_sees_one_noisy_mix_a_frame_and_nothing_else(seen: list[RoundView]) -> None:
    """Frame 0 has no rounds: its release is the past of frame 1 all the same."""
    run = simulate(tiny_settings(rounds=[0, 2, 2], privacy__epsilon=0.5), data=tiny_data())
    assert [view.frame for view in seen] == [1, 1, 2, 2]
    for view in seen:
        np.testing.assert_array_equal(view.batch_mix, view.data_mix)
        true = run.counts[view.frame] / run.counts[view.frame].sum(axis=1, keepdims=True)
        assert (np.abs(view.data_mix - true).max(axis=1) > 1e-6).all()
        np.testing.assert_array_equal(view.num_samples, run.counts[view.frame].sum(axis=1))
    np.testing.assert_array_equal(seen[0].data_mix, seen[1].data_mix)
    assert (seen[1].data_mix != seen[2].data_mix).any(axis=1).all()  # every frame draws anew, changed or not
    np.testing.assert_array_equal(seen[2].previous_data_mix, seen[1].data_mix)
    frame_0 = run.counts[0] / run.counts[0].sum(axis=1, keepdims=True)
    assert (np.abs(seen[0].previous_data_mix - frame_0).max(axis=1) > 1e-6).all()


def test_no_true_histogram_leaves_a_client(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[Report] = []
    plain = InProcess._reports

    def reports(self: InProcess, asked: Any) -> list[Answers]:
        answers = plain(self, asked)
        sent.extend(report for answer in answers for report in answer.given.values())
        return answers

    monkeypatch.setattr(InProcess, "_reports", reports)
    simulate(tiny_settings(rounds=[1, 0, 0], privacy__epsilon=1.0), data=tiny_data())
    assert len(sent) == 6
    for report in sent:
        assert (report.data_counts, report.batch_counts) == (None, None)
        assert report.released_mix is not None
        assert report.num_samples == 24


def test_training_is_unchanged() -> None:
    """Random looks at no histogram: with and without noise it makes the same bits; reports are of another size."""
    noisy, plain = (
        simulate(tiny_settings(scheduler="random", privacy__epsilon=epsilon), data=tiny_data())
        for epsilon in (0.1, 0.0)
    )
    for record, other in zip(noisy.records, plain.records, strict=True):
        own = {"epsilon_spent": None, "uplink_bits": other.uplink_bits, "energy_j": other.energy_j}
        assert replace(record, **own) == other
    # Of five classes, in place of two histograms: one mix and the number of samples, 4 numbers less from each of six.
    sent = [
        (one.uplink_bits, other.uplink_bits) for one, other in zip(noisy.records, plain.records, strict=True)
    ]
    assert all(other - one == 6 * 4 * 32 for one, other in sent if other)
    assert not any(record.epsilon_spent is not None for record in plain.records)


def test_epsilon_adds_up_over_frames(tmp_path: Path) -> None:
    simulate(tiny_settings(rounds=[0, 2, 1], privacy__epsilon=0.25), data=tiny_data(), out=tmp_path / "run")
    lines = [json.loads(line) for line in (tmp_path / "run" / "rounds.jsonl").read_text().splitlines()]
    spent = [(line["frame"], line["epsilon_spent"]) for line in lines if line["round"]]
    assert spent == [(1, 0.5), (1, 0.5), (2, 0.75)]
    assert "[privacy]\nepsilon = 0.25" in (tmp_path / "run" / "settings.toml").read_text()


def test_releases_depend_on_seed_frame_and_client_only() -> None:
    plan = SeedWorld(0, tiny_data()).plan(tiny_settings())
    released = [
        SeedWorld(seed, tiny_data()).released_mix(plan, frame, client, 1.0)
        for seed, frame, client in [(0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1)]
    ]
    assert len({tuple(mix) for mix in released}) == 4
    again = SeedWorld(0, tiny_data())
    again.batches(plan, 0, 1, 0, tiny_settings().training)  # what is drawn before does not matter
    np.testing.assert_array_equal(again.released_mix(plan, 0, 0, 1.0), released[0])


def test_class_gradients_are_asked_by_the_noisy_mix_and_clients_give_what_they_have(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With ε = 0.01 the noisy mixes have little to do with the data: most of what is asked does not exist."""
    asked, given = [], []
    plain = InProcess._class_gradients

    def gradients(self: InProcess, requests: Any) -> list[Answers]:
        answers = plain(self, requests)
        for (clients, request), answer in zip(requests, answers, strict=True):
            held = clients.plan.frames[request.frame].counts
            asked.append((request.samples > held).any())
            given.append((answer.given[-1].counts, np.minimum(request.samples, held).sum(axis=0)))
        return answers

    monkeypatch.setattr(InProcess, "_class_gradients", gradients)
    run = simulate(tiny_settings(rounds=[2, 0, 0], privacy__epsilon=0.01), data=tiny_data())
    assert any(asked)
    for counts, possible in given:
        np.testing.assert_array_equal(counts, possible)
    assert all(record.failures == {} for record in run.records if record.round)
    assert all(np.isfinite(record.class_norm).all() for record in run.records if record.round)


def test_every_rule_works_with_noise_and_an_interrupted_run_goes_on_to_the_bit(tmp_path: Path) -> None:
    settings = tiny_settings(rounds=[0, 2, 1], privacy__epsilon=0.1, server__max_sample_share=0.3)
    rules = ["fedteddi", "fedcgd", "pure-drift", "fed-cbs", "power-of-choice", "best-norm", "best-channel"]
    study = compare(settings, schedulers=rules, seeds=[0], data=tiny_data())
    assert not study.failures
    assert all(run.finished for run in study.runs)
    folder = tmp_path / "run"
    first = settings.changed(name="fedteddi")
    simulate(first, data=tiny_data(), out=folder, time_limit_s=0.0)
    resumed = simulate(first, data=tiny_data(), out=folder, resume=True)
    assert resumed.records == study.of("fedteddi")[0].records


@pytest.mark.parametrize("epsilon", [-1.0, 1e-9, float("nan"), float("inf")])
def test_an_impossible_epsilon_is_refused(epsilon: float) -> None:
    with pytest.raises(InputError, match="epsilon"):
        Settings().changed(privacy__epsilon=epsilon)


@pytest.mark.parametrize("share", [0.0, 1.5, -0.1, float("nan")])
def test_an_impossible_share_is_refused(share: float) -> None:
    with pytest.raises(InputError, match=r"server\.max_sample_share"):
        Settings().changed(server__max_sample_share=share)
