"""Where one rule stands among all others without a target, on runs made by hand."""

import pandas as pd

from fedteddi.results.runs import Study
from fedteddi.studies import cells
from made_study import made_frames, made_run, outcomes_of


def standing_table(study: Study) -> pd.DataFrame:
    return cells.standing_table(outcomes_of(study, ours="ours"))


def test_place_best_other_rule_and_who_is_clearly_ahead_or_behind() -> None:
    """Ours rises late: behind fed-cbs over the frame by 0.1 with every seed, ahead of it at its end by 0.2."""
    curves = {"ours": [0.2, 0.2, 0.8], "fed-cbs": [0.3, 0.6, 0.6], "random": [0.2, 0.2, 0.2]}
    shift = 0.01  # the same for all rules of a seed, so that differences are the same
    runs = [
        made_run(rule, seed, [value + shift * seed for value in curve])
        for rule, curve in curves.items()
        for seed in (0, 1)
    ]
    balanced = standing_table(Study(tuple(runs))).query("accuracy == 'balanced'")
    assert "frame" not in balanced
    over, end = balanced.to_dict("records")
    assert over == {
        "deadline s": 1.2,
        "accuracy": "balanced",
        "measure": "mean over the frame",
        "seeds": 2,
        "ours": "0.405 ± 0.007",
        "place": "2 of 3",
        "best other rule": "fed-cbs, 0.505 ± 0.007",
        "difference (95 %)": "-0.100 [-0.100, -0.100]",
        "clearly ahead of": 1,
        "clearly behind": 1,
        "not told apart from": "–",
    }
    assert (end["measure"], end["place"], end["best other rule"]) == (
        "at its end",
        "1 of 3",
        "fed-cbs, 0.605 ± 0.007",
    )
    assert (end["clearly ahead of"], end["clearly behind"]) == (2, 0)


def test_only_seeds_that_all_rules_have_count_and_bounds_do_not_take_part() -> None:
    runs = (
        made_run("ours", 0, [0.4, 0.4]),
        made_run("ours", 1, [0.9, 0.9]),
        made_run("random", 0, [0.5, 0.5]),
        made_run("everyone", 0, [0.99, 0.99]),
    )
    over = standing_table(Study(runs)).iloc[0]
    assert (over["seeds"], over["ours"], over["place"]) == (1, "0.400", "2 of 2")
    assert over["best other rule"] == "random, 0.500"
    assert (over["difference (95 %)"], over["clearly ahead of"], over["clearly behind"]) == ("-0.100", 0, 0)


def test_each_frame_has_its_rows() -> None:
    """Ours is behind in frame 1 and ahead in frame 2."""
    runs = (
        made_frames("ours", 0, [[0.4, 0.4], [0.6, 0.6]]),
        made_frames("random", 0, [[0.5, 0.5], [0.5, 0.5]]),
    )
    table = standing_table(Study(runs)).query("accuracy == 'global' and measure == 'at its end'")
    assert list(zip(table["frame"], table["place"], strict=True)) == [(1, "2 of 2"), (2, "1 of 2")]


def test_without_a_baseline_there_is_nothing_to_tell() -> None:
    assert len(standing_table(Study((made_run("ours", 0, [0.4, 0.4]),)))) == 0


def test_the_same_is_neither_ahead_nor_behind() -> None:
    runs = [made_run(rule, seed, [0.4, 0.5 + 0.01 * seed]) for rule in ("ours", "random") for seed in (0, 1)]
    over = standing_table(Study(tuple(runs))).iloc[0]
    assert (over["place"], over["clearly ahead of"], over["clearly behind"]) == ("1 of 2", 0, 0)
    assert over["not told apart from"] == "random"
    third = [made_run("fed-cbs", seed, [0.4, 0.5 + 0.01 * seed]) for seed in (0, 1)]
    assert standing_table(Study((*runs, *third))).iloc[0]["not told apart from"] == "any"
    low = [made_run("fed-cbs", seed, [0.1, 0.2 + 0.01 * seed]) for seed in (0, 1)]
    assert standing_table(Study((*runs, *low))).iloc[0]["not told apart from"] == "random"
