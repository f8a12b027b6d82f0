"""The command line: parses arguments, prints answers. Everything else is in the library."""

import io
import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer

import fedteddi
from fedteddi.cli import (
    benchmark,
    data,
    experiments,
    export,
    parts,
    rounds,
    scenario,
    settings,
    studies,
    watch,
)
from fedteddi.cli.output import say
from fedteddi.errors import InputError, NoEffectWarning, TrackingWarning
from fedteddi.extras import explained

OURS = (NoEffectWarning, TrackingWarning)

app = typer.Typer(
    name="fedteddi",
    help="Federated edge learning on changing data: who uploads, and with how much bandwidth.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
)

experiments.register(app)
scenario.register(app)
export.register(app)
watch.register(app)
data.register(app)
parts.register(app)
settings.register(app)
studies.register(app)
benchmark.register(app)
rounds.register(app)


def main() -> None:
    """Run the command line; bad input ends in one sentence on stderr and exit code 2, a failed write in 1."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without our symbols shows ? instead
    try:
        try:
            with _spoken_warnings(), explained("this command"):
                app()
        finally:
            sys.stdout.flush()
    except InputError as error:
        say("error", str(error))
        sys.exit(2)
    except BrokenPipeError:  # the reader has seen enough
        _drop_stdout()
        sys.exit(1)
    except OSError as error:
        _drop_stdout()
        say("error", f"the answer could not be written ({error.strerror or error})")
        sys.exit(1)


@contextmanager
def _spoken_warnings() -> Iterator[None]:
    """Print a warning of ours as all others of the command line: one line, once."""
    with warnings.catch_warnings():
        usual = warnings.showwarning
        for ours in OURS:
            warnings.simplefilter("always", ours)

        def show(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
            if issubclass(category, OURS):
                say("warning", str(message))
            else:
                usual(message, category, *where, **more)

        warnings.showwarning = show
        yield


def _drop_stdout() -> None:
    """Let what is still buffered go nowhere, so that the interpreter does not fail on it when it ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _version(wanted: bool) -> None:
    if wanted:
        print(f"fedteddi {fedteddi.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    pass
