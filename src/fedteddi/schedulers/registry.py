"""Schedulers by name: those of `rules/`, installed ones, `my_rule.py:MyRule`, or a class, instance or function."""

import importlib
import inspect
import pkgutil
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, cast

import numpy as np

from fedteddi.errors import InputError, shown
from fedteddi.given import label_in, name_in_python
from fedteddi.registry import Kind, find, make, name_of, named_part, read_named
from fedteddi.schedulers import rules
from fedteddi.schedulers.everyone import Everyone
from fedteddi.schedulers.schedule import Schedule, Scheduler
from fedteddi.schedulers.view import RoundView


@dataclass(frozen=True)
class NamedRule:
    """A rule with its options, and a name that tells it from the same rule with others."""

    name: str
    scheduler: str
    options: dict[str, Any]

    def having(self, options: Mapping[str, Any]) -> "NamedRule":
        """Return the rule with these options as well."""
        if twice := next((key for key in options if key in self.options), None):
            raise InputError(f"the option {shown(twice)} of {self.scheduler} is given twice: give it once")
        chosen = "".join(f"-{key}-{value}" for key, value in options.items())
        return NamedRule(_folder_name(self.name + chosen), self.scheduler, self.options | dict(options))


def named_rule(given: str | Any) -> NamedRule:
    """Read `fedteddi`, `my_rule.py:MyRule`, `fedteddi[search=refined,lambda0=4]`, or name a Python object."""
    rule, options = read_named(given if isinstance(given, str) else rule_text(given), "rule")
    return NamedRule(own_name(rule), rule, {}).having(options)


def rule_text(given: Any) -> str:
    """Return how a rule given as a class, instance or function is written: `NAME[option=value]` where that says all."""
    name, options = named_part(given, SCHEDULERS.name)
    if not options:
        return name
    words = (f"{key}={str(v).lower() if isinstance(v, bool) else v}" for key, v in options.items())
    text = f"{name}[{','.join(words)}]"
    try:
        says_all = named_rule(text).options == options
    except InputError:
        says_all = False
    return text if says_all else name_in_python(given)


def own_name(rule: str) -> str:
    """Return the `name` that a rule gives itself, fit for a folder; one that has been registered is called by that."""
    if ":" not in rule:
        return _folder_name(rule)
    value = find(SCHEDULERS, rule).value
    return _folder_name(str(getattr(value, "name", None) or label_in(rule)))  # a function has no other


def _folder_name(text: str) -> str:
    return re.sub(r"[^\w.-]+", "-", text)


@cache
def built_in() -> dict[str, type[Scheduler]]:
    """Return the rules of this package by name: every class in `rules/` that has a name of its own."""
    found: dict[str, type[Scheduler]] = {}
    for module in pkgutil.iter_modules(rules.__path__, f"{rules.__name__}."):
        for value in vars(importlib.import_module(module.name)).values():
            if inspect.isclass(value) and value.__module__ == module.name and "name" in vars(value):
                _check(value, module.name)
                rule = cast(type[Scheduler], value)
                found[rule.name] = rule
    # The paper's rule and ours first, then the others by name.
    return dict(sorted(found.items(), key=lambda item: (not item[0].startswith("fedteddi"), item[0])))


def _check(rule: Any, name: str) -> None:
    if inspect.isroutine(rule):
        return
    if not callable(getattr(rule, "select", None)):
        raise InputError(
            f"{name} is not a scheduler: it needs to be a class with select(self, view, rng), or a function (view, rng)"
        )
    if not isinstance(getattr(rule, "name", None), str):
        raise InputError(f'{name} has no name: add name = "my-rule" to the class')
    try:
        takes_state = "state" in inspect.signature(rule.select).parameters
    except (TypeError, ValueError):  # not written in Python
        takes_state = False
    if takes_state and not callable(getattr(rule, "initial_state", None)):
        raise InputError(
            f"{name}: select takes a state, but nothing says what it is at first: add initial_state(self, num_clients)"
        )


SCHEDULERS = Kind(
    name="schedulers",
    one="scheduler",
    built_in=lambda: built_in() | {Everyone.name: Everyone},
    check=_check,
    of_function=lambda function: FunctionRule(function),
)


def scheduler_names() -> list[str]:
    """Return the rules' names, built-in ones first, then installed ones; `everyone` is a bound, not a rule."""
    return [name for name in SCHEDULERS.names() if name != Everyone.name]


def find_scheduler(name: str) -> type[Scheduler]:
    """Return the class of a rule: a name, or `path/to/file.py:Class` (this runs the file)."""
    return cast(type[Scheduler], find(SCHEDULERS, name).value)


def make_scheduler(name: str | Any, **options: Any) -> Scheduler:
    """Make a rule by name with its options, such as `make_scheduler("fedteddi", search="refined")`.

    One with memory (`round-robin`) is a `SchedulerWithMemory`; Python's types do not say which name has one.
    """
    return cast(Scheduler, make(SCHEDULERS, name_of(name, SCHEDULERS), **options))


@dataclass(frozen=True)
class FunctionRule:
    """A function (view, rng) as a rule."""

    function: Callable[[RoundView, np.random.Generator], Schedule]

    @property
    def name(self) -> str:
        """The function's name."""
        return self.function.__name__

    def select(self, view: RoundView, rng: np.random.Generator) -> Schedule:
        """Ask the function."""
        return self.function(view, rng)
