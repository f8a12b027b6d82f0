"""Tables about a sensitivity study: what was reached at each level, and how the claims fared there."""

from collections.abc import Mapping

import pandas as pd

from fedteddi.results.comparisons import final, scheduled_new, scheduled_old
from fedteddi.results.runs import ACCURACIES, RunRecord
from fedteddi.results.sensitivity_claims import MARKS, Outcome, in_words
from fedteddi.results.sensitivity_grid import BASELINE, Factor, Played, Sensitivity
from fedteddi.results.tables import percent, rounds_to, spread

Outcomes = Mapping[str, Mapping[str, Outcome]]  # by level's key and claim's title


def judged(played: Played) -> Outcomes:
    """Hold every claim against every level, the baseline first."""
    grid, frame = played.grid, played.grid.frame
    studies = {BASELINE: played.baseline}
    studies |= {factor.key(level): played.study(factor, level) for factor, level in grid.varied()}
    return {
        key: {claim.title: claim.judge(study, frame) for claim in grid.claims}
        for key, study in studies.items()
    }


def names(grid: Sensitivity) -> dict[str, str]:
    """Return what people call every level, by its key."""
    return {BASELINE: "the baseline"} | {
        factor.key(level): factor.named(level) for factor, level in grid.varied()
    }


def level_table(played: Played, factor: Factor) -> pd.DataFrame:
    """Return rounds to the targets, final accuracies and who was scheduled, by level and rule.

    Rules that the factor does not concern have one row, for any level.
    """
    grid = played.grid
    rows = []
    for level in factor.levels:
        study = played.study(factor, level)
        label = f"{level.label} (baseline)" if level.is_baseline else level.label
        rows += [_row(grid, factor, label, rule, study.of(rule)) for rule in factor.schedulers]
    for rule in grid.schedulers:
        if rule not in factor.schedulers:
            rows.append(_row(grid, factor, "any", rule, played.baseline.of(rule)))
    return pd.DataFrame(rows)


def _row(
    grid: Sensitivity, factor: Factor, label: str, rule: str, runs: list[RunRecord]
) -> dict[str, object]:
    row: dict[str, object] = {factor.symbol: label, "scheduler": rule, "seeds": len(runs) or "not run"}
    frame = grid.frame
    for accuracy in ACCURACIES:
        for target in grid.targets[accuracy]:
            shown = str(rounds_to(runs, frame, target, accuracy)) if runs else "–"
            row[f"{accuracy} {percent(target)}"] = shown
    for accuracy in ACCURACIES:
        values = [final(run, frame, accuracy) for run in runs]
        row[f"final {accuracy}"] = spread(values) if runs else "–"
    new, old = ([count(run, frame) for run in runs] for count in (scheduled_new, scheduled_old))
    row["clients a round"] = f"{(sum(new) + sum(old)) / len(runs):.1f}" if runs else "–"
    row["with new classes"] = f"{sum(new) / len(runs):.1f}" if runs else "–"
    return row


def all_levels_table(played: Played) -> pd.DataFrame:
    """Return the tables of all factors in one."""
    parts = []
    for factor in played.grid.factors:
        table = level_table(played, factor).rename(columns={factor.symbol: "level"})
        table.insert(0, "factor", factor.name)
        parts.append(table)
    return pd.concat(parts, ignore_index=True)


def claims_by_level(grid: Sensitivity, outcomes: Outcomes, factor: Factor) -> pd.DataFrame:
    """Return how every claim fares at the levels of a factor: a row per claim, a column per level."""
    rows = []
    for claim in grid.claims:
        row: dict[str, object] = {"claim": claim.title}
        for level in factor.levels:
            heading = factor.named(level) + (" (baseline)" if level.is_baseline else "")
            row[heading] = cell(outcomes[factor.key(level)][claim.title])
        rows.append(row)
    return pd.DataFrame(rows)


def cell(outcome: Outcome) -> str:
    """Return an outcome in a few words: who is ahead, by how much on average, and what the interval decides."""
    text = outcome.words
    if outcome.mean != "–":
        text += f", {outcome.mean}"
        text += f" to {outcome.at}" if outcome.at else ""
    return text if outcome.verdict == "cannot be judged" else f"{text} ({outcome.verdict})"


def all_claims_table(grid: Sensitivity, outcomes: Outcomes) -> pd.DataFrame:
    """Return every claim at every level, with the numbers behind it."""
    rows = []
    for key, named in names(grid).items():
        for claim in grid.claims:
            found = outcomes[key][claim.title]
            rows.append(
                {
                    "level": key,
                    "named": named,
                    "claim": claim.title,
                    "to": found.at or "–",
                    "ours": found.ours,
                    "theirs": found.theirs,
                    "difference (95 %)": found.difference,
                    "seeds": found.seeds,
                    "by seed": found.words,
                    "holds?": found.verdict,
                }
            )
    return pd.DataFrame(rows)


def counts_table(grid: Sensitivity, outcomes: Outcomes) -> pd.DataFrame:
    """Return at how many levels each claim is ahead, mixed, behind, open or not run."""
    rows = []
    for claim in grid.claims:
        found = [own[claim.title] for own in outcomes.values()]
        row: dict[str, object] = {"claim": claim.title}
        for mark in MARKS:
            row[in_words(mark)] = sum(outcome.mark == mark for outcome in found)
        for verdict in ("holds", "does not hold"):
            row[verdict] = sum(outcome.verdict == verdict for outcome in found)
        rows.append(row)
    return pd.DataFrame(rows)
