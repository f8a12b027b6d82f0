"""One way to find any named part: built in, installed (entry point), `file.py:Name`, or a Python object."""

import hashlib
import importlib
import importlib.util
import inspect
import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from fedteddi.errors import InputError, nearest_hint, reworded, shown
from fedteddi.extras import missing_extra
from fedteddi.given import (
    PLAIN,
    PYTHON,
    code_of,
    from_elsewhere,
    given_object,
    importable_name,
    name_in_python,
    options_of,
)

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

BUILT_IN = "built-in"
_KINDS: dict[str, "Kind"] = {}  # by name, those whose module has been imported


def first_line(value: Any) -> str:
    """Return the first line of an object's docstring."""
    return (inspect.getdoc(value) or "").partition("\n")[0]


def must(accepted: Callable[[Any], bool], otherwise: str) -> Callable[[Any, str], None]:
    """Return the `check` of a kind: what is not accepted is refused, with its name and this remedy."""

    def check(given: Any, name: str) -> None:
        if not accepted(given):
            raise InputError(f"{name} {otherwise}")

    return check


def has_method(method: str) -> Callable[[Any], bool]:
    """Return a test for objects and classes that have this method."""
    return lambda given: callable(getattr(given, method, None))


@dataclass(frozen=True, eq=False, kw_only=True)
class Kind:
    """A kind of part that settings and commands can name. All that a new seam has to say about itself."""

    name: str  # such as "schedulers": of `fedteddi list`, and of the entry point group
    one: str  # such as "scheduler", in messages
    built_in: Callable[[], Mapping[str, Any]]
    your_own: str = "give your own as file.py:Class"
    # Raises InputError for what is none of this kind; without it, whoever uses a part checks what it does.
    check: Callable[[Any, str], None] = lambda _given, _name: None
    describe: Callable[[Any], str] = first_line
    # Makes a part of a plain function, where a part has one method.
    of_function: Callable[[Any], Any] | None = None

    def __post_init__(self) -> None:
        _KINDS[self.name] = self

    @property
    def group(self) -> str:
        """The entry point group; hyphens are not allowed there."""
        return f"fedteddi.{self.name.replace('-', '_')}"

    def names(self) -> list[str]:
        """Return every name that `find` knows: built-in parts, then installed ones."""
        own = self.built_in()
        return [*own, *sorted({entry.name for entry in entry_points(group=self.group)} - set(own))]


@dataclass(frozen=True)
class Part:
    """What a name stands for, and where it comes from."""

    name: str
    value: Any
    source: str  # built-in, a distribution, a file, or Python


def find(kind: Kind, name: str) -> Part:
    """Return the part of that name. `file.py:Name` runs the file, whatever else is in it."""
    if (own := kind.built_in()).get(name) is not None:
        return Part(name, own[name], BUILT_IN)
    if entry := _entry_point(kind, name):
        part = Part(name, imported(entry.load, f"the entry point {name!r}"), _distribution(entry))
    elif name.startswith(PYTHON):
        part = Part(name, given_object(name), "Python object")
    elif ":" in name:
        part = Part(name, load_object(name), name.rpartition(":")[0])
    else:
        known = kind.names()
        raise InputError(
            f"no {kind.one} is called {shown(name)}{nearest_hint(name, known)}: known are {', '.join(known)},"
            f" or {kind.your_own}"
        )
    if kind.of_function is None or not inspect.isroutine(part.value):
        kind.check(part.value, name)
    return part


def make(kind: Kind, name: str, **options: Any) -> Any:
    """Make a part from the class of that name and its options; an object that exists already takes none."""
    value = find(kind, name).value
    known = option_defaults(value) if isinstance(value, type) else {}
    for option in options:
        if known is not None and option not in known:
            has = f"it has {', '.join(known)}" if known else "it has none"
            raise InputError(f"{name} has no option {shown(option)}{nearest_hint(option, known)}: {has}")
    if not isinstance(value, type):
        return kind.of_function(value) if kind.of_function and inspect.isroutine(value) else value
    with reworded(lambda error: f"{name} could not be made: {type(error).__name__}: {error}"):
        return value(**options)


def option_defaults(part: type) -> dict[str, object] | None:
    """Return a class's options and their defaults; None if it takes anything."""
    parameters = inspect.signature(part).parameters.values()
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        return None
    return {p.name: p.default for p in parameters}


def name_of(given: Any, kind: Kind | None = None) -> str:
    """Return a name under which `find` gives this object again, later and, where it can be imported, elsewhere."""
    if isinstance(given, str):
        return given
    built_in = kind.built_in() if kind is not None else {}
    return next((name for name, value in built_in.items() if value is given), "") or name_in_python(given)


def named_part(given: Any, kind: str) -> tuple[str, dict[str, Any] | None]:
    """Return the name of a part of that kind, and its options: None if it is named without any.

    An object that its class would make again from plain options is named by its class, which other processes find.
    """
    which = known_kind(kind)
    if not isinstance(given, type) and importable_name(type(given)):
        options = options_of(given)
        if options is not None:
            defaults = option_defaults(type(given)) or {}
            own = {key: value for key, value in options.items() if value != defaults.get(key)}
            return name_of(type(given), which), own
    return name_of(given, which), None if isinstance(given, type | str) else {}


