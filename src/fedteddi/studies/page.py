"""A study as a page: the answer, a figure, the claims beside what was found, the method, the caveats.

Everything on it is computed from summaries: the same summaries give the same page, to the byte.
"""

from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import jinja2
import pandas as pd
from matplotlib.figure import Figure

from fedteddi.errors import InputError
from fedteddi.results import tables
from fedteddi.results.drawing import save
from fedteddi.results.report import make_figures
from fedteddi.results.runs import REFERENCES, Study
from fedteddi.schedulers.registry import named_rule
from fedteddi.studies import caveats, figures, levels
from fedteddi.studies.cells import cells, cells_table, standing_table
from fedteddi.studies.comparison import VERDICTS
from fedteddi.studies.findings import Result
from fedteddi.studies.outcomes import NONE
from fedteddi.studies.play import read_kept, read_runs, study_at
from fedteddi.studies.study import StudyPlan
from fedteddi.studies.summaries import Summaries

DPI, PALETTE = 100, 128  # of committed pictures: small files, and still readable


@dataclass(frozen=True)
class Page:
    """What was written, the page first; the answer; the claims with their verdicts; what a reader must know."""

    files: list[Path]
    answer: str
    claims: pd.DataFrame
    warning: str
    failed: dict[str, str]  # runs that diverged, and why
    mark: str  # what it was shortened to, if it was


def page_of_runs(plan: StudyPlan, runs: Path, **also: bool) -> tuple[Page, list[str]]:
    """Write the page about every finished run in a folder into RUNS/report; also name the unfinished runs."""
    summaries, unfinished = read_runs(plan, runs)
    source = f"`{command(plan)}` from the runs in its folder"
    return write_page(plan, summaries, runs / "report", plan.name, source, **also), unfinished


