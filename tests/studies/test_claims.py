"""Claims held against runs made by hand: one that holds, one that fails, one that is inconclusive."""

import numpy as np
import pytest

from fedteddi.results.measures import mean_interval
from fedteddi.results.runs import RunRecord, Study
from fedteddi.studies.claims import Faster, First, LargestLead, MoreScheduled
from fedteddi.studies.comparison import verdict_of
from fedteddi.studies.outcomes import Place
from fedteddi.studies.page import command
from fedteddi.studies.study import load_study
from made_study import made_run, outcomes_of

SEEDS = (0, 1, 2)


def reaching(rule: str, rounds: list[int | None], deadline_s: float = 1.2, final: float = 0.78) -> Study:
    """Runs that jump from 0.5 to `final` at the given rounds (multiples of 5) of a frame of 50; None: never."""
    return Study(
        tuple(
            made_run(
                rule,
                seed,
                [final if at is not None and k >= at else 0.5 for k in range(0, 55, 5)],
                deadline_s=deadline_s,
            )
            for seed, at in enumerate(rounds)
        )
    )


def both(one: Study, other: Study) -> Study:
    return Study((*one.runs, *other.runs))


FASTER = Faster(
    kind="faster", than="random", paper="58.4 % faster", target=0.75, deadline_s=1.2, fallback=True
)


def test_verdicts_are_those_of_the_interval() -> None:
    """Of (9, 10, 11): 10 ± 4.30 · 1/√3 = 2.5. Of (−1, 0, 4): 1 ± 6.6. One seed has no interval."""
    assert verdict_of(mean_interval(np.array([9.0, 10.0, 11.0]))) == "holds"
    assert verdict_of(mean_interval(np.array([-9.0, -10.0, -11.0]))) == "does not hold"
    assert verdict_of(mean_interval(np.array([-1.0, 0.0, 4.0]))) == "inconclusive"
    assert verdict_of(mean_interval(np.array([0.0, 0.0, 0.0]))) == "does not hold"
    assert verdict_of(mean_interval(np.array([10.0]))) == "inconclusive"


def test_faster_that_holds() -> None:
    """R = 15, R' = 30: 100 % faster, 50 % fewer; differences (15, 10, 20): 15 ± 12.4."""
    rows = FASTER.evaluate(
        outcomes_of(both(reaching("fedteddi", [10, 15, 20]), reaching("random", [25, 25, 40])), (1.2,))
    )
    assert [(row.accuracy, row.verdict) for row in rows] == [("balanced", "holds"), ("global", "holds")]
    text = rows[0].findings[0].full
    assert text == (
        "1.2 s, 75%: 15 ± 5 against 30 ± 9 rounds, 50.0% fewer rounds, 100.0% faster, difference +15 [+3, +27]"
        " (seeds: ahead 3, behind 0, p = 0.25)"
    )
    assert rows[0].findings[0].short == "1.2 s, 75%: 100.0% faster"
    assert rows[0].paper == "58.4 % faster"


def test_faster_that_fails_and_faster_that_is_open() -> None:
    failing = both(reaching("fedteddi", [25, 25, 40]), reaching("random", [10, 15, 20]))
    assert {row.verdict for row in FASTER.evaluate(outcomes_of(failing, (1.2,)))} == {"does not hold"}
    open_ = both(reaching("fedteddi", [10, 20, 30]), reaching("random", [15, 10, 35]))
    found = FASTER.evaluate(outcomes_of(open_, (1.2,)))
    assert {row.verdict for row in found} == {"inconclusive"}