def known_kind(name: str) -> Kind | None:
    """Return the kind of that name, if its module is loaded: a part of ours brings it along."""
    return _KINDS.get(name)


def may_be_part(value: Any) -> bool:
    """Tell whether a value can be a part itself: not a name of one, nor anything that settings hold."""
    return value is not None and not isinstance(value, (*PLAIN, os.PathLike, list, tuple, dict))


def source(kind: Kind, name: str) -> bytes | None:
    """Return the source of a part that is not built in: its file, or of a script or notebook its own lines.

    Of one that was typed into an interpreter it is the compiled code.
    """
    if name in kind.built_in():
        return None
    where = name.rpartition(":")[0]
    if _is_file(where):
        return Path(where).read_bytes()
    value = find(kind, name).value
    defined = value if hasattr(value, "__qualname__") else type(value)
    try:
        if defined.__module__ == "__main__":
            return inspect.getsource(defined).encode()
        return Path(inspect.getsourcefile(defined) or "").read_bytes()
    except (OSError, TypeError):
        return code_of(defined)


def source_checksums(parts: Iterable[tuple[Kind, str]]) -> dict[str, str]:
    """Return a checksum of the source of each of these parts that is not built in, by what it is and its name."""
    sources = {f"{kind.one} {name}": source(kind, name) for kind, name in parts}
    return {what: hashlib.sha256(text).hexdigest() for what, text in sources.items() if text is not None}


def one_sentence(what: str) -> AbstractContextManager[None]:
    """Turn whatever a plug-in raises, or its attempt to end the process, into one sentence about `what`."""
    return reworded(
        lambda error: (
            f"{what}: it called sys.exit({error.code}); let it return or raise instead"
            if isinstance(error, SystemExit)
            else f"{what}: {type(error).__name__}: {error}"
        )
    )


def read_value(text: str) -> Any:
    """Read the value of an option or setting as TOML, or else as the text it is."""
    import tomllib

    try:
        found = tomllib.loads(f"x = {text}")
    except (ValueError, RecursionError):
        return text
    return found["x"] if len(found) == 1 else text


def read_options(words: Iterable[str], flag: str) -> dict[str, Any]:
    """Turn key=value words into options."""
    options: dict[str, Any] = {}
    for word in words:
        key, equals, value = (part.strip() for part in word.partition("="))
        if not equals or not key.isidentifier():
            raise InputError(f"{flag} {word!r}: write it as key=value, such as search=refined")
        if key in options:
            raise InputError(f"{flag} {key} is given twice: keep one")
        options[key] = read_value(value)
    return options


def read_named(given: str, what: str) -> tuple[str, dict[str, Any]]:
    """Read `NAME[option=value,option=value]`: the name, and the options."""
    found = re.fullmatch(r"(?P<name>.+?)(\[(?P<options>[^\[\]]*=[^\[\]]*)\])?", given.strip())
    words = found["options"].split(",") if found is not None and found["options"] else []
    pairs = [tuple(part.strip() for part in word.partition("=")[::2]) for word in words]
    if (
        found is None
        or "[" in re.split(r"[:/\\]", found["name"])[-1]  # in a file's name brackets are welcome
        or not all(k.isidentifier() and v for k, v in pairs)
    ):
        raise InputError(
            f"{shown(given)} is not a {what}: write NAME, file.py:Class, or NAME[option=value,option=value]"
        )
    options = {key: read_value(value) for key, value in pairs}
    if len(options) < len(pairs):
        raise InputError(f"{shown(given)} gives an option twice: give it once")
    return found["name"], options


def load_object(name: str) -> Any:
    """Import what `file.py:name` or `package.module:name` names (this runs the file)."""
    where, _, attribute = name.rpartition(":")
    module = _module_from_file(name, where) if _is_file(where) else _module(name, where)
    if not hasattr(module, attribute):
        if where == "__main__":  # of a script or notebook, and this may be a worker
            raise from_elsewhere(name)
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
        sentence = f"{what} could not be imported: {type(error).__name__}: {error}"
        raise missing_extra(what, error) or InputError(sentence) from error


def entry_points(group: str) -> "Iterable[EntryPoint]":
    """Return what installed packages offer in a group; reading their metadata is put off until a name needs it."""
    from importlib import metadata

    return metadata.entry_points(group=group)


def _entry_point(kind: Kind, name: str) -> "EntryPoint | None":
    return next((entry for entry in entry_points(group=kind.group) if entry.name == name), None)


def _distribution(entry: "EntryPoint") -> str:
    dist = getattr(entry, "dist", None)
    return "an installed package" if dist is None else f"{dist.name} {dist.version}"


def _is_file(where: str) -> bool:
    return where.endswith(".py") or "/" in where


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
