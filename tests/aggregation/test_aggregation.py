"""Aggregation rules by hand, in whole runs, over frames and resumed; and foreign ones that go wrong."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from fedteddi import InputError, Settings, compare, read_study, simulate
from fedteddi.aggregation import FedAvg, FedAvgM, Received, make_aggregation
from fedteddi.experiment import Progress, variant
from fedteddi.protocol.vectors import NotFiniteError, aggregated
from fedteddi.results.folder import RunFolder
from fedteddi.settings import read_settings, write_settings
from fedteddi.simulation.checkpoint import load_checkpoint, save_checkpoint
from fedteddi.simulation.laboratory import Laboratory
from fedteddi.simulation.run import Run
from small_world import tiny_data, tiny_settings

MOMENTUM: dict[str, Any] = {"server__aggregation": "fedavgm"}


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEDTEDDI_CACHE", str(tmp_path / "cache"))


def received(model: Any, *uploads: Any, shares: tuple[float, ...]) -> Received:
    return Received(
        frame=1,
        round=1,
        model=model,
        uploads=uploads,
        shares=np.array(shares),
        client_id=np.arange(len(uploads)),
    )


def played(settings: Settings, rounds: int | None = None) -> Run:
    """One run to its end, or so many steps of it."""
    laboratory = Laboratory(settings, tiny_data())
    run = laboratory.new_run(settings)
    while not run.finished and rounds != 0:
        laboratory.advance([run])
        rounds = None if rounds is None else rounds - 1
    return run


# --- by hand


@pytest.mark.parametrize("vector", [np.array, torch.tensor])
def test_server_momentum_by_hand(vector: Any) -> None:
    """β = 0.5, η = 2, from w = (8, 0), v = 0.

    Round 1: uploads (4, 0) and (0, 4) with shares 3/4, 1/4: mean (3, 1), Δ = (5, −1), v = (5, −1), w = (−2, 2).
    Round 2: the upload (−2, 4): Δ = (0, −2), v = (2.5, −2.5), w = (−2 − 5, 2 + 5) = (−7, 7).
    """
    rule = FedAvgM(server_momentum=0.5, server_learning_rate=2.0)
    model = vector([8.0, 0.0])
    first = received(model, vector([4.0, 0.0]), vector([0.0, 4.0]), shares=(0.75, 0.25))
    model, velocity = rule.aggregate(first, rule.initial_state(model))
    assert model.tolist() == [-2.0, 2.0]
    assert velocity.tolist() == [5.0, -1.0]
    model, velocity = rule.aggregate(received(model, vector([-2.0, 4.0]), shares=(1.0,)), velocity)
    assert model.tolist() == [-7.0, 7.0]
    assert velocity.tolist() == [2.5, -2.5]


def test_without_momentum_it_is_the_average() -> None:
    """β = 0, η = 1: w − (w − Σ α w_n), so up to one rounding of float32 of numbers below 10."""
    rng = np.random.default_rng(0)
    model, *uploads = rng.normal(size=(6, 1000)).astype(np.float32)
    asked = received(model, *uploads, shares=(0.1, 0.2, 0.3, 0.15, 0.25))
    plain = FedAvg().aggregate(asked)
    rule = FedAvgM(server_momentum=0.0)
    same, velocity = rule.aggregate(asked, rule.initial_state(model))
    np.testing.assert_allclose(same, plain, atol=1e-6)
    np.testing.assert_allclose(velocity, model - plain, atol=1e-6)
    assert same.dtype == velocity.dtype == np.float32


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"server_momentum": 1.0}, "server_momentum=1.0: give a finite number at least 0 and below 1"),
        ({"server_momentum": -0.1}, "server_momentum=-0.1"),
        ({"server_learning_rate": 0}, "server_learning_rate=0: give a finite number above 0"),
        ({"momentum": 0.5}, "fedavgm has no option 'momentum' (did you mean 'server_momentum'?): it has server"),
    ],
)  # fmt: skip
def test_options_are_checked(options: dict[str, float], message: str) -> None:
    with pytest.raises(InputError) as refused:
        make_aggregation("fedavgm", **options)
    assert message in str(refused.value)


# --- in whole runs


def test_a_run_without_momentum_equals_the_average_to_rounding() -> None:
    options = {"server_momentum": 0.0, "server_learning_rate": 1.0}
    plain = played(tiny_settings())
    same = played(tiny_settings(**MOMENTUM, server__aggregation_options=options))
    assert [r.clients for r in plain.records] == [r.clients for r in same.records]
    np.testing.assert_allclose(same.state.weights, plain.state.weights, atol=1e-4)
    assert not torch.equal(same.state.weights, played(tiny_settings(**MOMENTUM)).state.weights)


def test_a_run_with_momentum_follows_the_formula() -> None:
    """Round by round: v' = β v + (w − mean), where mean is what FedAvg makes of the same w; w' = w − η v'."""
    settings = tiny_settings(rounds=[4, 0, 0], scheduler="random")
    options = {"server_momentum": 0.7, "server_learning_rate": 0.5}
    changed = settings.changed(**MOMENTUM, server__aggregation_options=options)
    laboratory = Laboratory(settings, tiny_data())
    run, plain = laboratory.new_run(changed), laboratory.new_run(settings)
    laboratory.advance([run, plain])
    velocity = torch.zeros_like(run.state.weights)
    for _ in range(3):
        before = run.state.weights
        plain.state.weights = before
        laboratory.advance([run, plain])
        assert run.records[-1].clients
        velocity = 0.7 * velocity + (before - plain.state.weights)
        torch.testing.assert_close(run.state.aggregation, velocity)
        torch.testing.assert_close(run.state.weights, before - 0.5 * velocity)


