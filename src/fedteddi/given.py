"""Python objects that stand for parts: under which name one is found again, in this process or in any."""

import hashlib
import inspect
import io
import pickle
import sys
from types import CodeType
from typing import Any

from fedteddi.errors import InputError, shown

PYTHON = "python:"  # what names an object that nobody could import
PLAIN = (bool, int, float, str)
MARK = "@"  # before the checksum
_GIVEN: dict[str, Any] = {}


def name_in_python(given: Any) -> str:
    """Return `module:name` where that gives this very object, else a name under which this process has it.

    That says what the object is called and, where it can be told, holds a checksum of what is in it: the same object
    has the same name in every process, and another one another.
    """
    if name := importable_name(given):
        return name
    content = _content(given)
    sum_ = "" if content is None else f"{MARK}{hashlib.sha256(content).hexdigest()[:8]}"
    for name, known in _GIVEN.items():
        if known is given and name.endswith(sum_):  # else it has changed since it was named
            return name
    number, name = 1, f"{PYTHON}{label_of(given)}{sum_}"
    while name in _GIVEN and not _follows(given, _GIVEN[name]):
        number += 1
        name = f"{PYTHON}{label_of(given)}-{number}{sum_}"
    _GIVEN[name] = given
    return name


def label_in(name: str) -> str:
    """Return what a part with this name is called, for people: without its file, its module or its checksum."""
    label = name.rpartition(":")[2]
    return label.partition(MARK)[0] if name.startswith(PYTHON) else label


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
    label = getattr(given, "__name__", None) or getattr(given, "name", None) or type(given).__name__
    return str(label).strip("<>")  # of <lambda>


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


def code_of(defined: Any) -> bytes | None:
    """Return what tells whether a function or class does as before where its source is not known."""
    parts = vars(defined).values() if isinstance(defined, type) else [defined]
    codes = [_of_code(part.__code__) for part in parts if inspect.isfunction(part)]
    return repr(codes).encode() if codes else None


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


def _content(given: Any) -> bytes | None:
    """Return what tells an object from others of its class; of a function its code, defaults and closure."""
    if inspect.isfunction(given):
        try:
            cells = [cell.cell_contents for cell in given.__closure__ or ()]
        except ValueError:  # a cell that is not filled yet
            return None
        held = _pickled((given.__defaults__, given.__kwdefaults__, cells))
        return held and held + repr(_of_code(given.__code__)).encode()
    return _pickled(given) or _pickled(
        getattr(given, "__dict__", None) or given
    )  # its class may be a local one


def _of_code(code: CodeType) -> tuple[Any, ...]:
    """Return what code does, wherever it was written."""
    return code.co_code, code.co_names, *map(_of_constant, code.co_consts)


def _of_constant(one: Any) -> Any:
    """Return what tells a constant, the same in every process: the order of a set differs."""
    if isinstance(one, CodeType):
        return _of_code(one)
    return sorted(map(repr, one)) if isinstance(one, frozenset) else repr(one)


def _pickled(value: Any) -> bytes | None:
    found = io.BytesIO()
    try:
        _Pickler(found).dump(value)
    except Exception:  # what cannot be pickled is like nothing else
        return None
    return found.getvalue()


class _Pickler(pickle.Pickler):
    """Writes PyTorch's tensors by their values: its own way names storages differently each time."""

    def reducer_override(self, obj: Any) -> Any:
        """Write a tensor as its numbers' bytes."""
        if not callable(getattr(type(obj), "detach", None)):
            return NotImplemented
        values = obj.detach().cpu().numpy()
        return bytes, (f"{values.dtype} {values.shape}".encode() + values.tobytes(),)
