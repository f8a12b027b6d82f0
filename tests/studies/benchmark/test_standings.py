"""Scores, ranks and paired intervals of made runs, whose numbers are known."""

import math
from dataclasses import replace

import numpy as np
import pytest

from fedteddi.results.folder import Failure
from fedteddi.results.runs import RunRecord
from fedteddi.studies.benchmark import matrix
from fedteddi.studies.benchmark.page import answer
from fedteddi.studies.benchmark.plan import Benchmark, Scenario
from fedteddi.studies.benchmark.standings import Standings, standings
from fedteddi.studies.summaries import Summaries, Summarised
from made_study import made_frames, made_run

T = 4.302652729911275  # Student's t, 0.975, two degrees of freedom
PLAN = Benchmark(scenarios=tuple(Scenario(name, name.title(), "fashion", 0.5, {}) for name in ("one", "two")))
Curves = dict[str, dict[str, list[float]]]  # by scenario and rule: the level of each seed


def flat_run(rule: str, seed: int, level: float) -> RunRecord:
    """A run whose accuracy is the same at rounds 0, 5 and 10."""
    return made_run(rule, seed, [level] * 3, deadline_s=1.0)


def found(curves: Curves, seeds: tuple[int, ...] = (0, 1, 2)) -> Standings:
    runs = [
        Summarised(flat_run(rule, seed, level), {"device": "cpu"}, 1.0, scenario)
        for scenario, rules in curves.items()
        for rule, levels in rules.items()
        for seed, level in zip(seeds, levels, strict=False)
    ]
    return standings(PLAN, Summaries("benchmark", tuple(runs), True))


CLEAR: Curves = {
    "one": {"a": [0.60, 0.70, 0.65], "b": [0.50, 0.60, 0.55], "c": [0.58, 0.69, 0.64]},
    "two": {"a": [0.40, 0.50, 0.45], "b": [0.42, 0.51, 0.46], "c": [0.46, 0.48, 0.45]},
}


def test_scores_are_means_over_scenarios_and_rules_are_ranked_by_them() -> None:
    """Scores by seed: a 0.5, 0.6, 0.55; b 0.46, 0.555, 0.505; c 0.52, 0.585, 0.545: both a and c have the mean 0.55.

    Ranks by the means of one (a 0.65, b 0.55, c 0.6367) and two (a 0.45, b 0.4633, c 0.4633: a tie).
    """
    own = found(CLEAR)
    np.testing.assert_allclose(own.score("a"), [0.5, 0.6, 0.55])
    np.testing.assert_allclose(own.score("b"), [0.46, 0.555, 0.505])
    np.testing.assert_allclose(own.score("c"), [0.52, 0.585, 0.545])
    assert own.rules[-1] == "b"
    assert own.seeds == (0, 1, 2)
    assert own.ranks["a"] == [1.0, 3.0]
    assert [own.ranks[rule][0] for rule in "bc"] == [3.0, 2.0]


def test_a_rule_is_clearly_behind_by_the_interval_of_per_seed_differences() -> None:
    """a − b: 0.04, 0.045, 0.045: mean 0.04333, sd 0.0028868, half 4.3027 · sd / √3 = 0.00717: above zero.

    a's own scores have an sd of 0.05, and b's too: unpaired, nothing would be decided. c − a is 0.02, −0.015, −0.005.
    """
    own = replace(found(CLEAR), rules=("a", "c", "b"))
    behind = own.behind_first("b")
    assert behind.verdict == "holds"
    low = 0.13 / 3 - T * np.std([0.04, 0.045, 0.045], ddof=1) / math.sqrt(3)
    assert behind.shown["difference"].startswith(f"+0.043 [{low:+.3f}, ")
    assert own.behind_first("c").verdict == "inconclusive"
    assert own.level_with_first() == ["c"]
    assert answer(own).endswith("so there is no winner. Not clearly behind: c.")
    best, others = own.best_of(own.scenarios[0])
    assert best == "a"
    # In one: a − c is 0.02, 0.01, 0.01: mean 0.0133, half 4.3027 · 0.00577 / √3 = 0.0143.
    assert others == ["c"]


def test_a_winner_is_named_only_where_all_others_are_clearly_behind() -> None:
    own = found({name: {rule: rules[rule] for rule in "ab"} for name, rules in CLEAR.items()})
    assert answer(own) == (
        "The highest score over 2 scenarios is that of a (0.550); every other of 2 ranked rules is"
        " clearly behind it on 3 seeds."
    )


