"""Committed summaries give the numbers and verdicts of revision fa43d51 (tests/golden/studies/gather.py)."""

import json
import re
from functools import cache
from pathlib import Path

import pandas as pd
import pytest

from fedteddi.results import tables
from fedteddi.studies import levels
from fedteddi.studies.cells import cells, cells_table, standing_table
from fedteddi.studies.comparison import in_words
from fedteddi.studies.outcomes import Outcomes
from fedteddi.studies.play import read_kept, study_at
from fedteddi.studies.study import load_study

ROOT = Path(__file__).parents[2]
GOLDEN = ROOT / "tests" / "golden" / "studies"
STUDIES = ("cifar10", "cifar100", "plus-cifar10", "plus-cifar100", "plus-fashion", "plus-ablation")
# Only words have changed since.
WORDS = {
    "cannot be judged": "inconclusive",
    "best rival": "best baseline",
    "no run of any rule reaches it": "not reached by any scheduler",
    "no rule reaches": "no scheduler reaches",
    "there from the start": "already met at round 0",
    "nobody gets there": "not reached by any scheduler",
}


def golden(name: str, table: str) -> pd.DataFrame:
    data = json.loads((GOLDEN / f"{name}.json").read_text(encoding="utf-8"))[table]
    words = [[_in_new_words(cell) for cell in row] for row in data["rows"]]
    return pd.DataFrame(words, columns=data["columns"])


def _in_new_words(text: str) -> str:
    for old, new in WORDS.items():
        text = text.replace(old, new)
    return text


@cache
def found(name: str) -> Outcomes:
    plan = load_study(name)
    return plan.outcomes(study_at(plan, read_kept(plan, ROOT / "docs" / "results" / name)))


def assert_same(made: pd.DataFrame, name: str, table: str) -> None:
    pd.testing.assert_frame_equal(made.astype(str), golden(name, table), check_dtype=False)


@pytest.mark.parametrize("name", STUDIES)
def test_claims(name: str) -> None:
    rows = [row for claim in load_study(name).claims for row in claim.evaluate(found(name))]
    made = [
        (row.accuracy, row.paper, "; ".join(one.full for one in row.findings), row.verdict) for row in rows
    ]
    was = golden(name, "claims")[["accuracy", "paper", "ours", "holds?"]]
    assert made == list(was.itertuples(index=False, name=None))


@pytest.mark.parametrize("name", [name for name in STUDIES if name.startswith("plus")])
def test_cells_and_standing(name: str) -> None:
    own = found(name)
    assert_same(cells_table(cells(own, own.rules, own.study.deadlines_s)), name, "cells")
    assert_same(standing_table(own), name, "standing")


@pytest.mark.parametrize("name", STUDIES)
def test_tables_of_every_frame(name: str) -> None:
    study, targets = found(name).study, load_study(name).targets
    for frame in study.frames:
        assert_same(tables.summary(study, frame), name, f"accuracy-frame{frame}")
        assert_same(tables.rounds_table(study, frame, targets), name, f"rounds-frame{frame}")
        assert_same(tables.continual_table(study, frame), name, f"old-and-new-frame{frame}")


def test_claims_at_every_level_and_what_was_reached_there() -> None:
    plan = load_study("sensitivity")
    by_level = levels.outcomes_by_level(plan, read_kept(plan, ROOT / "docs" / "results" / "sensitivity"))
    made = []
    for key, own in levels.findings(plan, by_level).items():
        for one in own.values():
            facts = one.numbers.shown if one.numbers else dict.fromkeys(("ours", "theirs", "difference"), "–")
            row = (key, plan.level_names[key], one.at or "–", facts["ours"], facts["theirs"])
            seed_by_seed = in_words(one.mark, one.seeds)
            made.append((*row, facts["difference"], str(one.seeds), seed_by_seed, one.verdict))
    was = golden("sensitivity", "claims").drop(columns="claim")
    assert made == list(was.itertuples(index=False, name=None))
    reached = []
    for factor in plan.factors:
        table = levels.reached_table(plan, factor, by_level).rename(columns={factor.symbol: "level"})
        table.insert(0, "factor", factor.name)
        reached.append(table)
    assert_same(pd.concat(reached, ignore_index=True), "sensitivity", "levels")


@pytest.mark.parametrize("name", ["bound", "precision"])
def test_pages_of_the_benchmarks_have_the_same_tables(name: str) -> None:
    page = (ROOT / "docs" / "results" / f"{name}.md").read_text(encoding="utf-8")
    was = json.loads((GOLDEN / f"{name}.json").read_text(encoding="utf-8"))
    made = [
        [re.split(r" \| ", line[2:-2]) for line in table.splitlines() if not line.startswith("|---")]
        for table in re.findall(r"(?:^\|.*\|\n)+", page, re.MULTILINE)
    ]
    assert made == [[one["columns"], *one["rows"]] for one in was.values()]
