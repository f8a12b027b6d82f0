"""The commands that simulate: run, compare, report, scenario. Torch is imported only when one of them is used."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from fedteddi.cli.data import DataDir
from fedteddi.cli.endings import all_failed, name_unfinished, say_end, say_failed, say_idle, say_where
from fedteddi.cli.output import out, print_table, say
from fedteddi.cli.process_age import process_age_s
from fedteddi.cli.progress import watching
from fedteddi.errors import InputError, nearest_hint
from fedteddi.registry import read_options
from fedteddi.schedulers.registry import built_in, named_rule

if TYPE_CHECKING:
    from fedteddi.results.runs import Study
    from fedteddi.settings import Settings

Experiment = Annotated[
    str, typer.Argument(help="A built-in experiment (fashion, evolving, cifar10, cifar100) or a .toml file.")
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


def register(app: typer.Typer) -> None:
    """Add the commands to the command line."""
    app.command()(run)
    app.command(cls=RayCommand)(compare)
    app.command()(report)
    app.command()(scenario)


def run(
    experiment: Experiment = "fashion",
    scheduler: Annotated[
        str | None, typer.Option(help="A rule, such as random, fedteddi\\[search=refined] or file.py:Class.")
    ] = None,
    seed: Annotated[int | None, typer.Option(min=0)] = None,
    rounds: Rounds = None,
    device: Device = "cpu",
    out_folder: Out = None,
    resume: Resume = False,
    allow_changed: AllowChanged = False,
    time_limit: TimeLimit = None,
    threads: Threads = None,
    changes: Changes = None,
    data_dir: DataDir = None,
) -> None:
    """Run one experiment with one scheduler, and print how accuracy grew."""
    from fedteddi.experiment import RunOptions, simulate

    settings = _settings(experiment, rounds, changes)
    if scheduler is not None:
        rule = named_rule(scheduler)
        settings = settings.changed(scheduler=rule.scheduler, scheduler_options=rule.options, name=rule.name)
    else:
        settings = settings.changed(name=settings.scheduler.rpartition(":")[2])
    if seed is not None:
        settings = settings.changed(seed=seed)
    folder = out_folder or Path("runs") / f"{Path(experiment).stem}-{settings.name}-s{settings.seed}"
    with watching() as watch:
        how = RunOptions(
            device=device,
            out=folder,
            resume=resume,
            allow_changed=allow_changed,
            time_limit_s=seconds_left(time_limit),
            watch=watch,
            data_dir=data_dir,
            threads=threads,
        )
        record = simulate(settings, run=how)
    print_table(record.curve().drop(columns=["scheduler", "deadline_s", "seed"]))
    say_idle([record])
    say_where(folder, record.finished)


def compare(
    experiment: Experiment = "fashion",
    scheduler: Schedulers = None,
    seeds: Seeds = "1",
    deadline: Deadlines = None,
    rounds: Rounds = None,
    device: Device = "cpu",
    out_folder: Out = None,
    resume: Resume = False,
    allow_changed: AllowChanged = False,
    time_limit: TimeLimit = None,
    threads: Threads = None,
    changes: Changes = None,
    data_dir: DataDir = None,
    ray: Ray = None,
    option: SchedulerOptions = None,
    svg: Svg = False,
) -> None:
    """Run several schedulers, seeds and deadlines in lock-step on the same data and channels, and report.

    A run that diverges ends there; the others go on, and the exit code is 1.
    """
    from fedteddi.experiment import RunOptions
    from fedteddi.experiment import compare as compare_runs

    settings = _settings(experiment, rounds, changes)
    folder = out_folder or Path("runs") / f"{Path(experiment).stem}-compare"
    with watching() as watch:
        how = RunOptions(
            device=device,
            out=folder,
            resume=resume,
            allow_changed=allow_changed,
            time_limit_s=seconds_left(time_limit),
            watch=watch,
            data_dir=data_dir,
            threads=threads,
            ray=ray,
        )
        study = compare_runs(
            settings,
            schedulers=scheduler or list(built_in()),
            seeds=parse_seeds(seeds),
            deadlines_s=deadline,
            options=read_options(option or [], "--option"),
            run=how,
        )
    _report_compared(study, folder, svg)
    say_end(study, folder)


def _report_compared(study: "Study", folder: Path, svg: bool) -> None:
    """Report on all runs of the folder once those asked for are done, and any is left."""
    from fedteddi.experiment import run_name
    from fedteddi.results.reading import read_study

    if study.unfinished or all_failed(study):
        say_failed(study.failures)
        return
    held = {run_name(run.settings): run for run in study.runs}
    everything = read_study(folder, held)  # with what the folder held before
    _report(everything, folder / "report", None, "fedteddi", svg)


def report(
    runs: Annotated[Path, typer.Argument(help="A run's folder, or a folder of runs.")],
    target: Annotated[
        list[float] | None, typer.Option(help="An accuracy to be reached, such as 0.75; may be repeated.")
    ] = None,
    ours: Annotated[
        str | None, typer.Option(help="The scheduler that is compared with each other one; default fedteddi.")
    ] = None,
    out_folder: Annotated[
        Path | None, typer.Option("--out", help="Where to write; default RUNS/report.")
    ] = None,
    svg: Svg = False,
) -> None:
    """Print tables about finished runs, and write them with figures 3 to 7 (Markdown, CSV, PNG)."""
    from fedteddi.results.reading import read_study

    for value in target or []:
        if not 0 < value < 1:
            raise InputError(f"--target {value:g}: give a share between 0 and 1, such as 0.75")
    study = read_study(runs)
    if ours is not None and ours not in study.schedulers:
        raise InputError(
            f"--ours {ours}: no such run here{nearest_hint(ours, study.schedulers)}; there are"
            f" {', '.join(study.schedulers)}"
        )
    _report(study, out_folder or runs / "report", target, ours or "fedteddi", svg)


def _report(study: "Study", folder: Path, targets: list[float] | None, ours: str, svg: bool) -> None:
    """Write a report, print its tables, and name the runs it leaves out."""
    from fedteddi.results.report import write_report

    made = write_report(study, folder, targets, ours, svg)
    for title, table in made.tables.items():
        if "cost to" not in title:  # long; it is in the files
            out.print(f"\n{title}", style="bold")
            print_table(table)
    name_unfinished(made.unfinished)
    say_failed(study.failures)
    say_idle(study.runs)
    if made.warning:
        say("warning", made.warning)
    pictures = [file for file in made.files if file.suffix == ".png"]
    out.print(f"\n{made.files[0]}, and figures such as {pictures[0]}", soft_wrap=True)


def scenario(
    experiment: Experiment = "fashion",
    seed: Annotated[int | None, typer.Option(min=0)] = None,
    out_file: Annotated[Path, typer.Option("--out", help="Where the picture goes (.png and .svg).")] = Path(
        "scenario.png"
    ),
    changes: Changes = None,
    data_dir: DataDir = None,
) -> None:
    """Print and draw who holds which classes in every frame, before anything is trained."""
    import numpy as np

    from fedteddi.cli.output import print_plan
    from fedteddi.learning.datasets.dataset import load_dataset
    from fedteddi.results.drawing import save
    from fedteddi.results.figures import scenario_heat_map
    from fedteddi.scenario.build import build_plan

    settings = _settings(experiment, None, changes)
    settings = settings if seed is None else settings.changed(seed=seed)
    data = load_dataset(settings.dataset, data_dir)
    plan = build_plan(
        settings.scenario, data.train_labels.numpy(), data.num_classes, len(settings.rounds), settings.seed
    )
    print_plan(plan)
    counts = np.stack([frame.counts for frame in plan.frames])
    try:
        files_written = save(scenario_heat_map(counts, f"{settings.name}, seed {settings.seed}"), out_file)
    except OSError as error:
        raise InputError(f"{out_file} cannot be written ({error.strerror}): choose another --out") from None
    out.print(f"drawn in {files_written[0]}", soft_wrap=True)


def parse_seeds(text: str, start: int = 0) -> list[int]:
    """Read "5" as five seeds from `start` on and "100-104" as those five."""
    first, dash, last = text.partition("-")
    if not first.isdecimal() or (dash and not last.isdecimal()):
        raise InputError(f"--seeds {text!r}: give how many, such as 5, or which, such as 100-104")
    seeds = list(range(int(first), int(last) + 1)) if dash else list(range(start, start + int(first)))
    if not seeds:
        raise InputError(f"--seeds {text!r} means no seed at all: give at least one")
    return seeds


def _settings(experiment: str, rounds: int | None, changes: list[str] | None) -> "Settings":
    from fedteddi.settings import load_experiment, override

    settings = load_experiment(experiment)
    if rounds is not None:
        settings = settings.changed(rounds=[rounds if length else 0 for length in settings.rounds])
    return override(settings, changes or [])


def seconds_left(time_limit_s: float | None) -> float | None:
    """Return what is left of a time limit that counts from the process's start."""
    return None if time_limit_s is None else max(0.0, time_limit_s - process_age_s())
