"""Schedulers with memory in whole runs: resumed, rolled back, with clients missing, and with code that changed."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file

from fedteddi import InputError, RoundView, Schedule, compare, simulate
from fedteddi.experiment import Progress
from fedteddi.protocol.messages import Answers, Request
from fedteddi.results.folder import locked
from fedteddi.schedulers.memory import from_json
from fedteddi.schedulers.rules.age_of_update import AgeOfUpdate
from fedteddi.schedulers.rules.round_robin import RoundRobin
from fedteddi.simulation.clients import Clients
from fedteddi.simulation.in_process import Asked, InProcess
from fedteddi.simulation.laboratory import Laboratory
from fedteddi.simulation.parallel.groups import Group, play_group
from small_world import tiny_data, tiny_settings

NARROW: dict[str, Any] = {"radio__total_hz": 4e3}  # about two of six fit


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEDTEDDI_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("fedteddi.simulation.session.CHECKPOINT_EVERY_S", 0.0)  # after every round


class Interrupted(Exception):
    pass


def interrupt_after(rounds: int) -> Callable[[Progress], None]:
    def watch(state: Progress) -> None:
        if state.rounds_done >= rounds:
            raise Interrupted

    return watch


def facts_of(folder: Path) -> dict[str, Any]:
    with safe_open(folder / "checkpoint.safetensors", framework="pt") as file:
        facts: dict[str, Any] = json.loads(file.metadata()["state"])
    return facts


def weights_of(folder: Path) -> torch.Tensor:
    return load_file(folder / "checkpoint.safetensors")["weights"]


def own_rule(folder: Path) -> Path:
    """A user's rule whose state has a bit of everything, and whose choice depends on all of it."""
    file = folder / "mine.py"
    file.write_text(
        "import numpy as np\n"
        "from fedteddi import Schedule\n"
        "class Mine:\n"
        "    name = 'mine'\n"
        "    needs = frozenset()\n"
        "    def initial_state(self, num_clients):\n"
        "        return {'age': np.zeros(num_clients), 'seen': ((), None), 3: [0.1, True]}\n"
        "    def select(self, view, rng, state):\n"
        "        bonus = sum(state['seen'][0]) + state[3][0]\n"
        "        score = state['age'][view.client_id] + np.sin(bonus * (1 + view.client_id))\n"
        "        best = [n for n in np.argsort(-score) if view.needed_hz[n] <= view.total_hz][:1]\n"
        "        state['age'] += 0.1\n"
        "        state['age'][view.client_id[best]] = 0\n"
        "        seen = (*state['seen'][0], *(int(n) for n in view.client_id[best]))\n"
        "        state = state | {'seen': (seen[-3:], None), 3: [bonus / 3, not state[3][1]]}\n"
        "        return Schedule(clients=best, bandwidth_hz=view.needed_hz[best]), state\n"
    )
    return file


@pytest.mark.parametrize("stop_after", [1, 4, 7])
@pytest.mark.parametrize(
    "scheduler", ["round-robin", "age-of-update", "proportional-fair", "fedcor", "divfl", "mine"]
)
def test_a_resumed_run_equals_an_uninterrupted_one_to_the_bit(
    tmp_path: Path, scheduler: str, stop_after: int
) -> None:
    name = f"{own_rule(tmp_path)}:Mine" if scheduler == "mine" else scheduler
    # Of fedcor's rounds 1 to 5 of frame 1, those from 3 on follow the covariance, unless they are sampled.
    options = {"warm_up": 2, "interval": 2} if scheduler == "fedcor" else {}
    settings = tiny_settings(scheduler=name, scheduler_options=options, **NARROW)
    simulate(settings, data=tiny_data(), out=tmp_path / "whole")
    with pytest.raises(Interrupted):
        simulate(settings, data=tiny_data(), out=tmp_path / "parts", watch=interrupt_after(stop_after))
    assert facts_of(tmp_path / "parts")["rounds_done"] == stop_after
    simulate(settings, data=tiny_data(), out=tmp_path / "parts", resume=True)
    whole, parts = ((tmp_path / kind / "rounds.jsonl").read_bytes() for kind in ("whole", "parts"))
    assert whole == parts
    assert torch.equal(weights_of(tmp_path / "whole"), weights_of(tmp_path / "parts"))
    one, other = (facts_of(tmp_path / kind) | {"timing_bytes": None} for kind in ("whole", "parts"))
    assert one == other
    assert ("scheduler_state" in one) == (scheduler != "divfl")  # it has none


