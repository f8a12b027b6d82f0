"""Claims about several frames, on runs made by hand."""

import pytest

from fedteddi.results.runs import RunRecord, Study
from fedteddi.studies.claims import Faster, First, SmallerLateDrop
from fedteddi.studies.outcomes import Place, late_drop
from fedteddi.studies.page import command
from fedteddi.studies.study import load_study
from made_study import made_frames, made_run, outcomes_of

CIFAR100 = load_study("cifar100-first")
LONG = 10  # evaluations after the first, every five rounds: K = 50 in both frames


def jump(at: int | None, low: float = 0.4, high: float = 0.52) -> list[float]:
    """A curve that is `low` until round `at` (a multiple of 5) and `high` from then on; None: never."""
    return [high if at is not None and 5 * k >= at else low for k in range(LONG + 1)]


def runs(rule: str, first: list[int | None], second: list[int | None], seed: int = 10) -> list[RunRecord]:
    """Runs that jump at those rounds of frames 1 and 2, with seeds 10, 11, …"""
    each = enumerate(zip(first, second, strict=True), start=seed)
    return [made_frames(rule, own, [jump(a), jump(b)], deadline_s=30.0) for own, (a, b) in each]


FEWER = Faster(
    kind="faster",
    than="random",
    paper="49.2 % fewer rounds",
    target=0.50,
    frames=[2],
    gain="fewer rounds",
    fallback=True,
)


def test_rounds_count_from_the_frames_start() -> None:
    """Frame 2: R = 15 against R' = 30, 50 % fewer, differences (15, 10, 20). Frame 1 has no say."""
    study = Study((*runs("fedteddi", [45, 45, 50], [10, 15, 20]), *runs("random", [5, 5, 5], [25, 25, 40])))
    rows = FEWER.evaluate(outcomes_of(study, (30.0,)))
    assert [(row.accuracy, row.verdict) for row in rows] == [("balanced", "holds"), ("global", "holds")]
    assert rows[0].claim == "frame 2: fewer rounds than random, to 50%"
    assert rows[0].findings[0].short == "frame 2, 50%: 50.0% fewer rounds"
    assert "15 ± 5 against 30 ± 9 rounds, 50.0% fewer rounds, 100.0% faster" in rows[0].findings[0].full
    first = Faster(kind="faster", than="random", target=0.50).evaluate(outcomes_of(study, (30.0,)))
    assert {row.verdict for row in first} == {"does not hold"}
    assert first[0].findings[0].short == "frame 1, 50%: 47 ± 3 against 5 ± 0 rounds"  # not "-89% faster"


def test_in_short_a_loss_is_told_in_rounds_and_what_is_unknown_says_why() -> None:
    """Random misses once (K = 50), and is still ahead in the mean: ours (45, 45), theirs (5, 50)."""
    study = Study((*runs("fedteddi", [5, 5], [45, 45]), *runs("random", [5, 5], [5, None])))
    found = FEWER.evaluate(outcomes_of(study, (30.0,)))[0].findings[0]
    assert found.short == "frame 2, 50%: 45 ± 0 against >50 (1 of 2 reached) rounds"
    assert "≤ 63.6% more rounds" in found.full  # 45/27.5 − 1
    never: list[int | None] = [None, None]
    study = Study((*runs("fedteddi", never, never), *runs("random", never, never)))
    row = First(
        kind="first", what="speed to each level", than=["random"], paper="figure 7", frames=[1]
    ).evaluate(outcomes_of(study, (30.0,)))[0]
    assert (
        row.findings[0].short
        == "frame 1: no scheduler reaches a multiple of 5 % above all starts with every seed"
    )


