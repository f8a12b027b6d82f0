"""Objects of the user's own, named as `file.py:name` or `package.module:name`."""

import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

from fedteddi.errors import InputError, nearest_hint, shown


def load_object(name: str) -> Any:
    """Import what `file.py:name` or `package.module:name` names (this runs the file)."""
    where, _, attribute = name.rpartition(":")
    module = _module_from_file(name, where) if where.endswith(".py") or "/" in where else _module(name, where)
    if not hasattr(module, attribute):
        own = [
            key
            for key, value in vars(module).items()
            if getattr(value, "__module__", None) == module.__name__
        ]
        raise InputError(
            f"{where} has no {shown(attribute)}{nearest_hint(attribute, own)}: it has {', '.join(own) or 'nothing'}"
        )
    return getattr(module, attribute)


def imported(load: Callable[[], Any], what: str) -> Any:
    """Run an import; whatever goes wrong in foreign code becomes one sentence."""
    try:
        return load()
    except (Exception, SystemExit) as error:
        raise InputError(f"{what} could not be imported: {type(error).__name__}: {error}") from error


def made(kind: Callable[..., Any], name: str, options: Mapping[str, Any]) -> Any:
    """Make a part with its options; unknown ones are refused with the nearest hint."""
    known = option_defaults(kind)
    for option in options:
        if known is not None and option not in known:
            has = f"it has {', '.join(known)}" if known else "it has none"
            raise InputError(f"{name} has no option {shown(option)}{nearest_hint(option, known)}: {has}")
    try:
        return kind(**options)
    except InputError:
        raise
    except (Exception, SystemExit) as error:
        raise InputError(f"{name} could not be made: {type(error).__name__}: {error}") from error


def option_defaults(kind: Callable[..., Any]) -> dict[str, object] | None:
    """Return a part's options and their defaults; None if it takes anything."""
    parameters = inspect.signature(kind).parameters.values()
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        return None
    return {p.name: p.default for p in parameters}


def _module_from_file(name: str, file: str) -> ModuleType:
    path = Path(file)
    if not path.is_file():
        raise InputError(f"{shown(name)}: there is no file {shown(file)}; give path/to/file.py:name")
    # Under a name of its own, so that dataclasses and pickling in the file work.
    module_name = f"fedteddi_user_{path.stem}"
    spec = importlib.util.spec_from_file_location(module_name, path)
    if spec is None or spec.loader is None:
        raise InputError(f"{shown(file)} is not a Python file: give path/to/file.py:name")
    module = importlib.util.module_from_spec(spec)
    sys.modules[module_name] = module
    imported(partial(spec.loader.exec_module, module), str(path))
    return module


def _module(name: str, where: str) -> ModuleType:
    if not where:
        raise InputError(f"{shown(name)}: give file.py:name or package.module:name")
    module: ModuleType = imported(partial(importlib.import_module, where), where)
    return module
