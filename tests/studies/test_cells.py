"""One rule against all others, cell by cell, on runs made by hand."""

from dataclasses import replace

from fedteddi.results.runs import RunRecord, Study
from fedteddi.studies.cells import Cell, cells, cells_in_short, cells_table
from fedteddi.studies.claims import FewestRounds
from fedteddi.studies.findings import Result
from made_study import made_frames, made_run, outcomes_of


def made(rule: str, seed: int, rounds: int | None) -> RunRecord:
    """A run of 20 rounds, evaluated every fifth, that reaches 50 % after `rounds`, or never."""
    curve = [0.6 if rounds is not None and 5 * place >= rounds else 0.4 for place in range(5)]
    return made_run(rule, seed, curve)


def study(**rounds: list[int | None]) -> Study:
    """Each rule's rounds to 50 %, by seed; an underscore stands for the hyphen in a name."""
    return Study(
        tuple(
            made(rule.replace("_", "-"), seed, needed)
            for rule, each in rounds.items()
            for seed, needed in enumerate(each)
        )
    )


def cells_of(runs: Study) -> list[Cell]:
    found = outcomes_of(runs, ours="ours")
    return cells(found, found.rules, (1.2,))


def evaluate(claim: FewestRounds, runs: Study, deadlines_s: tuple[float, ...] = (1.2,)) -> list[Result]:
    return claim.evaluate(outcomes_of(runs, deadlines_s, ours="ours"))


def outcome(**rounds: list[int | None]) -> tuple[str, str, bool]:
    (cell, _) = cells_of(study(**rounds))
    return cell.outcome, cell.best_other, cell.is_clear


def test_a_cell_is_won_by_fewer_rounds_in_the_mean() -> None:
    """5 and 10 against 10 and 10, or 15 and 5: 7.5 against 10; the differences 5 and 0 leave zero open."""
    assert outcome(ours=[5, 10], random=[10, 10], fed_cbs=[15, 5]) == ("won", "random", False)
    assert outcome(ours=[10, 10], random=[5, 20], fed_cbs=[5, 10]) == ("not won", "fed-cbs", False)
    assert outcome(ours=[10, 5], random=[5, 10]) == ("tied", "random", False)


def test_a_difference_of_one_evaluation_is_clear_with_enough_seeds_only() -> None:
    """Five rounds lie between evaluations. With six seeds, 5 ± 2.57 · 2/√6 = 2.1; with two, 12.7 · 2/√2 = 18."""
    assert outcome(ours=[5, 10] * 3, random=[10, 15] * 3) == ("won", "random", True)
    assert outcome(ours=[10, 15] * 3, random=[5, 10] * 3) == ("not won", "random", True)
    assert outcome(ours=[5, 10], random=[10, 15]) == ("won", "random", False)
    assert outcome(ours=[10, 15], random=[5, 10]) == ("not won", "random", False)


def test_a_win_is_clear_only_if_it_is_clear_against_every_rule() -> None:
    """Against random the differences are 5 each; against fed-cbs twice 0 and 12.5 in the mean, and zero is open."""
    assert outcome(ours=[5] * 4, random=[10] * 4, fed_cbs=[5, 5, 20, 20]) == ("won", "random", False)
    assert outcome(ours=[5] * 4, random=[10] * 4, fed_cbs=[15, 15, 20, 20]) == ("won", "random", True)


def test_runs_that_never_get_there_leave_the_order_open_unless_k_settles_it() -> None:
    """K = 20 stands for never, at least: 15 and 15 are not surely fewer than 5 and 20 or more, 10 and 10 are."""
    assert outcome(ours=[15, 15], random=[5, None]) == ("open", "random", False)
    assert outcome(ours=[10, 10], random=[5, None]) == ("won", "random", False)
    assert outcome(ours=[5, None], random=[15, 15]) == ("open", "random", False)
    assert outcome(ours=[5, None], random=[10, 10])[0] == "not won"
    assert outcome(ours=[5, None], random=[10, None])[0] == "open"
    assert outcome(ours=[None, None], random=[None, None])[0] == "not reached by any scheduler"
    assert outcome(ours=[0, 0], random=[0, 0])[0] == "already met at round 0"
    assert outcome(ours=[0, 5], random=[0, 0])[0] == "not won"


