"""Claims of a study with factors on runs made by hand: seed by seed, level by level, and what the page says."""

from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from fedteddi import InputError
from fedteddi.results.runs import Accuracy, RunRecord, Study
from fedteddi.studies.claims import Faster, First, MoreScheduled
from fedteddi.studies.comparison import in_words
from fedteddi.studies.findings import Finding
from fedteddi.studies.levels import cell, claims_at, findings, outcomes_by_level, reached_table
from fedteddi.studies.page import write_page
from fedteddi.studies.play import check_levels
from fedteddi.studies.study import BASELINE, Factor, Level, flat, load_study
from fedteddi.studies.summaries import Summaries, Summarised
from made_study import made_run, outcomes_of


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


# --- claims, on runs made by hand


def reaching(rule: str, rounds: list[int | None], final: float = 0.78, new: int = 1) -> list[RunRecord]:
    """Runs that jump from 0.5 to `final` at the given rounds (multiples of 5) of a frame of 50; None: never."""
    return [
        made_run(rule, seed, [final if at is not None and k >= at else 0.5 for k in range(0, 55, 5)], new=new)
        for seed, at in enumerate(rounds)
    ]


def faster(accuracy: Accuracy, target: float | None = None) -> Faster:
    return Faster(kind="faster", than="random", target=target, accuracies=[accuracy])


def one(claim: Faster | First | MoreScheduled, *runs: RunRecord) -> Finding:
    """What is found about a claim with one row and one place."""
    ((finding,),) = (row.findings for row in claim.evaluate(outcomes_of(Study(runs))))
    return finding


def found(ours: list[int | None], theirs: list[int | None], accuracy: Accuracy = "global") -> Finding:
    return one(faster(accuracy, 0.75), *reaching("fedteddi", ours), *reaching("random", theirs))


def shown(finding: Finding) -> dict[str, str]:
    assert finding.numbers is not None
    return finding.numbers.shown


def test_speed_is_compared_seed_by_seed() -> None:
    """Differences (15, 10): mean 12.5 ± 12.7 · 3.5/√2 = 31.8: both are ahead, the interval does not decide."""
    both = found([10, 15], [25, 25])
    assert (both.mark, both.verdict, both.seeds) == ("ahead", "inconclusive", 2)
    assert [shown(both)[key] for key in ("ours", "theirs", "difference")] == [
        "12 ± 4",
        "25 ± 0",
        "+12 [-19, +44]",
    ]
    assert cell(both) == "ahead on both seeds, +12"
    assert found([25, 25], [10, 15]).mark == "behind"
    assert found([10, 25], [25, 10]).mark == "mixed"
    assert found([10, 10], [25, 10]).mark == "mixed"  # a tie is not ahead
    assert found([10, 10], [25, 25]).verdict == "inconclusive"  # 15 ± 12.7 · 2/√2 = 18, for 2 = √(24/6)
    held = found([10, 10], [45, 45])
    assert (held.verdict, cell(held)) == ("holds", "ahead on both seeds, +35 (holds)")


def test_seeds_in_words() -> None:
    assert [in_words("ahead", seeds) for seeds in (1, 2, 5, None)] == [
        "ahead on the one seed",
        "ahead on both seeds",
        "ahead on all 5 seeds",
        "ahead on every seed",
    ]


def test_who_never_reaches_a_target_is_behind_whoever_does() -> None:
    """Even one who gets there in the last round, K = 50, where the censored rounds are equal."""
    assert found([50, 50], [None, None]).mark == "ahead"
    assert found([None, 10], [50, 25]).mark == "mixed"
    assert found([None, None], [50, 40]).mark == "behind"
    assert found([10, None], [25, None]).mark == "mixed"  # of the second seed nothing is known
    neither = found([None, None], [None, None])
    assert (neither.mark, cell(neither), neither.verdict) == (
        "not reached",
        "neither reaches it",
        "inconclusive",
    )
    assert one(faster("global", 0.75), *reaching("random", [5])).mark == "not run"


def test_without_a_target_the_highest_level_one_reaches_counts() -> None:
    runs = (*reaching("fedteddi", [10, 10]), *reaching("random", [20, 20], final=0.66))
    highest = one(faster("balanced"), *runs)
    assert (highest.mark, highest.at) == ("ahead", "75%")
    assert cell(highest) == "ahead on both seeds, ≥ +40 to 75% (holds)"
    nobody = (*reaching("fedteddi", [None]), *reaching("random", [None]))
    assert one(faster("balanced"), *nobody).mark == "not reached"


