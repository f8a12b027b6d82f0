"""A study with several readings of one rule, bounds beside them, claims about a rule of its own, figures by group."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedteddi.results.figures import accuracy_over_frames, accuracy_over_rounds
from fedteddi.results.runs import RunRecord, Study
from fedteddi.results.tables import telling
from fedteddi.studies.comparison import compared, sign_test
from fedteddi.studies.outcomes import EARLY, Place
from fedteddi.studies.page import at_a_glance, write_page
from fedteddi.studies.study import StudyPlan, load_study
from made_study import in_short, made_frames, made_run, outcomes_of

LITERAL = "fedteddi[sigma=literal]"


def made_plan(**changes: Any) -> StudyPlan:
    """FedTeddi in two readings, each against the FedCGD of that reading, and Random."""
    both = ["fedcgd[sigma=literal]", "random"]
    parts: dict[str, Any] = {
        "name": "made",
        "title": "A made study",
        "experiment": "cifar10",
        "schedulers": [LITERAL, "fedcgd[sigma=literal]", "fedteddi", "fedcgd", "random"],
        "bounds": ["everyone"],
        "deadlines_s": [1.2],
        "seeds": [0, 1, 2],
        "targets": {"balanced": [0.4, 0.6, 0.9], "global": [0.6]},
        "readings": [
            {"ours": LITERAL, "than": both, "title": "as printed"},
            {"ours": "fedteddi", "than": ["fedcgd", "random"], "title": "as meant"},
        ],
        "claims": [
            {"kind": "faster", "than": "fedcgd", "target": 0.6, "accuracies": ["balanced"]},
            {"kind": "fewest rounds", "ours": "random"},
        ],
    }
    return StudyPlan.model_validate(parts | changes)


def made_runs() -> list[RunRecord]:
    """Rounds to 60 %: literal 5 against 10, plain 10 against 5, Random 10, everyone 5; three seeds each."""
    at_5, at_10 = [0.5, 0.7, 0.7], [0.5, 0.5, 0.7]
    curves = {
        "fedteddi-sigma-literal": at_5,
        "fedcgd-sigma-literal": at_10,
        "fedteddi": at_10,
        "fedcgd": at_5,
        "random": at_10,
        "everyone": at_5,
    }
    return [made_run(rule, seed, curve) for rule, curve in curves.items() for seed in range(3)]


def test_every_reading_is_compared_with_its_own_baselines() -> None:
    plan = made_plan()
    results = plan.results(plan.outcomes(Study(tuple(made_runs()))))
    found = [(one.ours, one.claim, one.accuracy, one.verdict) for one in results]
    assert found[:2] == [
        ("fedteddi-sigma-literal", "faster than fedcgd-sigma-literal, to 60%", "balanced", "holds"),
        ("fedteddi", "faster than fedcgd, to 60%", "balanced", "does not hold"),
    ]
    # A claim about a rule of its own is made once, against all others; a bound is none of them.
    assert [one[0] for one in found[2:]] == ["random", "random"]
    assert set(results[2].schedulers[1:]) == {
        "fedteddi-sigma-literal", "fedcgd-sigma-literal", "fedteddi", "fedcgd",
    }  # fmt: skip
    assert (plan.leading, plan.cell_rule) == ("fedteddi-sigma-literal", "random")


def test_the_page_has_a_heading_a_reading_and_the_readme_a_column(tmp_path: Path) -> None:
    plan, kept = made_plan(), in_short(*made_runs(), name="made")
    page = write_page(plan, kept, tmp_path, "made", "me").files[0].read_text(encoding="utf-8")
    assert "### fedteddi-sigma-literal: as printed" in page
    assert "### fedteddi: as meant" in page
    assert "### random\n" in page
    assert "- `fedteddi`: Of 1 comparisons, 0 hold, 1 does not hold" in page
    assert "*everyone* and *centralised* are bounds" in page
    assert "| 1.2 | everyone | 5 ± 0 |" in page  # in the tables, in no claim
    glance = at_a_glance(plan, kept).splitlines()
    assert glance[0] == "| claim | paper | fedteddi-sigma-literal | fedteddi |"
    assert glance[2].startswith("| faster than fedcgd, to 60% | – | balanced: **holds** (")
    assert "| claim | paper | random |" in glance  # by name: a title need not say whom it is about


def test_runs_that_counted_other_costs_are_named(tmp_path: Path) -> None:
    """Made runs count uploads alone; one of Random's counts every message."""
    *runs, one = made_runs()
    assert (
        "Different costs"
        not in write_page(made_plan(), in_short(*runs), tmp_path, "a", "me").files[0].read_text()
    )
    counting = tuple(replace(r, class_gradient_bits=0.0, class_gradient_j=0.0) for r in one.records)
    kept = in_short(*runs[-1:], replace(one, records=counting))
    text = write_page(made_plan(), kept, tmp_path, "b", "me").files[0].read_text()
    assert "The bits and joules of everyone at deadline 1.2 s with seed 1 are those of uploads alone" in text


def test_bounds_that_were_not_played_with_every_seed_are_named(tmp_path: Path) -> None:
    *runs, _ = made_runs()  # without the bound's last seed
    text = write_page(made_plan(), in_short(*runs), tmp_path, "made", "me").files[0].read_text()
    assert "- Seeds run, of 0, 1, 2: 0, 1, 2; of everyone: 0, 1. Two schedulers" in text


def test_early_accuracy_that_was_not_measured_is_said(tmp_path: Path) -> None:
    """10 rounds, evaluated every 5: nothing within the first quarter."""
    plan = made_plan(claims=[{"kind": "first", "what": EARLY}])
    text = write_page(plan, in_short(*made_runs()), tmp_path, "made", "me").files[0].read_text()
    assert "1.2 s: nothing is new, or nothing was evaluated that early | inconclusive |" in text
    assert "nan" not in text


