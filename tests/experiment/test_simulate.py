"""Whole runs: what must not change a single bit, and what must be kept through interruptions."""

import dataclasses
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from fedteddi import InputError, compare, rate_bps, read_study, simulate
from fedteddi.experiment import Progress, run_name, variant
from fedteddi.results.folder import RunFolder, locked
from fedteddi.results.report import make_tables
from fedteddi.settings import Settings, write_settings
from fedteddi.simulation.checkpoint import load_checkpoint, save_checkpoint
from fedteddi.simulation.evaluator import loss_samples
from fedteddi.simulation.laboratory import Laboratory
from fedteddi.simulation.pretrained import Pretraining
from fedteddi.simulation.run import Run
from small_world import tiny_data, tiny_settings

RULES = ["fedteddi", "random", "best-norm", "power-of-choice", "fed-cbs"]


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEDTEDDI_CACHE", str(tmp_path / "cache"))


def play(settings: Settings, **options: Any) -> Run:
    """One run to its end, with its final weights."""
    laboratory = Laboratory(settings, tiny_data())
    run = laboratory.new_run(settings)
    for name, value in options.items():
        setattr(run.clients, name, value)
    while not run.finished:
        laboratory.advance([run])
    return run


@pytest.mark.parametrize("scheduler", RULES)
def test_training_everyone_and_training_only_the_scheduled_give_the_same_bits(scheduler: str) -> None:
    settings = tiny_settings(scheduler=scheduler)
    only, everyone = play(settings), play(settings, train_everyone=True)
    assert only.records == everyone.records
    assert torch.equal(only.state.weights, everyone.state.weights)
    assert any(0 < len(r.clients) < 6 for r in only.records if r.round)


def test_runs_in_lock_step_equal_runs_alone() -> None:
    """A run's outcome does not depend on which runs share the batch, or on the order of the runs."""
    settings = [variant(tiny_settings(), name, seed, 1.0) for name in RULES for seed in (0, 1)]
    laboratory = Laboratory(settings[0], tiny_data())
    together = [laboratory.new_run(s) for s in reversed(settings)]
    while active := [run for run in together if not run.finished]:
        laboratory.advance(active)
    for chosen, run in zip(reversed(settings), together, strict=True):
        alone = play(chosen)
        assert alone.records == run.records
        assert torch.equal(alone.state.weights, run.state.weights)


def test_the_scheduler_changes_nothing_but_the_schedule() -> None:
    """Common random numbers: data, channels, delays and batches of a seed are the same for every rule."""
    settings = tiny_settings()
    laboratory = Laboratory(settings, tiny_data())
    one, other = (laboratory.new_run(variant(settings, name, 3, 1.0)) for name in ("fedteddi", "random"))
    for frame, number in ((0, 1), (1, 3), (2, 2)):
        np.testing.assert_array_equal(
            one.environment.channel_gain(frame, number), other.environment.channel_gain(frame, number)
        )
        np.testing.assert_array_equal(
            one.environment.compute_s(frame, number), other.environment.compute_s(frame, number)
        )
        for client in range(6):
            mine, theirs = (run.clients.batches(frame, number, client) for run in (one, other))
            np.testing.assert_array_equal(mine[0], theirs[0])
            np.testing.assert_array_equal(mine[1], theirs[1])
    assert one.records == other.records == []
    assert torch.equal(one.state.weights, other.state.weights)


def test_batches_are_drawn_without_replacement_from_what_the_client_holds() -> None:
    run = play(tiny_settings(rounds=[1, 0, 0]))
    samples, flips, keys = run.clients.batches(0, 1, 2)
    assert samples.shape == (2, 8)
    assert flips is not None
    assert keys.shape == (2, 2)
    assert all(len(np.unique(step)) == 8 for step in samples)
    assert np.isin(samples, run.plan.frames[0].held[2]).all()