def test_final_accuracy_against_the_best_baseline_of_each_seed() -> None:
    """Ours 0.7 and 0.7; the best others 0.68 (fedcgd) and 0.69 (fed-cbs) are behind on both seeds, 0.72 is not."""

    def ending(rule: str, values: list[float]) -> list[RunRecord]:
        return [made_run(rule, seed, [0.5, value]) for seed, value in enumerate(values)]

    claim = First(kind="first", what="final accuracy", than=["fedcgd", "fed-cbs"], accuracies=["balanced"])
    ours = ending("fedteddi", [0.7, 0.7])
    first = one(claim, *ours, *ending("fedcgd", [0.68, 0.6]), *ending("fed-cbs", [0.6, 0.69]))
    assert (first.mark, cell(first), first.verdict) == (
        "ahead",
        "ahead on both seeds, +0.015",
        "inconclusive",
    )
    second = one(claim, *ours, *ending("fedcgd", [0.68, 0.72]), *ending("fed-cbs", [0.6, 0.69]))
    assert second.mark == "mixed"
    last = one(claim, *ours, *ending("fedcgd", [0.72, 0.72]), *ending("fed-cbs", [0.6, 0.69]))
    assert (last.mark, last.verdict) == ("behind", "does not hold")
    assert one(claim, *ours, *ending("fedcgd", [0.72, 0.72])).mark == "not run"


def test_scheduled_clients_with_new_classes() -> None:
    runs = (*reaching("fedteddi", [5, 5], new=2), *reaching("random", [5, 5], new=1))
    more = one(MoreScheduled(kind="more scheduled", holding="new classes", than="random"), *runs)
    assert (more.mark, shown(more)["difference"], more.verdict) == ("ahead", "+1.0 [+1.0, +1.0]", "holds")


# --- the page


TWO_RULES = ["fedteddi", "random"]
MADE = load_study("sensitivity-first").model_copy(
    update={
        "experiment": "fashion",
        "schedulers": TWO_RULES,
        "factors": [
            Factor(
                name="tau",
                symbol="τ",
                title="Local steps",
                levels=[Level(label="5", changes={"training": {"local_steps": 5}}), Level(label="10")],
            ),
            Factor(
                name="lambda0",
                symbol="λ0",
                title="Drift",
                schedulers=["fedteddi"],
                levels=[
                    Level(label="2"),
                    Level(label="4", changes={"scheduler_options": {"lambda0": 4.0}}),
                ],
            ),
            Factor(
                name="rounds",
                symbol="K",
                title="Rounds",
                levels=[
                    Level(label="25", changes={"rounds": [0, 25]}, only=["fedteddi"]),
                    Level(label="50"),
                ],
            ),
        ],
        "claims": [
            faster("global", 0.75),
            MoreScheduled(kind="more scheduled", holding="new classes", than="random"),
        ],
    }
)
SPEED = "faster than random, to 75% (global)"


def made_grid(**rounds: list[int | None]) -> Summaries:
    """The made grid: rounds to 78 % of fedteddi and, after it, of random, by level; two seeds each."""
    changes = {factor.key(level): flat(level.changes) for factor, level in MADE.varied()}
    kept = []
    for key, own in rounds.items():
        key = key.replace("_", "-")
        for run in reaching("fedteddi", own[:2]) + (reaching("random", own[2:]) if own[2:] else []):
            run = replace(run, settings=run.settings.changed(**changes.get(key, {})))
            if key == "rounds-25":
                run = replace(run, records=tuple(x for x in run.records if x.round <= 25))
            kept.append(Summarised(run, {"device": "cpu"}, 1.0, key))
    return check_levels(MADE, Summaries("made", tuple(kept), by_level=True))


