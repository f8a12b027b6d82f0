"""The report page of `fedteddi report --html`: written, and opened in a browser if asked to."""

import webbrowser
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from fedteddi.cli.output import out, stdout_to_stderr
from fedteddi.errors import InputError

if TYPE_CHECKING:
    from fedteddi.results.page.decisions import Retell

HTML = "--html"
DEFAULT = "report/report.html"  # in the folder of runs
Html = Annotated[
    str | None,
    typer.Option(
        HTML,
        metavar="[FILE.html]",
        help="Write one page to look at in a browser instead, complete in itself; default RUNS/report/report.html.",
    ),
]
Open = Annotated[bool, typer.Option("--open", help="Open that page in a browser (and write it).")]


class HtmlCommand(TyperCommand):
    """A command that takes `--html` alone: typer knows no option whose value may be left out."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Add the value where it was left out."""
        return super().parse_args(ctx, with_html_file(args))


def with_html_file(words: list[str]) -> list[str]:
    """Return a command's words with an empty value after every `--html` that no .html file follows."""
    options = words[: words.index("--")] if "--" in words else words
    filled: list[str] = []
    for place, word in enumerate(options):
        filled.append(word)
        if word == HTML and not (options[place + 1 :] and options[place + 1].endswith((".html", ".htm"))):
            filled.append("")
    return filled + words[len(options) :]


def refuse_beside(given: Mapping[str, object], what: str) -> None:
    """Refuse options that have no effect on the page."""
    for option, value in given.items():
        if value:
            raise InputError(f"{option} has no effect: {what}, of all runs; leave {option} out")


def make_page(runs: Path, file: str | None, *, opened: bool, data_dir: Path | None = None) -> None:
    """Write the page about a folder of runs, say where it is, and open it if asked to."""
    from fedteddi.results.page.build import write_page

    path = Path(file) if file else runs / DEFAULT
    with stdout_to_stderr():  # decisions are proven by a solver that prints
        write_page(runs, path, _retelling(data_dir))
    out.print(f"{path}: open it in any browser; it needs no network", soft_wrap=True)
    if opened and not webbrowser.open(path.resolve().as_uri()):
        out.print(f"no browser was found here: open {path.resolve().as_uri()}", soft_wrap=True)


def _retelling(data_dir: Path | None) -> "Retell | None":
    """Return what tells decisions again; without torch the page shows what is recorded."""
    try:
        from fedteddi.simulation.retold import Retelling
    except ModuleNotFoundError:
        return None
    return Retelling(data_dir)
