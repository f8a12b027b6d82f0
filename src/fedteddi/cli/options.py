"""The options that commands which simulate share."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from fedteddi.cli.process_age import process_age_s
from fedteddi.errors import InputError
from fedteddi.registry import read_options
from fedteddi.schedulers.registry import NamedRule, named_rule, scheduler_names

if TYPE_CHECKING:
    from fedteddi.settings import Settings


def complete_scheduler(incomplete: str) -> list[str]:
    """Return the rules' names that begin so, for the shell."""
    return [name for name in scheduler_names() if name.startswith(incomplete)]


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

SchedulerName = Annotated[
    str | None,
    typer.Option(
        "--scheduler",
        "-s",
        help="A rule of 'fedteddi schedulers', such as fedteddi or fedteddi\\[search=refined], or file.py:Class.",
        autocompletion=complete_scheduler,
    ),
]
Schedulers = Annotated[
    list[str] | None,
    typer.Option(
        "--scheduler",
        "-s",
        help="A rule, such as random, fedteddi\\[search=refined] or file.py:Class (may be repeated); default all."
        " Also two bounds: everyone (all upload, no limits) and centralised (all data in one place).",
        autocompletion=complete_scheduler,
    ),
]
RuleOptions = Annotated[
    list[str] | None,
    typer.Option(
        "--option",
        "-o",
        metavar="KEY=VALUE",
        help="An option of the rule, such as search=refined; may be repeated. In brackets behind its name they do the"
        " same.",
    ),
]
Seed = Annotated[
    int | None, typer.Option(min=0, help="Of data, channels and training; default the experiment's.")
]
Seeds = Annotated[str, typer.Option(help="How many (5 means 0 to 4) or which (100-104).")]
Deadlines = Annotated[list[float] | None, typer.Option(help="Seconds; may be repeated.")]
SchedulerOptions = Annotated[
    list[str] | None,
    typer.Option(
        "--option",
        "-o",
        metavar="KEY=VALUE",
        help="An option for every scheduler that has it, such as on_no_fit=skip; may be repeated.",
    ),
]
Sweep = Annotated[
    list[str] | None,
    typer.Option(
        "--sweep",
        metavar="KEY=VALUE,VALUE",
        help="Compare at each value of a setting, such as scenario.alpha=0.1,1 (may be repeated: all combinations).",
    ),
]
Svg = Annotated[bool, typer.Option("--svg", help="Write figures as SVG, too.")]
Pdf = Annotated[
    bool,
    typer.Option(
        "--pdf", help="Write figures for print, too: PDFs as wide as an IEEE column (or two), fonts embedded."
    ),
]

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


def rule_with(given: str, words: list[str] | None) -> NamedRule:
    """Read a rule with the options in its brackets and those of --option."""
    return named_rule(given).having(read_options(words or [], "--option"))


def rules_with(given: list[str] | None, words: list[str] | None) -> list[str]:
    """Return rules with the options of --option in brackets behind their names."""
    if not words:
        return given or []
    if not given:
        raise InputError(f"--option {words[0]}: name the rule it is for with --scheduler")
    read_options(words, "--option")  # or refuse them
    added = ",".join(words)
    return [f"{rule[:-1]},{added}]" if rule.endswith("]") else f"{rule}[{added}]" for rule in given]


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


def settings_from(experiment: str, rounds: int | None, changes: list[str] | None) -> "Settings":
    """Return an experiment's settings with what the command line changes."""
    from fedteddi.settings import load_experiment, override

    settings = load_experiment(experiment)
    if rounds is not None:
        settings = settings.changed(rounds=[rounds if length else 0 for length in settings.rounds])
    return override(settings, changes or [])