def test_a_miss_is_censored_at_its_own_frames_rounds() -> None:
    """Frame 2 has 20 rounds here, frame 1 has 50: who misses in frame 2 counts as 20, not as 50 or 70."""
    made = [
        made_frames(rule, seed, [jump(5), [0.4, at_5, at_5, at_5, at_5]], deadline_s=30.0)
        for rule, at_5 in (("fedteddi", 0.55), ("random", 0.45))
        for seed in range(10, 14)
    ]
    row = FEWER.evaluate(outcomes_of(Study(tuple(made)), (30.0,)))[0]
    assert "5 ± 0 against >20 (0 of 4 reached) rounds" in row.findings[0].full
    assert "≥ 75.0% fewer rounds" in row.findings[0].full
    assert row.verdict == "holds"


def test_a_target_that_both_bring_along_is_inconclusive() -> None:
    """Both enter frame 2 with 0.52: at 50 % nobody had to learn; 55 % is the highest level that is reached."""
    curves = {"fedteddi": [0.52, 0.56, 0.56], "random": [0.52, 0.52, 0.56]}
    made = [
        made_frames(r, s, [jump(5), curve], deadline_s=30.0)
        for r, curve in curves.items()
        for s in range(10, 16)
    ]
    rows = [
        row for row in FEWER.evaluate(outcomes_of(Study(tuple(made)), (30.0,))) if row.accuracy == "global"
    ]
    assert [row.verdict for row in rows] == ["inconclusive", "holds"]
    assert rows[0].findings[0].full == "frame 2, 50%: already met at round 0 by both"
    assert rows[1].findings[0].full.startswith("frame 2, 55%: 5 ± 0 against 10 ± 0")


def test_each_level_of_each_frame() -> None:
    """From 0.4 to 0.52: 45 % and 50 % are reached, 55 % is not; 40 % is where all begin."""
    study = Study((*runs("fedteddi", [10, 15, 20], [30, 35, 40]), *runs("random", [40, 45, 50], [5, 10, 15])))
    found = outcomes_of(study, (30.0,))
    assert found.reached_levels([("fedteddi", [10, 11, 12])], Place(1, 30.0), "global") == [0.45, 0.5]
    row = First(
        kind="first", what="speed to each level", than=["random"], paper="figure 7", frames=[1, 2]
    ).evaluate(outcomes_of(study, (30.0,)))[0]
    assert row.claim == "ahead of random in speed to each level in every frame"
    assert [finding.short for finding in row.findings] == [
        "frame 1, 45%: ahead of 1 of 1",
        "frame 1, 50%: ahead of 1 of 1",
        "frame 2, 45%: ahead of 0 of 1, behind random",
        "frame 2, 50%: ahead of 0 of 1, behind random",
    ]
    assert row.verdict == "does not hold"


def test_mean_accuracy_over_each_frame_and_how_often_it_is_ahead() -> None:
    """Frame 1: ours is 0.52 from round 10, 10 or 15 on, random's from 40: above at the evaluations from 10 to 35, equal
    from 40 on: 6 of 10. Frame 2 is the same for both.
    """
    same: list[int | None] = [10, 10, 15]
    study = Study((*runs("fedteddi", same, [5, 5, 5]), *runs("random", [40, 40, 40], [5, 5, 5])))
    claim = First(
        kind="first", what="mean accuracy over the frame", than=["random"], paper="figure 6", frames=[1, 2]
    )
    one, two = claim.evaluate(outcomes_of(study, (30.0,)))[0].findings
    assert one.short == "frame 1: ahead of 1 of 1"
    assert one.full.endswith("ahead of 1 of 1, its mean curve above theirs at 6 of 10 evaluations")
    assert one.verdict == "holds"
    assert two.full.endswith("above theirs at 0 of 10 evaluations")
    assert two.verdict == "does not hold"


