"""The commands about data sets: data get, data list. They do not need torch."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedteddi.cli.endings import hint_next, say_next
from fedteddi.cli.output import PLAIN_LINE_EVERY_S, download_bar, err, out
from fedteddi.errors import check_choice

if TYPE_CHECKING:
    from fedteddi.learning.datasets.download import Watch


data = typer.Typer(
    help="Data sets: which are known, where they are, and fetching them.", no_args_is_help=True
)

DataDir = Annotated[
    Path | None,
    typer.Option(
        "--data-dir", help="Where cifar10 and cifar100 lie; default $FEDTEDDI_DATA, or the user's cache."
    ),
]


def register(app: typer.Typer) -> None:
    """Add the commands to the command line."""
    app.add_typer(data, name="data")


def _complete_name(incomplete: str) -> list[str]:
    from fedteddi.learning.datasets.catalogue import CIFAR

    return [name for name in CIFAR if name.startswith(incomplete)]


@data.command()
def get(
    name: Annotated[str, typer.Argument(help="cifar10 or cifar100.", autocompletion=_complete_name)],
    data_dir: DataDir = None,
    url: Annotated[
        str | None,
        typer.Option(
            help="A mirror: the archive's https address, or that of the folder it is in.",
            envvar="FEDTEDDI_MIRROR",
        ),
    ] = None,
) -> None:
    """Fetch a data set from its authors over https, check its SHA-256, and keep it."""
    from fedteddi.learning.datasets.catalogue import CIFAR, data_folder, find_cifar, is_complete
    from fedteddi.learning.datasets.download import download, fetched_already

    check_choice("NAME", name, tuple(CIFAR))
    which, folder = CIFAR[name], data_folder(data_dir)
    found = find_cifar(which, data_dir)
    if found is not None and is_complete(which, found):
        _say(f"{name} is in {found} already, as a folder of files")
    elif fetched_already(which, folder):
        _say(f"{name} is in {folder / which.archive} already, whole")
    else:
        with _watching(name) as watch:
            archive = download(which, folder, url, watch)
        _say(f"{name} is in {archive}")
    say_next(f"fedteddi run {name}, or fedteddi reproduce {name}")


@data.command("list")
def list_(data_dir: DataDir = None) -> None:
    """List the data sets that have a name, and where each was found."""
    from fedteddi.learning.datasets.catalogue import CIFAR, NAMES, data_folder, find_cifar, how_to_get

    for name in NAMES:
        found: object = "inside the package"
        if name in CIFAR:
            missing = f"missing from {data_folder(data_dir)}: {how_to_get(CIFAR[name], data_dir)}"
            found = find_cifar(CIFAR[name], data_dir) or missing
        _say(f"{name:14}{found}")
    hint_next("fedteddi data get NAME, or fedteddi list experiments")


def _say(line: str) -> None:
    out.print(line, soft_wrap=True)


@contextmanager
def _watching(name: str) -> "Iterator[Watch]":
    """Show how much is here, on stderr: a live bar in a terminal, a line now and then elsewhere."""
    if err.is_terminal:
        with download_bar() as bar:
            task = bar.add_task(name, total=None)

            def live(here: int, in_all: int | None) -> None:
                bar.update(task, total=in_all, completed=here)

            yield live
        return
    last = [time.monotonic()]

    def plain(here: int, in_all: int | None) -> None:
        if time.monotonic() - last[0] >= PLAIN_LINE_EVERY_S or here == in_all:
            last[0] = time.monotonic()
            err.print(f"{name}: {here / 1e6:.1f} of {'?' if in_all is None else f'{in_all / 1e6:.1f}'} MB")

    yield plain
