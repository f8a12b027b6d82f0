"""The leaderboard as a page: the answer, a figure, the matrix, the method, the caveats.

Everything on it is computed from summaries: the same summaries give the same page, to the byte.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from fedteddi.errors import InputError
from fedteddi.results.drawing import save
from fedteddi.results.starts import started_otherwise
from fedteddi.studies import caveats
from fedteddi.studies.benchmark import matrix
from fedteddi.studies.benchmark.figure import overview
from fedteddi.studies.benchmark.plan import Benchmark
from fedteddi.studies.benchmark.standings import Reached, Standings, standings
from fedteddi.studies.page import DPI, PALETTE, rendered
from fedteddi.studies.summaries import Summaries, from_folders
from fedteddi.studies.summary_files import read_summaries, write_summaries

QUICK = "Quick: a shortened benchmark that shows that everything works, not how good a scheduler is"
NAME = "leaderboard"


@dataclass(frozen=True)
class Page:
    """What was written, the page first; the ranking; the answer; what failed, and why."""

    files: list[Path]
    ranking: pd.DataFrame
    answer: str
    failed: dict[str, str]


def read_runs(plan: Benchmark, out: Path) -> tuple[Summaries, list[str]]:
    """Shorten the runs of a folder that came to an end; also name those that can still go on."""
    there = {scenario.name: out / scenario.name for scenario in plan.scenarios}
    folders = {name: path for name, path in there.items() if any(path.glob("*/settings.toml"))}
    summaries, unfinished = from_folders(plan.name, folders, by_level=True)
    return summaries, unfinished


def page_of_runs(plan: Benchmark, out: Path, write: Path | None = None) -> tuple[Page, list[str]]:
    """Write the page about all finished runs of a folder into OUT/report, or as `write` with the summaries beside it.

    Also return the names of the runs that can still go on.
    """
    summaries, unfinished = read_runs(plan, out)
    if write is None:
        source = f"`{plan.command}` from the runs in its folder"
        return write_page(plan, summaries, out / "report" / f"{NAME}.md", source), unfinished
    check_name(write)
    if summaries.runs:
        write_summaries(summaries, write.with_suffix(""))
    return write_page(plan, summaries, write, _from(plan, write)), unfinished


def page_of_summaries(plan: Benchmark, folder: Path) -> Page:
    """Write the page about a folder of summaries beside it: DIR.md."""
    summaries = read_summaries(folder, by_level=True)
    if summaries.name != plan.name:
        quick = "leave --quick out" if plan.is_quick else "give --quick if it is a quick one's"
        raise InputError(f"{folder} holds summaries of {summaries.name}, not of {plan.name}: {quick}")
    for one in summaries.every:
        plan.check(one.level, one.run.settings, folder)
    page = folder.with_name(f"{folder.name}.md")
    return write_page(plan, summaries, page, _from(plan, page))


def write_page(plan: Benchmark, summaries: Summaries, page: Path, source: str) -> Page:
    """Write a page, and its figure and tables into a folder of its name beside it."""
    failed = {one.called: one.run.failure.cause for one in summaries.failed if one.run.failure}
    if not summaries.runs:
        first = next(iter(failed.values()), None)
        what = "finish one with --resume" if first is None else f"all runs failed; first error: {first}"
        raise InputError(f"no run of the benchmark has come to its end: {what}")
    found = standings(plan, summaries)
    numbers, folder = matrix.numbers(found), page.with_suffix("")
    missing = {(one.level, one.run.scheduler): "failed" for one in summaries.failed}
    ranking, said = matrix.overall_table(found, numbers, missing), answer(found)
    view: dict[str, Any] = {"name": folder.name, "source": source, "answer": said, "overall": ranking}
    view |= {"mark": QUICK if plan.is_quick else "", "runs": len(summaries.runs), "seeds": found.seeds}
    view |= {"scenarios": [_section(found, one, numbers) for one in found.scenarios]}
    view |= {
        "machines": caveats.machines(summaries.runs),
        "caveats": _caveats(plan, found, summaries, failed),
    }
    written = [page, folder / f"{NAME}.csv", folder / "outcomes.csv"]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        page.write_text(rendered("benchmark/page.md.j2", view), encoding="utf-8")
        matrix.tidy(numbers).to_csv(written[1], index=False)
        matrix.by_seed(found, numbers).to_csv(written[2], index=False)
        written += save(overview(found, numbers), folder / "overview", (".png",), DPI, PALETTE)
    except OSError as error:
        raise InputError(f"{page} cannot be written ({error.strerror}): choose another place") from None
    return Page(written, ranking, said, failed)


def answer(found: Standings) -> str:
    """Say who comes first, how many are not clearly behind, and who is best where; no winner where none is clear."""
    if not found.rules:
        return "No rule has finished the same seeds in every scenario: nothing is ranked."
    first, others = found.rules[0], len(found.rules) - 1
    level = found.level_with_first()
    score = float(found.score(first).mean())
    many = f"{len(found.scenarios)} scenario{'s' if len(found.scenarios) > 1 else ''}"
    lead = f"The highest score over {many} is that of {first} ({score:.3f})"
    if len(found.seeds) < 2:
        return f"{lead}, of {others + 1} rules on one seed: that decides nothing."
    if not others:
        return f"{lead}, the only rule that is ranked."
    if not level:
        return f"{lead}; every other of {others + 1} ranked rules is clearly behind it on {len(found.seeds)} seeds."
    return (
        f"{lead}, but {len(level)} of the {others} others {'is' if len(level) == 1 else 'are'} not clearly behind it on"
        f" {len(found.seeds)} seeds, so there is no winner. Not clearly behind: {', '.join(level)}."
    )


def _section(found: Standings, one: Reached, numbers: matrix.Numbers) -> dict[str, Any]:
    settings = one.outcomes.study.runs[0].settings
    rounds = " + ".join(str(last) for last in settings.rounds if last)
    about = (
        f"{settings.scenario.clients} clients, {rounds} rounds; the experiment `{one.scenario.experiment}`."
    )
    text = ""
    if found.rules:
        best, level = found.best_of(one)
        text = f"Highest mean balanced accuracy: {best}"
        if len(found.seeds) > 1:
            text += f"; not clearly behind it: {', '.join(level) or 'none of the others'}"
    table = matrix.scenario_table(found, one, numbers)
    return {"title": one.scenario.title, "about": about, "answer": f"{text}." if text else "", "table": table}


def _caveats(plan: Benchmark, found: Standings, summaries: Summaries, failed: dict[str, str]) -> list[str]:
    lines = [f"**Failed**, and left out of all numbers: {called}: {why}." for called, why in failed.items()]
    there = [one.scenario.name for one in found.scenarios]
    absent = [scenario.title for scenario in plan.scenarios if scenario.name not in there]
    lines += [f"**Missing**: no finished runs of {', '.join(absent)}."] if absent else []
    others = sorted({rule for one in found.scenarios for rule in one.rules} - set(found.rules))
    if others:
        lines.append(f"Not ranked, because they have not all of these seeds everywhere: {', '.join(others)}.")
    other = started_otherwise((f"{one.level}/{one.run.scheduler}", one.run) for one in summaries.runs)
    return lines + ([f"**Different starts.** {other}"] if other else [])


def _from(plan: Benchmark, page: Path) -> str:
    """Say what makes a page again; by the folder's name in the repository, wherever it is made."""
    return f"`{plan.command} --from-summaries docs/{page.stem}` from the summaries in that folder"


def check_name(page: Path | None) -> None:
    """Refuse a page that is no Markdown file, before anything is played."""
    if page is not None and page.suffix != ".md":
        raise InputError(f"--write {page}: give a Markdown file, such as docs/leaderboard.md")