def test_the_best_model_starts_the_next_frame_with_the_state_it_was_reached_with() -> None:
    """With an absurd learning rate the frame's first model stays the best: its state is that before any round."""
    absurd = tiny_settings(training__learning_rate=50.0, rounds=[4, 1, 0], **MOMENTUM)
    run = played(absurd, rounds=4)
    assert run.state.aggregation is not None
    assert run.best_aggregation is None
    laboratory = Laboratory(absurd, tiny_data())
    laboratory.advance([run])
    assert (run.state.frame, run.state.round) == (1, 0)
    assert run.state.aggregation is None


def test_the_state_goes_on_where_the_last_model_is_the_best() -> None:
    """In frame 1's first round v' = 0.9 v + (w − mean), v being frame 0's last velocity, and not 0."""
    settings = tiny_settings(rounds=[4, 2, 0], training__learning_rate=0.02, scheduler="random")
    laboratory = Laboratory(settings, tiny_data())
    run, plain = (laboratory.new_run(settings.changed(**change)) for change in (MOMENTUM, {}))
    for _ in range(6):  # frame 0 begins, four rounds, frame 1 begins
        laboratory.advance([run, plain])
    assert (run.state.frame, run.state.round) == (1, 0)
    losses = [r.loss for r in run.records if r.frame == 0 and r.loss is not None]
    assert losses[-1] == min(losses)
    before, kept = run.state.weights, run.state.aggregation
    plain.state.weights = before
    laboratory.advance([run])
    laboratory.advance([plain])
    assert run.records[-1].clients
    velocity = 0.9 * kept + (before - plain.state.weights)
    assert float(kept.norm()) > 0
    torch.testing.assert_close(run.state.weights, before - velocity)


def test_rounds_without_uploads_leave_the_state() -> None:
    run = played(tiny_settings(rounds=[2, 0, 0], radio__deadline_s=1e-4, **MOMENTUM))
    assert run.records[1].clients == []
    assert run.state.aggregation is None


def test_shares_are_bounded_and_clients_named() -> None:
    """A rule sees α after `server.max_sample_share`, the round, and whose upload each is."""
    seen: list[Received] = []

    class Watching(FedAvg):
        def aggregate(self, received: Received) -> Any:
            seen.append(received)
            return super().aggregate(received)

    settings = tiny_settings(
        rounds=[1, 0, 0], scheduler="random", server__max_sample_share=0.2, radio__total_hz=1e9
    )
    laboratory = Laboratory(settings, tiny_data())
    run = laboratory.new_run(settings)
    run.aggregation = Watching()
    laboratory.advance([run])
    start = run.state.weights
    laboratory.advance([run])
    assert (seen[0].frame, seen[0].round) == (0, 1)
    assert seen[0].client_id.tolist() == run.records[1].clients
    assert len(seen[0].uploads) == len(seen[0].shares) == len(seen[0].client_id) > 4
    assert seen[0].shares.max() <= 0.2
    assert torch.equal(seen[0].model, start)


# --- folders and resuming


class Interrupted(Exception):
    pass


@pytest.mark.parametrize("stop_after", [1, 2, 4, 7])
def test_resume_is_bit_identical(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stop_after: int) -> None:
    """In frame 0, at its end (the best state is at stake), and in frame 1."""
    monkeypatch.setattr("fedteddi.simulation.session.CHECKPOINT_EVERY_S", 0.0)
    settings = tiny_settings(**MOMENTUM)
    simulate(settings, data=tiny_data(), out=tmp_path / "whole")

    def interrupt(state: Progress) -> None:
        if state.rounds_done >= stop_after:
            raise Interrupted

    with pytest.raises(Interrupted):
        simulate(settings, data=tiny_data(), out=tmp_path / "parts", watch=interrupt)
    simulate(settings, data=tiny_data(), out=tmp_path / "parts", resume=True)
    whole, parts = ((tmp_path / name / "rounds.jsonl").read_bytes() for name in ("whole", "parts"))
    assert whole == parts
    one, other = (load_file(tmp_path / name / "checkpoint.safetensors") for name in ("whole", "parts"))
    assert one.keys() == other.keys()
    assert any(key.startswith("aggregation") for key in one)
    assert all(torch.equal(one[key], other[key]) for key in one)


