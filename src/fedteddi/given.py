"""Python objects that stand for parts: under which name one is found again, in this process or in any."""

import hashlib
import inspect
import pickle
import sys
from types import CodeType
from typing import Any

from fedteddi.errors import InputError, shown

PYTHON = "python:"  # what names an object that nobody could import
PLAIN = (bool, int, float, str)
LAMBDA = (lambda: None).__name__
_GIVEN: dict[str, Any] = {}


def name_in_python(given: Any) -> str:
    """Return `module:name` where that gives this very object, else a name under which this process has it.

    Objects that differ have different names. One whose class or function has been defined anew since (a notebook's cell
    was run again) gives its name to its successor. A lambda is named by its code: the same in every process.
    """
    if name := importable_name(given):
        return name
    label = label_of(given)
    if label == LAMBDA and (content := _content(given)):
        label = f"lambda-{hashlib.sha256(repr(content).encode()).hexdigest()[:6]}"
    number, name = 1, f"{PYTHON}{label}"
    while name in _GIVEN and not _follows(given, _GIVEN[name]):
        number += 1
        name = f"{PYTHON}{label}-{number}"
    _GIVEN[name] = given
    return name


def given_object(name: str) -> Any:
    """Return the object that got this name here."""
    if name not in _GIVEN:
        raise from_elsewhere(name)
    return _GIVEN[name]


def from_elsewhere(name: str) -> InputError:
    """Say that a name means nothing in this process."""
    return InputError(
        f"{shown(name)} is an object of the Python process that started the run: pass it there again, or put it into a"
        " file and name it as file.py:Name"
    )


def label_of(given: Any) -> str:
    """Return what an object is called, for people: its name, or its class's."""
    return getattr(given, "__name__", None) or getattr(given, "name", None) or type(given).__name__


def importable_name(given: Any) -> str:
    """Return `module:name` of a class or function that is found there, else nothing."""
    module, qualified = getattr(given, "__module__", None), getattr(given, "__qualname__", "")
    if module is not None and qualified and getattr(sys.modules.get(module), qualified, None) is given:
        return f"{module}:{qualified}"
    return ""


def options_of(given: Any) -> dict[str, Any] | None:
    """Return the options with which its class makes an object just like this one; None if nobody can tell.

    A parameter's value must be in the attribute of its name, and plain.
    """
    try:
        parameters = inspect.signature(type(given)).parameters
        values = {key: getattr(given, key) for key in parameters}
        if not all(isinstance(value, PLAIN) for value in values.values()):
            return None
        twin = type(given)(**values)
    except Exception:  # whatever a constructor may raise
        return None
    return values if _alike(twin, given) else None


def _follows(new: Any, old: Any) -> bool:
    """Tell whether an object may have the name of an older one."""
    return new is old or _alike(new, old) or _is_obsolete(old)


def _is_obsolete(old: Any) -> bool:
    """Tell whether what defines an object has been defined anew since."""
    defined = old if hasattr(old, "__qualname__") else type(old)
    there = getattr(sys.modules.get(defined.__module__), defined.__qualname__, defined)
    return there is not defined


def _alike(one: Any, other: Any) -> bool:
    """Tell whether two objects certainly do the same."""
    if type(one) is not type(other):
        return False
    content = _content(one)
    return content is not None and content == _content(other)


def _content(given: Any) -> Any:
    """Return what tells an object from others of its class; of a function its code, defaults and closure."""
    if inspect.isfunction(given):
        cells = [cell.cell_contents for cell in given.__closure__ or ()]
        held = _pickled((given.__defaults__, given.__kwdefaults__, cells))
        return held and (held, _of_code(given.__code__))
    return _pickled(given)


def _of_code(code: CodeType) -> tuple[Any, ...]:
    """Return what code does, wherever it was written."""
    constants = [_of_code(one) if isinstance(one, CodeType) else repr(one) for one in code.co_consts]
    return code.co_code, code.co_names, *constants


def _pickled(value: Any) -> bytes | None:
    try:
        return pickle.dumps(value)
    except Exception:  # what cannot be pickled is like nothing else
        return None