def test_records_say_what_happened() -> None:
    settings = tiny_settings()
    run = play(settings)
    rounds = [(r.frame, r.round) for r in run.records]
    assert rounds == [(f, k) for f, last in enumerate(settings.rounds) for k in range(last + 1)]
    judged = [(r.frame, r.round) for r in run.records if r.is_evaluated]
    assert judged == [(0, 0), (0, 2), (1, 0), (1, 2), (1, 4), (1, 5), (2, 0), (2, 2), (2, 4)]
    for record in run.records:
        json.dumps(record.as_json(), allow_nan=False)
        if record.is_evaluated:
            seen = run.plan.classes_seen(record.frame)
            accuracy = np.array(record.class_accuracy)
            assert record.balanced == pytest.approx(accuracy[seen].mean())
            mix = run.plan.frames[record.frame].counts.sum(axis=0)
            assert record.global_ == pytest.approx(accuracy @ mix / mix.sum())
            assert (record.loss is not None) is (record.frame < 2)
        if record.round:
            assert sum(record.bandwidth_hz) <= settings.radio.total_hz * (1 + 1e-9)
            assert record.finish_s == pytest.approx([1.0] * len(record.clients))
            assert record.scheduled_new <= len(record.clients)
            # Six reports: two histograms and a variance each.
            messages = 6 * 32 * (2 * run.plan.frames[0].counts.shape[1] + 1) + record.class_gradient_bits
            assert record.uplink_bits == 32 * len(run.state.weights) * len(record.clients) + messages


def test_energy_by_hand() -> None:
    """P·Σ t_cm over the scheduled, 1 W × Σ t_cp over everyone, and P × seconds of reports and class gradients.

    t_cm = finish − t_cp. A report holds two histograms of C classes and a variance; all six share the band equally.
    """
    run = play(tiny_settings(rounds=[3, 0, 0]))
    report_bits = 32 * (2 * run.plan.frames[0].counts.shape[1] + 1)
    share_hz, power_w, noise = 1.5e4 / 6, 10**-0.7, 10**-20.4
    for record in [r for r in run.records if r.round]:
        rate = rate_bps(share_hz, power_w, run.environment.channel_gain(0, record.round), noise)
        messages = power_w * (report_bits / rate).sum() + record.class_gradient_j
        upload = sum(done - c for done, c in zip(record.finish_s, record.compute_s, strict=True))
        compute = run.environment.compute_s(0, record.round).sum()
        assert record.energy_j == pytest.approx(power_w * upload + compute + messages)
        assert record.class_gradient_j > 0


def test_the_best_model_of_a_frame_starts_the_next() -> None:
    """With an absurd learning rate every round makes it worse, so frame 1 begins with the untrained model."""
    settings = tiny_settings(training__learning_rate=50.0, rounds=[4, 1, 0])
    run = play(settings)
    first, start = run.records[0], next(r for r in run.records if r.frame == 1)
    assert start.class_accuracy == first.class_accuracy
    losses = [r.loss for r in run.records if r.frame == 0 and r.loss is not None]
    assert losses[0] == min(losses)


def test_learning_happens() -> None:
    run = play(
        tiny_settings(rounds=[0, 40, 0], scenario__arrivals=[], scenario__class_weights=[1, 1, 1, 1, 1])
    )
    accuracy = [r.balanced for r in run.records if r.is_evaluated]
    assert accuracy[-1] > accuracy[0] + 0.3


def test_pretrained_models_are_cached_and_a_damaged_cache_is_made_anew(tmp_path: Path) -> None:
    settings = tiny_settings(training__pretrain_epochs=2, rounds=[0, 1, 0])
    first = play(settings)
    (file,) = (tmp_path / "cache" / "pretrained").iterdir()
    again = play(settings)
    assert again.records == first.records
    file.write_bytes(b"damaged")
    assert play(settings).records == first.records
    assert file.stat().st_size > 100