def test_any_state_survives_a_checkpoint(tmp_path: Path) -> None:
    """Nested, of both libraries, not contiguous, shared with the weights, and with a key like our own."""
    settings = tiny_settings(**MOMENTUM)
    laboratory = Laboratory(settings, tiny_data())
    run = laboratory.new_run(settings)
    grid = np.arange(6.0).reshape(2, 3)
    state = {
        "tensor": [run.state.weights, {"array": grid.T[::-1], "n": np.array(2, dtype=np.int8)}],
        "0.1": 0.1,
        "none": None,
        "yes": True,
        "text": "ü",
        "large": 2**70,
        "strided": torch.arange(10)[::2],
    }
    run.state.aggregation, run.best_aggregation = state, [run.state.weights * 2]
    run.folder = RunFolder(tmp_path / "run")
    run.folder.start(settings, {})
    save_checkpoint(run)
    run.folder.close()
    fresh = laboratory.new_run(settings)
    load_checkpoint(fresh, folder := RunFolder(tmp_path / "run"))
    folder.close()
    found = fresh.state.aggregation
    assert list(found) == list(state)
    assert torch.equal(found["tensor"][0], run.state.weights)
    inner = found["tensor"][1]
    assert isinstance(inner["array"], np.ndarray)
    assert inner["array"].tolist() == [[2.0, 5.0], [1.0, 4.0], [0.0, 3.0]]
    assert (inner["n"].shape, inner["n"].dtype, int(inner["n"])) == ((), np.int8, 2)
    assert [found[key] for key in ("0.1", "none", "yes", "text", "large")] == [0.1, None, True, "ü", 2**70]
    assert found["strided"].tolist() == [0, 2, 4, 6, 8]
    assert torch.equal(fresh.best_aggregation[0], run.state.weights * 2)


def test_checkpoints_from_before_there_was_a_state_are_read(tmp_path: Path) -> None:
    import safetensors.torch

    from fedteddi.simulation.checkpoint import _checksum

    settings = tiny_settings(rounds=[2, 0, 0])
    simulate(settings, data=tiny_data(), out=tmp_path / "run")
    file = tmp_path / "run" / "checkpoint.safetensors"
    with safetensors.safe_open(file, framework="pt") as opened:
        facts = json.loads(opened.metadata()["state"])
        tensors = {key: opened.get_tensor(key) for key in opened.keys()}  # noqa: SIM118
    for key in ("aggregation", "best_aggregation"):
        assert facts.pop(key) is None
    text = json.dumps(facts)
    file.write_bytes(safetensors.torch.save(tensors, {"state": text, "sha256": _checksum(text, tensors)}))
    kept = simulate(settings.changed(), data=tiny_data(), out=tmp_path / "run", resume=True)
    assert kept.finished


def test_bounds_stand_beside_any_aggregation(tmp_path: Path) -> None:
    """Everyone is aggregated as the schedulers are; centralised training has no server, and stays what it is."""
    settings = tiny_settings(rounds=[3, 0, 0], radio__channel="rayleigh", **MOMENTUM)
    names = ["random", "everyone", "centralised"]
    study = compare(settings, schedulers=names, seeds=[0], data=tiny_data(), out=tmp_path / "study")
    again = read_study(tmp_path / "study")
    assert again.of("everyone")[0].settings.server.aggregation == "fedavgm"
    central = again.of("centralised")[0].settings
    assert (central.server.aggregation, central.radio.channel) == ("fedavg", "shadowing")
    plain = compare(tiny_settings(rounds=[3, 0, 0]), schedulers=names, seeds=[0], data=tiny_data())
    assert study.of("centralised")[0].records == plain.of("centralised")[0].records
    with_momentum, without = (each.of("everyone")[0].evaluated(0)[-1] for each in (study, plain))
    assert with_momentum.loss != without.loss


def test_lock_step_with_other_aggregations_changes_nothing() -> None:
    settings = [
        variant(tiny_settings(server__aggregation=name), "fedteddi", 0, 1.0) for name in ("fedavg", "fedavgm")
    ]
    laboratory = Laboratory(settings[0], tiny_data())
    together = [laboratory.new_run(chosen) for chosen in settings]
    while active := [run for run in together if not run.finished]:
        laboratory.advance(active)
    for chosen, run in zip(settings, together, strict=True):
        assert torch.equal(played(chosen).state.weights, run.state.weights)