def test_rules_that_no_group_of_figures_holds_are_drawn_all_the_same(tmp_path: Path) -> None:
    """Only Random was played so far, and it is in no group."""
    plan = made_plan(figures={"one": [LITERAL]})
    runs = [run for run in made_runs() if run.scheduler == "random"]
    page = write_page(plan, in_short(*runs), tmp_path, "made", "me").files[0].read_text()
    assert "![figure3-accuracy-frame1](made/figure3-accuracy-frame1.png)" in page


def test_figures_are_drawn_by_group(tmp_path: Path) -> None:
    plan = made_plan(figures={"one": [LITERAL, "random"], "two": ["fedteddi", "everyone"]})
    made = write_page(plan, in_short(*made_runs(), name="made"), tmp_path, "made", "me")
    drawn = {file.stem for file in made.files if file.suffix == ".png"}
    assert {"figure3-accuracy-frame1-one", "figure3-accuracy-frame1-two"} <= drawn
    assert not any(name.endswith("frame1") for name in drawn)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"readings": [{"ours": "fed-cbs", "than": ["random"], "title": "x"}]}, "fed-cbs"),
        ({"readings": [{"ours": "fedteddi", "than": ["fed-cbs"], "title": "x"}]}, "fed-cbs"),
        ({"figures": {"one": ["fed-cbs"]}}, "fed-cbs"),
        ({"claims": [{"kind": "fewest rounds", "ours": "fed-cbs"}]}, "fed-cbs"),
    ],
)
def test_a_rule_that_is_not_played_is_refused_wherever_it_is_named(changes: Any, named: str) -> None:
    with pytest.raises(ValueError, match=f"'{named}' is not among the study's schedulers"):
        made_plan(**changes)


def test_the_papers_studies_play_every_rule_on_seeds_that_nobody_used() -> None:
    """The paper's eight, both readings of σ̂, fedteddi-plus, the refined search of both, two bounds; seeds 20 to 24."""
    for name in ("cifar10", "cifar100"):
        plan = load_study(name)
        assert len(plan.rule_names) == 13
        assert plan.bounds == ["everyone", "centralised"]
        assert plan.seeds == [20, 21, 22, 23, 24]
        first, second = plan.readings
        assert (first.ours, second.ours) == ("fedteddi-sigma-literal", "fedteddi")
        assert [len(reading.than) for reading in plan.readings] == [7, 7]
        assert set(first.than) - set(second.than) == {"fedcgd-sigma-literal"}


def test_early_accuracy_on_new_classes_by_hand() -> None:
    """20 rounds, evaluated every 2: of rounds 2 and 4, the first quarter, with new-class accuracies 0.2 and 0.4."""
    run = made_run("fedteddi", 0, [0.5] * 11, every=2)
    values = {2: 0.2, 4: 0.4}
    records = tuple(
        replace(r, class_accuracy=[0.5, 0.5, values.get(r.round, 0.9)])
        if r.frame == 1 and r.is_evaluated
        else r
        for r in run.records
    )
    found = outcomes_of(Study((replace(run, records=records),)))
    assert found.values(EARLY, "fedteddi", Place(1, 1.2)) == {0: pytest.approx(0.3)}


def test_the_sign_test_is_the_binomial_one() -> None:
    """Five of five: 2/32. Four of five: 2 (1 + 5)/32. Of misses only a pair says nothing."""
    assert sign_test(5, 0) == pytest.approx(2 / 32)
    assert sign_test(1, 4) == pytest.approx(12 / 32)
    assert sign_test(2, 2) == 1.0
    found = compared(np.array([1.0, 2.0, 3.0]), np.array([0.0, 2.0, 4.0]))
    assert found.signs == "ahead 1, behind 1, p = 1"


def test_levels_that_tell_nothing_are_left_out() -> None:
    """All start above 40 %, nobody reaches 90 %."""
    study = Study(tuple(made_runs()))
    assert telling(study, 1, {"balanced": [0.4, 0.6, 0.9], "global": [0.6]}) == {
        "balanced": [0.6],
        "global": [0.6],
    }


def test_long_curves_are_smoothed_over_what_was_measured() -> None:
    """A line of more than 100 evaluations: the mean of 9 around each; the pale one beneath is the curve itself."""
    rng = np.random.default_rng(0)
    curve = rng.random(151).round(3).tolist()
    figure = accuracy_over_rounds(Study((made_run("random", 0, curve),)), 1)
    raw, smooth = figure.axes[0].get_lines()[:2]
    np.testing.assert_allclose(raw.get_ydata(), curve)
    assert smooth.get_ydata()[75] == pytest.approx(np.mean(curve[71:80]))
    assert smooth.get_ydata()[0] == pytest.approx(np.mean(curve[:5]))
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["random"]
    # Frames are smoothed apart: the one jumps where the other ends.
    frames = [[0.8] * 71, [0.2] * 71]
    lines = accuracy_over_frames(Study((made_frames("random", 0, frames),))).axes[0].get_lines()
    assert set(np.round(lines[1].get_ydata(), 12)[:71]) == {0.8}
    assert set(np.round(lines[1].get_ydata(), 12)[72:]) == {0.2}
    assert np.isnan(lines[1].get_ydata()[71])
    short = accuracy_over_rounds(Study((made_run("random", 0, curve[:50]),)), 1)
    np.testing.assert_allclose(short.axes[0].get_lines()[0].get_ydata(), curve[:50])
