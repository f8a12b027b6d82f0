"""Decisions told again are those that were made: against traces that the runs recorded, and against all sets."""

import dataclasses
import itertools
from pathlib import Path

import pytest

import fedteddi
from fedteddi.results.page.decisions import Retold
from fedteddi.results.reading import read_run
from fedteddi.results.runs import RunRecord
from fedteddi.settings import Settings, load_experiment
from fedteddi.simulation.retold import Retelling

SETTINGS = load_experiment("evolving").changed(
    rounds=[3, 4, 0],
    scenario__clients=8,
    scenario__samples_per_client=40,
    scenario__arrivals=[{"frame": 1, "clients": 3, "classes": [6, 7], "samples": 20}],
    training__local_steps=2,
    training__batch_size=16,
    radio__total_hz=8e5,
    evaluation__test_images=60,
    evaluation__loss_samples=60,
    evaluation__trace=True,
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("retold") / "runs"
    rules = ["fedteddi", "fedteddi-plus", "random", "fedteddi[search=exact]", "round-robin"]
    fedteddi.compare(SETTINGS, schedulers=rules, seeds=[3], out=out)
    return out


def record_of(folder: Path, name: str) -> RunRecord:
    return read_run(folder / f"{name}-d1-s3")


@pytest.mark.parametrize("rule", ["fedteddi", "fedteddi-plus"])
def test_a_retold_trace_is_the_recorded_one(folder: Path, rule: str) -> None:
    run, tell = record_of(folder, rule), Retelling()
    told = 0
    for record in run.records:
        if record.round and record.clients:
            found = tell(run, record, False)
            if isinstance(found, str):
                assert rule == "fedteddi"
                assert record.round == 1
                assert found == "L̂ at a frame's first round is estimated before it, and not on record"
                continue
            told += 1
            assert record.trace is not None
            assert found.trace is not None
            assert found.trace["stopped"] == record.trace["stopped"]
            for ours, theirs in zip(found.trace["admissions"], record.trace["admissions"], strict=True):
                assert ours.keys() == theirs.keys()
                assert [ours[key] is None for key in ours] == [theirs[key] is None for key in ours]
                known = [key for key in ours if ours[key] is not None]
                assert [ours[key] for key in known] == pytest.approx(
                    [theirs[key] for key in known], rel=1e-9, abs=1e-9
                )
            assert found.total == pytest.approx(record.objective["total"], rel=1e-9)
    assert told == (5 if rule == "fedteddi" else 7)


def test_a_proven_optimum_is_the_lowest_of_all_sets(folder: Path) -> None:
    """Eight clients have 255 sets; those that fit the band are evaluated one by one."""
    run, tell = record_of(folder, "fedteddi"), Retelling()
    rule = fedteddi.make_scheduler("fedteddi")
    for record in run.records:
        if record.round > 1:
            proven, looked = tell(run, record, True), tell(run, record, False)
            assert isinstance(proven, Retold)
            assert isinstance(looked, Retold)
            view = tell._view(run, record, rule)
            sets = itertools.chain.from_iterable(
                itertools.combinations(view.schedulable.tolist(), size) for size in range(1, 9)
            )
            lowest = min(
                rule.objective(view).terms(one).total
                for one in sets
                if sum(view.needed_hz[n] for n in one) <= view.total_hz
            )
            assert proven.proven
            assert proven.best == pytest.approx(lowest, rel=1e-6)
            assert not looked.proven
            assert looked.best is not None
            assert lowest - 1e-9 <= looked.best <= looked.total


def test_a_rule_that_proves_its_sets_needs_no_second_proof(folder: Path) -> None:
    run = record_of(folder, "fedteddi-search-exact")
    found = Retelling()(run, run.records[2], True)
    assert isinstance(found, Retold)
    assert found.proven
    assert found.best == found.total


@pytest.mark.parametrize(
    ("rule", "why"),
    [("random", "the rule ranks clients and has no objective"), ("round-robin", "has no objective")],
)
def test_rules_without_an_objective_are_not_told_again(folder: Path, rule: str, why: str) -> None:
    run = record_of(folder, rule)
    found = Retelling()(run, run.records[2], True)
    assert isinstance(found, str)
    assert why in found


def test_what_does_not_agree_with_the_record_is_not_told(folder: Path) -> None:
    run = record_of(folder, "fedteddi")
    record = run.records[2]
    tell = Retelling()
    other = dataclasses.replace(record, objective=dict(record.objective or {}) | {"total": 99.0})
    assert "comes out otherwise" in str(tell(run, other, False))
    fewer = dataclasses.replace(record, clients=record.clients[:1])
    assert "comes out otherwise" in str(tell(run, fewer, False))
    failing = dataclasses.replace(record, failures={"0": "late"})
    assert "missing or rejected" in str(tell(run, failing, False))
    moved = dataclasses.replace(run, counts=run.counts[:, ::-1])
    assert "not the one that was played on" in str(tell(moved, record, False))


def test_a_data_set_that_is_not_here_is_said_so(folder: Path, tmp_path: Path) -> None:
    run = record_of(folder, "fedteddi")
    away = dataclasses.replace(run, settings=run.settings.changed(dataset="cifar10"))
    assert "cifar10" in str(Retelling(tmp_path)(away, run.records[2], False))


def test_default_settings_have_what_the_page_needs() -> None:
    """Without evaluation.trace the decisions of a finished run can still be told."""
    assert Settings().evaluation.trace is False
