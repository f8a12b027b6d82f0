"""A study of the paper as a page: its claims beside what was found, tables, figures, how it was run.

Everything on it is computed from summaries: the same summaries give the same page and the same CSV files, to the byte.
"""

from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure

from fedteddi.results import figures, tables
from fedteddi.results.cells import cells, cells_table
from fedteddi.results.claims import OURS, Judged
from fedteddi.results.page_parts import (
    QUICK,
    Page,
    causes,
    cautions,
    changes,
    check_any_finished,
    how_run,
    plain,
    save_page,
    seeds_run,
    shorter,
    starts,
)
from fedteddi.results.reproduction import Reproduction
from fedteddi.results.runs import REFERENCES, Study
from fedteddi.results.standing import standing_table
from fedteddi.results.summary import Summaries
from fedteddi.settings import Settings


def write_page(
    reproduction: Reproduction, summaries: Summaries, paper: Settings, into: Path, name: str, source: str
) -> Page:
    """Write NAME.md into a folder, and its CSV tables and figures into NAME/ beside it.

    `paper` are the settings of the paper's study, `source` says what makes the page again, and from what.
    """
    study = ordered(reproduction, summaries.study)
    failed = causes(summaries.failed)
    check_any_finished(summaries.runs, failed)
    changed = changes(study, paper)
    mark = QUICK if shorter(changed) else ""
    claims = claims_table(reproduction, study)
    parts = {"claims": claims} | _tables(reproduction, study)
    pictures = _figures(study)
    text = _text(reproduction, summaries, changed, mark, name, source, parts, list(pictures))
    return Page(save_page(into, name, text, parts, pictures, mark), claims, starts(study), failed)


def claims_table(reproduction: Reproduction, study: Study) -> pd.DataFrame:
    """Return every claim beside what was found: claim, accuracy, paper, ours, holds?, command."""
    return pd.DataFrame(
        [
            {
                "claim": row.claim,
                "accuracy": row.accuracy,
                "paper": row.paper,
                "ours": "; ".join(finding.full for finding in row.findings),
                "holds?": row.verdict,
                "command": command(reproduction, row),
            }
            for row in reproduction.judged(study)
        ]
    )


def command(reproduction: Reproduction, row: Judged) -> str:
    """Return what runs the runs that a claim is about."""
    words = ["fedteddi", "reproduce", reproduction.name]
    if set(row.schedulers) != set(reproduction.rule_names):
        known = dict(zip(reproduction.rule_names, reproduction.schedulers, strict=True))
        words += [f"--scheduler {known.get(rule, rule)}" for rule in row.schedulers]
    if set(row.deadlines_s) != set(reproduction.deadlines_s):
        words += [f"--deadline {deadline_s:g}" for deadline_s in row.deadlines_s]
    return " ".join(words)


def ordered(reproduction: Reproduction, study: Study) -> Study:
    """Return the finished runs in the study's order of rules, then others, bounds last."""
    known = {rule: place for place, rule in enumerate(reproduction.rule_names)}

    def place(rule: str) -> tuple[bool, int, str]:
        return rule in REFERENCES, known.get(rule, len(known)), rule

    runs = [run for run in study.runs if run.finished]
    runs.sort(key=lambda run: (place(run.scheduler), run.settings.radio.deadline_s, run.settings.seed))
    return Study(tuple(runs))


def _tables(reproduction: Reproduction, study: Study) -> dict[str, pd.DataFrame]:
    found = {}
    if reproduction.ours != OURS:
        found["cells"] = cells_table(cells(study, reproduction.ours, reproduction.targets))
        found["standing"] = standing_table(study, reproduction.ours)
        # Without a rival there is none.
        found = {title: table for title, table in found.items() if len(table)}
    for frame in study.frames:
        found[f"accuracy-frame{frame}"] = tables.summary(study, frame)
        found[f"rounds-frame{frame}"] = tables.rounds_table(study, frame, reproduction.targets)
        found[f"old-and-new-frame{frame}"] = tables.continual_table(study, frame)
        found[f"costs-frame{frame}"] = tables.costs_table(study, frame, reproduction.targets)
        found[f"against-each-rival-frame{frame}"] = tables.savings_table(
            study, frame, reproduction.targets, reproduction.ours
        )
    return found


def _figures(study: Study) -> dict[str, Figure]:
    """Return figures 3 to 5, or, of several frames, 6 and 7 in place of 3 and 5, which show the same frame by frame."""
    several = len(study.frames) > 1
    drawn = {}
    if several:
        drawn["figure6-accuracy-frames"] = figures.accuracy_over_frames(study)
        drawn["figure7-rounds-frames"] = figures.rounds_to_levels_by_frame(study)
    for frame in study.frames:
        if not several:
            drawn[f"figure3-accuracy-frame{frame}"] = figures.accuracy_over_rounds(study, frame)
        drawn[f"figure4-scheduled-frame{frame}"] = figures.scheduled_clients(study, frame)
        if not several:
            drawn[f"figure5-rounds-frame{frame}"] = figures.rounds_to_levels(study, frame)
    return drawn


