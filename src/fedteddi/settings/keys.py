"""All keys of the settings, as people read about them: meaning, unit, default, range, the paper's word."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import tomli_w

from fedteddi.errors import InputError, nearest_hint, shown
from fedteddi.settings.effect import used_only
from fedteddi.settings.schema import full_schema, items_of

TOP = ""  # the section of keys that are in none


@dataclass(frozen=True)
class Key:
    """One key: `path` is as in `--set`, such as radio.deadline_s."""

    path: str
    meaning: str
    unit: str
    default: str  # as TOML; nothing where there is none
    values: str  # range or choices, in words
    paper: str
    used_only: str
    is_required: bool

    @property
    def section(self) -> str:
        """The section it is in, such as `scenario` or `scenario.arrivals`."""
        return self.path.rpartition(".")[0]

    @property
    def name(self) -> str:
        """What is written in its section."""
        return self.path.rpartition(".")[2]


@cache
def all_keys() -> tuple[Key, ...]:
    """Return every key, in the order of the sections."""
    return tuple(_keys(full_schema(), TOP))


@cache
def sections() -> dict[str, str]:
    """Return what every section is about, in order."""
    found = {TOP: "Before any section"}
    for name, part in full_schema()["properties"].items():
        if "properties" in part:
            found[name] = part["description"]
            tables = {key: items for key, one in part["properties"].items() if (items := items_of(one))}
            found |= {f"{name}.{key}": items["description"] for key, items in tables.items()}
    return found


def header(section: str) -> str:
    """Return the line of TOML that begins a section."""
    return f"[[{section}]]" if "." in section else f"[{section}]" if section else ""


def find_keys(word: str) -> tuple[Key, ...]:
    """Return the key of that path and the keys of that section, or else all keys of that name."""
    keys = all_keys()
    for chosen in (
        [key for key in keys if word != TOP and word in (key.path, key.section)],
        [key for key in keys if key.name == word],
    ):
        if chosen:
            return tuple(chosen)
    known = [*sections(), *(key.path for key in keys), *(key.name for key in keys)]
    raise InputError(
        f"no setting is called {shown(word)}{nearest_hint(word, known)}: 'fedteddi settings' lists all of them"
    )


def toml_value(value: Any) -> str:
    """Return a plain value as it is written after the equals sign, on one line."""
    if isinstance(value, list):
        return f"[{', '.join(map(toml_value, value))}]"
    if isinstance(value, dict):
        inner = ", ".join(f"{_toml_key(name)} = {toml_value(one)}" for name, one in value.items())
        return f"{{ {inner} }}" if inner else "{}"
    if isinstance(value, float) and abs(value) >= 1e5 and float(f"{value:g}") == value:
        return f"{value:g}".replace("e+0", "e")  # 2e6 is easier to read than 2000000.0
    return tomli_w.dumps({"x": value}).removeprefix("x = ").rstrip("\n")


def _toml_key(name: str) -> str:
    return tomli_w.dumps({name: 0}).removesuffix(" = 0\n")


def _keys(part: dict[str, Any], section: str) -> Iterator[Key]:
    for name, one in part["properties"].items():
        path = f"{section}.{name}".lstrip(".")
        if "properties" in one:
            yield from _keys(one, path)
            continue
        yield Key(
            path=path,
            meaning=one["description"],
            unit=one["unit"],
            default=toml_value(one["default"]) if "default" in one else "",
            values=_values(one),
            paper=one["paper"],
            used_only=used_only(path),
            is_required=name in part.get("required", ()),
        )
        if (items := items_of(one)) is not None:
            yield from _keys(items, path)


def _values(part: dict[str, Any]) -> str:
    """Return the range or the choices of a value, in words."""
    if part.get("named"):
        return f"a name of `fedteddi list {part['named']}`, or your own as file.py:Name"
    if "anyOf" in part:
        return "; or ".join(map(_values, part["anyOf"]))
    if "enum" in part:
        return ", ".join(map(toml_value, part["enum"]))
    if "const" in part:
        return toml_value(part["const"])
    if part["type"] == "array":
        return "tables" if items_of(part) else f"a list of {_numbers(part['items'], many=True)}"
    kinds = {"string": "text", "boolean": "true or false", "object": "a table of options"}
    return kinds.get(part["type"]) or _numbers(part)


def _numbers(part: dict[str, Any], many: bool = False) -> str:
    kind = "whole number" if part["type"] == "integer" else "number"
    words = {
        "minimum": "at least",
        "exclusiveMinimum": "above",
        "maximum": "at most",
        "exclusiveMaximum": "below",
    }
    limits = " and ".join(f"{word} {_short(part[name])}" for name, word in words.items() if name in part)
    each = "each " if many else ""
    return (f"{kind}s" if many else f"a {kind}") + (f", {each}{limits}" if limits else "")


def _short(number: float) -> str:
    return str(number) if isinstance(number, int) else f"{number:.12g}"
