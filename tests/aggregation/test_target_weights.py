"""Target weights as an aggregation: what it averages, what it is given, and in whole runs."""

import dataclasses
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import torch

from fedteddi import InputError, Settings, make_scheduler, simulate
from fedteddi.aggregation import Received, TargetWeights, make_aggregation
from fedteddi.aggregation.laws import check_aggregation
from fedteddi.aggregation.solved_weights import solved_weights
from fedteddi.heterogeneity.objective import Objective
from fedteddi.protocol.messages import Answers, Report, Request
from fedteddi.protocol.server import server_round
from fedteddi.protocol.state import ServerState
from fedteddi.schedulers.made_rounds import random_round
from fedteddi.schedulers.rules.fedteddi_plus import FedTeddiPlus
from fedteddi.settings import parse_settings
from fedteddi.simulation.laboratory import Laboratory
from fedteddi.wireless.environment import Environment
from small_world import tiny_data, tiny_settings


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEDTEDDI_CACHE", str(tmp_path / "cache"))


def received(**more: Any) -> Received:
    """Clients of class 0 and class 1 upload 8 and 0; everyone has (0.2, 0.8), their data (0.6, 0.4); k = 5 of 10."""
    given: dict[str, Any] = {
        "frame": 0,
        "round": 5,
        "model": np.zeros(1),
        "uploads": (np.array([8.0]), np.array([0.0])),
        "shares": np.array([0.5, 0.5]),
        "client_id": np.arange(2),
        "rounds_in_frame": 10,
        "batch_mix": np.eye(2),
        "data_mix": np.eye(2)[::-1],
        "everyone_batch_mix": np.array([0.2, 0.8]),
        "everyone_data_mix": np.array([0.6, 0.4]),
        "classes_seen": np.array([True, True]),
    }
    return Received(**given | more)


# --- by hand


@pytest.mark.parametrize("vector", [np.array, torch.tensor])
def test_two_clients_by_hand(vector: Any) -> None:
    """θ = 0.8 + (0.4 − 0.8)/2 = 0.6, t = 0.6·(0.5, 0.5) + 0.4·(0.2, 0.8) = (0.38, 0.62). With ν = 0.5 the first has
    ω = (0.38 + 0.125)/1.25 = 0.404 (tests/aggregation/test_solved_weights.py), and the average is 8 · 0.404 = 3.232."""
    rule = TargetWeights(uniform_first=0.8, uniform_last=0.4, size_weight=0.5)
    game = received(uploads=(vector([8.0]), vector([0.0])), model=vector([0.0]))
    np.testing.assert_allclose(rule.weights(game), [0.404, 0.596], atol=1e-15)
    assert float(rule.aggregate(game)[0]) == pytest.approx(3.232, rel=1e-6)


def test_data_mixes_by_hand() -> None:
    """t = 0.3 + 0.4 · (0.6, 0.4) = (0.54, 0.46), and now it is the second who holds class 0: 0.665/1.25 = 0.532."""
    rule = TargetWeights(uniform_first=0.8, uniform_last=0.4, size_weight=0.5, mixes="data")
    np.testing.assert_allclose(rule.weights(received()), [0.468, 0.532], atol=1e-15)


def test_classes_that_never_appeared_are_no_part_of_the_target() -> None:
    """A third class that nobody has seen: t = (0.38, 0.62, 0), as without it."""
    rule = TargetWeights(uniform_first=0.8, uniform_last=0.4, size_weight=0.5)
    game = received(
        batch_mix=np.eye(3)[:2],
        everyone_batch_mix=np.array([0.2, 0.8, 0.0]),
        classes_seen=np.array([True, True, False]),
    )
    np.testing.assert_allclose(rule.weights(game), [0.404, 0.596], atol=1e-15)


def test_the_bound_on_a_clients_share_bounds_its_weight() -> None:
    """t = (0.1, 0.9) with ν = 0.001: ω = 0.9 without a bound; 0.7 with it, and 0.5 where 0.3 cannot be kept by two."""
    rule = TargetWeights(uniform_first=0.0, uniform_last=0.0, size_weight=1e-3)
    for most, expected in ((1.0, 0.9), (0.7, 0.7), (0.3, 0.5)):
        game = received(everyone_batch_mix=np.array([0.1, 0.9]), max_sample_share=most)
        np.testing.assert_allclose(rule.weights(game), [1 - expected, expected], atol=1e-6)


