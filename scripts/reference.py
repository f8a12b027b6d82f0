"""The generated pages of the reference: everything built in, every command, every setting.

    python scripts/reference.py --write docs     # or make reference

Nothing on them is typed by hand: they are read from docstrings, class attributes, signatures and commands' help.
"""

import argparse
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from inspect import cleandoc
from pathlib import Path
from typing import Any

import typer

from fedteddi.cli.app import app
from fedteddi.cli.output import option_words
from fedteddi.cli.parts import KINDS
from fedteddi.registry import Kind, load_object
from fedteddi.settings.page import markdown_page

TITLES = {
    "schedulers": "Schedulers",
    "channels": "Channels (`radio.channel`)",
    "aggregations": "Aggregations (`server.aggregation`)",
    "local-training": "Local training (`training.local_training`)",
    "replays": "Replay rules (`scenario.replay`)",
    "datasets": "Data sets (`dataset`)",
    "models": "Models (`training.model`)",
    "experiments": "Experiments",
    "trackers": "Trackers (`--track`)",
}
# What a scheduler's needs cost in every round, beside the histograms that everybody reports.
COSTS = {
    "class_norm": "L̂: gradients of up to `estimates.class_gradient_samples` images of each class, sent to the server",
    "gradient_std": "σ̂: the gradient of every image of each client's first batch",
    "loss": "one batch of each client evaluated (over the local steps: everybody trains)",
    "update_norm": "everybody trains, not only who uploads",
    "update_sketch": "everybody trains, and sends a sketch of the update",
}


def parts_page() -> str:
    """Return the page about everything built in."""
    page = [
        "# Everything built in",
        "Written by `make reference`; nothing on this page is typed by hand. `fedteddi list KIND` also lists what is"
        " installed beside fedteddi, and [extend.md](extend.md) says how to add your own.",
    ]
    for name, where in KINDS.items():
        kind: Kind = load_object(where)
        page += [f"## {TITLES[name]}", *(schedulers(kind) if name == "schedulers" else [others(kind)])]
    return "\n\n".join(page) + "\n"


def schedulers(kind: Kind) -> list[str]:
    """Return the rules' table, the options that most of them have, and what their needs cost."""
    found = kind.built_in()
    common = [
        word
        for word, count in Counter(w for rule in found.values() for w in option_words(rule)).items()
        if 2 * count > len(found)
    ]
    rows, needed = [], set()
    for name, rule in found.items():
        needs = sorted(getattr(rule, "needs", ()))
        needed |= set(needs)
        source = getattr(getattr(rule, "reference", None), "short", "")
        memory = "yes" if hasattr(rule, "initial_state") else ""
        own = quoted(word for word in option_words(rule) if word not in common)
        rows.append((f"`{name}`", kind.describe(rule), source, ", ".join(needs), memory, own))
    if unknown := sorted(needed - set(COSTS)):
        sys.exit(f"{unknown[0]} is needed by a scheduler: say in COSTS of {__file__} what it costs")
    shared = []
    for word in common:
        without = quoted(name for name, rule in found.items() if word not in option_words(rule))
        shared.append(f"- `{word}`: every rule{f' but {without}' if without else ''}.")
    return [
        table(("name", "rule", "source", "needs", "memory", "options"), rows),
        "`everyone` is a bound, not a rule. BibTeX: `fedteddi schedulers --cite`. Options that most rules have:",
        "\n".join(shared),
        "What needs cost, every round, in a simulation as on devices:",
        "\n".join(f"- `{need}`: {COSTS[need]}." for need in sorted(needed)),
    ]


def others(kind: Kind) -> str:
    """Return the table of another kind of part."""
    found = kind.built_in()
    rows = [(f"`{name}`", kind.describe(part), quoted(option_words(part))) for name, part in found.items()]
    if not any(options for *_, options in rows):
        return table(("name", "what it is"), [row[:2] for row in rows])
    return table(("name", "what it is", "options"), rows)