@pytest.mark.parametrize("scheduler", ["round-robin", "age-of-update"])
def test_without_its_memory_a_resumed_run_would_choose_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scheduler: str
) -> None:
    """What the test above would not notice if these rules did not need their state here."""
    settings = tiny_settings(scheduler=scheduler, **NARROW)
    whole = simulate(settings, data=tiny_data())
    with pytest.raises(Interrupted):
        simulate(settings, data=tiny_data(), out=tmp_path / "parts", watch=interrupt_after(4))
    first = AgeOfUpdate().initial_state(6) if scheduler == "age-of-update" else 0
    monkeypatch.setattr("fedteddi.simulation.checkpoint.from_json", lambda _kept: first)
    forgetful = simulate(settings, data=tiny_data(), out=tmp_path / "parts", resume=True)
    chosen = [[r.clients for r in record.records] for record in (whole, forgetful)]
    assert chosen[0][:6] == chosen[1][:6]
    assert chosen[0] != chosen[1]


def test_a_group_on_a_cluster_keeps_the_state_as_well(tmp_path: Path) -> None:
    """Played by a worker in two parts, the second from its checkpoint, as after a worker's death."""
    settings = tiny_settings(scheduler="age-of-update", dataset="tiny", name="age-of-update", **NARROW)
    whole = compare(
        tiny_settings(**NARROW),
        schedulers=["age-of-update"],
        seeds=[0],
        data=tiny_data(),
        out=tmp_path / "whole",
    )
    group = Group({"age-of-update-d1-s0": settings}, "cpu", tmp_path / "parts", None, None)

    def die(_told: Any) -> None:
        raise Interrupted

    with locked(tmp_path / "parts") as holder:
        group = Group(group.each, "cpu", tmp_path / "parts", holder, None)
        with pytest.raises(Interrupted):
            play_group(tiny_data(), group, die)
        (account,) = play_group(tiny_data(), group, lambda _told: None)
    assert tuple(account.records) == whole.runs[0].records
    one, other = (facts_of(tmp_path / kind / "age-of-update-d1-s0") for kind in ("whole", "parts"))
    assert one["scheduler_state"] == other["scheduler_state"]


class SomeMissing(InProcess):
    """Client (round mod 6) does not report."""

    def exchange(self, asked: Asked) -> list[Any]:

        def heard(request: Request, answers: Answers) -> Answers:
            missing = request.round % 6 if request.kind == "report" else None
            return replace(answers, given={n: own for n, own in answers.given.items() if n != missing})

        return [
            heard(request, answers)
            for (_, request), answers in zip(asked, super().exchange(asked), strict=True)
        ]


@pytest.mark.parametrize("epsilon", [0.0, 1.0])
def test_ages_go_by_client_id_whoever_reports(tmp_path: Path, epsilon: float) -> None:
    """The ages in the checkpoint are those that the record's client numbers give, with and without hidden mixes."""
    settings = tiny_settings(scheduler="age-of-update", rounds=[9, 0, 0], privacy__epsilon=epsilon, **NARROW)
    laboratory = Laboratory(settings, tiny_data())
    runtime = SomeMissing(laboratory.engine, laboratory.data)
    record = simulate(settings, data=tiny_data(), out=tmp_path / "run", runtime=runtime)
    rounds = [r for r in record.records if r.round]
    age = np.zeros(6, dtype=int)
    for entry in rounds:
        assert entry.round % 6 not in entry.clients
        age += 1
        age[entry.clients] = 0
    assert len(rounds) == 9
    assert len({n for entry in rounds for n in entry.clients}) > 3
    assert from_json(facts_of(tmp_path / "run")["scheduler_state"]).tolist() == age.tolist()


