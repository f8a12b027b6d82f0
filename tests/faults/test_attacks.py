"""One of six clients attacks: with a fleet's defaults the final accuracy stays within 0.05 of the honest run's."""

import importlib
import sys
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from fedteddi import InputError, Settings, compare, simulate
from fedteddi.protocol.rejections import Failures
from fedteddi.protocol.rollback import make_room
from fedteddi.protocol.state import ServerState
from fedteddi.results.reading import read_run
from fedteddi.results.runs import RunRecord
from fedteddi.schedulers.schedule import Schedule
from fedteddi.schedulers.view import RoundView
from fedteddi.settings import on_fleet
from small_world import tiny_data, tiny_settings

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / "benchmarks"))
hostile = importlib.import_module("hostile")
attacks = importlib.import_module("hostile_attacks")
HOSTILE = str(hostile.HOSTILE)


def world(**changes: Any) -> Settings:
    """Two frames; about three of six clients fit into a round; after it, accuracy is 1.00 without an attack."""
    arrival = {"frame": 1, "clients": 3, "classes": [3], "samples": 12}
    fixed = {"rounds": [5, 9], "scenario__arrivals": [arrival], "evaluation__every": 9}
    return tiny_settings(**(fixed | changes))


@cache
def honest() -> float:
    return float(hostile.final(hostile.attacked(on_fleet(world()), tiny_data(), {})))


def final(settings: Settings, name: str) -> float | None:
    found: float | None = hostile.final(hostile.attacked(settings, tiny_data(), attacks.ATTACKS[name]))
    return found


def test_clipping_costs_an_honest_run_nothing() -> None:
    assert honest() == 1.0
    assert hostile.final(simulate(world(), data=tiny_data())) == 1.0


@pytest.mark.parametrize("name", attacks.ATTACKS)
def test_one_of_six_changes_nothing_that_matters(name: str) -> None:
    reached = final(on_fleet(world()), name)
    assert reached is not None
    assert reached >= honest() - 0.05


@pytest.mark.parametrize(
    ("name", "most"),
    [
        ("finite weights of 1e37", None),
        ("sign flip × 10", 0.6),
        ("claims 5·10⁸ samples, sign flip × 10", 0.6),
        ("claims 5·10⁸ samples, trains on wrong labels", 0.6),
    ],
)
def test_without_defences_it_does(name: str, most: float | None) -> None:
    """So the attacks above are attacks."""
    reached = final(world(), name)
    assert reached is None if most is None else reached is None or reached <= most


@pytest.mark.parametrize("rule", ["median", "trimmed-mean"])
@pytest.mark.parametrize("name", attacks.NAMED)
def test_medians_hold_too_where_enough_upload_and_hold_every_class(name: str, rule: str) -> None:
    """One frame, whose classes four of six hold, and all six upload: what fewer hold, medians take for an attack."""
    fixed = {"rounds": [8], "scenario__arrivals": [], "scheduler": "random", "radio__total_hz": 1e9}
    settings = on_fleet(world(server__aggregation=rule, **fixed))
    reached = final(settings, name)
    assert reached is not None
    assert reached >= honest() - 0.05


def test_there_are_the_four_and_twenty_more_and_the_page_has_them_all() -> None:
    page = (ROOT / "docs" / "hostile.md").read_text(encoding="utf-8")
    assert len(attacks.NAMED) == 4
    assert len(attacks.ATTACKS) >= 24
    assert all(f"| {name} | " in page for name in attacks.ATTACKS)


# --- rolled back, quarantined, resumed


def guarded(**changes: Any) -> Settings:
    """Nothing but rolling back: the average, and everyone uploads."""
    return world(
        rounds=[8],
        scenario__arrivals=[],
        scheduler="random",
        radio__total_hz=1e9,
        evaluation__every=4,
        server__quarantine_rounds=3,
        **changes,
    )


def once(at: int) -> dict[str, Any]:
    """Send weights of 1e37 in one round, and be honest otherwise."""
    return {"upload": lambda turn: torch.full_like(turn.own, 1e37) if turn.request.round == at else turn.own}


def played(settings: Settings, attack: dict[str, Any], **options: Any) -> RunRecord:
    runtime = hostile.OneHostile(settings, tiny_data(), attack)
    return simulate(settings, data=tiny_data(), runtime=runtime, **options)


