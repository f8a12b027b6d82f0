"""A study in brief, for a terminal: a sentence on who leads, and tables of few columns, the best rule on top.

Accuracies are percentages here; everything else is in the report's files.
"""

from collections.abc import Iterable

import numpy as np
import pandas as pd

from fedteddi.results.measures import RoundsTo, rounds_to
from fedteddi.results.ranking import ranked
from fedteddi.results.runs import REFERENCES, RunRecord, Study
from fedteddi.results.tables import (
    Targets,
    groups,
    pairs,
    percent,
    rounds_interval,
    scheduled_a_round,
)

Rows = list[tuple[float, str, list[RunRecord]]]
LISTED = 3  # rules in a sentence
NOTHING, ONE = "–", "one seed"


def sentences(study: Study, frame: int, ours: str) -> list[str]:
    """Say who leads in a frame, at each deadline, and where `ours` is."""
    return [_sentence(study, frame, deadline_s, ours) for deadline_s in study.deadlines_s]


def _sentence(study: Study, frame: int, deadline_s: float, ours: str) -> str:
    where = f"Frame {frame} at {deadline_s:g} s, {_seeds(study)}"
    means, rounds = ranked(study, [frame], deadline_s), study.runs[0].settings.rounds[frame]
    names = list(means)
    listed = names[:LISTED] if ours not in names[LISTED:] else [*names[: LISTED - 1], ours]
    if not names:
        return f"{where}: only bounds, no scheduler."
    ends = {
        rule: np.mean(
            [run.evaluated(frame)[-1].accuracy("balanced") for run in _finished(study, rule, deadline_s)]
        )
        for rule in listed
    }
    others = [f"{rule} {means[rule]:.1%} and {ends[rule]:.1%}" for rule in listed[1:]]
    lead = (
        f"{listed[0]} {'leads with' if len(names) > 1 else 'has'} {means[listed[0]]:.1%} balanced accuracy on average"
        f" over {rounds} round{'s' if rounds > 1 else ''}, {ends[listed[0]]:.1%} at the end"
    )
    more = [f"{len(names) - len(listed)} more below"] if len(names) > len(listed) else []
    return f"{where}: {lead}{'; ' if others or more else ''}{', '.join([*others, *more])}."


def brief_tables(study: Study, frame: int, targets: Targets, ours: str) -> dict[str, pd.DataFrame]:
    """Return a frame's accuracies, rounds to targets, who was scheduled at what cost, and `ours` beside the others."""
    rows = _best_first(study, frame)
    spread, interval = ("", "") if _seeds(study) == ONE else (", mean ± sd", " (95 % interval)")
    found = {
        f"Frame {frame}: test accuracy in %{spread}; old and new classes at the end": _accuracies(
            rows, frame
        ),
        f"Frame {frame}: rounds to an accuracy (>K (m/n): m of n seeds reach it in K rounds)": _rounds(
            rows, frame, targets
        ),
        f"Frame {frame}: scheduled clients a round, and what the frame cost": _costs(rows, frame),
        f"Frame {frame}: rounds that {ours} is ahead of each baseline{interval}": _ahead(
            study, rows, frame, targets, ours
        ),
    }
    for title, table in found.items():
        empty = [name for name in table.columns if (table[name] == NOTHING).all()]
        alone = ["deadline s"] if len(study.deadlines_s) == 1 and len(table) else []
        found[title] = table.drop(columns=[*empty, *alone])
    about = 1 if len(study.deadlines_s) == 1 else 2
    return {title: table for title, table in found.items() if len(table) and len(table.columns) > about}


def _accuracies(rows: Rows, frame: int) -> pd.DataFrame:
    table = []
    for deadline_s, scheduler, runs in rows:
        own = [run.evaluated(frame) for run in runs]
        curves = [run.curve() for run in runs]
        last = [curve[curve["frame"] == frame].iloc[-1] for curve in curves]
        table.append(
            _key(deadline_s, scheduler)
            | {
                "mean balanced": _percents(
                    float(np.mean([r.accuracy("balanced") for r in one])) for one in own
                ),
                "final balanced": _percents(one[-1].accuracy("balanced") for one in own),
                "final global": _percents(one[-1].accuracy("global") for one in own),
                "old": _percent_mean(row["old"] for row in last),
                "new": _percent_mean(row["new"] for row in last),
            }
        )
    return pd.DataFrame(table)


