"""The invariants of every local-training rule, as functions: a run and our tests ask the same questions."""

import copy
from collections.abc import Callable

import torch
from torch import Tensor

from fedteddi.errors import InputError, fault_place
from fedteddi.learning.local_training.rule import LocalTraining, checked_direction

Step = tuple[Tensor, Tensor, Tensor]  # gradient, weights, start


def answers(rule: LocalTraining, steps: list[Step]) -> list[str]:
    """Every step has a direction like the gradient, and it is finite."""
    for step in steps:
        if not bool(torch.isfinite(checked_direction(rule, *step)).all()):
            return ["returned numbers that are not finite"]
    return []


def repeats_itself(rule: LocalTraining, steps: list[Step]) -> list[str]:
    """The same step gives the same direction, whatever was asked before: no chance, and no memory in the rule."""
    used = copy.deepcopy(rule)
    for step in steps:
        used.direction(*step)
    for step in steps:
        if not torch.equal(used.direction(*step), copy.deepcopy(rule).direction(*step)):
            return ["gave another direction when it was asked again: use no chance, and keep no memory in it"]
    return []


def leaves_its_input(rule: LocalTraining, steps: list[Step]) -> list[str]:
    """Gradient, weights and start are not changed: others still use them."""
    for step in steps:
        before = [part.clone() for part in step]
        rule.direction(*step)
        if not all(map(torch.equal, step, before)):
            return ["changed what it was given: make new tensors instead"]
    return []


def works_entry_by_entry(rule: LocalTraining, steps: list[Step]) -> list[str]:
    """A part of a model, or many models stacked, get the directions that each entry gets alone."""
    for step in steps:
        whole = rule.direction(*step)
        halves = [rule.direction(*(part[cut] for part in step)) for cut in (slice(None, 3), slice(3, None))]
        stacked = rule.direction(*(torch.stack([part, part]) for part in step))
        if not torch.equal(torch.cat(halves), whole) or not torch.equal(stacked, torch.stack([whole, whole])):
            return ["gave other directions for a part of a model, or for two: work entry by entry"]
    return []


ANSWERS = "a direction for every step"
LAWS: dict[str, Callable[[LocalTraining, list[Step]], list[str]]] = {
    ANSWERS: answers,
    "same step, same direction": repeats_itself,
    "leaves its input as it was": leaves_its_input,
    "works entry by entry": works_entry_by_entry,
}


def check_local_training(rule: LocalTraining) -> dict[str, str]:
    """Try every invariant on random steps; return the first fault of each one that is broken, by its name."""
    broken: dict[str, str] = {}
    for name, law in LAWS.items():
        try:
            faults = law(copy.deepcopy(rule), law_steps())
        except InputError as error:
            name, faults = (
                ANSWERS,
                [str(error).removeprefix(f"training.local_training={type(rule).__name__} ")],
            )
        except (Exception, SystemExit) as error:
            name, faults = ANSWERS, [f"raised {type(error).__name__}: {error}{fault_place(error)}"]
        if faults:
            broken.setdefault(name, faults[0])
    return broken


def refuse_broken(rule: LocalTraining, name: str) -> None:
    """Refuse a rule that breaks an invariant, before anything runs."""
    for fault in check_local_training(rule).values():
        raise InputError(f"training.local_training={name} {fault}")


def law_steps() -> list[Step]:
    """Return steps of a model of seven weights, at its start and away from it."""
    generator = torch.Generator().manual_seed(0)
    start = torch.randn(7, generator=generator)
    away = [torch.zeros(7), *(torch.randn(7, generator=generator) for _ in range(3))]
    return [(torch.randn(7, generator=generator), start + offset, start) for offset in away]
