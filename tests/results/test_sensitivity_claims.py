"""Claims of a sensitivity study on runs made by hand: seed by seed, level by level, and what the page says of them."""

from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from fedteddi import InputError
from fedteddi.results.runs import Accuracy, RunRecord, Study
from fedteddi.results.sensitivity_claims import AheadAtTheEnd, FasterTo, MoreNew, Outcome
from fedteddi.results.sensitivity_grid import BASELINE, Factor, Level, Played
from fedteddi.results.sensitivity_page import write_page
from fedteddi.results.sensitivity_tables import cell, claims_by_level, judged, level_table
from fedteddi.results.summary import Summaries, Summarised
from fedteddi.sensitivity_factors import CIFAR10
from made_study import made_run


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


def judge(ours: list[int | None], theirs: list[int | None], accuracy: Accuracy = "global") -> Outcome:
    study = Study((*reaching("fedteddi", ours), *reaching("random", theirs)))
    return FasterTo("random", accuracy, 0.75).judge(study, 1)


def test_speed_is_judged_seed_by_seed() -> None:
    """Differences (15, 10): mean 12.5 ± 12.7 · 3.5/√2 = 31.8: both are ahead, the interval does not decide."""
    found = judge([10, 15], [25, 25])
    assert (found.mark, found.verdict, found.words) == ("ahead", "cannot be judged", "ahead on both seeds")
    assert (found.ours, found.theirs, found.difference) == ("12 ± 4", "25 ± 0", "+12 [-19, +44]")
    assert cell(found) == "ahead on both seeds, +12"
    assert judge([25, 25], [10, 15]).mark == "behind"
    assert judge([10, 25], [25, 10]).mark == "mixed"
    assert judge([10, 10], [25, 10]).mark == "mixed"  # a tie is not ahead
    assert judge([10, 10], [25, 25]).verdict == "cannot be judged"  # 15 ± 12.7 · 2/√2 = 18, for 2 = √(24/6)
    held = judge([10, 10], [45, 45])
    assert (held.verdict, cell(held)) == ("holds", "ahead on both seeds, +35 (holds)")


def test_who_never_reaches_a_target_is_behind_whoever_does() -> None:
    """Even one who gets there in the last round, K = 50, where the censored rounds are equal."""
    assert judge([50, 50], [None, None]).mark == "ahead"
    assert judge([None, 10], [50, 25]).mark == "mixed"
    assert judge([None, None], [50, 40]).mark == "behind"
    assert judge([10, None], [25, None]).mark == "mixed"  # of the second seed nothing is known
    neither = judge([None, None], [None, None])
    assert (neither.mark, neither.words, neither.verdict) == (
        "not reached",
        "neither reaches it",
        "cannot be judged",
    )
    assert (
        FasterTo("random", "global", 0.75).judge(Study(tuple(reaching("random", [5]))), 1).mark == "not run"
    )


def test_without_a_target_the_highest_level_one_reaches_counts() -> None:
    study = Study((*reaching("fedteddi", [10, 10]), *reaching("random", [20, 20], final=0.66)))
    found = FasterTo("random", "balanced").judge(study, 1)
    assert (found.mark, found.at, cell(found)) == (
        "ahead",
        "75%",
        "ahead on both seeds, ≥ +40 to 75% (holds)",
    )
    nobody = Study((*reaching("fedteddi", [None]), *reaching("random", [None])))
    assert FasterTo("random", "balanced").judge(nobody, 1).mark == "not reached"


def test_final_accuracy_against_the_best_rival_of_each_seed() -> None:
    """Ours 0.7 and 0.7; the best rivals 0.68 (fedcgd) and 0.69 (fed-cbs) are behind on both seeds, 0.72 is not."""

    def ending(rule: str, values: list[float]) -> list[RunRecord]:
        return [made_run(rule, seed, [0.5, value]) for seed, value in enumerate(values)]

    claim = AheadAtTheEnd(("fedcgd", "fed-cbs"), "balanced")
    ours = ending("fedteddi", [0.7, 0.7])
    study = Study((*ours, *ending("fedcgd", [0.68, 0.6]), *ending("fed-cbs", [0.6, 0.69])))
    found = claim.judge(study, 1)
    assert (found.mark, found.mean, found.verdict) == ("ahead", "+0.015", "cannot be judged")
    study = Study((*ours, *ending("fedcgd", [0.68, 0.72]), *ending("fed-cbs", [0.6, 0.69])))
    assert claim.judge(study, 1).mark == "mixed"
    study = Study((*ours, *ending("fedcgd", [0.72, 0.72]), *ending("fed-cbs", [0.6, 0.69])))
    found = claim.judge(study, 1)
    assert (found.mark, found.verdict) == ("behind", "does not hold")
    assert claim.judge(Study((*ours, *ending("fedcgd", [0.72, 0.72]))), 1).mark == "not run"


def test_scheduled_clients_with_new_classes() -> None:
    study = Study((*reaching("fedteddi", [5, 5], new=2), *reaching("random", [5, 5], new=1)))
    found = MoreNew("random").judge(study, 1)
    assert (found.mark, found.mean, found.verdict) == ("ahead", "+1.0", "holds")


# --- the page


