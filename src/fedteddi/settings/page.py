"""The reference page about all keys: docs/settings.md is what this writes."""

from fedteddi.settings.keys import TOP, Key, all_keys, header, sections

BEGINNING = """\
# Settings

Every key of an experiment. This page is generated: `fedteddi settings --markdown docs/settings.md` writes it.

    fedteddi settings                      # all keys, by section
    fedteddi settings radio.deadline_s     # one of them; a section's name lists that section
    fedteddi init my.toml --from cifar10   # a file with every key, each explained, to be changed
    fedteddi run my.toml --set radio.deadline_s=1.2
    fedteddi list experiments              # what --from, run and compare know by name

In Python a key is written with two underscores: `fedteddi.simulate(radio__deadline_s=1.2)`.

**In an editor.** `fedteddi settings --schema settings.schema.json` writes a JSON Schema. With the first line

    #:schema ./settings.schema.json

in a TOML file, editors that use [Taplo](https://taplo.tamasfe.dev) (Even Better TOML in VS Code) complete keys, explain
them and mark wrong ones.

**Keys without effect.** Some keys are used only under a condition, which the tables below name. If such a key is set to
another value than its default and no run uses it, `run`, `compare` and `reproduce` warn (in Python: a `UserWarning`).

"Paper" says what the paper has, or which row of [paper.md](paper.md) is about it.
"""


def markdown_page() -> str:
    """Return the page."""
    return BEGINNING + "".join(_table(section, about) for section, about in sections().items())


def _table(section: str, about: str) -> str:
    title = f"`{header(section)}`" if section else about
    rows = "".join(_row(key) for key in all_keys() if key.section == section)
    sentence = f"{about}\n\n" if section != TOP else ""
    return f"\n## {title}\n\n{sentence}| key | default | unit | values | meaning |\n|---|---|---|---|---|\n{rows}"


def _row(key: Key) -> str:
    meaning = key.meaning
    meaning += f" *Used only {key.used_only}.*" if key.used_only else ""
    meaning += f" Paper: {key.paper}." if key.paper else ""
    default = f"`{key.default}`" if key.default else "–"
    cells = [f"`{key.name}`", default, key.unit, key.values, meaning]
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |\n"