def test_the_best_other_rule_is_one_that_gets_there_with_most_seeds() -> None:
    """Random looks quicker with K = 20 in place of what it misses: 12.5 against fed-cbs' 15."""
    won = outcome(ours=[5, 10], random=[5, None], fed_cbs=[15, 15])
    assert won == ("won", "fed-cbs", False)
    missed = outcome(
        ours=[5, 20, None], random=[5, None, None], fed_cbs=[20, 20, None], pure_drift=[20, 15, None]
    )
    assert missed == ("open", "pure-drift", False)
    # Only random leaves this one open: fed-cbs needs 20.
    assert outcome(ours=[15, 15], random=[5, None], fed_cbs=[20, 20]) == ("open", "random", False)
    assert outcome(ours=[15, 15], random=[5, None], fed_cbs=[10, 10]) == ("not won", "fed-cbs", False)


def test_where_runs_of_both_rules_miss_the_target_nothing_is_clear() -> None:
    """Seed 2 would count as a difference of 0, though nothing is known of it; if only random misses, as 10 or more."""
    assert outcome(ours=[5, 5, None], random=[15, 15, None]) == ("open", "random", False)
    assert outcome(ours=[5, 5, 10], random=[15, 15, None]) == ("won", "random", True)


def test_rules_are_compared_on_the_seeds_that_all_have() -> None:
    """Seed 1, where ours is slow, is not there for random."""
    found = cells_of(study(ours=[5, 20], random=[10]))
    assert (found[0].ours.rounds, found[0].others["random"].rounds) == ((5,), (10,))
    assert list(cells_table(found)["seeds"]) == [1, 1]


def test_bounds_and_unfinished_runs_do_not_take_part() -> None:
    made_here = study(ours=[10], random=[15], everyone=[5], fed_cbs=[5])
    runs = [replace(run, finished=run.scheduler != "fed-cbs") for run in made_here.runs]
    (cell, _) = cells_of(Study(tuple(runs)))
    assert (set(cell.others), cell.outcome) == ({"random"}, "won")


def test_cells_that_are_not_won_are_named() -> None:
    found = cells_of(study(ours=[10] * 4, random=[5] * 4, fed_cbs=[15] * 4))
    assert (
        cells_in_short(found) == "won 0 of 2 cells (0 clearly); not won: 1.2 s, balanced 50% (random);"
        " 1.2 s, global 50% (random)"
    )
    assert list(cells_table(found)["outcome"]) == ["not won, clearly"] * 2
    assert "frame" not in cells_table(found).columns
    tied = cells_of(study(ours=[10, 5], random=[5, 10]))
    assert list(cells_table(tied)["outcome"]) == ["tied"] * 2
    assert "(tied, random)" in cells_in_short(tied)


def judged(**rounds: list[int | None]) -> set[tuple[str, str]]:
    claim = FewestRounds(kind="fewest rounds", than=["random", "fed-cbs"])
    return {(row.verdict, row.findings[0].full) for row in evaluate(claim, study(**rounds))}


def test_the_claim_holds_only_if_every_cell_is_won_clearly() -> None:
    def verdicts(*ours: int) -> set[str]:
        return {verdict for verdict, _ in judged(ours=[*ours] * 3, random=[10, 15] * 3, fed_cbs=[15, 20] * 3)}

    assert verdicts(5, 10) == {"holds"}
    assert verdicts(5, 15) == {"inconclusive"}
    assert verdicts(15, 20) == {"does not hold"}
    assert {verdict for verdict, _ in judged(ours=[0, 0], random=[0, 0], fed_cbs=[0, 0])} == {"inconclusive"}


def test_the_claim_is_inconclusive_while_runs_are_missing() -> None:
    assert judged(ours=[5, 10] * 3, random=[10, 15] * 3) == {
        ("inconclusive", "no runs of fed-cbs at 1.2 s; so far won 1 of 1 cells (1 clearly)")
    }
    assert judged(random=[5]) == {("inconclusive", "no runs of ours at 1.2 s and 1 more")}


def test_rules_without_a_common_seed_are_not_compared() -> None:
    apart = study(ours=[5, 5], random=[10, 10])
    runs = [run for run in apart.runs if (run.settings.seed == 0) == (run.scheduler == "ours")]
    claim = FewestRounds(kind="fewest rounds", than=["random"])
    found = {row.findings[0].full for row in evaluate(claim, Study(tuple(runs)))}
    assert found == {"no seed that all rules have at 1.2 s"}


