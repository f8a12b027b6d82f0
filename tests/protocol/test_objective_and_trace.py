"""By what a scheduled set is evaluated, and the trace of how it came about, on record when asked for."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedteddi import InputError, RoundView, Schedule, simulate
from fedteddi.heterogeneity.objective import Objective
from fedteddi.protocol.record import RoundRecord
from fedteddi.results.reading import read_run
from fedteddi.schedulers.schedule import Admission, Trace
from small_world import tiny_data, tiny_settings

ROUNDS = [2, 2, 0]


def rounds(**changes: Any) -> list[RoundRecord]:
    record = simulate(tiny_settings(rounds=ROUNDS, **changes), data=tiny_data())
    return [one for one in record.records if one.round]


def test_no_trace_is_recorded_unless_asked_for() -> None:
    assert not any(one.trace is not None for one in rounds(scheduler="fedteddi"))


def test_a_trace_tells_the_clients_in_order_and_changes_nothing_else(tmp_path: Path) -> None:
    """σ/√(|S|·b) is the first client's divided by √|S|: the changes add up to variance · (1 − √|S|)."""
    settings = tiny_settings(rounds=ROUNDS, scheduler="fedteddi", radio__total_hz=1e12)
    plain = simulate(settings, data=tiny_data())
    traced = simulate(settings.changed(evaluation__trace=True), data=tiny_data(), out=tmp_path / "run")
    several = 0
    for one, other in zip(plain.records, traced.records, strict=True):
        assert replace(other, trace=None) == one
        if not one.round:
            assert other.trace is None
            continue
        assert other.trace is not None
        admissions = other.trace["admissions"]
        assert [step["client"] for step in admissions] == list(one.clients)
        assert admissions[0]["variance_change"] is None
        spent_hz = settings.radio.total_hz - admissions[-1]["left_hz"]
        assert spent_hz == pytest.approx(sum(one.bandwidth_hz), rel=1e-3)
        assert other.trace["stopped"]
        assert one.objective is not None
        size = len(admissions)
        fallen = sum(step["variance_change"] for step in admissions[1:])
        assert fallen == pytest.approx(one.objective["variance"] * (1 - np.sqrt(size)), rel=1e-6)
        several += size > 1
    assert several
    assert read_run(tmp_path / "run").records == traced.records


def test_a_rule_without_a_search_has_no_trace() -> None:
    assert not any(one.trace is not None for one in rounds(scheduler="random", evaluation__trace=True))


@dataclass(frozen=True)
class Pair:
    """Schedules the first two clients; its objective is 3/√(|S|·1), all else 0; its trace is the test's."""

    name = "pair"
    trace: Any = None
    answers: Any = None

    def select(self, view: RoundView, rng: np.random.Generator) -> Schedule:  # noqa: ARG002
        return Schedule(clients=(0, 1), bandwidth_hz=tuple(view.needed_hz[:2]), trace=self.trace)

    def objective(self, view: RoundView) -> Any:
        if self.answers is not None:
            return self.answers
        nothing = np.zeros(view.num_classes)
        return Objective(
            num_samples=view.num_samples,
            batch_mix=view.batch_mix,
            drift=np.zeros(view.num_clients),
            target_mix=nothing,
            class_norm=nothing,
            gradient_std=3.0,
            batch_size=1,
            drift_weight=0.0,
        )


def playing(rule: Pair, **changes: Any) -> list[RoundRecord]:
    settings = tiny_settings(rounds=[1, 0, 0], radio__total_hz=1e12, radio__deadline_s=100.0, **changes)
    record = simulate(settings, scheduler=rule, data=tiny_data())
    return [one for one in record.records if one.round]


def test_a_rule_is_evaluated_by_its_own_objective() -> None:
    """3/√2 for two clients; a baseline is evaluated by P3, which is not that."""
    (own,) = playing(Pair())
    assert own.objective is not None
    assert own.objective["total"] == pytest.approx(3 / np.sqrt(2))
    (baseline, *_) = rounds(scheduler="random")
    assert baseline.objective is None  # it needs neither σ̂ nor L̂, of which P3 is made


def test_an_objective_of_the_wrong_kind_is_one_sentence() -> None:
    with pytest.raises(InputError, match=r"objective of pair returned float: it must return a .*Objective"):
        playing(Pair(answers=1.0))


def admitting(client: int, change: float | None) -> Trace:
    """A trace of one admission."""
    one = Admission(
        client=client, variance_change=change, divergence_change=None, drift_change=None, left_hz=1.0
    )
    return Trace(admissions=(one,), stopped="all are in")


@pytest.mark.parametrize(
    ("trace", "why"),
    [
        ("how it came about", "no attribute"),
        (admitting(9, None), "out of range"),
        (admitting(0, float("nan")), "a change is nan"),
    ],
)
def test_a_trace_that_cannot_be_recorded_is_refused_only_where_it_is_asked_for(trace: Any, why: str) -> None:
    assert playing(Pair(trace=trace))
    with pytest.raises(InputError, match=f"pair gave a trace that cannot be recorded .*{why}"):
        playing(Pair(trace=trace), evaluation__trace=True)
