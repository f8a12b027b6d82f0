"""The commands that repeat a study. Torch is imported only when it is used."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedteddi.cli.data import DataDir
from fedteddi.cli.endings import name_failed, name_unfinished, say_failed, say_where
from fedteddi.cli.experiments import (
    Changes,
    Device,
    Ray,
    RayCommand,
    Resume,
    TimeLimit,
    parse_seeds,
    seconds_left,
)
from fedteddi.cli.output import out, print_table, say
from fedteddi.cli.progress import watching
from fedteddi.errors import InputError, nearest_hint, shown

if TYPE_CHECKING:
    from fedteddi.studies.page import Page

Names = list[str] | None
Numbers = list[float] | None
Folder = Path | None


def register(app: typer.Typer) -> None:
    """Add the commands to the command line."""
    app.command(cls=RayCommand)(reproduce)
    everything = {"allow_extra_args": True, "ignore_unknown_options": True}
    app.command(context_settings=everything)(sensitivity)


def reproduce(
    study: Annotated[
        str,
        typer.Argument(
            help="The paper's cifar10 or cifar100, or sensitivity (what their claims depend on); of fedteddi-plus"
            " plus-cifar10, plus-cifar100, plus-fashion or plus-ablation; or a .toml file."
        ),
    ],
    scheduler: Annotated[
        Names, typer.Option(help="Only this rule, such as random (may be repeated).")
    ] = None,
    deadline: Annotated[
        Numbers, typer.Option(help="Only this deadline, in seconds (may be repeated).")
    ] = None,
    seeds: Annotated[
        str | None, typer.Option(help="How many, from the study's first on, or which (10-14); default all.")
    ] = None,
    factor: Annotated[
        Names, typer.Option(help="Only this factor and the baseline (may be repeated); baseline: only that.")
    ] = None,
    level: Annotated[
        Names, typer.Option(help="Only this level of the one --factor (may be repeated).")
    ] = None,
    skip: Annotated[
        Names, typer.Option(help="Not this level, such as search-exact (may be repeated).")
    ] = None,
    device: Device = "auto",
    data_dir: DataDir = None,
    out_folder: Annotated[
        Path | None, typer.Option("--out", help="Where the runs are; default runs/STUDY (--quick: …-quick).")
    ] = None,
    resume: Resume = False,
    time_limit: TimeLimit = None,
    ray: Ray = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Everything once, in minutes, with one seed.")
    ] = False,
    changes: Changes = None,
    summarise: Annotated[
        Folder,
        typer.Option(help="Run nothing: add the finished runs of --out to the summaries in this folder."),
    ] = None,
    from_summaries: Annotated[
        Folder,
        typer.Option(help="Run nothing: write the page DIR.md about the summaries in DIR.", metavar="DIR"),
    ] = None,
    readme: Annotated[
        Folder,
        typer.Option(help="With either of these: also write the claims between their marks in this file."),
    ] = None,
    svg: Annotated[bool, typer.Option("--svg", help="Write figures as SVG, too.")] = False,
    csv: Annotated[bool, typer.Option("--csv", help="Write all tables and outcomes as CSV, too.")] = False,
) -> None:
    """Repeat a study, and set its claims beside what was found.

    Parts may be run one by one: the same --out with --resume and another --scheduler, --deadline, --seeds, --factor or
    --level. The page about all finished runs of --out is written to OUT/report whenever those asked for are done.
    """
    from fedteddi.studies import page, play
    from fedteddi.studies.study import load_study

    plan = load_study(study)
    plan = plan.quickened() if quick else plan
    folder = out_folder or Path("runs") / (f"{plan.name}-quick" if quick else plan.name)
    if summarise is not None and from_summaries is not None:
        raise InputError("--summarise and --from-summaries: give one; --summarise writes the page as well")
    kept = summarise or from_summaries
    if readme is not None and kept is None:
        raise InputError(f"--readme {readme}: give it with --summarise or --from-summaries")
    if summarise is not None:
        name_unfinished(play.summarise(plan, folder, summarise))
    if kept is not None:
        into = out_folder if from_summaries is not None else None
        made = page.page_of_summaries(plan, kept, into, readme, svg=svg, csv=csv)
        name_failed(made.failed)
        _show(made)
        return
    with watching() as watch:
        played = play.reproduce(
            plan,
            out=folder,
            schedulers=scheduler or [],
            seeds=None if seeds is None else parse_seeds(seeds, plan.seeds[0]),
            deadlines_s=deadline or [],
            factors=factor or [],
            levels=level or [],
            skip=skip or [],
            changes=changes or [],
            resume=resume,
            time_limit_s=seconds_left(time_limit),
            watch=watch,
            device=device,
            data_dir=data_dir,
            ray=ray,
        )
    failures = {name: run.failure for name, run in played.items() if run.failure is not None}
    say_failed(failures)
    finished = all(run.finished or run.failure for run in played.values())
    if finished and len(failures) < len(played):
        made, unfinished = page.page_of_runs(plan, folder, svg=svg, csv=csv)
        name_unfinished(unfinished)
        _show(made)
    if len(failures) < len(played):
        say_where(folder, finished, "all other rounds" if failures else "all rounds")
    if failures:
        raise typer.Exit(1)


def sensitivity(
    context: typer.Context, study: Annotated[str, typer.Argument(help="The study: cifar10.")]
) -> None:
    """Short for `fedteddi reproduce sensitivity`, whose options it takes: one factor at a time around a baseline."""
    if study != "cifar10":
        hint = nearest_hint(study, ["cifar10"])
        raise InputError(f"no sensitivity study is called {shown(study)}{hint}: known is cifar10")
    parent = context.parent
    assert parent is not None
    command = parent.command.get_command(parent, "reproduce")  # type: ignore[attr-defined]
    words = ["sensitivity", *context.args]
    raise typer.Exit(command.main(words, prog_name="fedteddi reproduce", standalone_mode=False) or 0)


def _show(page: "Page") -> None:
    """Print the claims of a page, what a reader must know, and where it is."""
    print_table(page.claims)
    if page.warning:
        say("warning", page.warning)
    pictures = [file for file in page.files if file.suffix == ".png"]
    out.print(f"\n{page.files[0]}, and figures such as {pictures[0]}", soft_wrap=True)