def test_baselines_are_compared_on_the_seeds_both_have() -> None:
    """FedTeddi has seeds 10 to 14, Random 10 and 11, Fed-CBS 12 to 14, Pure Drift none."""
    ours = runs("fedteddi", [10, 15, 20, 10, 15], [10, 15, 20, 10, 15])
    rivals = [*runs("random", [30, 35], [30, 35]), *runs("fed-cbs", [30, 40, 35], [30, 40, 35], seed=12)]
    claim = First(
        kind="first",
        what="final accuracy",
        than=["random", "fed-cbs", "pure-drift"],
        paper="figure 6",
        frames=[2],
    )
    row = claim.evaluate(outcomes_of(Study((*ours, *rivals)), (30.0,)))[0]
    # All end alike, so nobody is behind anybody.
    assert row.findings[0].short == "frame 2: ahead of 0 of 2, no runs with pure-drift"
    row = FEWER.evaluate(outcomes_of(Study((*ours, *rivals)), (30.0,)))[0]
    assert "12 ± 4 against 32 ± 4 rounds" in row.findings[0].full  # (10, 15) against (30, 35)


def test_late_drops() -> None:
    """A frame's best after its start minus its last: 0.5 − 0.47 = 0.03; what was brought along, 0.6, does not count."""
    run = made_run("random", 10, [0.6, 0.4, 0.5, 0.47])
    assert late_drop(run, 1, "global") == pytest.approx(0.03)
    assert late_drop(made_run("random", 10, [0.4, 0.4, 0.5]), 1, "balanced") == 0


def test_a_smaller_late_drop() -> None:
    """Ours drops by (0, 0.01, 0), Random by (0.05, 0.06, 0.07): differences (0.05, 0.05, 0.07), 0.057 ± 0.029."""

    def dropping(rule: str, drops: list[float]) -> list[RunRecord]:
        return [
            made_frames(rule, seed, [[0.4, 0.5, 0.5 - d], [0.4, 0.6, 0.6 - d]], deadline_s=30.0)
            for seed, d in enumerate(drops, start=10)
        ]

    ours, theirs = dropping("fedteddi", [0, 0.01, 0]), dropping("random", [0.05, 0.06, 0.07])
    claim = SmallerLateDrop(kind="smaller late drop", than="random", paper="figure 6", frames=[1, 2])
    row = claim.evaluate(outcomes_of(Study((*ours, *theirs)), (30.0,)))[0]
    assert row.verdict == "holds"
    assert row.findings[1].full == (
        "frame 2: 0.003 ± 0.006 against 0.060 ± 0.010, difference +0.057 [+0.028, +0.085]"
    )
    swapped = [*dropping("fedteddi", [0.05, 0.06, 0.07]), *dropping("random", [0, 0.01, 0])]
    assert claim.evaluate(outcomes_of(Study(tuple(swapped)), (30.0,)))[0].verdict == "does not hold"
    assert claim.evaluate(outcomes_of(Study(tuple(ours)), (30.0,)))[0].verdict == "inconclusive"


def test_every_claim_of_the_study_has_its_command() -> None:
    rows = [
        row
        for claim in CIFAR100.claims
        for row in claim.evaluate(CIFAR100.outcomes(Study(tuple(runs("fedteddi", [10, 15], [10, 15])))))
    ]
    assert {row.verdict for row in rows} == {"inconclusive"}
    commands = [command(CIFAR100, row) for row in rows]
    assert commands[0] == "fedteddi reproduce cifar100-first --scheduler fedteddi --scheduler random"
    assert "fedteddi reproduce cifar100-first" in commands
    # Both accuracies, always.
    assert {(row.claim, row.accuracy) for row in rows} == {
        (row.claim, accuracy) for row in rows for accuracy in ("balanced", "global")
    }


def test_a_study_without_the_second_frame_is_judged_as_far_as_it_goes() -> None:
    study = Study(tuple(made_run(rule, s, jump(10)) for rule in ("fedteddi", "random") for s in (10, 11)))
    rows = [row for claim in CIFAR100.claims for row in claim.evaluate(CIFAR100.outcomes(study))]
    assert {row.verdict for row in rows if row.claim.startswith("fewer rounds")} == {"inconclusive"}