# --- one's own


OWN = """
import sys
import numpy as np
import torch

class Median:
    def aggregate(self, received):
        return torch.stack(received.uploads).median(dim=0).values

class Counting:
    def initial_state(self, model):
        return {"rounds": 0}
    def aggregate(self, received, state):
        return received.uploads[0] * 1, {"rounds": state["rounds"] + 1}

class Raising:
    def aggregate(self, received):
        raise KeyError("lost")

class Exiting:
    def aggregate(self, received):
        sys.exit(4)

class Numpy:
    def aggregate(self, received):
        return np.median(np.stack(received.uploads), axis=0)

class Short:
    def aggregate(self, received):
        return received.model[:3]

class Double:
    def aggregate(self, received):
        return received.model.double()

class Nan:
    def aggregate(self, received):
        return received.model / 0

class Stateless:
    def initial_state(self, model):
        return 0
    def aggregate(self, received, state):
        return received.model

class Hoarding:
    def initial_state(self, model):
        return []
    def aggregate(self, received, state):
        return received.model * 1, [*state, (received.round, received.uploads)]

class Remembering:
    def __init__(self):
        self.velocity = 0.0
    def aggregate(self, received):
        self.velocity = 0.9 * self.velocity + (received.uploads[0] - received.model)
        return received.model + self.velocity

class InPlace:
    def initial_state(self, model):
        return model * 0.0
    def aggregate(self, received, velocity):
        velocity += received.uploads[0] - received.model
        return received.uploads[0] * 1, velocity

def function(received): ...
"""


@pytest.fixture
def own(tmp_path: Path) -> Path:
    file = tmp_path / "mine.py"
    file.write_text(OWN)
    return file


def test_a_rule_of_ones_own_and_one_with_memory(own: Path) -> None:
    median = simulate(tiny_settings(server__aggregation=f"{own}:Median"), data=tiny_data())
    assert median.finished
    run = played(tiny_settings(rounds=[2, 0, 0], scheduler="random", server__aggregation=f"{own}:Counting"))
    assert run.state.aggregation == {"rounds": 2}


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("fedavgn", "no aggregation is called 'fedavgn' (did you mean 'fedavg"),
        ("{own}:Absent", "mine.py has no 'Absent'"),
        ("{own}:function", "mine.py:function returned NoneType, not Tensor: return a vector like received.model"),
        ("{own}:Raising", "mine.py:Raising raised KeyError: 'lost' (mine.py, line "),
        ("{own}:Exiting", "mine.py:Exiting called sys.exit(4) (mine.py, line "),
        ("{own}:Numpy", "mine.py:Numpy returned ndarray, not Tensor: return a vector like received.model"),
        ("{own}:Short", "mine.py:Short returned shape (3,), not ("),
        ("{own}:Double", "mine.py:Double returned torch.float64, not torch.float32: return a vector like"),
        ("{own}:Nan", "mine.py:Nan made finite uploads into a model that is not finite in frame 0, round 1: try 'fed"),
        ("{own}:Nan", "'fedteddi check --kind aggregation' on it; if it keeps all invariants, lower training.learni"),
        ("{own}:Stateless", "mine.py:Stateless raised TypeError: aggregate returned Tensor: it must return (model, s"),
        ("{own}:Remembering", "mine.py:Remembering gave another model after a fresh start (round 2): keep all mem"),
        ("{own}:InPlace", "mine.py:InPlace changed what it was given (round 1): make new vectors instead; try 'fedte"),
        ("{own}:Hoarding", "mine.py:Hoarding returned a tuple in its state: use vectors, plain numbers, text, lists"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_rule_is_one_sentence(name: str, message: str, own: Path) -> None:
    settings = tiny_settings(scheduler="random", server__aggregation=name.format(own=own))
    with pytest.raises(InputError) as refused:
        simulate(settings, data=tiny_data())
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_built_in_rule_is_not_to_be_checked_where_it_overflows() -> None:
    """η Δ = 1e38 · 10 is beyond float32; training, not the rule, is to be changed."""
    game = received(np.float32([10]), np.float32([0]), shares=(1.0,))
    with pytest.raises(NotFiniteError, match="made finite uploads into a model that is not finite") as raised:
        aggregated(FedAvgM(server_learning_rate=1e38), "fedavgm", game, None)
    assert raised.value.try_first == ""


def test_settings_with_an_aggregation_survive_writing() -> None:
    settings = tiny_settings(**MOMENTUM, server__aggregation_options={"server_momentum": 0.5})
    assert read_settings(write_settings(settings), "written") == settings
