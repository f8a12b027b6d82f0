"""The command that varies one factor at a time. Torch is imported only when it is used."""

from pathlib import Path
from typing import Annotated

import typer

from fedteddi.cli_data import DataDir
from fedteddi.cli_endings import name_failed, name_unfinished, say_failed, say_where
from fedteddi.cli_experiments import (
    Changes,
    Device,
    Resume,
    TimeLimit,
    parse_seeds,
    seconds_left,
)
from fedteddi.cli_pages import FromSummaries, Summarise, one_of, show_page
from fedteddi.cli_progress import watching


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command()(sensitivity)


def sensitivity(
    study: Annotated[str, typer.Argument(help="The study: cifar10.")],
    factor: Annotated[
        list[str] | None,
        typer.Option(
            help="Only this factor and the baseline (may be repeated): tau, class-norm, target, search, mixes, lambda0,"
            " shadowing, augment, pretraining, rounds; or only the baseline: baseline."
        ),
    ] = None,
    level: Annotated[
        list[str] | None,
        typer.Option(help="Only this level of the one --factor, without the baseline (may be repeated)."),
    ] = None,
    skip: Annotated[
        list[str] | None,
        typer.Option(help="Not this level, by its folder: search-exact, tau-24, … (may be repeated)."),
    ] = None,
    scheduler: Annotated[
        list[str] | None,
        typer.Option(help="Only this rule (may be repeated): fedteddi, fedcgd, fed-cbs, random."),
    ] = None,
    seeds: Annotated[
        str | None, typer.Option(help="How many (2 means 0 and 1) or which (0-1); default 2, with --quick 1.")
    ] = None,
    device: Device = "auto",
    data_dir: DataDir = None,
    out_folder: Annotated[
        Path | None,
        typer.Option("--out", help="Where the runs are; default runs/sensitivity-STUDY (--quick: …-quick)."),
    ] = None,
    resume: Resume = False,
    time_limit: TimeLimit = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="All levels in minutes: few rounds and steps, one seed.")
    ] = False,
    changes: Changes = None,
    summarise: Summarise = None,
    from_summaries: FromSummaries = None,
) -> None:
    """Vary one factor at a time around a baseline, and say which of the paper's claims hold where.

    All runs advance together. Parts may be run one by one: the same --out with --resume and another --factor, --level,
    --scheduler or --seeds. The page about all finished runs of --out is written to OUT/report whenever those asked for
    are done; what is missing is shown as not run.
    """
    from fedteddi import sensitivity as library

    grid = library.find_sensitivity(study, quick)
    folder = out_folder or Path("runs") / grid.name
    kept = one_of(summarise, from_summaries)
    if summarise is not None:
        name_unfinished(library.summarise(grid, folder, summarise))
    if kept is not None:
        page = library.page_of_summaries(grid, kept, out_folder if from_summaries is not None else None)
        name_failed(page.failed)
        show_page(page)
        return
    with watching() as watch:
        played = library.sensitivity(
            grid,
            out=folder,
            factors=factor or [],
            levels=level or [],
            skip=skip or [],
            schedulers=scheduler or [],
            seeds=None if seeds is None else parse_seeds(seeds),
            changes=changes or [],
            resume=resume,
            time_limit_s=seconds_left(time_limit),
            watch=watch,
            device=device,
            data_dir=data_dir,
        )
    failures = {name: run.failure for name, run in played.items() if run.failure is not None}
    say_failed(failures)
    finished = all(run.finished or run.failure for run in played.values())
    if finished and len(failures) < len(played):
        page, unfinished = library.page_of_runs(grid, folder)
        name_unfinished(unfinished)
        show_page(page)
    if len(failures) < len(played):
        say_where(folder, finished, "all other rounds" if failures else "all rounds")
    if failures:
        raise typer.Exit(1)
