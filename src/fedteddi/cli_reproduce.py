"""The command that repeats a study of the paper. Torch is imported only when it is used."""

from pathlib import Path
from typing import Annotated

import typer

from fedteddi.cli_data import DataDir
from fedteddi.cli_endings import all_failed, name_failed, name_unfinished, say_end, say_failed
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
from fedteddi.errors import InputError

COLUMNS = ["claim", "accuracy", "paper", "holds?"]  # of the claims: the page has the rest


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command()(reproduce)


def reproduce(
    study: Annotated[
        str,
        typer.Argument(
            help="The paper's cifar10 or cifar100; or, of fedteddi-plus, plus-cifar10, plus-cifar100, plus-fashion or"
            " plus-ablation."
        ),
    ],
    scheduler: Annotated[
        list[str] | None,
        typer.Option(
            help="Only this rule, such as fedteddi[search=refined] (may be repeated); default all of the study."
        ),
    ] = None,
    deadline: Annotated[
        list[float] | None, typer.Option(help="Only this deadline, in seconds (may be repeated).")
    ] = None,
    seeds: Annotated[
        str | None,
        typer.Option(
            help="How many, or which (10-14); default all of the study, with --quick its first. cifar10 and"
            " plus-ablation count them from 0, the others from 10."
        ),
    ] = None,
    device: Device = "auto",
    data_dir: DataDir = None,
    out_folder: Annotated[
        Path | None,
        typer.Option("--out", help="Where the runs are; default runs/STUDY, with --quick runs/STUDY-quick."),
    ] = None,
    resume: Resume = False,
    time_limit: TimeLimit = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="All rules and deadlines in minutes: few rounds, one seed.")
    ] = False,
    changes: Changes = None,
    summarise: Summarise = None,
    from_summaries: FromSummaries = None,
    readme: Annotated[
        Path | None,
        typer.Option(
            help="With either of these: also write the study at a glance between its marks in this file."
        ),
    ] = None,
) -> None:
    """Repeat a study of the paper, and set its claims beside what was found.

    Parts may be run one by one: the same --out with --resume and another --scheduler, --deadline or --seeds.
    The page about all finished runs of --out is written to OUT/report whenever those asked for are done.
    """
    from fedteddi import reproduce as library

    chosen = library.find_reproduction(study)
    folder = out_folder or Path("runs") / (f"{study}-quick" if quick else study)
    kept = one_of(summarise, from_summaries)
    if readme is not None and kept is None:
        raise InputError(f"--readme {readme}: give it with --summarise or --from-summaries")
    if summarise is not None:
        name_unfinished(library.summarise(chosen, folder, summarise))
    if kept is not None:
        into = out_folder if from_summaries is not None else None
        page = library.page_of_summaries(chosen, kept, into, readme)
        name_failed(page.failed)
        show_page(page, COLUMNS)
        return
    with watching() as watch:
        played = library.reproduce(
            chosen,
            out=folder,
            schedulers=scheduler,
            seeds=None if seeds is None else parse_seeds(seeds, chosen.seeds[0]),
            deadlines_s=deadline,
            quick=quick,
            changes=changes or [],
            resume=resume,
            time_limit_s=seconds_left(time_limit),
            watch=watch,
            device=device,
            data_dir=data_dir,
        )
    say_failed(played.failures)
    if not played.unfinished and not all_failed(played):
        page, unfinished = library.page_of_runs(chosen, folder)
        name_unfinished(unfinished)
        show_page(page, COLUMNS)
    say_end(played, folder)
