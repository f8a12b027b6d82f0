"""A sensitivity study as a page: which claims hold where, the whole grid in tables and figures, how it was run.

Every sentence on it that says what was found is computed: the same summaries give the same page, to the byte.
"""

from pathlib import Path

import pandas as pd

from fedteddi.results import sensitivity_figures, tables
from fedteddi.results.page_parts import (
    QUICK,
    Page,
    changes,
    check_any_finished,
    failures,
    how_run,
    plain,
    save_page,
    shorter,
)
from fedteddi.results.sensitivity_claims import MARKS, in_words
from fedteddi.results.sensitivity_grid import BASELINE, Factor, Played, Sensitivity
from fedteddi.results.sensitivity_tables import (
    Outcomes,
    all_claims_table,
    all_levels_table,
    claims_by_level,
    counts_table,
    judged,
    level_table,
    names,
)
from fedteddi.results.starts import paragraph, started_otherwise
from fedteddi.settings import Settings


def write_page(played: Played, paper: Settings, into: Path, name: str, source: str) -> Page:
    """Write NAME.md into a folder, and its CSV tables and figures into NAME/ beside it.

    `paper` are the settings of the paper's study, `source` says what makes the page again, and from what.
    """
    failed = _causes(played)
    check_any_finished(played.everything.runs, failed)
    grid, outcomes = played.grid, judged(played)
    changed = changes(played.baseline, paper) if played.baseline.runs else {}
    mark = QUICK if shorter(changed) else ""
    counts = counts_table(grid, outcomes)
    parts = {"claims": all_claims_table(grid, outcomes), "levels": all_levels_table(played)}
    pictures = {"overview": sensitivity_figures.overview(grid, outcomes)}
    pictures |= {factor.name: sensitivity_figures.levels(played, factor) for factor in grid.factors}
    lines = [*_head(played, source, changed, mark), *_claims(grid, outcomes, counts, name)]
    for factor in grid.factors:
        lines += _factor(played, outcomes, factor, name)
    lines += ["## Files", ""]
    lines += ["As CSV: " + ", ".join(f"[{title}]({name}/{title}.csv)" for title in parts) + "."]
    lines += ["", "## How it was run", "", *how_run(played.everything)]
    files = save_page(into, name, "\n".join(lines) + "\n", parts, pictures, mark)
    return Page(files, counts, _starts(played), failed)


def _head(played: Played, source: str, changed: dict[str, tuple[object, object]], mark: str) -> list[str]:
    grid = played.grid
    lines = [f"# {grid.title}", ""]
    if mark:
        lines += [f"**{mark[0].upper()}{mark[1:]}.**", ""]
    runs = played.everything.runs
    deadlines = sorted({one.run.settings.radio.deadline_s for one in runs})
    lines += [
        f"{len(runs)} finished runs of {', '.join(grid.schedulers)} at T_max"
        f" {', '.join(f'{deadline_s:g}' for deadline_s in deadlines)} s. One factor at a time is varied around a"
        f" baseline ({_baseline(grid)}). Written by {source}; nothing on this page is typed by hand.",
        "",
    ]
    if changed:
        lines += ["Settings of the baseline that differ from the paper's study:", ""]
        lines += [f"- `{key}`: {plain(now)} instead of {plain(was)}" for key, (was, now) in changed.items()]
        lines += [""]
    return [*lines, *failures(_causes(played)), *paragraph(_starts(played))]


def _causes(played: Played) -> dict[str, str]:
    """Return why each run diverged, by its title and level."""
    named = names(played.grid)
    return {
        f"{run.title}, at {named[key]}": run.failure.cause
        for key, own in played.by_level.items()
        for run in own.failed
        if run.failure is not None
    }


def _starts(played: Played) -> str:
    named = names(played.grid)
    runs = ((key, one.run) for key, own in played.by_level.items() for one in own.runs)
    return started_otherwise((f"{run.scheduler} at {named[key]}", run) for key, run in runs)


def _baseline(grid: Sensitivity) -> str:
    own = [factor.named(level) for factor in grid.factors for level in factor.levels if level.is_baseline]
    return ", ".join(own)


def _claims(grid: Sensitivity, outcomes: Outcomes, counts: pd.DataFrame, name: str) -> list[str]:
    lines = ["## Which of the paper's claims hold where", ""]
    lines += [*_in_short(grid, outcomes), ""]
    lines += [f"- {_sentence(grid, outcomes, claim.title)}" for claim in grid.claims]
    lines += ["", f"![overview]({name}/overview.png)", "", "At how many levels, the baseline among them:", ""]
    return [*lines, tables.markdown(counts), "", HOW_TO_READ.format(seeds=_seeds(outcomes)), ""]


