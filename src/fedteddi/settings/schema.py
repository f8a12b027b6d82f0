"""The settings as one JSON Schema without references: for editors, and for whoever describes keys."""

from functools import cache
from typing import Any

from fedteddi.settings.effect import used_only
from fedteddi.settings.experiment import Settings

EXTRA = ("unit", "paper", "named")  # what `key` says beside the meaning
DRAFT = "http://json-schema.org/draft-07/schema#"  # as editors of TOML know


@cache
def full_schema() -> dict[str, Any]:
    """Return the schema with what `key` says about each key. Do not change it."""
    found = Settings.model_json_schema()
    flat: dict[str, Any] = _tidy(found, found["$defs"])
    return flat


def editor_schema() -> dict[str, Any]:
    """Return the schema with all that is known of a key in its description, as an editor shows it."""
    return {"$schema": DRAFT, "title": "Settings of a fedteddi experiment", **_plain(full_schema(), "")}


def about(part: dict[str, Any], path: str) -> str:
    """Return all that is known of a key but its default and range, in sentences."""
    sentences = [str(part["description"])]
    sentences += [f"Unit: {part['unit']}."] if part.get("unit") else []
    sentences += [f"Paper: {part['paper']}."] if part.get("paper") else []
    sentences += [f"Used only {only}."] if (only := used_only(path)) else []
    return " ".join(sentences)


def items_of(part: dict[str, Any]) -> dict[str, Any] | None:
    """Return the schema of the tables that a key is a list of, if it is one."""
    items: dict[str, Any] = part.get("items", {})
    return items if "properties" in items else None


def _tidy(part: Any, definitions: dict[str, Any]) -> Any:
    """Put definitions where they are referred to; leave out what TOML cannot say, and names made of class names."""
    if isinstance(part, list):
        return [_tidy(one, definitions) for one in part if one != {"type": "null"}]
    if not isinstance(part, dict):
        return part
    if "$ref" in part:
        return _tidy(definitions[part["$ref"].rpartition("/")[2]], definitions)
    left_out = {"$defs", "additionalProperties"} if part.get("additionalProperties") is True else {"$defs"}
    left_out |= {"title"} if isinstance(part.get("title"), str) else set()
    left_out |= {"default"} if part.get("default", 0) is None else set()
    tidy = {name: _tidy(value, definitions) for name, value in part.items() if name not in left_out}
    choices = tidy.get("anyOf", [])
    return tidy | tidy.pop("anyOf")[0] if len(choices) == 1 else tidy


def _plain(part: dict[str, Any], path: str) -> dict[str, Any]:
    plain = {name: value for name, value in part.items() if name not in EXTRA}
    if "description" in part:
        plain["description"] = about(part, path)
    if "properties" in part:
        inner = {name: _plain(one, f"{path}.{name}".lstrip(".")) for name, one in part["properties"].items()}
        plain["properties"] = inner
    if (items := items_of(part)) is not None:
        plain["items"] = _plain(items, path)
    return plain
