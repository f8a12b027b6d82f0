"""A study with factors, level by level: how the claims fare there, and what was reached."""

from collections.abc import Mapping
from dataclasses import replace

import pandas as pd

from fedteddi.results import tables
from fedteddi.results.runs import ACCURACIES
from fedteddi.results.tables import percent
from fedteddi.studies.comparison import MARKS, in_words
from fedteddi.studies.findings import Finding
from fedteddi.studies.outcomes import Outcomes
from fedteddi.studies.play import study_at
from fedteddi.studies.study import BASELINE, Factor, StudyPlan
from fedteddi.studies.summaries import Summaries

REACHED = ["final balanced", "final global", "clients a round", "with new classes"]
Found = Mapping[str, Mapping[str, Finding]]  # by level's key and claim's title


def outcomes_by_level(plan: StudyPlan, summaries: Summaries) -> dict[str, Outcomes]:
    """Return the outcomes at every level, the baseline first."""
    return {key: plan.outcomes(study_at(plan, summaries, key)) for key in plan.levels}


def findings(plan: StudyPlan, by_level: Mapping[str, Outcomes]) -> Found:
    """Hold every claim against every level."""
    found: dict[str, dict[str, Finding]] = {key: {} for key in by_level}
    for key, own in by_level.items():
        for row in plan.results(own):
            first = row.findings[0]
            title = row.title if row.ours == plan.leading else f"{row.ours}: {row.title}"
            found[key][title] = replace(first, verdict="inconclusive") if first.mark == "not run" else first
    return found


def counts_table(found: Found) -> pd.DataFrame:
    """Return at how many levels each claim is ahead, mixed, behind, open or not run, and what intervals decide."""
    rows = []
    for title in found[BASELINE]:
        own = [one[title] for one in found.values()]
        row: dict[str, object] = {"claim": title}
        row |= {in_words(mark): sum(one.mark == mark for one in own) for mark in MARKS}
        rows.append(row | {v: sum(one.verdict == v for one in own) for v in ("holds", "does not hold")})
    return pd.DataFrame(rows)


def claims_at(factor: Factor, found: Found) -> pd.DataFrame:
    """Return how every claim fares at the levels of a factor: a row per claim, a column per level."""
    table = pd.DataFrame({"claim": list(found[BASELINE])})
    for level in factor.levels:
        name = factor.named(level) + ("" if level.changes else " (baseline)")
        table[name] = [cell(found[factor.key(level)][title]) for title in table["claim"]]
    return table


def cell(one: Finding) -> str:
    """Return a finding in a few words: who is ahead, by how much on average, and what the interval decides."""
    text = in_words(one.mark, one.seeds)
    mean = one.numbers.shown["difference"].partition(" [")[0] if one.numbers else "–"
    if mean != "–":
        text += f", {mean}" + (f" to {one.at}" if one.at else "")
    return text if one.verdict == "inconclusive" else f"{text} ({one.verdict})"


def reached_table(plan: StudyPlan, factor: Factor, by_level: Mapping[str, Outcomes]) -> pd.DataFrame:
    """Return rounds to the targets, final accuracies and scheduled clients, by level and rule.

    Rules that the factor does not concern have one row, for any level.
    """
    concerned = plan.concerned(factor)
    others = [rule for rule in plan.rule_names if rule not in concerned]
    parts = []
    for level in factor.levels:
        label = level.label if level.changes else f"{level.label} (baseline)"
        parts.append(_reached(by_level[factor.key(level)], concerned).assign(**{factor.symbol: label}))
    parts.append(_reached(by_level[BASELINE], others).assign(**{factor.symbol: "any"}))
    table = pd.concat(parts)
    return table[[factor.symbol, *table.columns.drop(factor.symbol)]]


def _reached(found: Outcomes, rules: list[str]) -> pd.DataFrame:
    """Return a row for each of these rules; one without runs says so."""
    targets = [f"{kind} {percent(target)}" for kind in ACCURACIES for target in found.targets[kind]]
    columns = ["seeds", *targets, *REACHED]
    table = pd.DataFrame(columns=columns)
    if found.study.runs:
        rounds = tables.rounds_table(found.study, 1, found.targets).set_index("scheduler")
        table = rounds.join(tables.summary(found.study, 1).set_index("scheduler")[["seeds", *REACHED]])[
            columns
        ]
    table = table.astype(object).reindex(rules).fillna({"seeds": "not run"}).fillna("–")
    return table.rename_axis("scheduler").reset_index()


def answer(plan: StudyPlan, found: Found) -> str:
    """Say in two sentences which claims stand everywhere, which nowhere, and which levels reverse one."""
    run = {key: own for key, own in found.items() if any(one.mark != "not run" for one in own.values())}

    def always(mark: str) -> str:
        marks = {title: {own[title].mark for own in run.values()} - {"not run"} for title in found[BASELINE]}
        return ", ".join(f"“{title}”" for title, there in marks.items() if there == {mark}) or "no claim"

    turned = [
        f"{plan.level_names[key]} (“{title}”)"
        for key, own in run.items()
        for title, one in own.items()
        if {one.mark, found[BASELINE][title].mark} == {"ahead", "behind"}
    ]
    return (
        f"Over the {len(run)} of {len(found)} settings that were run, {plan.leading} is ahead on every seed everywhere"
        f" in {always('ahead')}, and behind on every seed everywhere in {always('behind')}."
        f" Levels that reverse a claim, from ahead to behind or back: {', '.join(turned) or 'none'}."
    )
