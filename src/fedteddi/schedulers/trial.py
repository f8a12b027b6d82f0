"""Does a rule remember outside its state? It is tried by playing a few rounds, in `fedteddi check` and before a run.

Such a rule would go on from a checkpoint without its memory, and choose other clients than it would have.
"""

import copy
import dataclasses
import hashlib
import inspect
import json
import pickle
import types
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

import numpy as np

from fedteddi.errors import InputError, reworded
from fedteddi.schedulers.made_rounds import following, random_round
from fedteddi.schedulers.memory import State, as_json, from_json
from fedteddi.schedulers.schedule import AnyScheduler, Schedule, choice_of, fault_in_words, first_state
from fedteddi.schedulers.view import ON_REQUEST, RoundView
from fedteddi.wireless.uplink import minimum_bandwidth_hz

START = object()  # the state before the first round, whatever the rule says it is
REMEDY = (
    "keep it in a state, with initial_state(num_clients) and select(view, rng, state) -> (Schedule, state)"
    " (docs/extend.md), and take all chance from the given rng"
)


def num_clients_of(views: Sequence[RoundView]) -> int:
    """Return how many clients there must be for these rounds to take place."""
    return max(int(view.client_id.max()) for view in views) + 1


def played(
    rule: AnyScheduler, views: Sequence[RoundView], state: State = START, first: int = 0
) -> tuple[list[Schedule], list[State]]:
    """Play rounds one after the other from a state; return each one's schedule and the state after it."""
    schedules, states = [], []
    state = first_state(rule, num_clients_of(views)) if state is START else state
    for number, view in enumerate(views, start=first):
        chosen, state = choice_of(rule, view, np.random.default_rng(number), state)
        schedules.append(chosen)
        states.append(state)
    return schedules, states


def keeps_no_memory_in_itself(rule: AnyScheduler, view: RoundView) -> Iterator[str]:
    """What a rule remembers is in its state: playing rounds changes neither the rule nor how it plays them again."""
    views, before = following(view), _contents(rule)
    once, _ = played(rule, views)
    for name, checksum in _contents(rule).items():
        if before.get(name) != checksum:
            yield f"keeps memory in itself ({name} changed while it chose): {REMEDY}"
    again, _ = played(rule, views)
    for first, then in _differences(once, again):
        yield f"chose {first}, then {then} when the same rounds were played again: if it remembers, {REMEDY}"


def resumes(rule: AnyScheduler, view: RoundView) -> Iterator[str]:
    """Going on from a checkpoint with a fresh rule gives the schedules of a run that was never interrupted."""
    views = following(view)
    try:
        fresh = copy.deepcopy(rule)
    except Exception:  # what cannot be copied is played on
        fresh = rule
    middle = len(views) // 2
    straight, states = played(rule, views)
    kept = from_json(json.loads(json.dumps(as_json(states[middle - 1]))))
    resumed, _ = played(fresh, views[middle:], kept, first=middle)
    for whole, parts in _differences(straight[middle:], resumed):
        yield f"chose {whole} in one go, but {parts} after it was resumed: {REMEDY}"


def refuse_own_memory(rule: AnyScheduler, called: str, num_clients: int, num_classes: int) -> None:
    """Try a user's rule on made rounds before a run; refuse one that remembers outside its state."""
    view = _as_asked(rule, trial_round(num_clients, num_classes))
    with reworded(
        lambda error: (
            f"{rule.name} {fault_in_words(rule, error)}; this was a trial round before the run: try"
            f" 'fedteddi check {called}'"
        )
    ):
        for fault in chain(keeps_no_memory_in_itself(rule, view), resumes(rule, view)):
            raise InputError(f"{called}: {rule.name} {fault}")


def trial_round(num_clients: int, num_classes: int) -> RoundView:
    """Return a round of that many clients and classes, in which everyone can upload but not all at once."""
    rng = np.random.default_rng(0)
    view = random_round(rng, clients=num_clients, classes=num_classes)
    compute_s = rng.uniform(0.1, 0.5, size=num_clients)
    signal = 10.0 ** rng.uniform(6.5, 8, size=num_clients)  # P|H|²/N0 in hertz
    needed_hz = minimum_bandwidth_hz(1e6, 1.0 - compute_s, 1.0, signal, 1.0)  # for 1 Mbit in 1 s
    return dataclasses.replace(
        view,
        round=1,
        rounds_in_frame=10,
        total_hz=max(float(needed_hz.max()), float(needed_hz.sum()) / 3),
        needed_hz=needed_hz,
        channel_gain=signal,
        compute_s=compute_s,
    )


def _as_asked(rule: AnyScheduler, view: RoundView) -> RoundView:
    """Leave out what the rule would not receive in a run."""
    needs = getattr(rule, "needs", ())
    asked: dict[str, Any] = {name: getattr(view, name) if name in needs else None for name in ON_REQUEST}
    return dataclasses.replace(view, **asked)


def _contents(rule: AnyScheduler) -> dict[str, str]:
    """Return a checksum of all that a rule holds: its own attributes, its classes', the globals they name."""
    found: dict[str, str] = {}
    for name, value in _held(rule):
        try:
            found[name] = hashlib.sha256(pickle.dumps(value)).hexdigest()
        except Exception:  # not everything can be pickled; playing again tells of the rest
            continue
    return found


def _held(rule: AnyScheduler) -> Iterator[tuple[str, Any]]:
    yield from ((f"self.{name}", value) for name, value in getattr(rule, "__dict__", {}).items())
    users = [kind for kind in type(rule).__mro__ if not kind.__module__.startswith(("fedteddi.", "builtins"))]
    functions = [getattr(rule, "function", None)]
    for kind in users:
        for name, value in vars(kind).items():
            if name in getattr(kind, "__slots__", ()):
                yield f"self.{name}", getattr(rule, name, None)
            elif isinstance(value, types.FunctionType):
                functions.append(value)
            elif not name.startswith("__"):
                yield f"{kind.__name__}.{name}", value
    for function in functions:
        if isinstance(function, types.FunctionType):
            named = [name for name in function.__code__.co_names if name in function.__globals__]
            yield from ((name, function.__globals__[name]) for name in named)
            yield f"the defaults of {function.__name__}", function.__defaults__
            yield from inspect.getclosurevars(function).nonlocals.items()


def _differences(one: list[Schedule], other: list[Schedule]) -> Iterator[tuple[str, str]]:
    for a, b in zip(one, other, strict=True):
        if (a.clients, a.bandwidth_hz) != (b.clients, b.bandwidth_hz):
            yield some(a.clients), some(b.clients)


def some(clients: Sequence[int]) -> str:
    """Return the first few of a schedule's clients, in order of admission, for messages."""
    return f"{list(clients[:8])}{'…' if len(clients) > 8 else ''}"
