"""What a scheduled set is worth: the terms of the objective of a rule that has one."""

import math
from collections.abc import Sequence
from typing import Protocol, TypeGuard

from fedteddi.errors import InputError, reworded
from fedteddi.heterogeneity.objective import Objective, ObjectiveTerms
from fedteddi.schedulers.schedule import fault_in_words
from fedteddi.schedulers.view import RoundView


class HasObjective(Protocol):
    """A rule that may be asked for the objective it lowers."""

    def objective(self, view: RoundView) -> Objective:
        """Return the objective of this round."""
        ...


def has_objective(rule: object) -> TypeGuard[HasObjective]:
    """Tell whether a rule has an objective."""
    return callable(getattr(rule, "objective", None))


def checked_terms(rule: HasObjective, view: RoundView, clients: Sequence[int]) -> ObjectiveTerms:
    """Evaluate a set by a rule's objective; a foreign one may raise or answer something invalid: one sentence."""
    name = getattr(rule, "name", type(rule).__name__)
    with reworded(lambda error: f"objective of {name} {fault_in_words(rule, error)}"):
        objective = rule.objective(view)
        if not isinstance(objective, Objective):
            raise InputError(
                f"objective of {name} returned {type(objective).__name__}: it must return a fedteddi.Objective"
            )
        terms = objective.terms(clients)
    if not math.isfinite(terms.total):
        raise InputError(f"objective of {name} is {terms.total:g}: it must be finite")
    return terms
