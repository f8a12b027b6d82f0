"""A study in three columns for a README, and its answer in two sentences."""

from dataclasses import dataclass, replace
from typing import Any

from fedteddi.results.runs import RunRecord
from fedteddi.studies.findings import Finding, Result
from fedteddi.studies.outcomes import Outcomes
from fedteddi.studies.page import answer, at_a_glance
from fedteddi.studies.study import load_study
from made_study import in_short, made_run

AHEAD, BEHIND = Finding("holds", "1 s: +5", "5 more"), Finding("does not hold", "2 s: -5", "5 less")
OPEN = Finding("inconclusive", "3 s: +1", "1 more or less")


@dataclass
class Said:
    """A claim that has been evaluated already."""

    rows: list[Result]
    ours: str = ""
    than: tuple[str, ...] = ()

    def model_copy(self, update: dict[str, Any]) -> "Said":  # noqa: ARG002
        return self

    def evaluate(self, _found: Outcomes) -> list[Result]:
        return self.rows


def results(*said: tuple[str, str, str, tuple[Finding, ...]]) -> list[Result]:
    return [
        Result(claim, accuracy, paper, found, ("fedteddi",), ()) for claim, accuracy, paper, found in said
    ]


def whole_study() -> list[RunRecord]:
    """A run of every rule, deadline and seed, so that there is nothing else to be said."""
    plan = load_study("cifar10-first")
    return [
        made_run(rule, seed, [0.5, 0.6], deadline_s=time)
        for rule in plan.rule_names
        for time in plan.deadlines_s
        for seed in plan.seeds
    ]


def rows(*said: tuple[str, str, str, tuple[Finding, ...]]) -> list[str]:
    claims: Any = [Said(results(*said))]
    plan = load_study("cifar10-first").model_copy(update={"claims": claims})
    return at_a_glance(plan, in_short(*whole_study())).splitlines()


def test_a_verdict_for_each_accuracy_and_what_was_found_if_it_is_one_thing() -> None:
    head, _, one, several, no_accuracy = rows(
        ("faster", "balanced", "40 %", (AHEAD,)),
        ("faster", "global", "40 %", (OPEN,)),
        ("first", "balanced", "figure 3", (AHEAD, OPEN, BEHIND)),
        ("first", "global", "figure 3", (AHEAD, OPEN)),
        ("more", "–", "figure 4", (AHEAD, replace(AHEAD, short="2 s: +5"))),
    )
    assert head == "| claim | paper | ours |"
    assert one == "| faster | 40 % | balanced: **holds** (+5)<br>global: inconclusive (+1) |"
    assert several == "| first | figure 3 | balanced: does not hold<br>global: inconclusive |"
    assert no_accuracy == "| more | figure 4 | **holds** |"


def test_the_answer_counts_verdicts_and_names_what_was_not_confirmed() -> None:
    mixed = results(
        ("a", "balanced", "–", (AHEAD,)), ("b", "global", "–", (BEHIND,)), ("c", "–", "–", (OPEN,))
    )
    assert answer(mixed) == (
        "Of 3 comparisons, 1 holds, 1 does not hold, 1 is inconclusive."
        " Confirmed: a (balanced). Not confirmed: b (global)."
    )
    assert answer(mixed[::2]).endswith("0 do not hold, 1 is inconclusive. Confirmed: a (balanced).")
    assert answer(mixed[2:]).endswith("1 is inconclusive. Found: c: 3 s: +1.")
