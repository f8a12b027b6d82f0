"""The commands that repeat a study. Torch is imported only when it is used."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedteddi.cli.data import DataDir
from fedteddi.cli.endings import end, name_failed, name_unfinished, open_next, say_failed, say_next
from fedteddi.cli.options import (
    Changes,
    Device,
    Ray,
    RayCommand,
    Resume,
    RuleOptions,
    Threads,
    TimeLimit,
    Track,
    parse_seeds,
    rules_with,
    seconds_left,
)
from fedteddi.cli.output import out, say
from fedteddi.cli.progress import watching
from fedteddi.cli.tables import print_table
from fedteddi.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

    from fedteddi.studies.page import Page
    from fedteddi.studies.study import StudyPlan

Names = list[str] | None
Folder = Path | None
StudyName = Annotated[
    str,
    typer.Argument(
        help="The paper's cifar10 or cifar100; sensitivity (what they depend on); with our first reading,"
        " cifar10-first, cifar100-first, sensitivity-first, plus-cifar10, plus-cifar100, plus-fashion, plus-ablation;"
        " or a .toml file."
    ),
]
Rule = Annotated[
    Names,
    typer.Option("--scheduler", "-s", help="Only this rule of the study, such as random (may be repeated)."),
]
Deadline = Annotated[
    list[float] | None, typer.Option(help="Only this deadline, in seconds (may be repeated).")
]
Seeds = Annotated[
    str | None, typer.Option(help="How many, from the study's first on, or which (10-14); default all.")
]
Factor = Annotated[
    Names, typer.Option(help="Only this factor and the baseline (may be repeated); baseline: only that.")
]
Level = Annotated[Names, typer.Option(help="Only this level of the one --factor (may be repeated).")]
Skip = Annotated[Names, typer.Option(help="Not this level, such as search-exact (may be repeated).")]
Out = Annotated[
    Folder, typer.Option("--out", help="Where the runs are; default runs/STUDY (--quick: …-quick).")
]
Quick = Annotated[bool, typer.Option("--quick", help="Everything once, in minutes, with one seed.")]
Summarise = Annotated[
    Folder,
    typer.Option(help="Run nothing: add the finished runs of --out to the summaries in this folder."),
]
FromSummaries = Annotated[
    Folder,
    typer.Option(help="Run nothing: write the page DIR.md about the summaries in DIR.", metavar="DIR"),
]
Readme = Annotated[
    Folder, typer.Option(help="With either of these: also write the claims between their marks in this file.")
]
Svg = Annotated[bool, typer.Option("--svg", help="Write figures as SVG, too.")]
Csv = Annotated[bool, typer.Option("--csv", help="Write all tables and outcomes as CSV, too.")]


def register(app: typer.Typer) -> None:
    """Add the commands to the command line."""
    app.command(cls=RayCommand)(reproduce)


def reproduce(
    study: StudyName,
    scheduler: Rule = None,
    option: RuleOptions = None,
    deadline: Deadline = None,
    seeds: Seeds = None,
    factor: Factor = None,
    level: Level = None,
    skip: Skip = None,
    device: Device = "auto",
    data_dir: DataDir = None,
    out_folder: Out = None,
    resume: Resume = False,
    time_limit: TimeLimit = None,
    threads: Threads = None,
    ray: Ray = None,
    track: Track = None,
    quick: Quick = False,
    changes: Changes = None,
    summarise: Summarise = None,
    from_summaries: FromSummaries = None,
    readme: Readme = None,
    svg: Svg = False,
    csv: Csv = False,
) -> None:
    """Repeat a study, and set its claims beside what was found.

    Parts may be run one by one: the same --out with --resume and another --scheduler, --deadline, --seeds, --factor or
    --level. The page about all finished runs of --out is written to OUT/report whenever those asked for are done.
    """
    from fedteddi.studies.study import load_study

    plan = load_study(study)
    plan = plan.quickened() if quick else plan
    if summarise or from_summaries or readme:
        _from_summaries(plan, out_folder, summarise, from_summaries, readme, svg=svg, csv=csv)
        return
    given: dict[str, Any] = {
        "schedulers": rules_with(scheduler, option),
        "deadlines_s": deadline or [],
        "skip": skip or [],
    }
    given |= {"factors": factor or [], "levels": level or [], "changes": changes or []}
    given["seeds"] = None if seeds is None else parse_seeds(seeds, plan.seeds[0])
    given |= {"device": device, "data_dir": data_dir, "resume": resume, "ray": ray, "threads": threads}
    given["track"] = track or ()
    given["time_limit_s"] = seconds_left(time_limit)
    _play(plan, out_folder or _runs(plan), given, svg=svg, csv=csv)


def _runs(plan: "StudyPlan") -> Path:
    """Return the folder in which a study's runs are, unless another is named."""
    return Path("runs") / (f"{plan.name}-quick" if plan.is_quick else plan.name)


def _from_summaries(
    plan: "StudyPlan", out_folder: Folder, summarise: Folder, kept: Folder, readme: Folder, **also: bool
) -> None:
    """Write the page about summaries, after finished runs have been added to them, if asked to."""
    from fedteddi.studies import page, play

    if summarise and kept:
        raise InputError("--summarise and --from-summaries: give one; --summarise writes the page as well")
    if summarise:
        name_unfinished(play.summarise(plan, out_folder or _runs(plan), summarise))
        made = page.page_of_summaries(plan, summarise, None, readme, **also)
    elif kept:
        made = page.page_of_summaries(plan, kept, out_folder, readme, **also)
    else:
        raise InputError(f"--readme {readme}: give it with --summarise or --from-summaries")
    name_failed(made.failed)
    say_next(_show(made))


def _play(plan: "StudyPlan", folder: Path, given: dict[str, Any], **also: bool) -> None:
    """Play a study, or the part of it that is given, and write its page once that is done."""
    from fedteddi.studies import page, play

    with watching() as watch:
        played = play.reproduce(plan, out=folder, watch=watch, **given)

    def report(finished: bool) -> str:
        if not (finished and any(run.finished for run in played.values())):
            return ""
        made, unfinished = page.page_of_runs(plan, folder, **also)
        name_unfinished(unfinished)
        return _show(made)

    say_failed({name: run.failure for name, run in played.items() if run.failure is not None})
    end(list(played.values()), folder, report)


def _show(page: "Page") -> str:
    """Print the answer and the claims of a page, and what a reader must know; say how to see it all."""
    out.print(f"{page.answer}\n")
    for about, claims in _by_subject(page.claims).items():
        if about:
            out.print(f"\n{about}", style="bold")
        print_table(claims, keys=1)
    if page.mark:
        out.print(f"{page.mark}. It is too short for a verdict.")
    if page.warning:
        say("warning", page.warning)
    out.print()
    return open_next(page.files[0], page.files)


def _by_subject(claims: "pd.DataFrame") -> "dict[str, pd.DataFrame]":
    """Part claims by the scheduler they are about, where there are several."""
    if "about" not in claims:
        return {"": claims}
    return {str(about): part.drop(columns="about") for about, part in claims.groupby("about", sort=False)}