def test_it_is_steered_by_the_target_of_fedteddi_plus() -> None:
    """The same options give the same t_k, however everyone's mix came about."""
    for seed in range(5):
        view = random_round(np.random.default_rng(seed), clients=8, classes=5)
        options = {"uniform_first": 0.9, "uniform_last": 0.1}
        objective: Objective = FedTeddiPlus(**options).objective(view)
        everyone = view.num_samples @ view.batch_mix / view.num_samples.sum()
        game = received(
            round=view.round,
            rounds_in_frame=view.rounds_in_frame,
            batch_mix=view.batch_mix,
            everyone_batch_mix=everyone,
            classes_seen=view.classes_seen,
        )
        expected = solved_weights(view.batch_mix, objective.target_mix, 0.3)
        np.testing.assert_allclose(TargetWeights(**options).weights(game), expected, atol=1e-12)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"size_weight": 0.0}, "size_weight=0.0: give a finite number at least 0.001"),
        ({"uniform_first": 1.5}, "uniform_first=1.5: give a finite number at least 0 and at most 1"),
        ({"uniform_last": -0.1}, "uniform_last=-0.1"),
        ({"mixes": "batches"}, "mixes='batches': choose one of batch, data (did you mean 'batch'?)"),
        ({"nu": 0.3}, "target-weights has no option 'nu'"),
    ],
)  # fmt: skip
def test_options_are_checked(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as refused:
        make_aggregation("target-weights", **options)
    assert message in str(refused.value)


@pytest.mark.parametrize("missing", ["batch_mix", "everyone_batch_mix", "classes_seen", "rounds_in_frame"])
def test_who_gives_no_mixes_is_told_what_is_missing(missing: str) -> None:
    with pytest.raises(
        InputError, match=r"everyone_batch_mix, classes_seen and rounds_in_frame: give all four"
    ):
        TargetWeights().weights(received(**{missing: None}))
    bare = received(batch_mix=None, everyone_batch_mix=None)
    assert TargetWeights(mixes="data").weights(bare).sum() == pytest.approx(1.0)


@pytest.mark.parametrize("options", [{"size_weight": 0.01}, {"mixes": "data", "uniform_first": 0.0}])
def test_it_keeps_the_laws_with_options(options: dict[str, Any]) -> None:
    assert check_aggregation(TargetWeights(**options), torch.tensor) == {}


# --- one round of the server

COUNTS = np.array([[30, 0], [10, 10], [0, 60]])  # D = 30, 20, 60
BATCHES = np.array([[60, 0], [30, 30], [0, 60]])  # mixes (1, 0), (1/2, 1/2), (0, 1)


def one_round(lost: int | None = None, liar: bool = False, **changes: Any) -> np.ndarray:
    """Three clients upload n + 1 in round 1 of 3; one upload may be lost, and client 2 may claim 6·10⁸ samples."""
    chosen = parse_settings(
        {
            "rounds": [3],
            "training": {"local_steps": 6, "batch_size": 10},
            "radio": {"total_hz": 1e12, "deadline_s": 100.0},
        }
    ).changed(server__aggregation="target-weights", **changes)
    state = ServerState(
        weights=np.zeros(4),
        class_norm=np.ones(2),
        classes_seen=np.zeros(2, dtype=bool),
        times_scheduled=np.zeros(3, dtype=np.int64),
    )
    held = COUNTS * np.array([[1], [1], [10**7 if liar else 1]])

    def answer(request: Request) -> Answers:
        if request.kind == "report":
            return Answers(
                {n: Report(data_counts=held[n], batch_counts=BATCHES[n]) for n in request.clients}, {}
            )
        arrived = [n for n in request.clients if n != lost]
        return Answers({n: np.full(4, n + 1.0) for n in arrived}, {} if lost is None else {lost: "late"})

    rule = make_aggregation("target-weights", **chosen.server.aggregation_options)
    world = Environment.make(chosen.radio, 0, 3, 60)
    game = server_round(state, chosen, make_scheduler("random"), rule, world, model_bits=1000.0)
    asked = next(game)
    while True:
        try:
            asked = game.send(answer(asked))
        except StopIteration:
            return state.weights


def test_a_round_by_hand() -> None:
    """everyone = (40, 70)/110, θ = 0.75, t_0 = 0.75/2 + 0.25 · 40/110, so 1/2 − t_0 = 15/440. With x the average's
    share of class 0, 2(x − t_0)² + ν²‖ω‖² is lowest at ω = 1/3 + (−d, 0, d), d = (1/2 − t_0)/(1 + ν²): Σ ω (n + 1) is
    2 + 2d. FedAvg would give 250/110 = 2.27."""
    np.testing.assert_allclose(one_round(), 2 + 2 * (15 / 440) / 1.09, rtol=1e-12)


def test_an_upload_that_is_lost_leaves_the_target_as_it_was() -> None:
    """Clients 1 and 2 with x = ω_1/2: everyone is still (40, 70)/110, and 2(ω/2 − t_0)² + ν²(ω² + (1 − ω)²) is lowest
    at ω = (2 t_0 + 2ν²)/(1 + 4ν²) with 2 t_0 = 1 − 15/220."""
    first = (1 - 15 / 220 + 0.18) / 1.36
    np.testing.assert_allclose(one_round(lost=0), 2 * first + 3 * (1 - first), rtol=1e-12)


def test_a_liar_moves_everyones_mix_no_further_than_its_bound() -> None:
    """Client 2 claims 6·10⁸ and counts, at 0.5, as the 50 of the others: everyone = (40, 60)/100, 1/2 − t_0 = 0.1/4.
    Without the bound everyone is (0, 1), 1/2 − t_0 = 0.5/4."""
    bounded = one_round(liar=True, server__max_sample_share=0.5)
    np.testing.assert_allclose(bounded, 2 + 2 * 0.025 / 1.09, rtol=1e-12)
    np.testing.assert_allclose(one_round(liar=True), 2 + 2 * 0.125 / 1.09, rtol=1e-6)


# --- whole runs


def played(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> tuple[Any, list[tuple[Received, Any]]]:
    """One run, and what its aggregation was given and answered in every round with uploads."""
    noted: list[tuple[Received, Any]] = []
    original = TargetWeights.aggregate

    def noting(self: TargetWeights, given: Received) -> Any:
        noted.append((given, original(self, given)))
        return noted[-1][1]

    monkeypatch.setattr(TargetWeights, "aggregate", noting)
    laboratory = Laboratory(settings, tiny_data())
    run = laboratory.new_run(settings)
    while not run.finished:
        laboratory.advance([run])
    return run, noted


TARGETED: dict[str, Any] = {"server__aggregation": "target-weights", "scheduler": "random"}


def test_a_run_gives_it_what_the_clients_hold_and_averages_by_its_weights(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Mixes come from the plan's counts; all six clients report, whoever is scheduled."""
    run, noted = played(tiny_settings(radio__total_hz=6e4, **TARGETED), monkeypatch)
    records = [record for record in run.records if record.clients]
    assert len(noted) == len(records) > 5
    frames = run.plan.frames
    for (given, model), record in zip(noted, records, strict=True):
        counts = frames[record.frame].counts
        assert given.client_id.tolist() == list(record.clients)
        assert (given.round, given.rounds_in_frame) == (record.round, (2, 5, 4)[record.frame])
        held = counts.sum(axis=1)
        np.testing.assert_allclose(given.data_mix, (counts / held[:, None])[given.client_id])
        np.testing.assert_allclose(given.everyone_data_mix, counts.sum(axis=0) / counts.sum())
        np.testing.assert_allclose(given.batch_mix.sum(axis=1), 1.0)
        assert ((given.batch_mix > 0) <= (given.data_mix > 0)).all()
        assert given.everyone_batch_mix.sum() == pytest.approx(1.0)
        assert given.classes_seen.tolist() == [True] * (3 + record.frame) + [False] * (2 - record.frame)
        weights = TargetWeights().weights(given)
        stacked = torch.stack(given.uploads).double()
        torch.testing.assert_close(model.double(), torch.from_numpy(weights) @ stacked, atol=1e-6, rtol=1e-5)
    sizes = [len(given.uploads) for given, _ in noted]
    assert max(sizes) > 2
    assert any(not np.allclose(TargetWeights().weights(given), given.shares, atol=0.02) for given, _ in noted)


def test_with_privacy_it_sees_released_mixes_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A frame's one release stands for batch and data alike; with ε = 0.1 it is not the true mix."""
    settings = tiny_settings(rounds=[3, 0, 0], privacy__epsilon=0.1, **TARGETED)
    run, noted = played(settings, monkeypatch)
    counts = run.plan.frames[0].counts
    assert noted
    for given, _ in noted:
        np.testing.assert_array_equal(given.batch_mix, given.data_mix)
        np.testing.assert_array_equal(given.everyone_batch_mix, given.everyone_data_mix)
        true = counts / counts.sum(axis=1, keepdims=True)
        assert np.abs(given.data_mix - true[given.client_id]).max() > 0.01


@pytest.mark.parametrize("rule", ["fedteddi", "fed-cbs", "fedteddi-plus"])
def test_it_stands_beside_any_scheduler(rule: str) -> None:
    changes: dict[str, Any] = {"rounds": [2, 2, 0], "scheduler": rule, "scheduler_options": {}}
    plain = simulate(tiny_settings(**changes), data=tiny_data())
    solved = simulate(tiny_settings(**changes | {"server__aggregation": "target-weights"}), data=tiny_data())
    assert solved.finished
    assert [r.round for r in plain.records] == [r.round for r in solved.records]
    assert plain.records != solved.records


def test_the_weights_need_no_scipy() -> None:
    """Start-up time: nothing in the package imports scipy for an aggregation."""
    script = (
        "import sys, numpy as np; from fedteddi.aggregation.solved_weights import solved_weights;"
        " solved_weights(np.eye(3), np.ones(3) / 3, 0.3); print('scipy' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_what_is_about_classes_need_not_be_given() -> None:
    """Callers from before there were mixes still work, with rules that do not look at them."""
    needed = {part.name for part in dataclasses.fields(Received) if part.default is dataclasses.MISSING}
    assert needed == {"frame", "round", "model", "uploads", "shares", "client_id"}