def test_a_deadline_at_which_the_rules_share_no_seed_is_not_passed_over() -> None:
    """At 1.2 s everything is won clearly; at 0.8 s the rules have different seeds."""
    late = [
        made_run(rule, seed, [0.4, 0.6], deadline_s=0.8)
        for rule, seeds in (("ours", (0, 1)), ("random", (2, 3)))
        for seed in seeds
    ]
    both = Study((*study(ours=[5, 10] * 3, random=[10, 15] * 3).runs, *late))
    claim = FewestRounds(kind="fewest rounds", than=["random"])
    (row, _) = evaluate(claim, both, (0.8, 1.2))
    assert row.verdict == "inconclusive"
    assert row.findings[0].full.startswith("no seed that all rules have at 0.8 s; so far won 1 of 1 cells")
    assert {row.verdict for row in evaluate(claim, both, (1.2,))} == {"holds"}


def test_a_claim_about_one_deadline_does_not_look_at_others() -> None:
    """At 2 s ours loses."""
    slow = [made_run("ours", seed, [0.4, 0.4, 0.6], deadline_s=2.0) for seed in range(6)]
    quick = [made_run("random", seed, [0.4, 0.6, 0.6], deadline_s=2.0) for seed in range(6)]
    both = Study((*study(ours=[5, 10] * 3, random=[10, 15] * 3).runs, *slow, *quick))
    claim = FewestRounds(kind="fewest rounds", than=["random"])
    assert {row.verdict for row in evaluate(claim, both, (1.2,))} == {"holds"}
    assert {row.verdict for row in evaluate(claim, both, (1.2, 2.0))} == {"does not hold"}
    at_1_2 = claim.model_copy(update={"deadline_s": 1.2})
    assert {row.verdict for row in evaluate(at_1_2, both, (1.2, 2.0))} == {"holds"}


def test_a_claim_about_one_frame_does_not_look_at_others() -> None:
    """Ours wins frame 1 by 5 rounds on every seed, and loses frame 2 likewise."""
    early, late = [0.4, 0.6, 0.6], [0.4, 0.4, 0.6]
    runs = [made_frames("ours", seed, [early, late]) for seed in range(6)]
    runs += [made_frames("random", seed, [late, early]) for seed in range(6)]
    for frames, verdict in (([1], "holds"), ([2], "does not hold"), ([1, 2], "does not hold")):
        claim = FewestRounds(kind="fewest rounds", than=["random"], frames=frames)
        assert {row.verdict for row in evaluate(claim, Study(tuple(runs)))} == {verdict}


def test_a_rule_with_options_can_be_ours_and_another() -> None:
    runs = [made("fedteddi-search-refined", seed, 5) for seed in range(6)]
    runs += [made("fedteddi", seed, 10) for seed in range(6)]
    for ours, than, verdict in (
        ("fedteddi-search-refined", "fedteddi", "holds"),
        ("fedteddi", "fedteddi[search=refined]", "does not hold"),
    ):
        claim = FewestRounds(kind="fewest rounds", than=[than])
        found = claim.evaluate(outcomes_of(Study(tuple(runs)), ours=ours))
        assert {row.verdict for row in found} == {verdict}


def test_a_tie_makes_no_loss_clear() -> None:
    """Random is better in the mean, by 0 and 5; fed-cbs is the same, run for run."""
    assert outcome(ours=[10, 10], random=[10, 5], fed_cbs=[10, 10]) == ("not won", "random", False)


def test_who_surely_beats_ours_is_named_before_who_may() -> None:
    """A mean of 17.5: fed-cbs needs 15, random at least 12.5, or any number above."""
    assert outcome(ours=[20, 15], random=[5, None], fed_cbs=[15, 15])[:2] == ("not won", "fed-cbs")


def test_never_is_later_than_the_last_round() -> None:
    """K = 20: with every seed, ours gets there in the last round and random never; and the other way round."""
    assert outcome(ours=[20, 20], random=[None, None])[0] == "won"
    assert outcome(ours=[10, None], random=[15, 15])[0] == "not won"
    assert outcome(ours=[10, None], random=[15, 20])[0] == "open"


def test_a_claim_about_some_rules_does_not_look_at_others() -> None:
    runs = study(ours=[10] * 4, random=[15] * 4, fed_cbs=[5] * 4)
    claim = FewestRounds(kind="fewest rounds", than=["random"], whom="random as it is")
    (one, other) = evaluate(claim, runs)
    assert one.claim == other.claim == "ours needs fewer rounds than random as it is"
    assert one.verdict == other.verdict == "holds"
    assert one.schedulers == ("ours", "random")
    claim = FewestRounds(kind="fewest rounds", than=["random", "fed-cbs"])
    assert {row.verdict for row in evaluate(claim, runs)} == {"does not hold"}