TITLES = {
    "accuracy": "Final, best and mean accuracy, who was scheduled, and the cost",
    "rounds": "Rounds to an accuracy",
    "old-and-new": "Old and new classes",
}


def _text(
    reproduction: Reproduction,
    summaries: Summaries,
    changed: dict[str, tuple[object, object]],
    mark: str,
    name: str,
    source: str,
    parts: dict[str, pd.DataFrame],
    pictures: list[str],
) -> str:
    lines = [f"# {reproduction.title}", ""]
    if mark:
        lines += [f"**{mark[0].upper()}{mark[1:]}.**", ""]
    lines += [
        f"{len(summaries.runs)} finished runs. Written by {source}; nothing on this page is typed by hand.",
        "",
    ]
    lines += _seeds(reproduction, summaries.study)
    lines += cautions(summaries.study, summaries.failed)
    if changed:
        lines += ["Settings that differ from the paper's study:", ""]
        lines += [f"- `{key}`: {plain(now)} instead of {plain(was)}" for key, (was, now) in changed.items()]
        lines += [""]
    shown = parts["claims"].copy()
    shown["ours"] = [text.replace("; ", "<br>") for text in shown["ours"]]
    shown["command"] = [f"`{text}`" for text in shown["command"]]
    lines += [f"## {reproduction.heading}", "", tables.markdown(shown), "", HOW_JUDGED, ""]
    lines += [reproduction.notes, ""] if reproduction.notes else []
    if len(parts.get("cells", ())):
        lines += ["## Cell by cell", "", tables.markdown(parts["cells"]), ""]
        lines += ["## Without a target", "", tables.markdown(parts["standing"]), "", WITHOUT_A_TARGET, ""]
    for title, table in parts.items():
        kind, _, frame = title.rpartition("-frame")
        if kind in TITLES:
            lines += [f"## Frame {frame}: {TITLES[kind].lower()}", "", tables.markdown(table), ""]
    lines += ["As CSV: " + ", ".join(f"[{title}]({name}/{title}.csv)" for title in parts) + "."]
    lines += ["", "## Figures", ""]
    for title in pictures:
        lines += [f"![{title}]({name}/{title}.png)", ""]
    lines += ["## How it was run", "", *how_run(summaries)]
    return "\n".join(lines) + "\n"


def _seeds(reproduction: Reproduction, study: Study) -> list[str]:
    """Say which seeds there are, unless they are those of the whole study."""
    texts = seeds_run(reproduction, study)
    if not texts:
        return []
    if len(set(texts.values())) == 1:
        return [f"Seeds: {texts.popitem()[1]}.", ""]
    each = [f"- {rule}: {text}" for rule, text in texts.items()]
    compared = "two rules are compared on those that both have"
    if reproduction.ours != OURS:
        compared += ", and all rules, cell by cell, on those that all have"
    return [f"Seeds, of which {compared}:", "", *each, ""]


WITHOUT_A_TARGET = """\
Where the rule stands among all of them by the mean over the seeds. *Clearly* means that the 95 % interval of the
per-seed differences lies on one side of zero; two columns count such rules, and the last names all others. A frame's
end is one evaluation, which jumps from round to round. This table is no part of the claim: it was added after the
runs."""

HOW_JUDGED = """\
A claim is a difference between two rules on the same seeds. It *holds* if the 95 % interval (Student's t) of the
per-seed differences lies above zero, it *does not hold* if no part of the interval does, and it *cannot be judged*
otherwise, with fewer than two seeds, or where runs that never reach the target leave the sign open. A row that covers
several comparisons holds if all of them do, and does not hold if one does not. The verdict is about which rule is
ahead; by how much, in the paper and here, stands beside it. *Faster* is R'/R − 1 and *fewer rounds*
1 − R/R' of the mean rounds R (ours) and R' (theirs); ≥ and ≤ mark bounds where runs never reach the target:
they count as K rounds, in the means and in the intervals, which say nothing about the rounds they would need. Where the
paper names no level, it is the highest multiple of 5 %, above where the frame starts, that one of the compared rules
reaches with every seed. Rounds
count from the frame's start: 0 means that the model which entered the frame was there already. They are known to the
next evaluation only, so a few seeds easily have the same difference, and their deviation then says nothing; by
convention it counts as at least that of the roundings, taken as independent: √((e² − 1)/6) with e rounds from one
evaluation to the next.
Intervals are not corrected for the number of comparisons.

In the tables, *best* and *mean* accuracy are over all evaluations of a frame, that of the model which enters it among
them."""