def page_of_summaries(
    plan: StudyPlan, folder: Path, into: Path | None = None, readme: Path | None = None, **also: bool
) -> Page:
    """Write the page about a folder of summaries beside it, or elsewhere, and its claims in short into a README."""
    summaries, name = read_kept(plan, folder), folder.resolve().name
    # The folder as it is called in the repository, so that the page is the same wherever it is made.
    source = f"`{command(plan)} --from-summaries docs/results/{name}` from the summaries in that folder"
    page = write_page(plan, summaries, into or folder.parent, name, source, **also)
    if readme is not None:
        try:
            text, short = readme.read_text(encoding="utf-8"), at_a_glance(plan, summaries)
            readme.write_text(put_between_marks(text, f"results of {plan.name}", short), encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            why = error.strerror if isinstance(error, OSError) else "it is no text"
            raise InputError(f"{readme} cannot be used ({why}): give a Markdown file") from None
    return page


def write_page(
    plan: StudyPlan,
    summaries: Summaries,
    into: Path,
    name: str,
    source: str,
    svg: bool = False,
    csv: bool = False,
) -> Page:
    """Write NAME.md into a folder, its figures into NAME/ beside it, and if asked to SVGs and all tables as CSV.

    `source` says what makes the page again, and from what.
    """
    failed = caveats.failed(plan, summaries)
    if not summaries.runs:
        first = next(iter(failed.values()))
        raise InputError(f"no run has come to its end, and {len(failed)} failed. First error: {first}")
    parts, view = (_with_factors if plan.factors else _without_factors)(plan, summaries)
    view |= {"plan": plan, "name": name, "source": source, "runs": len(summaries.runs), "tables": parts}
    view |= {"machines": caveats.machines(summaries.runs), "caveats": caveats.lines(plan, summaries)}
    view["changed"] = caveats.changed(plan, summaries)
    view["mark"] = caveats.QUICK if caveats.is_shorter(view["changed"]) else ""
    endings, written = (".png", ".svg") if svg else (".png",), [into / f"{name}.md"]
    try:
        (into / name).mkdir(parents=True, exist_ok=True)
        written[0].write_text(rendered("page.md.j2", view), encoding="utf-8")
        for title, figure in view["pictures"].items():
            if view["mark"]:
                figure.suptitle(f"{figure.get_suptitle()}\n{view['mark']}".strip(), fontsize="small")
            written += save(figure, into / name / title, endings, DPI, PALETTE)
        for title, table in parts.items() if csv else ():
            written.append(into / name / f"{title}.csv")
            table.to_csv(written[-1], index=False)
    except OSError as error:
        raise InputError(
            f"{into / name} cannot be written ({error.strerror}): choose another folder"
        ) from None
    claims = parts["counts"] if plan.factors else _claims_shown(parts["claims"])
    return Page(written, view["answer"], claims, caveats.starts(plan, summaries), failed, view["mark"])


def _claims_shown(claims: pd.DataFrame) -> pd.DataFrame:
    several = ["about"] if claims["about"].nunique() > 1 else []
    return claims[[*several, "claim", "accuracy", "verdict"]]


def rendered(template: str, view: dict[str, Any]) -> str:
    """Fill a template of this folder in."""
    engine = jinja2.Environment(trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined)
    engine.filters["md"] = tables.markdown
    # Of a data set in a file, a page shows only the file's name.
    engine.filters["file_name"] = lambda value: Path(value).name if str(value).endswith(".npz") else value
    text = files("fedteddi.studies").joinpath(template).read_text(encoding="utf-8")
    return engine.from_string(text).render(view).rstrip() + "\n"


Made = tuple[dict[str, pd.DataFrame], dict[str, Any]]  # tables, and what else the template needs


def _without_factors(plan: StudyPlan, summaries: Summaries) -> Made:
    study = study_at(plan, summaries)
    found = plan.outcomes(study)
    results = plan.results(found)
    parts = {"claims": claims_table(plan, results)}
    if plan.cell_rule is not None:
        cell_by_cell = found.about(plan.cell_rule, found.others)
        parts["cells"] = cells_table(cells(cell_by_cell, found.rules, study.deadlines_s))
        parts["standing"] = standing_table(cell_by_cell)
    for frame in study.frames:
        targets = tables.telling(study, frame, plan.targets)
        parts[f"accuracy-frame{frame}"] = tables.summary(study, frame)
        parts[f"rounds-frame{frame}"] = tables.rounds_table(study, frame, targets)
        parts[f"old-and-new-frame{frame}"] = tables.continual_table(study, frame)
        parts[f"costs-frame{frame}"] = tables.costs_table(study, frame, targets)
        parts[f"against-each-baseline-frame{frame}"] = tables.savings_table(
            study, frame, targets, plan.leading
        )
    parts = {title: table for title, table in parts.items() if len(table)} | {"outcomes": found.table}
    pictures = _pictures(plan, study)
    main = next(title for title in pictures if "accuracy" in title)
    view = {"answer": answers(results), "pictures": pictures, "main": main, "frames": study.frames}
    return parts, view | {"titles": _titles(plan), "bounds": [one for one in plan.bounds if study.of(one)]}


def _titles(plan: StudyPlan) -> dict[str, str]:
    """Return the headings of the claims by the rule they are about: none where that is one rule."""
    titles = {reading.ours: f"{reading.ours}: {reading.title}" for reading in plan.readings}
    return titles | {claim.ours: claim.ours for claim in plan.claims if claim.ours}


def _pictures(plan: StudyPlan, study: Study) -> dict[str, Figure]:
    """Return the figures of all rules, or of those that are drawn together; 6 and 7 show what 3 and 5 do, by frame."""
    left_out = ("figure3", "figure5") if len(study.frames) > 1 else ("none",)
    groups, drawn = {}, {}
    for name, rules in plan.figures.items():
        names = [rule if rule in REFERENCES else named_rule(rule).name for rule in rules]
        groups[name] = tuple(run for rule in names for run in study.of(rule))
    for name, runs in groups.items() if any(groups.values()) else [("", study.runs)]:
        for title, figure in make_figures(Study(runs)).items() if runs else ():
            if not title.startswith(left_out):
                drawn[f"{title}-{name}" if name else title] = figure
    return drawn


def _with_factors(plan: StudyPlan, summaries: Summaries) -> Made:
    by_level = levels.outcomes_by_level(plan, summaries)
    found = levels.findings(plan, by_level)
    parts = {"counts": levels.counts_table(found)}
    for factor in plan.factors:
        parts[f"{factor.name}-claims"] = levels.claims_at(factor, found)
        parts[f"{factor.name}-reached"] = levels.reached_table(plan, factor, by_level)
    parts["outcomes"] = pd.concat([own.table.assign(level=key) for key, own in by_level.items()])
    baseline = [f.named(level) for f in plan.factors for level in f.levels if not level.changes]
    view = {"answer": levels.answer(plan, found), "main": "overview", "baseline": ", ".join(baseline)}
    return parts, view | {"pictures": {"overview": figures.overview(plan, found)}, "frames": [], "bounds": []}


def claims_table(plan: StudyPlan, results: list[Result]) -> pd.DataFrame:
    """Return every claim beside what was found, and the command that plays its runs."""
    rows = []
    for one in results:
        ours = "; ".join(finding.full for finding in one.findings)
        row = {
            "about": one.ours,
            "claim": one.claim,
            "accuracy": one.accuracy,
            "paper": one.paper,
            "ours": ours,
        }
        rows.append(row | {"verdict": one.verdict, "command": command(plan, one)})
    return pd.DataFrame(rows)


def command(plan: StudyPlan, result: Result | None = None) -> str:
    """Return what plays a study, or the runs that a claim is about."""
    words = ["fedteddi", "reproduce", plan.argument, *(["--quick"] if plan.is_quick else [])]
    if result is not None and set(result.schedulers) != set(plan.rule_names):
        given = dict(zip(plan.rule_names, plan.schedulers, strict=True))
        words += [f"--scheduler {given.get(rule, rule)}" for rule in result.schedulers]
    if result is not None and set(result.deadlines_s) != set(plan.deadlines_s):
        words += [f"--deadline {deadline_s:g}" for deadline_s in result.deadlines_s]
    return " ".join(words)


def answers(results: list[Result]) -> str:
    """Say how many claims hold, rule by rule where they are about several."""
    rules = list(dict.fromkeys(one.ours for one in results))
    if len(rules) == 1:
        return answer(results)
    return "\n".join(f"- `{rule}`: {answer([one for one in results if one.ours == rule])}" for rule in rules)


def answer(results: list[Result]) -> str:
    """Say how many claims hold, which do and which do not; or what was found, if nothing is decided."""
    by_verdict = {verdict: [one.title for one in results if one.verdict == verdict] for verdict in VERDICTS}
    holds, does_not, open_ = by_verdict.values()
    counts = (
        f"{len(holds)} hold{'s' * (len(holds) == 1)}, {len(does_not)} do{'es' * (len(does_not) == 1)} not hold,"
        f" {len(open_)} {'is' if len(open_) == 1 else 'are'} inconclusive"
    )
    found = [f"{one.title}: {one.findings[0].short.partition('; not won')[0]}" for one in results[:2]]
    told = {"Confirmed": holds, "Not confirmed": does_not} if holds or does_not else {"Found": found}
    which = [f"{what}: {'; '.join(names)}." for what, names in told.items() if names]
    return " ".join([f"Of {len(results)} comparisons, {counts}.", *which])


def at_a_glance(plan: StudyPlan, summaries: Summaries) -> str:
    """Return a study's claims, for a README, a column for each reading, and what a reader must know of its runs."""
    found = plan.outcomes(study_at(plan, summaries))
    about = [reading.ours for reading in plan.each_reading()]
    own = {rule: rule for rule in about} if len(about) > 1 else dict.fromkeys(about, "ours")
    readings: dict[str, dict[str, str]] = {}
    others: dict[str, dict[str, str]] = {}
    for one in plan.results(found):
        table, column = (readings, own[one.ours]) if one.ours in own else (others, one.ours)
        claim = plan.without_options(one.claim) if len(about) > 1 else one.claim  # a row for all readings
        row = table.setdefault(claim, {"claim": claim, "paper": one.paper})
        row[column] = row.get(column, "") + ("<br>" if column in row else "") + _in_short(one)
    parts = [tables.markdown(pd.DataFrame(rows.values()).fillna("–")) for rows in (readings, others) if rows]
    return "\n\n".join([*parts, *caveats.lines(plan, summaries)])


def _in_short(one: Result) -> str:
    """Return a verdict, and what was found if that is one thing."""
    verdict = f"**{one.verdict}**" if one.verdict == "holds" else one.verdict
    first, *more = (finding.short for finding in one.findings)
    what = "" if more else f" ({first.partition('; ')[0].rpartition(': ')[2]})"
    return f"{'' if one.accuracy == NONE else f'{one.accuracy}: '}{verdict}{what}"


def put_between_marks(text: str, name: str, content: str) -> str:
    """Replace what stands between `<!-- NAME begins -->` and `<!-- NAME ends -->`."""
    first, last = f"<!-- {name} begins -->", f"<!-- {name} ends -->"
    before, found, rest = text.partition(first)
    _, ended, after = rest.partition(last)
    if not found or not ended:
        raise InputError(
            f"there is no place for the results: write the lines {first} and {last} where they belong"
        )
    return f"{before}{first}\n{content}\n{last}{after}"
