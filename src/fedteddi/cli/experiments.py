"""The commands that simulate: run, compare, report. Torch is imported only when one of them is used."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedteddi.cli.data import DataDir
from fedteddi.cli.endings import (
    end,
    name_unfinished,
    open_next,
    say_failed,
    say_idle,
    say_next,
    say_where,
)
from fedteddi.cli.options import (
    AllowChanged,
    Changes,
    Deadlines,
    Device,
    Experiment,
    Out,
    Pdf,
    Ray,
    RayCommand,
    Resume,
    Rounds,
    RuleOptions,
    SchedulerName,
    SchedulerOptions,
    Schedulers,
    Seed,
    Seeds,
    Svg,
    Sweep,
    Threads,
    TimeLimit,
    Track,
    parse_seeds,
    rule_with,
    seconds_left,
    settings_from,
)
from fedteddi.cli.output import out, say
from fedteddi.cli.page import HTML, Html, HtmlCommand, Open, make_page, refuse_beside
from fedteddi.cli.progress import watching
from fedteddi.cli.tables import print_table
from fedteddi.errors import InputError, nearest_hint
from fedteddi.registry import read_options
from fedteddi.schedulers.registry import built_in

if TYPE_CHECKING:
    from fedteddi.results.runs import RunRecord, Study


MOST_ROWS = 15  # of a run's curve, in a frame


def register(app: typer.Typer) -> None:
    """Add the commands to the command line."""
    app.command()(run)
    app.command(cls=RayCommand)(compare)
    app.command(cls=HtmlCommand)(report)


def run(
    experiment: Experiment = "fashion",
    scheduler: SchedulerName = None,
    option: RuleOptions = None,
    seed: Seed = None,
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

    settings = settings_from(experiment, rounds, changes)
    rule = rule_with(scheduler or settings.scheduler, option)
    if scheduler is None:
        rule = replace(rule, options=settings.scheduler_options | rule.options)
    settings = settings.changed(scheduler=rule.scheduler, scheduler_options=rule.options, name=rule.name)
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
        record = simulate(settings, name=settings.name, run=how)
    _print_run(record)
    say_idle([record])
    say_where(folder, record.finished)
    if record.finished:
        say_next(f"fedteddi report {folder}")


def _print_run(run: "RunRecord") -> None:
    """Print where a run is, and how accuracy grew: at most so many evaluations of each frame, its last among them."""
    import pandas as pd

    curve = run.curve()
    if not len(curve):
        return
    last = curve.iloc[-1]
    out.print(
        f"{run.title}: {last['balanced']:.1%} balanced and {last['global']:.1%} global test accuracy after round"
        f" {last['round']} of frame {last['frame']}\n"
    )
    parts = [part.iloc[:: -max(1, -(-len(part) // MOST_ROWS))][::-1] for _, part in curve.groupby("frame")]
    shown = pd.concat(parts)[["frame", "round", "balanced", "global", "old", "new"]]
    print_table(shown, keys=2)
    if len(shown) < len(curve):
        out.print(f"({len(shown)} of {len(curve)} evaluations)")


def compare(
    experiment: Experiment = "fashion",
    scheduler: Schedulers = None,
    option: SchedulerOptions = None,
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
    sweep: Sweep = None,
    svg: Svg = False,
    pdf: Pdf = False,
) -> None:
    """Run several schedulers, seeds and deadlines in lock-step on the same data and channels, and report.

    --sweep does so at each value of a setting. A run that diverges ends there; the others go on, and the exit code
    is 1.
    """
    from fedteddi import sweeps
    from fedteddi.experiment import RunOptions
    from fedteddi.experiment import compare as compare_runs

    settings = settings_from(experiment, rounds, changes)
    swept = sweeps.read_sweep(sweep or [])
    folder = out_folder or Path("runs") / f"{Path(experiment).stem}-{'sweep' if swept else 'compare'}"
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
        asked: dict[str, Any] = {
            "schedulers": scheduler or list(built_in()),
            "seeds": parse_seeds(seeds),
            "deadlines_s": deadline,
            "options": read_options(option or [], "--option"),
            "run": how,
        }
        study = sweeps.sweep(settings, **(asked | swept)) if swept else compare_runs(settings, **asked)
    if study.unfinished or all(run.failure for run in study.runs):
        say_failed(study.failures)
    end(study.runs, folder, lambda _: _report_compared(study, folder, svg=svg, pdf=pdf))


def _report_compared(study: "Study", folder: Path, **also: bool) -> str:
    """Report on all runs of the folder once those asked for are done, and any is left."""
    from fedteddi.results.reading import read_study
    from fedteddi.sweeps import folder_within

    if study.unfinished or all(run.failure for run in study.runs):
        return ""
    held = {folder_within(run): run for run in study.runs}
    everything = read_study(folder, held=held)  # with what the folder held before
    return _report(everything, folder / "report", None, "fedteddi", **also)


def report(
    runs: Annotated[Path, typer.Argument(help="A run's folder, a folder of runs, or that of a sweep.")],
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
    html: Html = None,
    open_page: Open = False,
    data_dir: DataDir = None,
    pdf: Pdf = False,
) -> None:
    """Print tables about finished runs, and write them with figures 3 to 7 (Markdown, CSV, PNG).

    With --html: one page instead, from whatever is there, finished or not (docs/page.md).
    """
    if html is not None or open_page:
        refuse_beside(
            {"--target": target, "--ours": ours, "--svg": svg, "--pdf": pdf, "--out": out_folder},
            f"{HTML} writes one page",
        )
        make_page(runs, html, opened=open_page, data_dir=data_dir)
        return
    if data_dir is not None:
        raise InputError("--data-dir has no effect without --html: leave it out")
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
    say_next(_report(study, out_folder or runs / "report", target, ours or "fedteddi", svg=svg, pdf=pdf))


def _report(study: "Study", folder: Path, targets: list[float] | None, ours: str, **also: bool) -> str:
    """Write a report, print it in brief, and name the runs it leaves out; say how to see it all."""
    from fedteddi.results import brief
    from fedteddi.results.report import write_report
    from fedteddi.results.tables import levels

    made = write_report(study, folder, targets, ours, **also)
    tables = dict(made.tables) if study.swept else {}
    for frame in [] if study.swept else study.frames:
        for sentence in brief.sentences(study, frame, ours):
            out.print(sentence)
        tables |= brief.brief_tables(study, frame, levels(study, frame, targets or []), ours)
    for title, table in tables.items():
        out.print(f"\n{title}", style="bold")
        print_table(table, keys=list(table.columns).index("scheduler") + 1)
    name_unfinished(made.unfinished)
    say_failed(study.failures)
    say_idle(study.runs)
    if made.warning:
        say("warning", made.warning)
    out.print()
    return open_next(made.files[0], made.files)
