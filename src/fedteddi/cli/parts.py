"""What can be named (schedulers, channels, models and so on): the command that lists it, and checks of one's own."""

from collections.abc import Collection, Mapping
from importlib.util import find_spec
from typing import Annotated, Any

import typer
from rich.text import Text

from fedteddi.cli.endings import hint_next, say_next
from fedteddi.cli.output import out, print_parts, say, stdout_to_stderr
from fedteddi.errors import InputError, check_choice
from fedteddi.laws import NotTried
from fedteddi.registry import Kind, find, load_object, make
from fedteddi.schedulers.laws import LAWS, Broken

# Where each kind is defined; imported only when it is asked for, since some need torch.
KINDS = {
    "schedulers": "fedteddi.schedulers.registry:SCHEDULERS",
    "channels": "fedteddi.wireless.channels:CHANNELS",
    "aggregations": "fedteddi.aggregation:AGGREGATIONS",
    "local-training": "fedteddi.learning.local_training:LOCAL_TRAINING",
    "replays": "fedteddi.scenario.replay:REPLAYS",
    "datasets": "fedteddi.learning.datasets.catalogue:DATASETS",
    "models": "fedteddi.learning.models:MODELS",
    "experiments": "fedteddi.settings:EXPERIMENTS",
    "trackers": "fedteddi.tracking:TRACKERS",
}


# What `fedteddi check` can try: the kind, its invariants, and the function that tries them. Some need torch.
SCHEDULER = "scheduler"
CHECKED = {
    SCHEDULER: (),
    "channel": tuple(
        f"fedteddi.wireless.channels{name}" for name in (":CHANNELS", ".laws:LAWS", ".laws:check_channel")
    ),
    "aggregation": tuple(
        f"fedteddi.aggregation{name}" for name in (":AGGREGATIONS", ".laws:LAWS", ".laws:check_aggregation")
    ),
    "local-training": tuple(
        f"fedteddi.learning.local_training{name}"
        for name in (":LOCAL_TRAINING", ".laws:LAWS", ".laws:check_local_training")
    ),
    "tracker": tuple(
        f"fedteddi.tracking{name}" for name in (":TRACKERS", ".laws:LAWS", ".laws:check_tracker")
    ),
}


# What to do with a part of each kind.
USED = {
    SCHEDULER: "fedteddi run --scheduler {0}",
    "channel": "fedteddi run --set radio.channel={0}",
    "aggregation": "fedteddi run --set server.aggregation={0}",
    "local-training": "fedteddi run --set training.local_training={0}",
    "replay": "fedteddi run --set scenario.replay={0}",
    "model": "fedteddi run --set training.model={0}",
    "dataset": "fedteddi run --set dataset={0}",
    "tracker": "fedteddi run --track {0}",
    "experiment": "fedteddi run {0}, or fedteddi init my.toml --from {0}",
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
    hint_next(USED[kind.removesuffix("s")].format("NAME"))


def check_part(name: str, kind: str, options: dict[str, Any]) -> int:
    """Check a part that is no scheduler against the invariants of its kind; return the exit code."""
    check_choice("--kind", kind, tuple(CHECKED))
    which, invariants, check = (load_object(where) for where in CHECKED[kind])
    part = make(which, name, **options)
    # What a simulation has; without PyTorch, numpy's.
    vectors = (load_object("torch:tensor"),) if kind == "aggregation" and find_spec("torch") else ()
    with stdout_to_stderr():
        broken = check(part, *vectors)
    print_invariants(name, invariants, broken)
    if not broken:
        say_next(USED[kind].format(name))
    return 1 if broken else 0


def print_laws(name: str, broken: list[Broken], rounds: int) -> None:
    """Print which invariants a scheduler keeps, how and in which round it broke others, and which were not tried."""
    faults = {b.law: b.fault for b in broken}
    for b in broken:
        if not isinstance(b.fault, NotTried):
            faults[b.law] += (
                f"\nin a round of {b.view.num_clients} client(s) and {b.view.num_classes} class(es)"
            )
    print_invariants(name, LAWS, faults, f" on {rounds} random rounds")


def print_invariants(name: str, invariants: Collection[str], faults: Mapping[str, str], on: str = "") -> None:
    """Print which invariants a part keeps, how it broke others, and which were not tried."""
    for invariant in invariants:
        fault = faults.get(invariant)
        if fault is None:
            out.print(Text.assemble(("kept", "green"), "       ", invariant))
        elif isinstance(fault, NotTried):
            out.print(Text.assemble((fault, "yellow"), "  ", invariant))
        else:
            out.print(Text.assemble(("broken", "red"), "     ", invariant))
            for line in fault.splitlines():
                out.print(f"           {line}", soft_wrap=True)
    untried = sum(isinstance(fault, NotTried) for fault in faults.values())
    verdict = f"breaks {len(faults) - untried} of" if faults else "keeps all"
    more = f"; {untried} not tried" if untried else ""
    out.print(f"{name} {verdict} {len(invariants)} invariants{on}{more}.", soft_wrap=True)