def test_a_round_that_fails_leaves_the_state_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """From round 3 on training diverges; two clients must say so. The turn is the one before the failed round."""
    settings = tiny_settings(scheduler="round-robin", rounds=[5, 0, 0], radio__total_hz=8e3)
    laboratory = Laboratory(settings, tiny_data())
    run = laboratory.new_run(settings)
    plain = Clients.job

    def job(clients: Clients, request: Any, client: int) -> Any:
        found = plain(clients, request, client)
        if request.round >= 3:
            object.__setattr__(found, "learning_rate", 1e38)
        return found

    monkeypatch.setattr(Clients, "job", job)
    turns, asked = [], []
    chosen = RoundRobin.select

    def select(rule: RoundRobin, *given: Any) -> Any:
        asked.append(chosen(rule, *given)[1])
        return chosen(rule, *given)

    monkeypatch.setattr(RoundRobin, "select", select)
    while not run.over:
        turns.append(run.state.scheduler_state)
        laboratory.advance([run])
    assert run.failure is not None
    assert run.failure.round == run.state.round + 1 == len(asked)
    assert run.state.scheduler_state == turns[-1] == asked[-2] != asked[-1]


def test_any_other_error_in_a_round_is_rolled_back_too() -> None:
    """Somebody presses Ctrl-C while uploads are awaited, after the rule was asked."""
    settings = tiny_settings(scheduler="age-of-update", **NARROW)
    laboratory = Laboratory(settings, tiny_data())
    run = laboratory.new_run(settings)
    for _ in range(2):
        laboratory.advance([run])
    before = (run.state.round, run.state.scheduler_state.tolist(), run.state.rounds_done)

    class Impatient(InProcess):
        def exchange(self, asked: Asked) -> list[Any]:
            if asked[0][1].kind == "upload":
                raise KeyboardInterrupt
            return super().exchange(asked)

    laboratory.runtime = Impatient(laboratory.engine, laboratory.data)
    with pytest.raises(KeyboardInterrupt) as caught:  # which holds on to all that was going on
        laboratory.advance([run])
    assert caught.traceback
    assert (run.state.round, run.state.scheduler_state.tolist(), run.state.rounds_done) == before


# --- code that changed, code that misbehaves


def test_a_plug_in_that_changed_is_refused_unless_allowed(tmp_path: Path) -> None:
    file = own_rule(tmp_path)
    settings = tiny_settings(scheduler=f"{file}:Mine", **NARROW)
    options: dict[str, Any] = {"data": tiny_data(), "out": tmp_path / "run"}
    with pytest.raises(Interrupted):
        simulate(settings, watch=interrupt_after(3), **options)
    file.write_text(file.read_text() + "# another thought\n")
    before = (tmp_path / "run" / "rounds.jsonl").read_bytes()
    with pytest.raises(
        InputError, match=r"the scheduler .*mine\.py:Mine has changed since .*--allow-changed"
    ):
        simulate(settings, resume=True, **options)
    assert (tmp_path / "run" / "rounds.jsonl").read_bytes() == before
    assert simulate(settings, resume=True, allow_changed=True, **options).finished
    # from now on the new code is the run's
    assert simulate(settings, resume=True, **options).finished
    kept = json.loads((tmp_path / "run" / "environment.json").read_text())
    first, then = (list(entry["plugins"].values()) for entry in (kept, kept["resumed"][-1]))
    assert first != then


