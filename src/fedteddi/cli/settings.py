"""The commands about settings: settings, init. Pydantic is imported only when one of them is used."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from fedteddi.cli.endings import say_next
from fedteddi.cli.output import hanging, out
from fedteddi.errors import InputError

if TYPE_CHECKING:
    from fedteddi.settings.keys import Key


def register(app: typer.Typer) -> None:
    """Add the commands to the command line."""
    app.command()(settings)
    app.command()(init)


def _complete_key(incomplete: str) -> list[str]:
    from fedteddi.settings.keys import all_keys, sections

    return [name for name in (*sections(), *(key.path for key in all_keys())) if name.startswith(incomplete)]


def _complete_experiment(incomplete: str) -> list[str]:
    from fedteddi.settings import EXPERIMENTS

    return [name for name in EXPERIMENTS.names() if name.startswith(incomplete)]


def settings(
    key: Annotated[
        str | None,
        typer.Argument(
            help="A key, such as radio.deadline_s or deadline_s, or a section; default: all. With --schema or"
            " --markdown, the file to write; default: standard output.",
            metavar="[KEY|FILE]",
            autocompletion=_complete_key,
        ),
    ] = None,
    schema: Annotated[
        bool, typer.Option("--schema", help="Write a JSON Schema (.json), for editors, instead.")
    ] = False,
    markdown: Annotated[
        bool, typer.Option("--markdown", help="Write the reference page (.md) instead.")
    ] = False,
) -> None:
    """Explain the settings of an experiment: meaning, unit, default, range, and the paper's word.

    They are set in a TOML file (see 'fedteddi init') or with --set KEY=VALUE.
    """
    from fedteddi.settings.keys import all_keys, find_keys

    if schema and markdown:
        raise InputError("--schema and --markdown: give one")
    if schema:
        from fedteddi.settings.schema import editor_schema

        _write(json.dumps(editor_schema(), indent=2, ensure_ascii=False) + "\n", key, ".json")
    elif markdown:
        from fedteddi.settings.page import markdown_page

        _write(markdown_page(), key, ".md")
    elif key is None:
        _print_list(all_keys())
    else:
        found = find_keys(key)
        if {one.section for one in found} == {key}:
            _print_list(found)
        else:
            _print_each(found)


def init(
    file: Annotated[Path, typer.Argument(help="The TOML file to write; it must not exist yet.")],
    experiment: Annotated[
        str,
        typer.Option(
            "--from",
            help="The experiment to start from: a name of 'fedteddi list experiments', or a .toml file.",
            autocompletion=_complete_experiment,
        ),
    ] = "fashion",
) -> None:
    """Write an experiment as a TOML file with every key, each under a comment that explains it."""
    from fedteddi.settings import load_experiment
    from fedteddi.settings.commented import commented

    if file.suffix != ".toml":
        raise InputError(f"{file}: give a file that ends in .toml")
    text = commented(load_experiment(experiment))
    try:
        with file.open("x", encoding="utf-8") as stream:
            stream.write(text)
    except FileExistsError:
        raise InputError(f"{file} exists already: choose another name, or remove it first") from None
    except OSError as error:
        raise InputError(f"{file} cannot be written ({error.strerror}): choose another name") from None
    out.print(f"{file} holds every key of {experiment}", soft_wrap=True)
    say_next(f"fedteddi run {file}")


def _write(text: str, file: str | None, ending: str) -> None:
    if file is None:
        print(text, end="")
        return
    if not file.endswith(ending):
        raise InputError(f"{file}: give a file that ends in {ending}")
    try:
        Path(file).write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputError(f"{file} cannot be written ({error.strerror}): choose another name") from None
    out.print(f"written to {file}", soft_wrap=True)


def _print_list(keys: "Sequence[Key]") -> None:
    """Print each key by section: its name, what it means, its default; where this is no terminal, on one line."""
    from fedteddi.settings.keys import header, sections

    for section, about in sections().items():
        own = [key for key in keys if key.section == section]
        if own:
            out.print(
                Text.assemble((header(section), "bold"), f"  {about}" if section else about), soft_wrap=True
            )
        for key in own:
            default = f" ({key.default})" if key.default else ""
            print(hanging(f"  {key.name:24}", f"{key.meaning}{default}"))
    say_next("fedteddi settings KEY says more; --set KEY=VALUE changes one")


def _print_each(keys: "Sequence[Key]") -> None:
    """Print all that is known of each key."""
    for key in keys:
        out.print(key.path, style="bold")
        rows = {
            "meaning": key.meaning,
            "unit": key.unit,
            "default": key.default or ("none: it must be given" if key.is_required else "not set"),
            "values": key.values,
            "paper": key.paper,
            "used only": key.used_only,
        }
        for name, value in rows.items():
            if value:
                print(hanging(f"  {name:11}", value))