def commands_page() -> str:
    """Return the page about every command, from the tree that typer parses with."""
    root = typer.main.get_command(app)
    page = [
        "# Commands",
        "Written by `make reference` from the commands' own help: `fedteddi COMMAND --help` says the same.",
        table(("command", "what it does"), _index(root, ("fedteddi",))),
        "Options that all commands share: `--help`, and of `fedteddi` itself " + quoted(_names(root)) + ".",
    ]
    for words, command in _leaves(root, ("fedteddi",)):
        page += [f"## {' '.join(words)}", *_command(command, words)]
    return "\n\n".join(page) + "\n"


def _leaves(command: Any, words: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield every command that does something, with the words that call it."""
    for name, child in getattr(command, "commands", {}).items():
        if not child.hidden:
            own = (*words, name)
            yield from _leaves(child, own) if hasattr(child, "commands") else [(own, child)]


def _index(root: Any, words: tuple[str, ...]) -> list[tuple[str, str]]:
    rows = []
    for own, command in _leaves(root, words):
        name = " ".join(own)
        rows.append((f"[`{name}`](#{name.replace(' ', '-')})", _plain(command.help).split("\n\n")[0]))
    return rows


def _names(command: Any) -> list[str]:
    return [one for part in command.params for one in part.opts]


def _command(command: Any, words: tuple[str, ...]) -> list[str]:
    """Return one command: what it does, how it is called, its arguments and options."""
    takes = [_metavar(part) for part in command.params if part.param_type_name == "argument"]
    has_options = any(part.param_type_name == "option" for part in command.params)
    usage = " ".join([*words, *takes, *(["[OPTIONS]"] if has_options else [])])
    rows = [_parameter(part) for part in command.params if not getattr(part, "hidden", False)]
    head = ("argument or option", "value", "default", "meaning")
    return [_plain(command.help), f"    {usage}", *([table(head, rows)] if rows else [])]


def _metavar(argument: Any) -> str:
    name = argument.metavar or argument.name.upper()
    return name if argument.required or name.startswith("[") else f"[{name}]"


def _parameter(part: Any) -> tuple[str, str, str, str]:
    """Return an argument's or option's row: its names, what it takes, its default, what it means."""
    is_option = part.param_type_name == "option"
    value = ""
    if not (is_option and part.is_flag):
        value = part.metavar or getattr(part.type, "name", "text").removesuffix(" range")
        bound = getattr(part.type, "_describe_range", lambda: "")()
        value = f"`{value.upper()}`" + (f" {bound.replace('x', '').replace('>=', '≥ ')}" if bound else "")
        value += ", repeatable" if getattr(part, "multiple", False) else ""
    names = quoted([*part.opts, *part.secondary_opts]) if is_option else f"`{_metavar(part)}`"
    default = "required" if part.required else _default(part)
    return names, value, default, _plain(part.help)


def _default(part: Any) -> str:
    if isinstance(part.default, bool):
        return f"`{part.opts[0]}`" if part.default else ""
    return "" if part.default in (None, "", []) else f"`{part.default}`"


def _plain(text: str | None) -> str:
    """Return a help text as Markdown: typer's markup and line breaks inside a paragraph removed."""
    paragraphs = re.split(r"\n\s*\n", cleandoc(text or "").replace("\\[", "["))
    return "\n\n".join(" ".join(one.split()).replace("<", "&lt;") for one in paragraphs)


def quoted(words: Iterable[str]) -> str:
    """Return words as code."""
    return ", ".join(f"`{word}`" for word in words)


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return rows as Markdown."""
    cells = [[cell.replace("|", "\\|") for cell in row] for row in rows]
    lines = [head, ["---"] * len(head), *cells]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


PAGES: dict[str, Callable[[], str]] = {
    "parts.md": parts_page,
    "cli.md": commands_page,
    "settings.md": markdown_page,
}


def main() -> None:
    """Print the pages, or write them."""
    parser = argparse.ArgumentParser(description="The generated pages of the reference.")
    parser.add_argument(
        "--write", type=Path, metavar="DIR", help="where to write; without it, they are printed"
    )
    folder = parser.parse_args().write
    for name, page in PAGES.items():
        if folder is None:
            print(page())
        else:
            (folder / name).write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