def test_models_are_pretrained_alone_so_that_none_depends_on_its_company(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settings = tiny_settings(training__pretrain_epochs=1)
    laboratory = Laboratory(settings, tiny_data())
    runs = [
        laboratory.new_run(settings.changed(seed=seed, scheduler=rule))
        for seed in (0, 1)
        for rule in ("fedteddi", "random")
    ]
    asked, train = [], laboratory.engine.train_apart
    monkeypatch.setattr(
        laboratory.engine, "train_apart", lambda jobs, told: asked.append(len(jobs)) or train(jobs, told)
    )
    monkeypatch.delattr(type(laboratory.engine), "train")
    models = laboratory.pretrained.weights(runs)
    assert asked == [2]
    assert models[0] is models[1]
    assert models[2] is models[3]
    assert not torch.equal(models[0], models[2])


def test_the_loss_of_power_of_choice_can_be_the_mean_over_steps() -> None:
    """After two large local steps clients rank differently than on their first batch, at least once in eight rounds."""
    settings = tiny_settings(scheduler="power-of-choice", rounds=[8, 0, 0], training__learning_rate=0.5)
    plain, steps = play(settings), play(settings.changed(estimates__power_of_choice_loss="local-steps"))
    chosen = [[r.clients for r in run.records if r.round] for run in (plain, steps)]
    assert chosen[0] != chosen[1]


def test_class_norms_of_the_head_only_are_smaller() -> None:
    whole, head = (
        play(
            tiny_settings(
                rounds=[1, 0, 0], estimates__class_norm="exact", estimates__class_norm_layers=layers
            )
        )
        for layers in ("all", "head")
    )
    assert 0 < sum(head.records[1].class_norm) < sum(whole.records[1].class_norm)


def test_everyone_is_the_bound_without_limits() -> None:
    study = compare(tiny_settings(), schedulers=["everyone", "random"], seeds=[0], data=tiny_data())
    bound, random = study.runs
    assert all(len(r.clients) == 6 for r in bound.records if r.round)
    assert any(len(r.clients) < 6 for r in random.records if r.round)


# --- folders, resume, interruptions


def files_of(folder: Path) -> tuple[bytes, torch.Tensor]:
    from safetensors.torch import load_file

    return (folder / "rounds.jsonl").read_bytes(), load_file(folder / "checkpoint.safetensors")["weights"]


class Interrupted(Exception):
    pass


@pytest.mark.parametrize("scheduler", ["fedteddi", "fed-cbs"])
@pytest.mark.parametrize("stop_after", [1, 4, 7, 10])
def test_resume_after_an_interruption_is_bit_identical(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stop_after: int, scheduler: str
) -> None:
    """With a checkpoint after every round, so that it is the checkpoint that is tested, not a fresh start."""
    monkeypatch.setattr("fedteddi.simulation.session.CHECKPOINT_EVERY_S", 0.0)
    settings = tiny_settings(scheduler=scheduler)
    simulate(settings, data=tiny_data(), out=tmp_path / "whole")

    def interrupt(state: Progress) -> None:
        if state.rounds_done >= stop_after:
            raise Interrupted

    with pytest.raises(Interrupted):
        simulate(settings, data=tiny_data(), out=tmp_path / "parts", watch=interrupt)
    at = json.loads(checkpoint_state(tmp_path / "parts"))
    assert at["rounds_done"] == stop_after
    record = simulate(settings, data=tiny_data(), out=tmp_path / "parts", resume=True)
    (whole, weights), (parts, other) = files_of(tmp_path / "whole"), files_of(tmp_path / "parts")
    assert whole == parts
    assert torch.equal(weights, other)
    assert record.finished


def checkpoint_state(folder: Path) -> str:
    from safetensors import safe_open

    with safe_open(folder / "checkpoint.safetensors", framework="pt") as file:
        return file.metadata()["state"]


def test_a_checkpoint_keeps_all_the_server_knows(tmp_path: Path) -> None:
    """Field by field, so that none can be forgotten."""
    settings = tiny_settings(scheduler="fed-cbs")
    laboratory = Laboratory(settings, tiny_data())
    run = laboratory.new_run(settings)
    run.folder = RunFolder(tmp_path / "run")
    run.folder.start(settings, {})
    for _ in range(7):
        laboratory.advance([run])
    save_checkpoint(run)
    run.folder.close()
    fresh = laboratory.new_run(settings)
    load_checkpoint(fresh, folder := RunFolder(tmp_path / "run"))
    folder.close()
    for field in dataclasses.fields(run.state):
        one, other = getattr(run.state, field.name), getattr(fresh.state, field.name)
        if isinstance(one, dict):
            assert {n: np.asarray(held).tolist() for n, held in one.items()} == {
                n: np.asarray(held).tolist() for n, held in other.items()
            }, field.name
        else:
            assert np.array_equal(np.asarray(one), np.asarray(other)), field.name
    assert run.state.times_scheduled.sum() > 0
    assert fresh.best_loss == run.best_loss
    assert (fresh.best_weights is None) == (run.best_weights is None)
    assert fresh.records == run.records


SCRIPT = """
import sys
sys.path.insert(0, {tests!r})
from small_world import tiny_data, tiny_settings
from fedteddi import simulate
simulate(tiny_settings(rounds=[30, 60, 30], seed=4), data=tiny_data(), out={out!r}, resume=True)
"""


def test_killed_at_random_rounds_and_resumed(tmp_path: Path) -> None:
    """SIGKILL three times at different rounds of a run that checkpoints often; then the same files as without."""
    tests = str(Path(__file__).parents[1])
    settings = tiny_settings(rounds=[30, 60, 30], seed=4)
    environment = os.environ | {"FEDTEDDI_CHECKPOINT_S": "0.05", "OMP_NUM_THREADS": "1"}
    out = tmp_path / "killed"
    script = SCRIPT.format(tests=tests, out=str(out))
    for lines in (12, 55, 90):
        process = subprocess.Popen([sys.executable, "-c", script], env=environment)
        give_up = time.monotonic() + 120
        try:
            while time.monotonic() < give_up and process.poll() is None:
                written = (
                    (out / "rounds.jsonl").read_bytes().count(b"\n") if (out / "rounds.jsonl").exists() else 0
                )
                if written >= lines:
                    break
                time.sleep(0.002)
        finally:
            process.send_signal(signal.SIGKILL)
            assert process.wait(30) == -signal.SIGKILL
    done = subprocess.run([sys.executable, "-c", script], env=environment, timeout=300, check=False)
    assert done.returncode == 0
    simulate(settings, data=tiny_data(), out=tmp_path / "whole")
    (whole, weights), (parts, other) = files_of(tmp_path / "whole"), files_of(out)
    assert whole == parts
    assert torch.equal(weights, other)


def test_resume_on_a_finished_run_does_nothing_and_on_an_absent_folder_starts(tmp_path: Path) -> None:
    settings = tiny_settings(rounds=[2, 0, 0])
    simulate(settings, data=tiny_data(), out=tmp_path / "run", resume=True)
    before = (tmp_path / "run" / "rounds.jsonl").stat().st_mtime_ns
    record = simulate(settings, data=tiny_data(), out=tmp_path / "run", resume=True)
    assert record.finished
    assert len(record.records) == 5
    assert (tmp_path / "run" / "rounds.jsonl").stat().st_mtime_ns == before
    with pytest.raises(InputError, match="exists already: continue it with --resume"):
        simulate(settings, data=tiny_data(), out=tmp_path / "run")


def test_resume_with_other_settings_is_refused(tmp_path: Path) -> None:
    simulate(tiny_settings(rounds=[1, 0, 0]), data=tiny_data(), out=tmp_path / "run")
    with pytest.raises(InputError, match=r"radio\.deadline_s was 1\.0, now 1\.2"):
        simulate(
            tiny_settings(rounds=[1, 0, 0], radio__deadline_s=1.2),
            data=tiny_data(),
            out=tmp_path / "run",
            resume=True,
        )


def test_a_corrupt_checkpoint_is_said(tmp_path: Path) -> None:
    settings = tiny_settings(rounds=[2, 0, 0])
    simulate(settings, data=tiny_data(), out=tmp_path / "run")
    (tmp_path / "run" / "checkpoint.safetensors").write_bytes(b"x" * 100)
    with pytest.raises(InputError, match=r"checkpoint.safetensors cannot be used"):
        simulate(settings, data=tiny_data(), out=tmp_path / "run", resume=True)
    assert (tmp_path / "run" / "rounds.jsonl").read_bytes().count(b"\n") == 5  # the results are still there


def test_one_flipped_bit_in_a_checkpoint_is_found(tmp_path: Path) -> None:
    settings = tiny_settings(rounds=[2, 0, 0])
    simulate(settings, data=tiny_data(), out=tmp_path / "run")
    file = tmp_path / "run" / "checkpoint.safetensors"
    content = bytearray(file.read_bytes())
    content[-100] ^= 4
    file.write_bytes(bytes(content))
    with pytest.raises(InputError, match="its checksum does not fit"):
        simulate(settings, data=tiny_data(), out=tmp_path / "run", resume=True)


def test_results_outlive_their_checkpoint(tmp_path: Path) -> None:
    """Weights may be removed to save room: finished runs stay finished, others are not begun anew over their rounds."""
    settings = tiny_settings(rounds=[3, 0, 0])
    first = simulate(settings, data=tiny_data(), out=tmp_path / "run")
    (tmp_path / "run" / "checkpoint.safetensors").unlink()
    again = simulate(settings, data=tiny_data(), out=tmp_path / "run", resume=True)
    assert (again.finished, again.records) == (True, first.records)
    file = tmp_path / "run" / "rounds.jsonl"
    kept = file.read_bytes().splitlines(keepends=True)[:3]
    file.write_bytes(b"".join(kept))
    with pytest.raises(InputError, match="holds rounds but no checkpoint"):
        simulate(settings, data=tiny_data(), out=tmp_path / "run", resume=True)
    assert file.read_bytes() == b"".join(kept)


def test_a_refused_experiment_leaves_nothing_behind(tmp_path: Path) -> None:
    for changes in ({"training__batch_size": 50}, {"scheduler": "nonsuch"}):
        with pytest.raises(InputError):
            simulate(tiny_settings(**changes), data=tiny_data(), out=tmp_path / "run")
    with pytest.raises(InputError, match="choose cpu, cuda"):
        simulate(tiny_settings(), data=tiny_data(), out=tmp_path / "run", device="cud")
    assert not (tmp_path / "run").exists()


def test_runs_are_not_written_among_other_things(tmp_path: Path) -> None:
    settings = tiny_settings(rounds=[1, 0, 0])
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match="something else than one run"):
        simulate(settings, data=tiny_data(), out=tmp_path / "notes", resume=True)
    with pytest.raises(InputError, match="something else than the runs of a comparison"):
        compare(
            settings, schedulers=["random"], seeds=[0], data=tiny_data(), out=tmp_path / "notes", resume=True
        )
    compare(settings, schedulers=["random"], seeds=[0], data=tiny_data(), out=tmp_path / "several")
    with pytest.raises(InputError, match="something else than one run"):
        simulate(settings, data=tiny_data(), out=tmp_path / "several", resume=True)
    simulate(settings, data=tiny_data(), out=tmp_path / "single")
    with pytest.raises(InputError, match="something else than the runs of a comparison"):
        compare(
            settings, schedulers=["random"], seeds=[0], data=tiny_data(), out=tmp_path / "single", resume=True
        )