def _rounds(rows: Rows, frame: int, targets: Targets) -> pd.DataFrame:
    table = []
    for deadline_s, scheduler, runs in rows:
        row = _key(deadline_s, scheduler)
        for accuracy, levels in targets.items():
            for level in levels:
                row[f"{accuracy} {percent(level)}"] = _short(rounds_to(runs, frame, level, accuracy))
        table.append(row)
    return pd.DataFrame(table)


def _costs(rows: Rows, frame: int) -> pd.DataFrame:
    table = []
    for deadline_s, scheduler, runs in rows:
        if scheduler == "centralised":  # there are no clients to count
            continue
        clients, new = scheduled_a_round(runs, frame)
        row = _key(deadline_s, scheduler) | {"clients": f"{clients:.1f}", "with new classes": f"{new:.1f}"}
        for name, column, unit in (
            ("seconds", "round_s", 1.0),
            ("uplink Gbit", "uplink_bits", 1e9),
            ("energy J", "energy_j", 1.0),
        ):
            spent = np.mean([sum(getattr(r, column) for r in run.played(frame)) / unit for run in runs])
            row[name] = NOTHING if scheduler in REFERENCES or np.isnan(spent) else f"{spent:.4g}"
        table.append(row)
    return pd.DataFrame(table)


def _ahead(study: Study, rows: Rows, frame: int, targets: Targets, ours: str) -> pd.DataFrame:
    """Return R' − R for every baseline that shares seeds with `ours`; ≥ and ≤ where one of the two is censored."""
    by_baseline = {}
    for deadline_s, baseline, *pair in pairs(study, ours):
        row = _key(deadline_s, baseline)
        for accuracy, levels in targets.items():
            for level in levels:
                mine, other = (rounds_to(runs, frame, level, accuracy) for runs in pair)
                row[f"{accuracy} {percent(level)}"] = _difference(mine, other)
        by_baseline[deadline_s, baseline] = row
    return pd.DataFrame([by_baseline[at, rule] for at, rule, _ in rows if (at, rule) in by_baseline])


def _difference(mine: RoundsTo, other: RoundsTo) -> str:
    we_miss, they_miss = mine.share < 1, other.share < 1
    if we_miss and they_miss:
        return NOTHING
    mean, low, high = rounds_interval(mine, other)
    interval = "" if np.isnan(low) else f" [{low:+.0f}, {high:+.0f}]"
    return f"{'≥ ' if they_miss else '≤ ' if we_miss else ''}{mean:+.0f}{interval}"


def _best_first(study: Study, frame: int) -> Rows:
    """Return the finished runs by deadline, and at each from the rule that leads down; bounds last."""
    order = {at: list(ranked(study, [frame], at)) for at in study.deadlines_s}

    def place(row: tuple[float, str, list[RunRecord]]) -> tuple[float, int]:
        at, scheduler, _ = row
        return at, order[at].index(scheduler) if scheduler in order[at] else len(order[at])

    return sorted(groups(study), key=place)


def _key(deadline_s: float, scheduler: str) -> dict[str, object]:
    return {"deadline s": f"{deadline_s:g}", "scheduler": scheduler}


def _short(found: RoundsTo) -> str:
    """Return "5 ± 1", or ">50 (1/2)" where not every seed reaches the target."""
    return str(found).replace(" of ", "/").replace(" reached", "")


def _percents(shares: Iterable[float]) -> str:
    values = 100 * np.array(list(shares))
    if np.isnan(values).all():
        return NOTHING
    return f"{values.mean():.1f}" + (f" ± {values.std(ddof=1):.1f}" if len(values) > 1 else "")


def _percent_mean(shares: Iterable[float]) -> str:
    return _percents([float(np.mean(list(shares)))])


def _finished(study: Study, rule: str, deadline_s: float) -> list[RunRecord]:
    return [run for run in study.of(rule, deadline_s) if run.finished]


def _seeds(study: Study) -> str:
    """Say how many seeds the schedulers have: not all of them the same number where some are not finished."""
    counts = {len(runs) for _, rule, runs in groups(study) if rule not in REFERENCES} or {1}
    if counts == {1}:
        return ONE
    return f"{max(counts)} seeds" if len(counts) == 1 else f"{min(counts)} to {max(counts)} seeds"