def _seeds(outcomes: Outcomes) -> str:
    count = max(outcome.seeds for own in outcomes.values() for outcome in own.values())
    return {1: "One seed", 2: "Two seeds"}.get(count, f"{count} seeds")


HOW_TO_READ = """\
*Ahead* and *behind* mean that FedTeddi is ahead of the rival, or behind it, on every seed (of *first*: the best rival
of that seed); *mixed* is everything between, ties included; *neither reaches it*: no run of the two rules does. The
number beside it is the mean difference over the seeds, above zero where FedTeddi is ahead: rounds saved, accuracy, or
clients a round; ≥ and ≤ mark bounds, where runs never reach the target and count as K rounds. {seeds} cannot judge with
confidence: the 95 % interval (Student's t) of so few differences is wide; of rounds, which are known to the
next evaluation only, it has a least width by convention (docs/metrics.md). Where it decides all the same, *holds* (all
of it lies above zero) or *does not hold* (no part of it does) stands in brackets; *first* holds if it does against
every rival, and does not if it does not against one. Intervals are not corrected for the number of comparisons. Of
rules that a factor does not concern, the baseline's runs stand at every level."""


def _in_short(grid: Sensitivity, outcomes: Outcomes) -> list[str]:
    """Say which claims stand everywhere, which nowhere, and which factors turn one round."""
    by_claim = {
        claim.title: [
            own[claim.title].mark for own in outcomes.values() if own[claim.title].mark != "not run"
        ]
        for claim in grid.claims
    }
    sentences = []
    for mark in MARKS[:2]:
        always = [title for title, marks in by_claim.items() if marks and set(marks) == {mark}]
        words = in_words(mark)
        sentences.append(f"{words[0].upper()}{words[1:]} at every level that was run: {_listed(always)}.")
    turned = {
        names(grid)[key]: [
            title
            for title, outcome in own.items()
            if {outcome.mark, outcomes[BASELINE][title].mark} == {"ahead", "behind"}
        ]
        for key, own in outcomes.items()
    }
    found = [f"{level} ({'; '.join(titles)})" for level, titles in turned.items() if titles]
    sentences.append(f"Levels that turn a claim round, from ahead to behind or back: {_listed(found)}.")
    return [" ".join(sentences)]


def _sentence(grid: Sensitivity, outcomes: Outcomes, title: str) -> str:
    """Say at which levels a claim is ahead, mixed, behind, open or not run, and where the interval decides."""
    named = names(grid)
    found = {key: own[title] for key, own in outcomes.items()}
    run = [key for key, outcome in found.items() if outcome.mark != "not run"]

    def at(keys: list[str]) -> str:
        every = len(keys) > 1 and keys == run
        return "every level that was run" if every else _listed([named[key] for key in keys])

    by_mark = {mark: [key for key in found if found[key].mark == mark] for mark in MARKS}
    text = f"**{title}**: ahead on every seed at {len(by_mark['ahead'])} of {len(run)} levels."
    for mark, keys in by_mark.items():
        words = in_words(mark)
        if keys and (mark != "ahead" or len(keys) <= len(run) / 2):
            text += f" {words[0].upper()}{words[1:]}: {at(keys)}."
    for verdict in ("holds", "does not hold"):
        keys = [key for key in run if found[key].verdict == verdict]
        text += f" By the interval it {verdict} at {at(keys)}." if keys else ""
    return text


def _factor(played: Played, outcomes: Outcomes, factor: Factor, name: str) -> list[str]:
    lines = [f"## {factor.title} ({factor.symbol})", ""]
    lines += [factor.note, ""] if factor.note else []
    lines += [f"![{factor.name}]({name}/{factor.name}.png)", ""]
    lines += [*_against_baseline(outcomes, factor), ""]
    lines += [tables.markdown(claims_by_level(played.grid, outcomes, factor)), ""]
    return [
        *lines,
        "Rounds to an accuracy, final accuracy, scheduled clients:",
        "",
        tables.markdown(level_table(played, factor)),
        "",
    ]


def _against_baseline(outcomes: Outcomes, factor: Factor) -> list[str]:
    """Say what becomes of the claims at each level, compared with the baseline."""
    sentences = []
    for level in factor.levels:
        own, base = outcomes[factor.key(level)], outcomes[BASELINE]
        if level.is_baseline:
            continue
        if all(outcome.mark == "not run" for outcome in own.values()):
            sentences.append(f"- {factor.named(level)} was not run.")
            continue
        moved = [
            f"{title}: {own[title].words} (baseline: {base[title].words})"
            for title in own
            if own[title].mark not in ("not run", base[title].mark)
        ]
        text = "; ".join(moved) if moved else "every claim fares as at the baseline"
        sentences.append(f"- {factor.named(level)}: {text}.")
    return sentences


def _listed(words: list[str]) -> str:
    return ", ".join(words) if words else "none"
