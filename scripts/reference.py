"""Everything built in that has a name, as one page: what it is, its source, what it needs, its options.

    python scripts/reference.py --write docs/parts.md     # or make reference

Nothing on the page is typed by hand: it is read from docstrings, class attributes and signatures.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from fedteddi.cli.output import option_words
from fedteddi.cli.parts import KINDS
from fedteddi.registry import Kind, load_object

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


def page() -> str:
    """Return the whole page."""
    parts = [
        "# Everything built in",
        "Written by `make reference`; nothing on this page is typed by hand. `fedteddi list KIND` also lists what is"
        " installed beside fedteddi, and [extend.md](extend.md) says how to add your own.",
    ]
    for name, where in KINDS.items():
        kind: Kind = load_object(where)
        parts += [f"## {TITLES[name]}", *(schedulers(kind) if name == "schedulers" else [others(kind)])]
    return "\n\n".join(parts) + "\n"


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


def quoted(words: Iterable[str]) -> str:
    """Return words as code."""
    return ", ".join(f"`{word}`" for word in words)


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return rows as Markdown."""
    cells = [[cell.replace("|", "\\|") for cell in row] for row in rows]
    lines = [head, ["---"] * len(head), *cells]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def main() -> None:
    """Print the page, or write it."""
    parser = argparse.ArgumentParser(description="Everything built in that has a name, as one page.")
    parser.add_argument("--write", type=Path, help="the page to write; without it, it is printed")
    given = parser.parse_args()
    if given.write is None:
        print(page(), end="")
    else:
        given.write.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
