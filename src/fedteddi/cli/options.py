"""The options that commands which simulate share."""

from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from fedteddi.cli.process_age import process_age_s
from fedteddi.errors import InputError

Experiment = Annotated[
    str,
    typer.Argument(
        help="A .toml file ('fedteddi init' writes one), or a name of 'fedteddi list experiments', such as evolving."
    ),
]
Rounds = Annotated[
    int | None, typer.Option(min=1, help="Rounds of every frame that has any (sets λ's decay too).")
]
Device = Annotated[str, typer.Option(help="cpu, cuda, or auto: CUDA where there is one.")]
Out = Annotated[Path | None, typer.Option("--out", help="Where to write; default runs/NAME.")]
Resume = Annotated[
    bool, typer.Option("--resume", help="Continue what is in the folder; start if there is nothing.")
]
AllowChanged = Annotated[
    bool, typer.Option("--allow-changed", help="Resume even if the code of your own parts has changed since.")
]
TimeLimit = Annotated[
    float | None,
    typer.Option(
        min=0,
        help="Stop in time, resumable, this many seconds after the process started (imports count). What has begun is"
        " finished: a pre-training, a frame's first evaluation; and the report of a finished comparison is written.",
    ),
]
Changes = Annotated[
    list[str] | None,
    typer.Option("--set", help="Another setting, such as radio.deadline_s=1.2.", metavar="KEY=VALUE"),
]

Threads = Annotated[
    int | None,
    typer.Option(
        min=1, help="Clients trained at a time on a CPU; default one for each core. It changes no result."
    ),
]

Schedulers = Annotated[
    list[str] | None,
    typer.Option(
        help="A rule, such as random, fedteddi\\[search=refined] or file.py:Class (may be repeated); default all."
        " Also two bounds: everyone (all upload, no limits) and centralised (all data in one place)."
    ),
]
Seeds = Annotated[str, typer.Option(help="How many (5 means 0 to 4) or which (100-104).")]
Deadlines = Annotated[list[float] | None, typer.Option(help="Seconds; may be repeated.")]
SchedulerOptions = Annotated[
    list[str] | None,
    typer.Option(
        metavar="KEY=VALUE",
        help="An option for every scheduler that has it, such as on_no_fit=skip; may be repeated.",
    ),
]
Svg = Annotated[bool, typer.Option("--svg", help="Write figures as SVG, too.")]

Track = Annotated[
    list[str] | None,
    typer.Option(
        help="Tell a tracker of every round: tensorboard, mlflow, wandb, trackio, file.py:Class, or"
        " wandb\\[mode=offline] (may be repeated)."
    ),
]

RAY = "--ray"
Ray = Annotated[
    str | None,
    typer.Option(
        RAY,
        metavar="[ADDRESS]",
        help="Spread the runs over the Ray cluster at HOST:PORT, ray://HOST:PORT or auto (one on this machine); without"
        " an address over this machine's cores or GPUs.",
    ),
]


class RayCommand(TyperCommand):
    """A command that takes `--ray` alone for `--ray local`: typer knows no option whose value may be left out."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Add the value where it was left out."""
        return super().parse_args(ctx, with_local_ray(args))


def with_local_ray(words: list[str]) -> list[str]:
    """Return a command's words with `local` after every `--ray` that another option or nothing follows."""
    options = words[: words.index("--")] if "--" in words else words
    filled: list[str] = []
    for place, word in enumerate(options):
        filled.append(word)
        if word == RAY and (place + 1 == len(options) or options[place + 1].startswith("-")):
            filled.append("local")
    return filled + words[len(options) :]


def parse_seeds(text: str, start: int = 0) -> list[int]:
    """Read "5" as five seeds from `start` on and "100-104" as those five."""
    first, dash, last = text.partition("-")
    if not first.isdecimal() or (dash and not last.isdecimal()):
        raise InputError(f"--seeds {text!r}: give how many, such as 5, or which, such as 100-104")
    seeds = list(range(int(first), int(last) + 1)) if dash else list(range(start, start + int(first)))
    if not seeds:
        raise InputError(f"--seeds {text!r} means no seed at all: give at least one")
    return seeds


def seconds_left(time_limit_s: float | None) -> float | None:
    """Return what is left of a time limit that counts from the process's start."""
    return None if time_limit_s is None else max(0.0, time_limit_s - process_age_s())