def test_a_model_that_diverges_is_put_back_and_its_uploader_named() -> None:
    """Round 2's upload is found out when round 3's uploads are not finite; rounds 4 to 6 are without client 2."""
    found = played(guarded(), once(2))
    assert [2 in record.clients for record in found.records[1:]] == [
        True,
        True,
        False,
        *[False] * 3,
        True,
        True,
    ]
    assert found.records[3].clients == []
    assert "its upload made the model diverge" in found.records[3].failures[HOSTILE]
    assert [record.failures for record in found.records[4:7]] == [
        {HOSTILE: f"in quarantine, {left} rounds to go"} for left in (3, 2, 1)
    ]
    assert hostile.final(found) >= 0.95
    with pytest.raises(InputError, match="training diverged in frame 0, round 3"):
        played(guarded().changed(server__quarantine_rounds=0), once(2))


def test_an_evaluation_finds_it_out_too() -> None:
    """Round 4 is evaluated, and its loss is not finite: the model goes back to round 3's, the round stays on record."""
    found = played(guarded(evaluation__loss_in_last_frame=True), once(4))
    assert "its upload made the model diverge" in found.records[4].failures[HOSTILE]
    assert len(found.records[4].clients) == 6
    assert found.records[4].loss is None
    assert [2 in record.clients for record in found.records[5:]] == [False] * 3 + [True]
    assert hostile.final(found) >= 0.95


def test_a_run_in_quarantine_is_resumed_to_the_bit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stopped after every round, between the poison, its discovery and the quarantine's end."""
    settings = on_fleet(guarded().changed(server__aggregation="fedavgm", server__quarantine_rounds=2))
    whole = played(settings, once(2), out=tmp_path / "whole")
    monkeypatch.setattr("fedteddi.simulation.session.CHECKPOINT_EVERY_S", 0.0)
    for stop in range(1, 9):

        def watch(progress: Any, stop: int = stop) -> None:
            if len(progress.runs[0].records) > stop:
                raise KeyboardInterrupt

        try:
            played(settings, once(2), out=tmp_path / "cut", resume=True, watch=watch)
        except KeyboardInterrupt:
            continue
    again = played(settings, once(2), out=tmp_path / "cut", resume=True)
    assert again.finished
    assert again.records == whole.records
    assert any("in quarantine" in why for record in whole.records for why in record.failures.values())
    assert read_run(tmp_path / "cut").records == whole.records


def test_training_that_diverges_by_itself_still_ends_the_run() -> None:
    """Everybody's upload is as far off: when more than half would be in quarantine, it is nobody's fault."""
    settings = guarded(training__learning_rate=1e38)
    study = compare(settings, schedulers=["random"], seeds=[0], data=tiny_data())
    (failure,) = study.failures.values()
    assert "lower training.learning_rate" in failure.cause


def test_who_spoilt_the_model_cannot_vouch_for_it() -> None:
    """It goes on sending finite numbers while the others' are not: two of three say that it has diverged."""

    def vouching(turn: Any) -> torch.Tensor:
        return torch.full_like(turn.model, 1e37) if turn.request.round >= 2 else turn.own

    found = played(guarded(), {"upload": vouching})
    assert "its upload made the model diverge" in found.records[3].failures[HOSTILE]
    assert all(2 not in record.clients for record in found.records[3:7])


def test_who_uploads_alone_again_and_again_makes_room() -> None:
    """A rule that wants client 2 alone gets it three times, then for three rounds whoever is first of the others.

    Client 0 has then been alone three times, too, and 2 is asked again.
    """

    def only_two(view: RoundView, _rng: Any) -> Schedule:
        here = view.client_id.tolist() if view.client_id is not None else []
        wanted = here.index(2) if 2 in here else 0
        return Schedule(clients=(wanted,), bandwidth_hz=(float(view.needed_hz[wanted]),))

    found = simulate(guarded().changed(rounds=[9]), scheduler=only_two, data=tiny_data())
    assert [list(record.clients) for record in found.records[1:]] == [[2]] * 3 + [[0]] * 3 + [[2]] * 3
    assert found.records[3].failures == {
        HOSTILE: "it was scheduled alone in 3 rounds: it is in quarantine for 3 rounds"
    }
    assert found.records[4].failures == {HOSTILE: "in quarantine, 3 rounds to go"}


def test_who_is_scheduled_alone_and_sends_nothing_makes_room_too() -> None:
    """Silent, or sending what is rejected, it would keep the model from moving for ever."""
    state = ServerState(
        weights=torch.zeros(1),
        class_norm=np.ones(2),
        classes_seen=np.zeros(2, dtype=bool),
        times_scheduled=np.zeros(6, dtype=np.int64),
    )
    failures = Failures()
    for done in range(3):
        state.rounds_done = done
        assert not state.quarantine
        make_room(state, guarded(), (hostile.HOSTILE,), failures)
    assert state.quarantine == {hostile.HOSTILE: 2 + 1 + 3}  # asked again three rounds after the next
    assert "was scheduled alone in 3 rounds" in failures.causes[hostile.HOSTILE]
