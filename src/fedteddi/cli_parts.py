"""The command that lists what can be named: schedulers, replays, models and so on, each with its source."""

from typing import Annotated

import typer

from fedteddi.errors import InputError, check_choice
from fedteddi.registry import Kind, find, load_object
from fedteddi.terminal import print_parts, say

# Where each kind is defined; imported only when it is asked for, since some need torch.
KINDS = {
    "schedulers": "fedteddi.schedulers.registry:SCHEDULERS",
    "channels": "fedteddi.wireless.channels:CHANNELS",
    "aggregations": "fedteddi.aggregation:AGGREGATIONS",
    "replays": "fedteddi.scenario.replay:REPLAYS",
    "datasets": "fedteddi.learning.catalogue:DATASETS",
    "models": "fedteddi.learning.models:MODELS",
    "experiments": "fedteddi.settings:EXPERIMENTS",
}


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command("list")(list_)


def _complete_kind(incomplete: str) -> list[str]:
    return [name for name in KINDS if name.startswith(incomplete)]


def list_(
    kind: Annotated[str, typer.Argument(help=f"One of {', '.join(KINDS)}.", autocompletion=_complete_kind)],
) -> None:
    """List everything of one kind that has a name: what it is and where it comes from."""
    check_choice("KIND", kind, tuple(KINDS))
    which: Kind = load_object(KINDS[kind])
    lines = []
    for name in which.names():
        try:
            part = find(which, name)
            lines.append((name, part.source, which.describe(part.value)))
        except InputError as error:  # somebody's package is broken; ours still works
            say("warning", str(error))
    print_parts(lines)
