"""Every aggregation rule keeps the invariants; and the invariants notice rules that do not."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from fedteddi.aggregation import AGGREGATIONS, Received, make_aggregation
from fedteddi.aggregation.fedavg import weighted_sum
from fedteddi.aggregation.laws import ANSWERS, LAWS, check_aggregation, law_games
from fedteddi.aggregation.rule import model_fault, state_fault

RULES: dict[str, dict[str, float]] = {name: {} for name in AGGREGATIONS.built_in()}
RULES |= {"fedavgm slow": {"server_momentum": 0.5, "server_learning_rate": 0.1}}


@pytest.mark.parametrize("vector", [np.asarray, torch.tensor])
@pytest.mark.parametrize("case", RULES)
def test_every_rule_keeps_the_laws(case: str, vector: Callable[[np.ndarray], Any]) -> None:
    assert check_aggregation(make_aggregation(case.split(" ")[0], **RULES[case]), vector) == {}


class Rogue:
    """The weighted average with a count of rounds as its state, spoilt."""

    def __init__(self, spoil: Callable[["Rogue", Received, Any, Any], object]) -> None:
        self.spoil, self.calls = spoil, 0

    def initial_state(self, model: Any) -> dict[str, Any]:
        return {"rounds": 0, "last": model * 0.0}

    def aggregate(self, received: Received, state: Any) -> object:
        self.calls += 1
        mean = weighted_sum(received.uploads, received.shares)
        return self.spoil(self, received, mean, state)


def honest(_rogue: Rogue, _received: Received, mean: Any, state: Any) -> object:
    return mean, {"rounds": state["rounds"] + 1, "last": mean}


def swallows_a_round(_rogue: Rogue, received: Received, mean: Any, state: Any) -> object:
    received.model[:] = mean
    return mean, state


def adds_to_its_state(_rogue: Rogue, _received: Received, mean: Any, state: Any) -> object:
    state["rounds"] += 1
    return mean, state


UNSEEDED = np.random.default_rng(0)
SAME, INPUT, MEMORY = (
    "same uploads, same model",
    "leaves its input as it was",
    "all memory is in the state",
)
ROGUES: dict[str, tuple[Callable[[Rogue, Received, Any, Any], object], str, str]] = {
    "no state": (lambda _r, _g, m, _s: m, ANSWERS, "aggregate returned ndarray: it must return (model, state)"),
    "a list": (lambda _r, _g, m, s: (m.tolist(), s), ANSWERS, "returned list, not ndarray"),
    "too long": (lambda _r, _g, m, s: (np.append(m, m), s), ANSWERS, "returned shape (2,), not (1,)"),
    "float64": (lambda _r, _g, m, s: (m.astype(np.float64), s), ANSWERS, "returned float64, not float32"),
    "divides by 0": (lambda _r, _g, m, s: (m / np.float32(0), s), ANSWERS, "numbers that are not finite"),
    "a set": (lambda _r, _g, m, _s: (m, {"rounds": {1}, "last": m}), ANSWERS, "returned a set"),
    "raises": (lambda _r, _g, m, s: (m, s["absent"]), ANSWERS, "raised KeyError: 'absent'"),
    "exits": (lambda _r, _g, _m, _s: (_ for _ in ()).throw(SystemExit(3)), ANSWERS, "raised SystemExit: 3"),
    "chance": (lambda _r, _g, m, s: (m + np.float32(UNSEEDED.random()), s), SAME, "use no chance"),
    "writes into the model": (swallows_a_round, INPUT, "make new vectors instead"),
    "writes into its state": (adds_to_its_state, INPUT, "make new vectors instead"),
    "memory": (lambda r, _g, m, s: (m * np.float32(r.calls), s), MEMORY, "keep all memory in the state"),
    "the first counts": (
        lambda _r, g, _m, s: (g.uploads[0] * 1, s), "order of uploads does not matter", "in another order",
    ),
}  # fmt: skip


@pytest.mark.parametrize("rogue", ROGUES)
def test_a_rule_that_breaks_a_law_is_found(rogue: str) -> None:
    spoil, law, fault = ROGUES[rogue]
    assert fault in check_aggregation(Rogue(spoil))[law]  # type: ignore[arg-type]


def test_the_honest_rogue_passes() -> None:
    """So the rogues above are found for what they spoil, not for what they share."""
    assert check_aggregation(Rogue(honest)) == {}  # type: ignore[arg-type]
    assert set(LAWS) == {law for _, law, _ in ROGUES.values()}


def test_rounds_of_the_laws_are_awkward_enough() -> None:
    games = [received for game in law_games(10) for received in game]
    assert {len(received.model) for received in games} == {1, 2, 40}
    assert {len(received.uploads) for received in games} >= {1, 2, 9}
    assert all(received.shares.sum() == pytest.approx(1.0) for received in games)


MODEL = torch.zeros(3)


@pytest.mark.parametrize(
    ("state", "fault"),
    [
        (None, ""),
        ({"a": [1, 2.5, True, "x", None], "b": {"c": MODEL}, "d": np.zeros(2)}, ""),
        (MODEL.long(), ""),
        ((1, 2), "a tuple"),  # would come back as a list
        (
            np.float64(1.0),
            "a float64",
        ),  # would come back as a float, and float32 vectors stay float32 with it
        ([{"a": {1: 2}}], "a dict with the key 1"),
        (np.array(["x"]), "an array of <U1"),
        ({"v": MODEL.to(torch.complex64)}, "an array of complex64"),
        ([torch.zeros(3, device="meta")], "a vector on meta, the model on cpu"),
    ],
)
def test_a_state_is_a_plain_value(state: Any, fault: str) -> None:
    assert state_fault(state, MODEL) == fault


def test_a_model_that_lies_elsewhere_is_not_like_the_model() -> None:
    assert model_fault(MODEL * 2, MODEL) == ""
    assert model_fault(torch.zeros(3, device="meta"), MODEL) == "a vector on meta, not cpu"
