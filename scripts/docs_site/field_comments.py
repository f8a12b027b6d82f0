"""What the API reference shows beside docstrings: the comments of a dataclass's fields; pages they name as links."""

import re
from typing import Any

import griffe

PAGE = re.compile(r"(?<!\[)\bdocs/([\w/-]+\.md)")


class FieldComments(griffe.Extension):
    """Make `name: type  # comment`, or the comment lines above it, part of the class's docstring."""

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        """Complete the docstrings of a whole package."""
        self._complete(pkg)

    def _complete(self, thing: griffe.Object) -> None:
        if thing.is_class and "dataclass" in thing.labels and thing.docstring is not None:
            _tell_fields(thing)
        if thing.docstring is not None:
            thing.docstring.value = PAGE.sub(r"[docs/\1](\1)", thing.docstring.value)
        for member in thing.members.values():
            if not member.is_alias:
                self._complete(member)


def _tell_fields(cls: griffe.Object) -> None:
    """Add the fields and their comments to a dataclass's docstring, and shorten their defaults that are functions."""
    rows = []
    for name, member in cls.members.items():
        if member.is_attribute and "property" not in member.labels and member.lineno:
            comment = comment_of(cls.lines_collection[cls.filepath], member.lineno, member.endlineno)
            rows += [f"    {name}: {comment}"] if comment else []
            if "lambda" in str(member.value):
                member.value = "..."  # how a signature says: left out, it is made
    if rows:
        cls.docstring.value += "\n\nAttributes:\n" + "\n".join(rows)


def comment_of(lines: list[str], first: int, last: int | None) -> str:
    """Return a field's comment: behind it, or in the lines of comment just above; lines count from 1."""
    for line in lines[first - 1 : last or first]:
        if found := re.search(r"\s#\s(.*)$", line):
            return found[1]
    above: list[str] = []
    while first > 1 and (found := re.match(r"\s*# (.*)$", lines[first - 2])):
        above.insert(0, found[1])
        first -= 1
    return " ".join(above)
