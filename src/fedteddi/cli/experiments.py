"""The commands that simulate: run, compare, report, scenario. Torch is imported only when one of them is used."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedteddi.cli.data import DataDir
from fedteddi.cli.endings import all_failed, name_unfinished, say_end, say_failed, say_idle, say_where
from fedteddi.cli.options import (
    AllowChanged,
    Changes,
    Deadlines,
    Device,
    Experiment,
    Out,
    Ray,
    RayCommand,
    Resume,
    Rounds,
    SchedulerOptions,
    Schedulers,
    Seeds,
    Svg,
    Threads,
    TimeLimit,
    Track,
    parse_seeds,
    seconds_left,
)
from fedteddi.cli.output import out, print_table, say
from fedteddi.cli.progress import watching
from fedteddi.errors import InputError, nearest_hint
from fedteddi.registry import read_options
from fedteddi.schedulers.registry import built_in, named_rule

if TYPE_CHECKING:
    from fedteddi.results.runs import Study
    from fedteddi.settings import Settings


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
    track: Track = None,
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
            track=track or (),
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
    track: Track = None,
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
            track=track or (),
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


def _settings(experiment: str, rounds: int | None, changes: list[str] | None) -> "Settings":
    from fedteddi.settings import load_experiment, override

    settings = load_experiment(experiment)
    if rounds is not None:
        settings = settings.changed(rounds=[rounds if length else 0 for length in settings.rounds])
    return override(settings, changes or [])
