"""A study in brief: numbers that follow from curves made by hand."""

import numpy as np
import pytest

from fedteddi.results.brief import brief_tables, sentences
from fedteddi.results.ranking import ranked
from fedteddi.results.runs import RunRecord, Study
from fedteddi.results.tables import Targets
from made_study import made_frames

TARGETS: Targets = {"balanced": [0.6], "global": [0.9]}


def curve(*values: float, rule: str = "fedteddi", seed: int = 0, deadline_s: float = 1.0) -> RunRecord:
    return made_frames(rule, seed, [list(values)], deadline_s=deadline_s)


# Means over the rounds 0, 5 and 10: random 0.6, fedteddi 0.5; at the end 0.6 and 0.7.
OURS = [curve(0.3, 0.4, 0.7, seed=0), curve(0.3, 0.6, 0.7, seed=1)]
THEIRS = [curve(0.6, 0.6, 0.6, rule="random", seed=seed) for seed in (0, 1)]
BOUND = [curve(0.9, 0.9, 0.9, rule="everyone", seed=0)]
STUDY = Study((*OURS, *THEIRS, *BOUND))


def test_rules_are_ranked_by_mean_balanced_accuracy_and_bounds_are_not() -> None:
    """fedteddi (0.3 + 0.4 + 0.7 + 0.3 + 0.6 + 0.7) / 6 = 0.5."""
    assert ranked(STUDY) == {"random": pytest.approx(0.6), "fedteddi": pytest.approx(0.5)}
    assert list(ranked(STUDY)) == ["random", "fedteddi"]
    late = Study((*STUDY.runs, curve(0.9, 0.9, 0.9, deadline_s=2.0)))
    assert list(ranked(late)) == ["fedteddi", "random"]  # (0.5 + 0.9) / 2 over both deadlines
    assert list(ranked(late, deadline_s=1.0)) == ["random", "fedteddi"]


def test_the_sentence_names_who_leads_and_where_ours_is() -> None:
    (said,) = sentences(STUDY, 1, "fedteddi")
    assert said == (
        "Frame 1 at 1 s, 2 seeds: random leads with 60.0% balanced accuracy on average over 10 rounds, 60.0% at the"
        " end; fedteddi 50.0% and 70.0%."
    )
    others = [curve(0.8, 0.8, 0.8, rule=rule) for rule in ("a", "b", "c")]
    (said,) = sentences(Study((*STUDY.runs, *others)), 1, "fedteddi")
    assert said.endswith("; b 80.0% and 80.0%, fedteddi 50.0% and 70.0%, 2 more below.")
    assert sentences(Study(tuple(OURS[:1])), 1, "fedteddi") == [
        "Frame 1 at 1 s, one seed: fedteddi has 46.7% balanced accuracy on average over 10 rounds, 70.0% at the end."
    ]
    assert sentences(Study(tuple(BOUND)), 1, "fedteddi")[0].endswith("only bounds, no scheduler.")


def test_tables_are_percentages_with_the_best_rule_on_top_and_bounds_last() -> None:
    """fedteddi's means are 0.467 and 0.533: 50.0 ± 4.7."""
    tables = list(brief_tables(STUDY, 1, TARGETS, "fedteddi").values())
    accuracies, rounds, costs, ahead = tables
    assert accuracies["scheduler"].tolist() == ["random", "fedteddi", "everyone"]
    assert accuracies.columns.tolist() == [
        "scheduler",
        "mean balanced",
        "final balanced",
        "final global",
        "old",
        "new",
    ]
    ours = accuracies.set_index("scheduler").loc["fedteddi"]
    assert (ours["mean balanced"], ours["final balanced"]) == ("50.0 ± 4.7", "70.0 ± 0.0")
    assert (ours["old"], ours["new"]) == ("70.0", "70.0")
    # Balanced 60 %: fedteddi at rounds 10 and 5, random at 0; global 90 % none but the bound.
    assert rounds.set_index("scheduler")["balanced 60%"].tolist() == ["0 ± 0", "8 ± 4", "0"]
    assert rounds.set_index("scheduler").loc["random", "global 90%"] == ">10 (0/2)"
    assert costs.set_index("scheduler").loc["everyone", "energy J"] == "–"
    assert costs.set_index("scheduler").loc["random", "clients"] == "2.0"
    assert ahead["scheduler"].tolist() == ["random"]
    assert ahead["balanced 60%"][0].startswith("-8 [")
    assert "global 90%" not in ahead  # nothing but dashes


def test_several_deadlines_have_a_column_and_a_sentence_each() -> None:
    later = [curve(0.3, 0.5, 0.9, deadline_s=2.0), curve(0.6, 0.7, 0.6, rule="random", deadline_s=2.0)]
    study = Study((OURS[0], THEIRS[0], *later))
    first, *_ = brief_tables(study, 1, TARGETS, "fedteddi").values()
    assert first["deadline s"].tolist() == ["1", "1", "2", "2"]
    assert [said.split(",")[0] for said in sentences(study, 1, "fedteddi")] == [
        "Frame 1 at 1 s",
        "Frame 1 at 2 s",
    ]


def test_without_targets_there_is_nothing_to_say_about_them() -> None:
    titles = list(brief_tables(STUDY, 1, {"balanced": [], "global": []}, "fedteddi"))
    assert [title.split(":")[1].split()[0] for title in titles] == ["test", "scheduled"]


def test_unfinished_runs_do_not_count() -> None:
    half = RunRecord(THEIRS[0].settings, THEIRS[0].counts, THEIRS[0].records[:3], False)
    study = Study((*OURS, half))
    assert list(ranked(study)) == ["fedteddi"]
    assert np.isfinite(list(ranked(study).values())).all()
