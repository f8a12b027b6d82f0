"""Where a run is in a sweep: the values of the swept keys, and the folder that is named after them."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import quote, unquote

from fedteddi.errors import InputError
from fedteddi.registry import read_value
from fedteddi.settings import Settings

Point = dict[str, Any]  # by key as in --set, such as scenario.alpha; lists as tuples
LONGEST = 200  # of a folder's name; file systems take 255 bytes


def folder_of(point: Mapping[str, Any]) -> str:
    """Return the folder of a point's runs, such as `scenario.alpha=0.1,scenario.clients=30`."""
    name = ",".join(f"{key}={quote(written(value), safe='[]:+ ')}" for key, value in point.items())
    if len(name) > LONGEST:
        raise InputError(f"{name[:60]}… is too long for a folder's name: give shorter values to sweep over")
    return name


def point_of(name: str) -> Point | None:
    """Return the point that a folder is named after; None of another folder."""
    found: Point = {}
    for part in name.split(","):
        key, equals, value = part.partition("=")
        if not equals or not all(step.isidentifier() for step in key.split(".")):
            return None
        found[key] = frozen(read_value(unquote(value)))
    return found


def value_at(settings: Settings, key: str) -> Any:
    """Return the value of a key such as radio.deadline_s; None where it is not set."""
    found: Any = settings.model_dump()
    for step in key.split("."):
        found = found.get(step) if isinstance(found, dict) else None
    return found


def frozen(value: Any) -> Any:
    """Return a value of a setting so that points can be compared and counted: lists become tuples."""
    if isinstance(value, dict):
        raise InputError(f"{value} cannot be swept: sweep one of its keys")
    return tuple(map(frozen, value)) if isinstance(value, list | tuple) else value


def thawed(value: Any) -> Any:
    """Return a point's value as settings have it."""
    return [thawed(one) for one in value] if isinstance(value, tuple) else value


def in_words(point: Mapping[str, Any]) -> str:
    """Return a point as people read it: "scenario.alpha=0.1, scenario.clients=30"."""
    return ", ".join(f"{key}={written(value)}" for key, value in point.items())


def wanted(values: Mapping[str, Any], points: Sequence[Mapping[str, Any]]) -> Point:
    """Return the values that are asked for by keys such as scenario__alpha; refuse those of none of the points."""
    found = {key.replace("__", "."): frozen(value) for key, value in values.items()}
    for key, value in found.items():
        if any(key not in point for point in points):
            swept = ", ".join(points[0]) or "nothing"
            raise InputError(f"{key} is not swept here: {swept} is")
        if all(point[key] != value for point in points):
            there = ", ".join(written(point[key]) for point in ordered({key: p[key]} for p in points))
            raise InputError(f"there are no runs at {in_words({key: value})}: choose from {there}")
    return found


def ordered(points: Iterable[Mapping[str, Any]]) -> list[Point]:
    """Return each point once: by its values where they are numbers, else in the order in which they come."""
    every = list({tuple(point.items()): dict(point) for point in points}.values())
    ranks: dict[str, list[Any]] = {}
    for key in every[0] if every else ():
        values = list(dict.fromkeys(point[key] for point in every))
        ranks[key] = sorted(values) if are_numbers(values) else values
    return sorted(every, key=lambda point: [ranks[key].index(value) for key, value in point.items()])


def are_numbers(values: Iterable[Any]) -> bool:
    """Whether all values are numbers, so that a figure can have an axis of them."""
    return all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)


def written(value: Any) -> str:
    """Return a value as TOML, a text without quotes where it can be read back without them."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        short = f"{value:g}"
        return short if float(short) == value else repr(value)
    if isinstance(value, tuple | list):
        return "[" + ", ".join(quoted(v) if isinstance(v, str) else written(v) for v in value) + "]"
    if isinstance(value, str):
        is_plain = value.strip() == value != "" and read_value(value) == value
        return value if is_plain else quoted(value)
    return str(value)


def quoted(text: str) -> str:
    """Return text as a string of TOML, which knows no surrogates, and DEL only escaped."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