def test_which_claims_hold_where_is_computed() -> None:
    """At the baseline ahead; with τ = 5 behind; λ0 = 4 against the baseline's random; K = 25 against its beginning."""
    summaries = made_grid(
        baseline=[10, 15, 40, 45], tau_5=[40, 40, 10, 15], lambda0_4=[10, 50], rounds_25=[10, 15]
    )
    tau, lambda0, rounds = MADE.factors
    by_level = outcomes_by_level(MADE, summaries)
    at_levels = findings(MADE, by_level)
    assert {key: own[SPEED].mark for key, own in at_levels.items()} == {
        "baseline": "ahead",
        "tau-5": "behind",
        "lambda0-4": "mixed",
        "rounds-25": "ahead",
    }
    # Within 25 rounds random reaches nothing, and is shown so.
    table = reached_table(MADE, rounds, by_level)
    assert list(table["global 75%"]) == ["12 ± 4", ">25 (0 of 2 reached)", "12 ± 4", "42 ± 4"]
    assert list(reached_table(MADE, lambda0, by_level)["λ0"]) == ["2 (baseline)", "4", "any"]
    claims = claims_at(tau, at_levels)
    assert list(claims.columns) == ["claim", "τ = 5", "τ = 10 (baseline)"]
    assert claims.loc[0, "τ = 5"] == "behind on both seeds, -28"

    page = write_page(MADE, summaries, Path("page"), "made", "me")
    text = page.files[0].read_text()
    assert f"Levels that reverse a claim, from ahead to behind or back: τ = 5 (“{SPEED}”)." in text
    counts = page.claims.set_index("claim").loc[SPEED]
    named = ["ahead on every seed", "behind on every seed", "mixed", "holds", "does not hold"]
    assert [counts[name] for name in named] == [2, 1, 1, 1, 0]
    assert "uick" in text  # 50 rounds in place of the experiment's 60
    assert "one factor at a\ntime varied around a baseline (τ = 10, λ0 = 2, K = 50)" in text


def test_the_same_claim_about_another_rule_has_a_row_of_its_own() -> None:
    """Of FedTeddi's 0.78 and Random's 0.78 at the end, none is ahead; after 25 rounds Random is at 0.5."""
    last = First(kind="first", what="final accuracy", accuracies=["global"])
    plan = MADE.model_copy(update={"claims": [last, last.model_copy(update={"ours": "random"})]})
    summaries = made_grid(baseline=[10, 15, 40, 45], rounds_25=[10, 15])
    found = findings(plan, outcomes_by_level(plan, summaries))["rounds-25"]
    assert {title: one.mark for title, one in found.items()} == {
        "ahead of random in final accuracy (global)": "ahead",
        "random: ahead of fedteddi in final accuracy (global)": "behind",
    }


def test_missing_levels_and_a_missing_baseline_are_shown() -> None:
    page = write_page(MADE, made_grid(baseline=[10, 15, 40, 45]), Path("page"), "made", "me")
    assert "| not run |" in page.files[0].read_text().partition("## Local steps")[2]
    assert list(page.claims["not run"]) == [3, 3]
    alone = write_page(MADE, made_grid(tau_5=[10, 15, 40, 45]), Path("page"), "alone", "me", csv=True)
    assert list(alone.claims["ahead on every seed"]) == [1, 0]
    table = pd.read_csv("page/alone/tau-reached.csv")
    assert list(table["seeds"][:4]) == ["2", "2", "not run", "not run"]


def test_what_does_not_belong_together_is_refused() -> None:
    summaries = made_grid(baseline=[10, 15, 40, 45], tau_5=[40, 40, 10, 15])

    def spoilt(rule: str, **changes: object) -> Summaries:
        """Seed 0 of a rule at τ = 5 with other settings, and none beside it."""
        kept = [own for own in summaries.every if own.level == BASELINE]
        for own in summaries.every:
            if own.level == "tau-5" and own.run.scheduler == rule and own.run.settings.seed == 0:
                kept.append(replace(own, run=replace(own.run, settings=own.run.settings.changed(**changes))))
        return Summaries("made", tuple(kept), by_level=True)

    with pytest.raises(
        InputError, match=r"tau-5/fedteddi with seed 0 belongs to another study \(training.momentum"
    ):
        check_levels(MADE, spoilt("fedteddi", training__momentum=0.1))
    with pytest.raises(
        InputError, match=r"tau-5/random with seed 0 .* \(radio.deadline_s was 1.2, now 0.8\)"
    ):
        check_levels(MADE, spoilt("random", radio__deadline_s=0.8))
