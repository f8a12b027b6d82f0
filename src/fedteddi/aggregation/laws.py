"""The invariants of every aggregation rule, as functions: `fedteddi check` and our tests ask the same questions."""

import copy
import dataclasses
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any

import numpy as np

from fedteddi.aggregation.rule import (
    Aggregation,
    Received,
    State,
    Vector,
    asked,
    model_fault,
    remembers,
    state_fault,
)
from fedteddi.errors import InputError, guarded
from fedteddi.laws import Law, broken_laws

Game = list[Received]  # rounds, one after the other
Make = Callable[[np.ndarray], Vector]  # a vector of the library that is to be tried
# Sums in another order round differently; float32 keeps seven digits.
ROUNDING = 1e-4


def answers(rule: Aggregation, game: Game) -> Iterator[str]:
    """Every round gives a model like the one before, finite, and a state that a checkpoint can keep."""
    state: State = None
    for received in game:
        model, state = asked(rule, received, state)
        fault = model_fault(model, received.model) or state_fault(state, received.model)
        if not fault and not np.isfinite(_numbers(model)).all():
            fault = "numbers that are not finite"
        if fault:
            yield f"returned {fault}"


def repeats_itself(rule: Aggregation, game: Game) -> Iterator[str]:
    """The same uploads and the same state give the same model."""
    state: State = None
    for received in game:
        (first, after), (second, _) = asked(rule, received, state), asked(rule, received, state)
        if not _same(first, second):
            yield (
                f"gave another model when asked again (round {received.round}): use no chance, and no memory but the"
                " state"
            )
        state = after


def leaves_its_input(rule: Aggregation, game: Game) -> Iterator[str]:
    """What was received and the state are not changed: others still use them."""
    state = rule.initial_state(game[0].model) if remembers(rule) else None  # type: ignore[attr-defined]
    for received in game:
        before = copy.deepcopy((vars(received), state))
        _, after = asked(rule, received, state)
        if not _same(before, (vars(received), state)):
            yield f"changed what it was given (round {received.round}): make new vectors instead"
        state = after


def remembers_in_its_state(rule: Aggregation, game: Game) -> Iterator[str]:
    """A rule that is made anew in every round goes on as the old one would: a resumed run does just that."""
    whole, state, resumed_state = copy.deepcopy(rule), None, None
    for received in game:
        model, state = asked(whole, received, state)
        resumed, resumed_state = asked(copy.deepcopy(rule), received, copy.deepcopy(resumed_state))
        if not _same(model, resumed):
            yield f"gave another model after a fresh start (round {received.round}): keep all memory in the state"


def ignores_order(rule: Aggregation, game: Game) -> Iterator[str]:
    """The order of the uploads does not matter, up to rounding."""
    for received in game:
        order = np.random.default_rng(received.round).permutation(len(received.uploads))
        shuffled = dataclasses.replace(
            received,
            uploads=tuple(received.uploads[index] for index in order),
            shares=received.shares[order],
            client_id=received.client_id[order],
            batch_mix=None if received.batch_mix is None else received.batch_mix[order],
            data_mix=None if received.data_mix is None else received.data_mix[order],
        )
        one, other = (_numbers(asked(copy.deepcopy(rule), r, None)[0]) for r in (received, shuffled))
        if np.abs(one - other).max() > ROUNDING * np.abs(one).max():
            yield f"gave another model for uploads in another order (round {received.round})"


ANSWERS = "a model and a state that can be used"
LAWS: dict[str, Law[Game]] = {
    ANSWERS: answers,
    "same uploads, same model": repeats_itself,
    "leaves its input as it was": leaves_its_input,
    "all memory is in the state": remembers_in_its_state,
    "order of uploads does not matter": ignores_order,
}


def check_aggregation(rule: Aggregation, vector: Make = np.asarray, games: int = 10) -> dict[str, str]:
    """Try every invariant on random rounds; return the first fault, or "not tried", of each not kept, by name.

    `vector` makes the vectors: a simulation has torch's, so a rule that needs them is tried with `torch.tensor`.
    """
    with np.errstate(all="ignore"):
        return broken_laws(
            LAWS, law_games(games, vector), lambda law, game: law(*copy.deepcopy((rule, game)))
        )


def refuse_own_memory(rule: Aggregation, name: str, model: Vector, classes: int) -> None:
    """Refuse a rule that remembers outside its state, or changes what it is given, before anything runs."""
    rng = np.random.default_rng(0)
    game = [
        Received(
            frame=0,
            round=number,
            model=model * (1 + 0.1 * number),
            uploads=(model * 0.9, model * 1.2),
            shares=np.array([0.25, 0.75]),
            client_id=np.arange(2),
            **_made_mixes(rng, 2, classes),
        )
        for number in (1, 2, 3)
    ]
    with guarded(f"server.aggregation={name}", "aggregation"):
        untouched = copy.deepcopy((rule, game))
        for fault in chain(leaves_its_input(*untouched), remembers_in_its_state(rule, game)):
            raise InputError(
                f"server.aggregation={name} {fault}; try 'fedteddi check --kind aggregation' on it"
            )


def law_games(count: int, vector: Make = np.asarray) -> Iterator[Game]:
    """Yield runs of six rounds: models of 1 to 40 numbers, 1 to 9 uploads of very unequal shares and class mixes."""
    for seed in range(count):
        rng = np.random.default_rng(seed)
        size = (1, 2, 40)[seed % 3]
        model, game = rng.normal(size=size).astype(np.float32), []
        for number in range(1, 7):
            clients = 1 if (seed + number) % 4 == 0 else int(rng.integers(2, 10))
            uploads = (model + rng.normal(scale=0.1, size=(clients, size))).astype(np.float32)
            game.append(
                Received(
                    frame=1,
                    round=number,
                    model=vector(model),
                    uploads=tuple(vector(upload) for upload in uploads),
                    shares=rng.dirichlet(np.full(clients, 0.7)) * 0.99 + 0.01 / clients,
                    client_id=rng.permutation(20)[:clients],
                    **_made_mixes(rng, clients, (1, 3, 10)[number % 3]),
                )
            )
            model = uploads.mean(axis=0)
        yield game


def _made_mixes(rng: np.random.Generator, clients: int, classes: int) -> dict[str, Any]:
    """Return what `Received` has about classes: clients with few of them each, and one class that nobody has yet."""
    here = max(classes - 1, 1)
    batch, data, *everyone = (
        np.pad(rng.dirichlet(np.full(here, 0.3), size=size), ((0, 0), (0, classes - here)))
        for size in (clients, clients, 1, 1)
    )
    return {
        "rounds_in_frame": 6,
        "batch_mix": batch,
        "data_mix": data,
        "everyone_batch_mix": everyone[0][0],
        "everyone_data_mix": everyone[1][0],
        "classes_seen": np.arange(classes) < here,
    }


def _numbers(vector: Vector) -> np.ndarray:
    return np.asarray(vector, dtype=np.float64)


def _same(one: object, other: object) -> bool:
    """Compare values of any depth to the bit."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(_same, one, other))
    if hasattr(one, "shape") and hasattr(other, "shape"):
        return tuple(one.shape) == tuple(other.shape) and _all_equal(one, other)
    return one == other


def _all_equal(one: Vector, other: Vector) -> bool:
    return bool(((one == other) | ((one != one) & (other != other))).all())  # NaN is itself here