def test_a_changed_model_or_replay_is_refused_as_well(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(
        "from small_world import tiny_model as net\n"
        "def newest(held, classes, keep, rng): return held[len(held) - keep :]\n"
    )
    for part in ({"training__model": f"{file}:net"}, {"scenario__replay": f"{file}:newest"}):
        settings = tiny_settings(rounds=[1, 1, 0], **part)
        out = tmp_path / next(iter(part))
        simulate(settings, data=tiny_data(), out=out)
        file.write_text(file.read_text() + "\n")
        with pytest.raises(InputError, match=r"mine\.py:(net|newest) has changed since"):
            simulate(settings, data=tiny_data(), out=out, resume=True)


def test_a_rule_without_memory_may_get_one_while_a_run_rests(tmp_path: Path) -> None:
    """The old code wrote no state: the new rule begins with its first."""
    own = own_rule(tmp_path)
    text = own.read_text()
    own.write_text(
        "from fedteddi import Schedule\nclass Mine:\n    name = 'mine'\n    needs = frozenset()\n"
        "    def select(self, view, rng): return Schedule(clients=(), bandwidth_hz=())\n"
    )
    settings = tiny_settings(scheduler=f"{own}:Mine", **NARROW)
    options: dict[str, Any] = {"data": tiny_data(), "out": tmp_path / "run"}
    with pytest.raises(Interrupted):
        simulate(settings, watch=interrupt_after(3), **options)
    own.write_text(text)
    record = simulate(settings, resume=True, allow_changed=True, **options)
    chosen = [r.clients for r in record.records if r.round]
    assert not any(chosen[:3])
    assert sum(map(bool, chosen[3:])) > 4


def test_a_rule_that_keeps_memory_in_itself_does_not_start(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(
        "from fedteddi import make_scheduler\nclass Mine:\n    name = 'mine'\n    turn = 0\n"
        "    def select(self, view, rng):\n        self.turn += 1\n"
        "        return make_scheduler('random').select(view, rng)\n"
    )
    with pytest.raises(InputError, match=r"mine\.py:Mine: mine keeps memory in itself \(self\.turn changed"):
        simulate(tiny_settings(scheduler=f"{file}:Mine"), data=tiny_data(), out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


# --- Python objects


class Oldest:
    """Oldest first; alone in the world with module-level fame."""

    name = "oldest"
    needs: frozenset[str] = frozenset()

    def __init__(self, count: int = 1) -> None:
        self.count = count

    def initial_state(self, num_clients: int) -> Any:
        return [0] * num_clients

    def select(self, view: RoundView, rng: np.random.Generator, state: Any) -> Any:  # noqa: ARG002
        able = sorted(view.schedulable, key=lambda n: (-state[view.client_id[n]], view.client_id[n]))
        best = able[: self.count]
        chosen = {int(view.client_id[n]) for n in best}
        state = [0 if n in chosen else age + 1 for n, age in enumerate(state)]
        return Schedule(clients=best, bandwidth_hz=view.needed_hz[best]), state


def test_simulate_and_compare_take_classes_instances_and_functions(tmp_path: Path) -> None:
    def nobody(view: RoundView, rng: np.random.Generator) -> Schedule:  # noqa: ARG001
        return Schedule(clients=(), bandwidth_hz=())

    settings = tiny_settings(rounds=[4, 0, 0], radio__total_hz=1e6)
    data, out = tiny_data(), tmp_path / "study"
    study = compare(
        settings, schedulers=[Oldest, nobody, AgeOfUpdate, "random"], seeds=[0], data=data, out=out
    )
    assert [run.settings.name for run in study.runs] == ["oldest", "nobody", "age-of-update", "random"]
    alone = simulate(settings, scheduler=Oldest, data=data)
    assert study.of("oldest")[0].records == alone.records
    assert [r.clients for r in alone.records if r.round] == [[0], [1], [2], [3]]
    two = simulate(settings, scheduler=Oldest(count=2), data=data, out=tmp_path / "two")
    assert [r.clients for r in two.records if r.round] == [[0, 1], [2, 3], [4, 5], [0, 1]]
    again = simulate(settings, scheduler=Oldest(count=2), data=data, out=tmp_path / "two", resume=True)
    assert again.records == two.records
    both = compare(settings, schedulers=[Oldest(count=1), Oldest(count=2)], seeds=[0], data=data)
    assert {run.scheduler: run.records for run in both.runs} == {
        "oldest": alone.records,
        "oldest-count-2": two.records,
    }
    first, second = Oldest(), Oldest()
    first.of_no_parameter, second.of_no_parameter = [1], [2]  # type: ignore[attr-defined]
    with pytest.raises(InputError, match="two different schedulers are called python:oldest: give them diff"):
        compare(settings, schedulers=[first, second], seeds=[0], data=data)
