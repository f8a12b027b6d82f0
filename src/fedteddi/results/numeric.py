"""A study as one table of numbers, a row per rule and measure; text is made of them only where people read it."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from fedteddi.errors import InputError, nearest_hint
from fedteddi.results.latex import booktabs
from fedteddi.results.measures import DIGITS, MEASURES, Estimate, Measure, Sample, measure
from fedteddi.results.points import written
from fedteddi.results.runs import ACCURACIES, RunRecord, Study
from fedteddi.results.tables import Targets, groups, levels, percent

NUMBERS = ("n", "mean", "sd", "low", "high", "censored")
KEYS = ("deadline_s", "scheduler", "against", "frame")  # of a row that people read, beside what was swept
TITLES = {"deadline_s": "deadline s"}


class NumericTable(pd.DataFrame):
    """A data frame of `Study.table`: numbers, which `display` and `to_latex` show as people read them."""

    @property
    def _constructor(self) -> type["NumericTable"]:
        return NumericTable

    def display(self) -> pd.DataFrame:
        """Return it as text: a row for each rule, a column for each measure, such as "0.931 ± 0.052" (mean ± sd).

        `>` marks a mean that is a lower bound because some seeds never reached the target; differences have their
        95 % interval. What is the same in all rows is left out.
        """
        if missing := {"metric", "target", "scheduler", *NUMBERS} - set(self.columns):
            raise InputError(
                f"this table has no column {min(missing)}: show one that still has those of study.table"
            )
        keys = [key for key in self.columns[: list(self.columns).index("metric")] if self._tells(key)]
        rows: dict[tuple[Any, ...], dict[str, str]] = {}
        for values in self.itertuples(index=False, name=None):
            row = dict(zip(self.columns, values, strict=True))
            place = tuple(row[key] for key in keys)
            rows.setdefault(place, {})[_title(row)] = _text(row)
        named = ([written(value) for value in place] for place in rows)
        cells = [
            dict(zip(keys, one, strict=True)) | own for one, own in zip(named, rows.values(), strict=True)
        ]
        table = pd.DataFrame(cells)
        return table.rename(columns=TITLES).fillna("–")

    def _tells(self, key: str) -> bool:
        """Whether a column names the row: it differs, is the rule, or was swept (then the deadline is there once)."""
        if key == "deadline_s" and "radio.deadline_s" in self:
            return False
        return key == "scheduler" or key not in KEYS or len(set(self[key])) > 1

    def telling(self) -> "NumericTable":
        """Return it without targets that all meet at round 0, or nobody reaches: they tell nothing."""
        measured = self.groupby(["metric", "target"], dropna=False)
        met = measured["mean"].transform("max") == 0
        unreached = (self["n"] == self["censored"]).groupby([self["metric"], self["target"]]).transform("all")
        return NumericTable(self[self["target"].isna() | ~(met | unreached)])

    def to_latex(self, *, caption: str | None = None, label: str | None = None) -> str:  # type: ignore[override]
        """Return what `display` shows as a LaTeX table with booktabs' rules, to be pasted or written to a file.

        With a caption it is a floating `table`, without one the `tabular` alone.
        """
        return booktabs(self.display(), caption=caption, label=label)


def numeric_table(
    study: Study,
    names: Sequence[str],
    frame: int | None,
    targets: Sequence[float],
    against: str | None,
) -> NumericTable:
    """Return these measures of a frame of every rule and deadline (`Study.table`)."""
    if against is not None and against not in study.schedulers:
        hint = nearest_hint(against, study.schedulers)
        raise InputError(
            f"against={against!r}: no such run here{hint}; there are {', '.join(study.schedulers)}"
        )
    chosen = {name: measure(name) for name in names or MEASURES}
    parts = [(place, part) for place, part in study.points if any(run.finished for run in part.runs)]
    needed = any(one.accuracy for one in chosen.values())
    wanted = _levels([part for _, part in parts], frame, targets) if needed else {}
    rows = []
    for place, part in parts:
        which = part.chosen_frame(frame)
        for deadline_s, scheduler, runs in groups(part):
            where = {**place, "deadline_s": deadline_s, "scheduler": scheduler}
            pair = _paired(part, runs, against, deadline_s)
            if scheduler == against or pair is None:
                continue
            where |= {} if against is None else {"against": against}
            for name, own in chosen.items():
                for target in wanted[own.accuracy] if own.accuracy else [math.nan]:
                    row = where | {"frame": which, "metric": name, "target": target}
                    rows += [row | numbers for numbers in _numbers(own, *pair, which, target)]
    columns = [*study.swept, *(key for key in KEYS if key != "against" or against), "metric", "target"]
    last = [*NUMBERS, *(["censored_against"] if against else []), "rounds_in_frame"]
    return NumericTable(rows, columns=[*columns, *last])


def _levels(parts: Sequence[Study], frame: int | None, targets: Sequence[float]) -> Targets:
    """Return the targets, the same at all points of a sweep: without any, those that the best of them reaches."""
    each = [levels(part, part.chosen_frame(frame), targets) for part in parts]
    return {kind: max((own[kind] for own in each), key=_highest) for kind in ACCURACIES}


def _highest(targets: Sequence[float]) -> float:
    return max(targets, default=0.0)  # a frame in which accuracy only falls reaches none


def _paired(
    study: Study, runs: list[RunRecord], against: str | None, deadline_s: float
) -> tuple[list[RunRecord], list[RunRecord]] | None:
    """Return the runs and those they are compared with, of the same seeds; nothing if there are none."""
    if against is None:
        return runs, []
    other = {run.settings.seed: run for run in study.of(against, deadline_s) if run.finished}
    own = [run for run in runs if run.settings.seed in other]
    return (own, [other[run.settings.seed] for run in own]) if own else None


def _numbers(
    one: Measure, runs: list[RunRecord], other: list[RunRecord], frame: int, target: float
) -> Iterator[dict[str, Any]]:
    """Yield the numbers of a row, none if nothing is known: of runs, or of their differences to others."""
    sample, more = one.sample(runs, frame, target), {}
    if other:
        theirs = one.sample(other, frame, target)
        least = math.hypot(sample.least_deviation, theirs.least_deviation)
        sample = Sample(sample.values - theirs.values, sample.censored, least)
        more = {"censored_against": theirs.censored}
    found = Estimate.of(sample, one.style, runs[0].settings.rounds[frame])
    if not math.isnan(found.mean):
        yield {name: getattr(found, name) for name in (*NUMBERS, "rounds_in_frame")} | more


def _title(row: Mapping[str, Any]) -> str:
    target = row["target"]
    title = MEASURES[row["metric"]].title
    return title if math.isnan(target) else f"{title} {percent(target)}"


def _text(row: Mapping[str, Any]) -> str:
    """Return a row's numbers as people read them."""
    style = MEASURES[row["metric"]].style
    if "against" in row:
        return _difference(row, DIGITS[style])
    numbers = {name: row[name] for name in NUMBERS}
    return Estimate(**numbers, rounds_in_frame=row["rounds_in_frame"], style=style).text


def _difference(row: Mapping[str, Any], digits: str) -> str:
    """Return a difference with its interval: a bound where one of the two misses the target, none where both do."""
    misses, they_miss = row["censored"] > 0, row["censored_against"] > 0
    if misses and they_miss:
        return "–"
    sign = "≥ " if misses else "≤ " if they_miss else ""
    interval = "" if np.isnan(row["low"]) else f" [{row['low']:+{digits}}, {row['high']:+{digits}}]"
    return f"{sign}{row['mean']:+{digits}}{interval}"
