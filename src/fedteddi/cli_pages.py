"""What the commands share that write a page about many runs and keep them as summaries."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedteddi.errors import InputError
from fedteddi.terminal import out, print_table, say

if TYPE_CHECKING:
    from fedteddi.results.page_parts import Page

Summarise = Annotated[
    Path | None,
    typer.Option(
        help="Run nothing: add the finished runs of --out to the summaries in this folder, and write their page.",
        metavar="DIR",
    ),
]
FromSummaries = Annotated[
    Path | None,
    typer.Option(help="Run nothing: write the page DIR.md about the summaries in DIR.", metavar="DIR"),
]


def one_of(summarise: Path | None, from_summaries: Path | None) -> Path | None:
    """Return the folder of summaries that is asked for, if any; both at once are refused."""
    if summarise is not None and from_summaries is not None:
        raise InputError("--summarise and --from-summaries: give one; --summarise writes the page as well")
    return summarise or from_summaries


def show_page(page: "Page", columns: list[str] | None = None) -> None:
    """Print the claims of a page, or some of their columns, what a reader must know, and where it is."""
    print_table(page.claims if columns is None else page.claims[columns])
    if page.warning:
        say("warning", page.warning)
    pictures = [file for file in page.files if file.suffix == ".png"]
    out.print(f"\n{page.files[0]}, and figures such as {pictures[0]}", soft_wrap=True)
