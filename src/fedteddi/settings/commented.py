"""Settings as TOML for people: every key, each under a comment that explains it."""

import textwrap
from collections.abc import Iterator
from typing import Any

from fedteddi.settings.experiment import Settings
from fedteddi.settings.keys import TOP, Key, all_keys, sections, toml_value

WIDTH = 100
BEGINNING = """\
# An experiment: every key, with what it means. 'fedteddi settings KEY' says the same.
# A key that is left out has its default.
"""


def commented(settings: Settings) -> str:
    """Write complete settings as commented TOML; reading them gives the same settings."""
    values = settings.model_dump(exclude_none=True)
    lines = [BEGINNING, *_section(TOP, values)]
    for section, about in sections().items():
        if section in values:
            lines += ["\n", _comment(about), f"[{section}]\n", *_section(section, values[section])]
    return "".join(lines)


def _section(section: str, values: dict[str, Any]) -> Iterator[str]:
    for key in (key for key in all_keys() if key.section == section):
        yield "\n" + _explained(key, key.meaning)
        for inner in (inner for inner in all_keys() if inner.section == key.path):
            yield _explained(inner, f"{inner.name}: {inner.meaning}", "    ")
        yield f"{key.name} = {_value(values[key.name])}\n"


def _explained(key: Key, meaning: str, indent: str = "") -> str:
    """Say what a key means, and on a line of its own its range, its unit and its default."""
    unit = f", in {key.unit}" if key.unit else ""
    default = f"; default {key.default}" if key.default else ""
    only = f" Used only {key.used_only}." if key.used_only else ""
    return _comment(f"{meaning}{only}", indent) + _comment(f"{key.values}{unit}{default}", f"{indent}  ")


def _value(value: Any) -> str:
    """Return a value as TOML; tables get a line each."""
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return "[\n" + "".join(f"    {toml_value(one)},\n" for one in value) + "]"
    return toml_value(value)


def _comment(text: str, indent: str = "") -> str:
    lines = textwrap.wrap(
        text, WIDTH - len(indent) - 2, break_long_words=False, break_on_hyphens=False
    )  # a name such as paper-cifar10 stays whole
    return "".join(f"# {indent}{line}\n" for line in lines)
