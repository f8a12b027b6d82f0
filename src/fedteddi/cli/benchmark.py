"""The command that makes the leaderboard. Torch is imported only when it is used."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedteddi.cli.endings import end, name_failed, name_unfinished, say_next
from fedteddi.cli.options import (
    Device,
    Ray,
    RayCommand,
    RuleOptions,
    Threads,
    TimeLimit,
    Track,
    parse_seeds,
    rules_with,
    seconds_left,
)
from fedteddi.cli.output import out
from fedteddi.cli.progress import watching
from fedteddi.cli.tables import print_table

if TYPE_CHECKING:
    from fedteddi.studies.benchmark.page import Page

Joining = Annotated[
    list[str] | None,
    typer.Option(
        "--scheduler",
        "-s",
        help="A rule that joins the built-in ones: mine.py:Mine, or fedteddi\\[search=refined] (may be repeated).",
    ),
]
Only = Annotated[
    list[str] | None, typer.Option(help="In place of all built-in rules only this one (may be repeated).")
]
Seeds = Annotated[
    str, typer.Option(help="How many (5 means 0 to 4) or which (10-12); default 3, with --quick 1.")
]
Out = Annotated[
    Path | None,
    typer.Option("--out", help="Where the runs are; default runs/benchmark (--quick: …-quick)."),
]
Quick = Annotated[bool, typer.Option("--quick", help="Everything once, in minutes, with one seed.")]
Resume = Annotated[
    bool,
    typer.Option("--resume/--no-resume", help="Go on from what the folder holds, or refuse one with runs."),
]
Replay = Annotated[
    bool,
    typer.Option(
        "--replay", help="Play anew what failed, and what rules played whose code has changed since."
    ),
]
Write = Annotated[
    Path | None,
    typer.Option(
        help="Once all is played, write the page to this .md file, and its tables and summaries of the runs into a"
        " folder of that name; default OUT/report/leaderboard.md.",
        metavar="PAGE",
    ),
]
FromSummaries = Annotated[
    Path | None,
    typer.Option(help="Run nothing: write the page DIR.md about the summaries in DIR.", metavar="DIR"),
]


ON_THE_PAGE = ["score by global accuracy"]  # alone: a narrow terminal needs the room


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command(cls=RayCommand)(benchmark)


def benchmark(
    scheduler: Joining = None,
    option: RuleOptions = None,
    only: Only = None,
    seeds: Seeds = "",
    device: Device = "cpu",
    out_folder: Out = None,
    resume: Resume = True,
    replay: Replay = False,
    time_limit: TimeLimit = None,
    threads: Threads = None,
    ray: Ray = None,
    track: Track = None,
    quick: Quick = False,
    write: Write = None,
    from_summaries: FromSummaries = None,
) -> None:
    """Play every scheduler on three small scenarios, and write a leaderboard.

    The same command goes on where it was interrupted; more seeds and rules join what the folder holds. A scheduler that
    fails is named on the page, and the exit code is 1.
    """
    from fedteddi.studies.benchmark import page
    from fedteddi.studies.benchmark.plan import SEEDS, Benchmark, chosen_rules
    from fedteddi.studies.benchmark.play import play_benchmark

    plan = Benchmark(is_quick=quick)
    if from_summaries is not None:
        say_next(_show(page.page_of_summaries(plan, from_summaries)))
        return
    page.check_name(write)
    folder = out_folder or Path("runs") / plan.name
    with watching() as watch:
        played = play_benchmark(
            plan,
            chosen_rules(rules_with(scheduler, option), only or []),
            out=folder,
            seeds=parse_seeds(seeds) if seeds else SEEDS[:1] if quick else SEEDS,
            resume=resume,
            replay=replay,
            time_limit_s=seconds_left(time_limit),
            watch=watch,
            ray=ray,
            device=device,
            threads=threads,
            track=track or (),
        )

    def report(finished: bool) -> str:
        made, unfinished = page.page_of_runs(plan, folder, write if finished else None)
        name_unfinished(unfinished)
        return _show(made)

    end(list(played.values()), folder, report)


def _show(made: "Page") -> str:
    """Print the answer, the ranking and what failed; say how to see it all."""
    out.print(f"{made.answer}\n")
    print_table(made.ranking.drop(columns=ON_THE_PAGE, errors="ignore"), keys=2)
    name_failed({called: f"{why}; once corrected, --replay" for called, why in made.failed.items()})
    out.print()
    return f"open {made.files[0]}, with {made.files[1].name} beside it"