@pytest.mark.parametrize(
    ("ours", "theirs", "verdict", "sign"),
    [
        ([10, 15, 20], [None, None, None], "holds", "≥ "),  # at least 40, 35 and 30 rounds later
        ([None, None, None], [10, 15, 20], "does not hold", "≥ "),  # at least so many more rounds
        ([10, 15, None], [None, 50, 45], "inconclusive", ""),
        ([45, 50, 50], [None, 45, 5], "inconclusive", "≤ "),  # the bound does not decide
    ],
)
def test_misses_are_bounds(ours: list[int | None], theirs: list[int | None], verdict: str, sign: str) -> None:
    row = FASTER.evaluate(outcomes_of(both(reaching("fedteddi", ours), reaching("random", theirs)), (1.2,)))[
        0
    ]
    assert row.verdict == verdict
    text = row.findings[0].full
    assert (f", {sign}" in text) if sign else ("faster" not in text)
    assert "of 3 reached)" in text


def test_rounds_cut_off_at_k_decide_only_against_those_that_were_cut() -> None:
    """Cut at K = 50, the interval of (40, 40, 40, 40, 0) lies above zero; but the fifth seed may need any number."""
    late: list[int | None] = [45, 45, 45, 45, 50]
    missing_one: list[int | None] = [5, 5, 5, 5, None]
    runs = both(reaching("fedteddi", missing_one), reaching("random", late))
    assert FASTER.evaluate(outcomes_of(runs, (1.2,)))[0].verdict == "inconclusive"
    runs = both(reaching("fedteddi", late), reaching("random", missing_one))
    assert FASTER.evaluate(outcomes_of(runs, (1.2,)))[0].verdict == "inconclusive"


def test_the_level_of_first_is_one_that_a_rule_reaches_with_all_its_seeds() -> None:
    """One of five runs of ours gets to 70 %; that fed-cbs has only that seed changes nothing: 60 % is what counts."""
    curves = [[0.5, 0.62, 0.72], *([[0.5, 0.62, 0.62]] * 4)]
    runs = [made_run("fedteddi", seed, curve) for seed, curve in enumerate(curves)]
    runs += [made_run("random", seed, [0.5, 0.5, 0.62]) for seed in range(5)]
    runs.append(made_run("fed-cbs", 0, [0.5, 0.5, 0.62]))
    claim = First(kind="first", what="speed", than=["random", "fed-cbs"], paper="–")
    (balanced, _) = claim.evaluate(outcomes_of(Study(tuple(runs)), (1.2,)))
    assert [finding.full.partition(":")[0] for finding in balanced.findings] == ["1.2 s, 60%"]


def test_where_nobody_reaches_the_target_it_is_said_and_the_highest_level_is_judged() -> None:
    """Both end at 0.71: 75 % is out of reach, 70 % is the highest multiple of 5 % that is reached."""
    study = both(reaching("fedteddi", [10, 15, 20], final=0.71), reaching("random", [40, 45, 50], final=0.71))
    rows = [row for row in FASTER.evaluate(outcomes_of(study, (1.2,))) if row.accuracy == "balanced"]
    assert [row.verdict for row in rows] == ["inconclusive", "holds"]
    assert ">50 (0 of 3 reached) against >50 (0 of 3 reached)" in rows[0].findings[0].full
    assert "not reached by any scheduler" in rows[0].findings[0].full
    assert rows[1].findings[0].full.startswith("1.2 s, 70%: 15 ± 5 against 45 ± 5")
    assert rows[1].paper == "–"  # the paper's number is about another target


def test_the_level_is_one_that_either_reaches_not_only_ours() -> None:
    slow, fast = reaching("fedteddi", [10, 10, 10], final=0.66), reaching("random", [20, 20, 20], final=0.77)
    groups = [("fedteddi", [0, 1, 2]), ("random", [0, 1, 2])]
    found = outcomes_of(both(slow, fast))
    assert found.reached_levels(groups, Place(1, 1.2), "balanced")[-1] == 0.75
    row = Faster(kind="faster", than="random", paper="38.5 %").evaluate(
        outcomes_of(both(slow, fast), (1.2,))
    )[0]
    assert row.verdict == "does not hold"