def test_a_run_continued_elsewhere_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = tiny_settings(rounds=[3, 0, 0])
    simulate(settings, data=tiny_data(), out=tmp_path / "run", time_limit_s=0)
    file = tmp_path / "run" / "environment.json"
    assert "resumed" not in json.loads(file.read_text())
    monkeypatch.setenv("FEDTEDDI_REVISION", "another")
    simulate(settings, data=tiny_data(), out=tmp_path / "run", resume=True)
    kept = json.loads(file.read_text())
    assert kept["git_revision"] != "another"
    assert [entry["git_revision"] for entry in kept["resumed"]] == ["another"]


def test_a_second_process_on_the_same_folder_is_refused(tmp_path: Path) -> None:
    with locked(tmp_path / "run"), pytest.raises(InputError, match="in use by another process"):
        simulate(tiny_settings(), data=tiny_data(), out=tmp_path / "run", resume=True)


def test_pretraining_tells_how_far_it_is() -> None:
    settings = tiny_settings(training__pretrain_epochs=3, seed=7)
    laboratory = Laboratory(settings, tiny_data())
    told: list[Pretraining] = []
    laboratory.advance([laboratory.new_run(settings)], told.append)
    steps = told[-1].steps
    assert [(p.seed, p.step, p.epochs) for p in told] == [(7, step, 3) for step in range(1, steps + 1)]
    assert [p.epoch for p in told] == [1 + step // (steps // 3) for step in range(steps)]


def test_who_watches_sees_pretraining_too() -> None:
    settings = tiny_settings(training__pretrain_epochs=2, rounds=[0, 1, 0])
    watched: list[Progress] = []
    simulate(settings, data=tiny_data(), watch=watched.append)
    steps = [state.pretraining.step for state in watched if state.pretraining is not None]
    assert steps == list(range(1, len(steps) + 1))
    assert watched[len(steps) - 1].pretraining is not None  # first of all
    assert watched[-1].rounds_done == watched[-1].rounds_in_all == 1


def test_time_limit_stops_in_time_and_resume_goes_on(tmp_path: Path) -> None:
    settings = tiny_settings(rounds=[60, 0, 0])
    record = simulate(settings, data=tiny_data(), out=tmp_path / "run", time_limit_s=0.4)
    assert not record.finished
    assert 0 < len(record.records) < 61
    record = simulate(settings, data=tiny_data(), out=tmp_path / "run", resume=True)
    assert record.finished
    whole = simulate(settings, data=tiny_data())
    assert list(record.records) == list(whole.records)


def test_compare_folders_can_be_read_back_and_resumed_with_more(tmp_path: Path) -> None:
    settings = tiny_settings()
    study = compare(settings, schedulers=["random"], seeds=[0, 1], data=tiny_data(), out=tmp_path / "study")
    more = compare(
        settings,
        schedulers=["random", "fedteddi"],
        seeds=[0, 1],
        data=tiny_data(),
        out=tmp_path / "study",
        resume=True,
    )
    assert len(more.runs) == 4
    read = read_study(tmp_path / "study")
    assert read.finished
    assert read.schedulers == ["fedteddi", "random"]
    for run in study.runs:
        (same,) = [r for r in read.of("random") if r.settings.seed == run.settings.seed]
        assert same.records == run.records
        np.testing.assert_array_equal(same.counts, run.counts)


def test_a_runs_folder_is_complete(tmp_path: Path) -> None:
    settings = tiny_settings(rounds=[1, 0, 0])
    simulate(settings, data=tiny_data(), out=tmp_path / "run")
    names = {file.name for file in (tmp_path / "run").iterdir()} - {".lock"}
    assert names == {
        *(
            "settings.toml",
            "environment.json",
            "scenario.json",
            "rounds.jsonl",
            "timing.jsonl",
            "checkpoint.safetensors",
        )
    }
    environment = json.loads((tmp_path / "run" / "environment.json").read_text())
    assert (
        environment["packages"]["torch"] == torch.__version__.split("+")[0]
        or environment["packages"]["torch"]
    )
    kept = settings.changed(dataset="tiny")  # what the arrays were called
    assert (tmp_path / "run" / "settings.toml").read_text() == write_settings(kept)
    assert run_name(settings) == "fedteddi-d1-s0"


def test_a_full_disk_is_said_and_costs_no_results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The write of a later checkpoint fails; what was there before stays usable."""
    settings = tiny_settings(rounds=[6, 0, 0])
    real, calls = Path.replace, []

    def full(self: Path, target: Path) -> Path:
        if self.name.startswith("checkpoint"):
            calls.append(1)
            if len(calls) > 1:
                raise OSError(28, "No space left on device")
        return real(self, target)

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(InputError, match=r"run could not be written \(No space left.*repeat with --resume"):
        simulate(settings, data=tiny_data(), out=tmp_path / "run")
    monkeypatch.undo()
    assert not list((tmp_path / "run").glob("*.new"))  # what could not be finished does not take room
    record = simulate(settings, data=tiny_data(), out=tmp_path / "run", resume=True)
    assert list(record.records) == list(simulate(settings, data=tiny_data()).records)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"training__batch_size": 50}, "training.batch_size=50 is more than a client holds"),
        ({"training__model": "nonsuch"}, "no model is called 'nonsuch'"),
        ({"scheduler": "nonsuch"}, "no scheduler is called"),
        (
            {"scenario__arrivals": [{"frame": 1, "clients": 2, "classes": [9]}]},
            "classes are numbers from 0 to 4",
        ),
    ],
)
def test_impossible_experiments_are_refused_before_they_start(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        simulate(tiny_settings(**changes), data=tiny_data())


def test_a_comparison_runs_each_variant_once(tmp_path: Path) -> None:
    """Rules, seeds and deadlines given twice, iterators, and `everyone`, which has no deadline."""
    study = compare(
        tiny_settings(rounds=[1, 0, 0]),
        schedulers=(name for name in ("everyone", "random", "random")),
        seeds=iter([0, 1, 1]),
        deadlines_s=[0.9, 1.0, 1.0, 1.0000001],
        data=tiny_data(),
        out=tmp_path / "study",
    )
    assert len(study.runs) == 2 + 3 * 2
    assert len(read_study(tmp_path / "study").runs) == 8


def test_two_rules_of_one_name_are_refused(tmp_path: Path) -> None:
    rule = (Path(__file__).parents[2] / "examples" / "my_rule.py").read_text()
    for file in ("a.py", "b.py"):
        (tmp_path / file).write_text(rule)
    both = [f"{tmp_path / file}:ShortestUploads" for file in ("a.py", "b.py")]
    with pytest.raises(InputError, match="two runs would both be called shortest-uploads"):
        compare(tiny_settings(), schedulers=both, seeds=[0], data=tiny_data())


def test_resume_on_other_data_is_refused(tmp_path: Path) -> None:
    settings = tiny_settings(rounds=[2, 0, 0])
    simulate(settings, data=tiny_data(), out=tmp_path / "run", time_limit_s=0)
    with pytest.raises(InputError, match="was started on other data"):
        simulate(settings, data=tiny_data(per_class=61), out=tmp_path / "run", resume=True)


def test_pretrained_models_depend_on_the_data_and_the_users_code(tmp_path: Path) -> None:
    settings = tiny_settings(training__pretrain_epochs=1, rounds=[0, 0, 0])
    inverted = tiny_data()
    inverted.train_images.copy_(255 - inverted.train_images)
    starts = []
    for data in (tiny_data(), inverted):
        laboratory = Laboratory(settings, data)
        run = laboratory.new_run(settings)
        laboratory.advance([run])
        starts.append(run.state.weights)
    assert not torch.equal(*starts)
    file = tmp_path / "net.py"
    ends = []
    for activation in ("ReLU", "Tanh"):
        file.write_text(
            "from torch import nn\n"
            "class Net(nn.Module):\n"
            "    def __init__(self): super().__init__(); self.a = nn.Linear(64, 16); self.b = nn.Linear(16, 5)\n"
            f"    def forward(self, x): return self.b(nn.{activation}()(self.a(x.flatten(1))))\n"
            "def net(shape, classes): return Net()\n"
        )
        chosen = settings.changed(training__model=f"{file}:net")
        laboratory = Laboratory(chosen, tiny_data())
        run = laboratory.new_run(chosen)
        laboratory.advance([run])
        ends.append(run.state.weights)
    assert not torch.equal(*ends)


def test_resuming_a_finished_run_does_not_pretrain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = tiny_settings(training__pretrain_epochs=1, rounds=[0, 1, 0])
    simulate(settings, data=tiny_data(), out=tmp_path / "run")
    monkeypatch.setattr("fedteddi.simulation.pretrained.pretraining_job", None)
    monkeypatch.setenv("FEDTEDDI_CACHE", str(tmp_path / "empty"))
    assert simulate(settings, data=tiny_data(), out=tmp_path / "run", resume=True).finished


def test_frozen_layers_stay_frozen_whatever_runs_beside_them(tmp_path: Path) -> None:
    file = tmp_path / "net.py"
    file.write_text(
        "from torch import nn\n"
        "def net(shape, classes):\n"
        "    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 16), nn.ReLU(), nn.Linear(16, classes))\n"
        "    model[1].requires_grad_(False)\n"
        "    return model\n"
    )
    settings = tiny_settings(training__model=f"{file}:net")
    alone = simulate(settings, data=tiny_data(), scheduler="random")
    study = compare(settings, schedulers=["fedteddi", "random"], seeds=[0], data=tiny_data())
    assert study.of("random")[0].records == alone.records


def test_a_rule_that_fails_in_a_run_is_one_sentence(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text("class Mine:\n    name = 'mine'\n    def select(self, view, rng): return {}['x']\n")
    with pytest.raises(InputError, match=r"mine raised KeyError: 'x' \(mine.py, line 3\)"):
        simulate(tiny_settings(scheduler=f"{file}:Mine"), data=tiny_data())


def test_models_are_not_parked_beyond_their_round() -> None:
    settings = tiny_settings(scheduler="best-norm", radio__deadline_s=1e-4, rounds=[4, 0, 0])
    run = play(settings)
    assert all(r.clients == [] for r in run.records if r.round)
    assert len(run.clients.parked) <= 6


@pytest.mark.parametrize("rounds", [[0, 0, 0]])
def test_nothing_to_report_is_said(tmp_path: Path, rounds: list[int]) -> None:
    simulate(tiny_settings(rounds=rounds), data=tiny_data(), out=tmp_path / "run")
    with pytest.raises(InputError, match="these runs have no rounds"):
        make_tables(read_study(tmp_path / "run"), None, "fedteddi")


def test_a_damaged_record_is_said_on_resume(tmp_path: Path) -> None:
    settings = tiny_settings(rounds=[2, 0, 0])
    simulate(settings, data=tiny_data(), out=tmp_path / "run")
    file = tmp_path / "run" / "rounds.jsonl"
    file.write_bytes(b"{" + file.read_bytes()[1:].replace(b"{", b"[", 1))
    with pytest.raises(InputError, match="cannot be used"):
        simulate(settings, data=tiny_data(), out=tmp_path / "run", resume=True)


def test_a_cached_model_is_used_only_where_it_would_come_out_the_same() -> None:
    settings = tiny_settings(training__pretrain_epochs=2, rounds=[0, 1, 0])
    laboratory = Laboratory(settings, tiny_data())
    name = laboratory.pretrained._name(laboratory.new_run(settings))
    assert name == laboratory.pretrained._name(laboratory.new_run(settings.changed(scheduler="random")))
    others = [
        {"training__pretrain_epochs": 3},
        {"training__pretrain_learning_rate": 0.03},
        {"training__pretrain_momentum": 0.8},
        {"training__pretrain_weight_decay": 0.0},
        {"training__pretrain_batch_size": 64},
        {"training__augment": "none"},
        {"training__head": "expanding"},
        {"training__pretrain_data": "held"},
        {"seed": 1},
    ]
    names = {laboratory.pretrained._name(laboratory.new_run(settings.changed(**other))) for other in others}
    laboratory.engine.name = "another device"
    names.add(laboratory.pretrained._name(laboratory.new_run(settings)))
    assert len(names | {name}) == len(others) + 2


def test_models_are_pretrained_on_every_image_of_frame_0s_classes_or_on_what_is_held() -> None:
    """60 images of each of classes 0 to 2, once each; held are 6 clients' 24 samples, fewer where they overlap."""
    settings, data = tiny_settings(training__pretrain_epochs=2), tiny_data()
    laboratory = Laboratory(settings, data)
    classes = laboratory.new_run(settings)
    assert laboratory.pretrained._samples(classes).tolist() == list(range(180))
    held = laboratory.new_run(settings.changed(training__pretrain_data="held"))
    found = laboratory.pretrained._samples(held)
    assert sorted({int(n) for own in held.plan.frames[0].held for n in own}) == found.tolist()
    assert len(found) <= 144


def test_the_loss_is_judged_on_a_random_part_of_what_is_held() -> None:
    settings = tiny_settings(evaluation__loss_samples=20)
    laboratory = Laboratory(settings, tiny_data())
    first, second = (laboratory.new_run(settings.changed(seed=seed)) for seed in (0, 1))
    chosen = loss_samples(first)
    pooled = np.concatenate(first.plan.frames[0].held)
    assert len(chosen) == 20
    assert np.isin(chosen, pooled).all()
    assert not np.array_equal(chosen, pooled[:20])
    assert not np.array_equal(chosen, loss_samples(second))
    np.testing.assert_array_equal(chosen, loss_samples(first))  # fixed over the frame


def test_options_are_given_to_every_scheduler_that_has_them() -> None:
    """A scheduler's own options come first; fedteddi-plus and the bounds have no on_no_fit; names stay."""
    names = ["fedteddi", "random[on_no_fit=stop]", "fedteddi-plus", "everyone"]
    study = compare(
        tiny_settings(rounds=[1, 0, 0]),
        schedulers=names,
        seeds=[0],
        options={"on_no_fit": "skip"},
        data=tiny_data(),
    )
    given = {run.scheduler: run.settings.scheduler_options for run in study.runs}
    assert given == {
        "fedteddi": {"on_no_fit": "skip"},
        "random-on_no_fit-stop": {"on_no_fit": "stop"},
        "fedteddi-plus": {},
        "everyone": {},
    }
    with pytest.raises(InputError, match="none of fedteddi-plus has an option 'on_no_fit'"):
        compare(schedulers=["fedteddi-plus"], options={"on_no_fit": "skip"}, data=tiny_data())


def test_the_literal_sigma_wants_the_mean_variance() -> None:
    settings = tiny_settings(scheduler_options={"sigma": "literal"}, estimates__gradient_std="std")
    with pytest.raises(InputError, match="sigma='literal' wants the mean variance"):
        simulate(settings, data=tiny_data())


def test_a_misspelt_option_of_all_gets_a_hint() -> None:
    with pytest.raises(InputError, match=r"none of random, everyone has an option 'on_nofit'.*'on_no_fit'"):
        compare(schedulers=["random", "everyone"], options={"on_nofit": "skip"}, data=tiny_data())
