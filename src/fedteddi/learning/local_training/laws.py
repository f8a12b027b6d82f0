"""The invariants of every local-training rule, as functions: a run and our tests ask the same questions."""

import copy
from collections.abc import Iterator

import torch
from torch import Tensor

from fedteddi.errors import InputError
from fedteddi.laws import Law, broken_laws, raised
from fedteddi.learning.local_training.rule import LocalTraining, called, checked_direction

Step = tuple[Tensor, Tensor, Tensor]  # gradient, weights, start


def answers(rule: LocalTraining, steps: list[Step]) -> Iterator[str]:
    """Every step has a direction like the gradient, and it is finite."""
    for step in steps:
        if not bool(torch.isfinite(checked_direction(rule, *step)).all()):
            yield "returned numbers that are not finite"


def repeats_itself(rule: LocalTraining, steps: list[Step]) -> Iterator[str]:
    """The same step gives the same direction, whatever was asked before: no chance, and no memory in the rule."""
    used = copy.deepcopy(rule)
    for step in steps:
        used.direction(*step)
    for step in steps:
        if not torch.equal(used.direction(*step), copy.deepcopy(rule).direction(*step)):
            yield "gave another direction when it was asked again: use no chance, and keep no memory in it"


def leaves_its_input(rule: LocalTraining, steps: list[Step]) -> Iterator[str]:
    """Gradient, weights and start are not changed: others still use them."""
    for step in steps:
        before = [part.clone() for part in step]
        rule.direction(*step)
        if not all(map(torch.equal, step, before)):
            yield "changed what it was given: make new tensors instead"


def works_entry_by_entry(rule: LocalTraining, steps: list[Step]) -> Iterator[str]:
    """A part of a model, or many models stacked, get the directions that each entry gets alone."""
    for step in steps:
        whole = rule.direction(*step)
        halves = [rule.direction(*(part[cut] for part in step)) for cut in (slice(None, 3), slice(3, None))]
        stacked = rule.direction(*(torch.stack([part, part]) for part in step))
        if not torch.equal(torch.cat(halves), whole) or not torch.equal(stacked, torch.stack([whole, whole])):
            yield "gave other directions for a part of a model, or for two: work entry by entry"


ANSWERS = "a direction for every step"
LAWS: dict[str, Law[list[Step]]] = {
    ANSWERS: answers,
    "same step, same direction": repeats_itself,
    "leaves its input as it was": leaves_its_input,
    "works entry by entry": works_entry_by_entry,
}


def check_local_training(rule: LocalTraining) -> dict[str, str]:
    """Try every invariant on random steps; return the first fault, or "not tried", of each not kept, by name."""

    def in_words(error: BaseException) -> str:
        if isinstance(error, InputError):
            return str(error).removeprefix(f"{called(rule)} ")
        return raised(error)

    return broken_laws(LAWS, [law_steps()], lambda law, steps: law(*copy.deepcopy((rule, steps))), in_words)


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