def test_missing_runs_and_single_seeds_are_inconclusive() -> None:
    rows = FASTER.evaluate(outcomes_of(reaching("fedteddi", [10, 15, 20]), (1.2,)))
    assert {row.verdict for row in rows} == {"inconclusive"}
    assert rows[0].findings[0].full == "1.2 s: runs are missing"
    rows = FASTER.evaluate(outcomes_of(both(reaching("fedteddi", [10]), reaching("random", [40])), (1.2,)))
    assert {row.verdict for row in rows} == {"inconclusive"}
    assert "300.0% faster" in rows[0].findings[0].full  # what was found is shown all the same


def finals(rule: str, values: list[float], deadline_s: float = 1.2) -> tuple[RunRecord, ...]:
    return tuple(made_run(rule, s, [0.5, v], deadline_s=deadline_s) for s, v in enumerate(values))


def test_first_is_ahead_of_every_rival() -> None:
    ours, weak = finals("fedteddi", [0.70, 0.71, 0.72]), finals("random", [0.60, 0.61, 0.63])
    claim = First(kind="first", what="final accuracy", than=["random", "fed-cbs"], paper="figure 3")
    for rival, verdict, words in (
        ([0.65, 0.66, 0.68], "holds", "ahead of 2 of 2"),
        ([0.75, 0.76, 0.78], "does not hold", "ahead of 1 of 2, behind fed-cbs"),
        ([0.70, 0.72, 0.71], "inconclusive", "ahead of 1 of 2"),
    ):
        row = claim.evaluate(outcomes_of(Study((*ours, *weak, *finals("fed-cbs", rival))), (1.2,)))[0]
        assert row.verdict == verdict
        assert row.findings[0].full.endswith(f"(best baseline: fed-cbs), {words}")
    row = claim.evaluate(outcomes_of(Study((*ours, *weak)), (1.2,)))[0]
    assert row.verdict == "inconclusive"  # first among those there are is not first
    assert row.findings[0].short == "1.2 s: ahead of 1 of 1, no runs with fed-cbs"
    row = claim.evaluate(outcomes_of(Study((*finals("fedteddi", [0.5, 0.5, 0.5]), *weak)), (1.2,)))[0]
    assert row.verdict == "does not hold"  # whoever is missing
    assert (
        claim.evaluate(outcomes_of(Study(ours), (1.2,)))[0].findings[0].full
        == "1.2 s: no runs of fedteddi and random"
    )


def test_a_rule_that_does_the_same_is_not_ahead_of_ours() -> None:
    same = [run for rule in ("fedteddi", "random") for run in finals(rule, [0.5, 0.51, 0.52])]
    (row, _) = First(kind="first", what="final accuracy").evaluate(outcomes_of(Study(tuple(same)), (1.2,)))
    assert row.verdict == "does not hold"  # nobody is first
    assert row.findings[0].short == "1.2 s: ahead of 0 of 1"


def test_few_that_are_ahead_of_ours_are_named_in_short_and_many_counted() -> None:
    rivals = ["random", "fed-cbs", "pure-drift"]
    better = [run for rule in rivals for run in finals(rule, [0.75, 0.76, 0.78])]
    study = Study((*finals("fedteddi", [0.5, 0.51, 0.52]), *better))
    (two, _) = First(kind="first", what="final accuracy", than=rivals[:2]).evaluate(
        outcomes_of(study, (1.2,))
    )
    assert two.findings[0].short == "1.2 s: ahead of 0 of 2, behind random, fed-cbs"
    (three, _) = First(kind="first", what="final accuracy", than=rivals).evaluate(outcomes_of(study, (1.2,)))
    assert three.findings[0].short == "1.2 s: ahead of 0 of 3, behind 3"
    assert three.findings[0].full.endswith("ahead of 0 of 3, behind random, fed-cbs, pure-drift")


def test_first_in_speed() -> None:
    rivals = Study((*reaching("random", [40, 45, 50]).runs, *reaching("fed-cbs", [15, 20, 25]).runs))
    claim = First(kind="first", what="speed", than=["random", "fed-cbs"], paper="figure 5")
    row = claim.evaluate(outcomes_of(both(reaching("fedteddi", [5, 5, 5]), rivals), (1.2,)))[0]
    assert row.verdict == "holds"
    assert "(best baseline: fed-cbs)" in row.findings[0].full
    row = claim.evaluate(outcomes_of(both(reaching("fedteddi", [30, 35, 40]), rivals), (1.2,)))[0]
    assert row.findings[0].short == "1.2 s: ahead of 1 of 2, behind fed-cbs"


