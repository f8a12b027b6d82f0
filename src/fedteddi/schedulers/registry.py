"""Finding rules: built in by name, installed by entry point, or ad hoc as `my_rule.py:MyRule`."""

import importlib
import inspect
import pkgutil
import re
from dataclasses import dataclass
from functools import cache
from importlib.metadata import entry_points
from typing import Any, cast

from fedteddi.errors import InputError, nearest_hint, shown
from fedteddi.plugins import imported, load_object
from fedteddi.schedulers import rules
from fedteddi.schedulers.schedule import Scheduler
from fedteddi.settings import read_value

ENTRY_POINT_GROUP = "fedteddi.schedulers"


@dataclass(frozen=True)
class NamedRule:
    """A rule with its options, and a name that tells it from the same rule with others."""

    name: str
    scheduler: str
    options: dict[str, Any]


def named_rule(text: str) -> NamedRule:
    """Read `fedteddi`, `my_rule.py:MyRule` or, with options, `fedteddi[search=refined,lambda0=4]`."""
    found = re.fullmatch(r"(?P<rule>.+?)(\[(?P<options>[^\[\]]*=[^\[\]]*)\])?", text.strip())
    words = found["options"].split(",") if found is not None and found["options"] else []
    pairs = [tuple(part.strip() for part in word.partition("=")[::2]) for word in words]
    if (
        found is None
        or re.search(r"\[[^/\\]*$", found["rule"])  # in a folder's name brackets are welcome
        or not all(k.isidentifier() and v for k, v in pairs)
    ):
        raise InputError(
            f"{shown(text)} is not a rule: write NAME, file.py:Class, or NAME[option=value,option=value]"
        )
    options = {key: read_value(value) for key, value in pairs}
    if len(options) < len(pairs):
        raise InputError(f"{shown(text)} gives an option twice: give it once")
    name = found["rule"].rpartition(":")[2] + "".join(f"-{key}-{value}" for key, value in options.items())
    return NamedRule(re.sub(r"[^\w.-]+", "-", name), found["rule"], options)


@cache
def built_in() -> dict[str, type[Scheduler]]:
    """Return the rules of this package by name: every class in `rules/` that has a name of its own."""
    found: dict[str, type[Scheduler]] = {}
    for module in pkgutil.iter_modules(rules.__path__, f"{rules.__name__}."):
        for value in vars(importlib.import_module(module.name)).values():
            if inspect.isclass(value) and value.__module__ == module.name and "name" in vars(value):
                rule = _checked(value, module.name)
                found[rule.name] = rule
    # The paper's rule and ours first, then the rivals by name.
    return dict(sorted(found.items(), key=lambda item: (not item[0].startswith("fedteddi"), item[0])))


def scheduler_names() -> list[str]:
    """Return every name that `make_scheduler` knows: built-in rules, then installed ones."""
    installed = sorted(e.name for e in entry_points(group=ENTRY_POINT_GROUP))
    return [*built_in(), *(name for name in installed if name not in built_in())]


def find_scheduler(name: str) -> type[Scheduler]:
    """Return the class of a rule: a name, or `path/to/file.py:Class` (this runs the file)."""
    if name in built_in():
        return built_in()[name]
    for entry in entry_points(group=ENTRY_POINT_GROUP):
        if entry.name == name:
            return _checked(imported(entry.load, f"the entry point {name!r}"), name)
    if ":" in name:
        return _checked(load_object(name), name)
    raise InputError(
        f"no scheduler is called {shown(name)}{nearest_hint(name, scheduler_names())}: known are"
        f" {', '.join(scheduler_names())}, or give your own as file.py:Class"
    )


def make_scheduler(name: str, **options: Any) -> Scheduler:
    """Make a rule by name with its options, such as `make_scheduler("fedteddi", search="refined")`."""
    rule = find_scheduler(name)
    known = option_defaults(rule)
    for option in options:
        if known is not None and option not in known:
            has = f"it has {', '.join(known)}" if known else "it has none"
            raise InputError(f"{name} has no option {shown(option)}{nearest_hint(option, known)}: {has}")
    try:
        return rule(**options)
    except InputError:
        raise
    except (Exception, SystemExit) as error:
        raise InputError(f"{name} could not be made: {type(error).__name__}: {error}") from error


def option_defaults(rule: type[Scheduler]) -> dict[str, object] | None:
    """Return a rule's options and their defaults; None if it takes anything."""
    parameters = inspect.signature(rule).parameters.values()
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        return None
    return {p.name: p.default for p in parameters}


def _checked(rule: Any, name: str) -> type[Scheduler]:
    if not isinstance(rule, type) or not callable(getattr(rule, "select", None)):
        raise InputError(f"{name} is not a scheduler: it needs to be a class with select(self, view, rng)")
    if not isinstance(getattr(rule, "name", None), str):
        raise InputError(f'{name} has no name: add name = "my-rule" to the class')
    return cast(type[Scheduler], rule)