def test_one_seed_decides_nothing() -> None:
    own = found(CLEAR, seeds=(0,))
    assert "of 3 rules on one seed: that decides nothing." in answer(own)
    assert own.level_with_first() == [*own.rules[1:]]


def test_a_rule_without_all_seeds_everywhere_is_not_ranked() -> None:
    """d lacks seed 2 in one scenario, e has finished in one only."""
    curves = {name: dict(rules) for name, rules in CLEAR.items()}
    curves["one"] |= {"d": [0.9, 0.9, 0.9], "e": [0.9, 0.9, 0.9]}
    curves["two"] |= {"d": [0.9, 0.9]}
    own = found(curves)
    assert own.seeds == (0, 1, 2)
    assert sorted(own.rules) == ["a", "b", "c"]
    made = matrix.numbers(own)
    table = matrix.overall_table(own, made, {("two", "e"): "failed"}).set_index("scheduler")
    assert table.loc["d", "place"] == table.loc["e", "place"] == "–"
    assert table.loc["e", "Two"] == "failed"
    assert table.loc["d", "Two"] == "0.900 ± 0.000"


def test_many_rules_on_one_seed_count_more_than_one_rule_on_many() -> None:
    """Seed 0 of three rules is six runs; seeds 0 to 2 of c alone would be as many: then the longer comparison."""
    curves = {name: rules | {rule: rules[rule][:1] for rule in "ab"} for name, rules in CLEAR.items()}
    curves = {name: rules | {"d": [0.1]} for name, rules in curves.items()}
    own = found(curves)
    assert own.seeds == (0,)
    assert len(own.rules) == 4


def test_nothing_finished_is_no_ranking() -> None:
    failed = replace(flat_run("a", 0, 0.5), records=(), finished=False, failure=Failure(1, 3, "no idea"))
    own = standings(PLAN, Summaries("benchmark", (Summarised(failed, {}, 0.0, "one"),), True))
    assert (own.scenarios, own.rules) == ((), ())


def test_rounds_to_a_target_count_over_frames_and_say_who_missed_it() -> None:
    """Frames of 10 rounds; 0.5 is reached in frame 1 at 5, in frame 2 at 5 (the 15th round), and never."""
    curves = [
        [[0.1, 0.5, 0.2], [0.1, 0.1, 0.1]],
        [[0.1, 0.2, 0.2], [0.1, 0.6, 0.1]],
        [[0.1, 0.2, 0.2], [0.1, 0.2, 0.1]],
    ]
    runs = [made_frames("a", seed, own, deadline_s=1.0) for seed, own in enumerate(curves)]
    kept = tuple(Summarised(run, {"device": "cpu"}, 1.0, "one") for run in runs)
    (one,) = standings(PLAN, Summaries("benchmark", kept, True)).scenarios
    reached = one.rounds_to_target("a")
    assert (reached.rounds, reached.in_frame) == ((5, 15, None), 20)
    own = matrix.estimates(one, "a")
    assert own["rounds to target"].mean == pytest.approx(40 / 3)
    assert own["rounds to target"].shown(0) == ">13"
    # A round takes the deadline's second, sends 64 bits and costs 2/3 J.
    assert own["seconds to target"].mean == pytest.approx(40 / 3)
    assert own["energy J to target"].mean == pytest.approx(40 / 3 * 2 / 3)
    assert own["uplink Gbit"].mean == pytest.approx(20 * 64e-9)
    assert own["mean balanced"].mean == pytest.approx(np.mean(curves))


def test_an_interval_of_rounds_is_no_narrower_than_their_rounding() -> None:
    """Three seeds at round 5 of evaluations every 5: uniform over 5 rounds, the variance is (25 − 1) / 12 = 2."""
    kept = [made_run("a", seed, [0.1, 0.5, 0.6], deadline_s=1.0) for seed in range(3)]
    summaries = Summaries("benchmark", tuple(Summarised(run, {}, 1.0, "one") for run in kept), True)
    own = matrix.estimates(standings(PLAN, summaries).scenarios[0], "a")["rounds to target"]
    assert own.high - own.mean == pytest.approx(T * math.sqrt(2) / math.sqrt(3))
    assert own.shown(0) == "5 ± 4"


@pytest.mark.parametrize(
    ("value", "shown"), [(0.12345, "0.123"), (45.67, "45.7"), (999.7, "1000"), (12345.6, "12346")]
)
def test_costs_have_three_significant_digits_and_no_exponent(value: float, shown: str) -> None:
    assert matrix.Estimate.of(np.array([value])).shown() == shown