def test_the_lead_at_the_tightest_deadline() -> None:
    """Leads over random: (0.10, 0.11, 0.10) at 0.8 s, (0.02, 0.02, 0.03) at 1.2 s; or the other way round."""
    tight, loose = [0.70, 0.71, 0.70], [0.62, 0.62, 0.63]
    claim = LargestLead(kind="largest lead", what="final accuracy", than=["random"], paper="figure 3")
    for first, second, verdict in ((tight, loose, "holds"), (loose, tight, "does not hold")):
        runs = (*finals("fedteddi", first, 0.8), *finals("random", [0.6] * 3, 0.8))
        runs += (*finals("fedteddi", second), *finals("random", [0.6] * 3))
        row = claim.evaluate(outcomes_of(Study(runs), (0.8, 1.2)))[0]
        assert row.verdict == verdict
    assert "lead +0.023 against +0.103" in row.findings[0].full
    assert claim.evaluate(outcomes_of(Study(runs[:6]), (0.8, 1.2)))[0].verdict == "inconclusive"


def test_scheduled_clients() -> None:
    """Ours: 6 of 8 with new classes; random: 3 of 10; pure-drift: 9 of 9. The same in every seed."""
    made = {"fedteddi": (8, 6), "random": (10, 3), "pure-drift": (9, 9)}
    runs = [
        made_run(rule, seed, [0.5, 0.6], clients=clients, new=new)
        for rule, (clients, new) in made.items()
        for seed in SEEDS
    ]
    study = Study(tuple(runs))
    more = MoreScheduled(
        kind="more scheduled", holding="new classes", than="random", paper="figure 4"
    ).evaluate(outcomes_of(study, (1.2,)))[0]
    assert more.verdict == "holds"
    assert more.findings[0].full == "1.2 s: 6.0 ± 0.0 against 3.0 ± 0.0, difference +3.0 [+3.0, +3.0]"
    old = MoreScheduled(
        kind="more scheduled", holding="only old classes", than="pure-drift", paper="figure 4"
    ).evaluate(outcomes_of(study, (1.2,)))[0]
    assert old.findings[0].short == "1.2 s: +2.0 [+2.0, +2.0]"
    fails = MoreScheduled(
        kind="more scheduled", holding="only old classes", than="random", paper="figure 4"
    ).evaluate(outcomes_of(study, (1.2,)))[0]
    assert fails.verdict == "does not hold"


def test_a_row_holds_only_if_all_its_findings_do() -> None:
    quick: list[int | None] = [10, 15, 20]
    slow: list[int | None] = [40, 45, 50]
    runs = both(reaching("fedteddi", quick, 0.8), reaching("pure-drift", slow, 0.8))
    runs = both(runs, both(reaching("fedteddi", slow), reaching("pure-drift", quick)))
    row = Faster(kind="faster", than="pure-drift", paper="38.5 %").evaluate(outcomes_of(runs, (0.8, 1.2)))[0]
    assert [finding.verdict for finding in row.findings] == ["holds", "does not hold"]
    assert row.verdict == "does not hold"


def test_every_claim_has_its_command() -> None:
    plan = load_study("cifar10-first")
    found = plan.outcomes(reaching("fedteddi", [10, 15, 20]))
    rows = [row for claim in plan.claims for row in claim.evaluate(found)]
    commands = [command(plan, row) for row in rows]
    assert (
        commands[0]
        == "fedteddi reproduce cifar10-first --scheduler fedteddi --scheduler random --deadline 1.2"
    )
    assert "fedteddi reproduce cifar10-first" in commands
    assert {row.verdict for row in rows} == {"inconclusive"}