TWO_RULES = ("fedteddi", "random")
MADE = replace(
    CIFAR10,
    name="sensitivity-made",
    schedulers=TWO_RULES,
    factors=(
        Factor("tau", "τ", "Local steps", (Level("5", {"training__local_steps": 5}), Level("10")), TWO_RULES),
        Factor(
            "lambda0",
            "λ0",
            "Drift",
            (Level("2"), Level("4", {"scheduler_options__lambda0": 4.0})),
            ("fedteddi",),
        ),
        Factor(
            "rounds", "K", "Rounds", (Level("25", {"rounds": [0, 25]}, ("fedteddi",)), Level("50")), TWO_RULES
        ),
    ),
    claims=(FasterTo("random", "global", 0.75), MoreNew("random")),
    changes={},
)


def made_grid(**rounds: list[int | None]) -> Played:
    """The made grid: rounds to 78 % of fedteddi and, after it, of random, by level; two seeds each."""
    found = {}
    for key, own in rounds.items():
        key = key.replace("_", "-")
        level = next((lv for factor, lv in MADE.varied() if factor.key(lv) == key), Level(BASELINE))
        runs = reaching("fedteddi", own[:2]) + (reaching("random", own[2:]) if own[2:] else [])
        changed = [replace(run, settings=run.settings.changed(**level.changes)) for run in runs]
        if key == "rounds-25":
            changed = [replace(r, records=tuple(x for x in r.records if x["round"] <= 25)) for r in changed]
        made = tuple(Summarised(run, {"device": "cpu"}, 1.0) for run in changed)
        found[key] = Summaries(MADE.name, made)
    return Played(MADE, found)


def test_which_claims_hold_where_is_computed() -> None:
    """At the baseline ahead; with τ = 5 behind; λ0 = 4 against the baseline's random; K = 25 against its beginning."""
    played = made_grid(
        baseline=[10, 15, 40, 45], tau_5=[40, 40, 10, 15], lambda0_4=[10, 50], rounds_25=[10, 15]
    )
    tau, lambda0, rounds = MADE.factors
    speed = FasterTo("random", "global", 0.75).title
    outcomes = judged(played)
    assert {key: own[speed].mark for key, own in outcomes.items()} == {
        "baseline": "ahead",
        "tau-5": "behind",
        "lambda0-4": "mixed",
        "rounds-25": "ahead",
    }
    # Within 25 rounds random reaches nothing, and is shown so.
    table = level_table(played, rounds)
    assert list(table["global 75%"]) == ["12 ± 4", ">25 (0 of 2 reached)", "12 ± 4", "42 ± 4"]
    assert list(level_table(played, lambda0)["λ0"]) == ["2 (baseline)", "4", "any"]
    claims = claims_by_level(MADE, outcomes, tau)
    assert list(claims.columns) == ["claim", "τ = 5", "τ = 10 (baseline)"]
    assert claims.loc[0, "τ = 5"] == "behind on both seeds, -28"

    paper = played.baseline.runs[0].settings
    text = write_page(played, paper, Path("page"), "made", "me").files[0].read_text()
    assert f"Levels that turn a claim round, from ahead to behind or back: τ = 5 ({speed})." in text
    assert (
        f"- **{speed}**: ahead on every seed at 2 of 4 levels. Ahead on every seed: the baseline, K = 25. Behind on"
        " every seed: τ = 5. Mixed: λ0 = 4. By the interval it holds at the baseline." in text
    )
    assert f"- τ = 5: {speed}: behind on both seeds (baseline: ahead on both seeds)." in text
    assert "- K = 25: every claim fares as at the baseline." in text
    assert "Two seeds cannot judge with" in text
    assert "uick" not in text


def test_missing_levels_and_a_missing_baseline_are_shown() -> None:
    paper = reaching("random", [5])[0].settings
    played = made_grid(baseline=[10, 15, 40, 45])
    page = write_page(played, paper, Path("page"), "made", "me")
    assert "- τ = 5 was not run." in page.files[0].read_text()
    assert list(page.claims["not run"]) == [3, 3]
    alone = write_page(made_grid(tau_5=[10, 15, 40, 45]), paper, Path("page"), "alone", "me")
    assert list(alone.claims["ahead on every seed"]) == [1, 0]
    table = pd.read_csv("page/alone/levels.csv")
    assert list(table["seeds"][:4]) == ["2", "2", "not run", "not run"]


def test_what_does_not_belong_together_is_refused() -> None:
    played = made_grid(baseline=[10, 15, 40, 45], tau_5=[40, 40, 10, 15])
    wrong = played.by_level["tau-5"].runs[0]
    other = replace(
        wrong, run=replace(wrong.run, settings=wrong.run.settings.changed(training__momentum=0.1))
    )
    with pytest.raises(
        InputError, match=r"tau-5/fedteddi with seed 0 belongs to another study \(training.momentum"
    ):
        Played(MADE, {**played.by_level, "tau-5": Summaries(MADE.name, (other,))})
    wrong = played.by_level["tau-5"].runs[2]
    other = replace(wrong, run=replace(wrong.run, settings=wrong.run.settings.changed(radio__deadline_s=0.8)))
    with pytest.raises(
        InputError, match=r"tau-5/random with seed 0 .* \(radio.deadline_s was 1.2, now 0.8\)"
    ):
        Played(MADE, {**played.by_level, "tau-5": Summaries(MADE.name, (other,))})
