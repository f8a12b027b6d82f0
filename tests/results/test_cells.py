"""One rule against all others, cell by cell, on runs made by hand."""

from dataclasses import replace

from fedteddi.results.cells import FewestRounds, cells, cells_at_a_glance, cells_in_short, cells_table
from fedteddi.results.runs import RunRecord, Study
from fedteddi.results.tables import Targets
from made_study import made_run

TARGETS: Targets = {"balanced": [0.5], "global": [0.5]}


def made(rule: str, seed: int, rounds: int | None) -> RunRecord:
    """A run of 20 rounds, judged every fifth, that reaches 50 % after `rounds`, or never."""
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


def outcome(**rounds: list[int | None]) -> tuple[str, str, bool]:
    (cell, _) = cells(study(**rounds), "ours", TARGETS)
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
    assert outcome(ours=[None, None], random=[None, None])[0] == "nobody gets there"
    assert outcome(ours=[0, 0], random=[0, 0])[0] == "there from the start"
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
    found = cells(study(ours=[5, 20], random=[10]), "ours", TARGETS)
    assert (found[0].ours.rounds, found[0].others["random"].rounds) == ((5,), (10,))
    assert list(cells_table(found)["seeds"]) == [1, 1]


def test_bounds_and_unfinished_runs_do_not_take_part() -> None:
    made_here = study(ours=[10], random=[15], everyone=[5], fed_cbs=[5])
    runs = [replace(run, finished=run.scheduler != "fed-cbs") for run in made_here.runs]
    (cell, _) = cells(Study(tuple(runs)), "ours", TARGETS)
    assert (set(cell.others), cell.outcome) == ({"random"}, "won")


def test_cells_that_are_not_won_are_named() -> None:
    found = cells(study(ours=[10] * 4, random=[5] * 4, fed_cbs=[15] * 4), "ours", TARGETS)
    assert (
        cells_in_short(found) == "won 0 of 2 cells (0 clearly); not won: 1.2 s, balanced 50% (random);"
        " 1.2 s, global 50% (random)"
    )
    assert list(cells_table(found)["outcome"]) == ["not won, clearly"] * 2
    assert "frame" not in cells_table(found).columns
    tied = cells(study(ours=[10, 5], random=[5, 10]), "ours", TARGETS)
    assert list(cells_table(tied)["outcome"]) == ["tied"] * 2
    assert "(tied, random)" in cells_in_short(tied)


def judged(**rounds: list[int | None]) -> set[tuple[str, str]]:
    claim = FewestRounds("ours", ("random", "fed-cbs"), TARGETS)
    return {(row.verdict, row.findings[0].full) for row in claim.judge(study(**rounds), (1.2,))}


def test_the_claim_holds_only_if_every_cell_is_won_clearly() -> None:
    def verdicts(*ours: int) -> set[str]:
        return {verdict for verdict, _ in judged(ours=[*ours] * 3, random=[10, 15] * 3, fed_cbs=[15, 20] * 3)}

    assert verdicts(5, 10) == {"holds"}
    assert verdicts(5, 15) == {"cannot be judged"}
    assert verdicts(15, 20) == {"does not hold"}
    assert {verdict for verdict, _ in judged(ours=[0, 0], random=[0, 0], fed_cbs=[0, 0])} == {
        "cannot be judged"
    }


def test_the_claim_cannot_be_judged_while_runs_are_missing() -> None:
    assert judged(ours=[5, 10] * 3, random=[10, 15] * 3) == {
        ("cannot be judged", "no runs of fed-cbs at 1.2 s; so far won 1 of 1 cells (1 clearly)")
    }
    assert judged(random=[5]) == {("cannot be judged", "no runs of ours at 1.2 s and 1 more")}


def test_rules_without_a_common_seed_are_not_compared() -> None:
    apart = study(ours=[5, 5], random=[10, 10])
    runs = [run for run in apart.runs if (run.settings.seed == 0) == (run.scheduler == "ours")]
    claim = FewestRounds("ours", ("random",), TARGETS)
    found = {row.findings[0].full for row in claim.judge(Study(tuple(runs)), (1.2,))}
    assert found == {"no seed that all rules have at 1.2 s"}


def test_a_deadline_at_which_the_rules_share_no_seed_is_not_passed_over() -> None:
    """At 1.2 s everything is won clearly; at 0.8 s the rules have different seeds."""
    late = [
        made_run(rule, seed, [0.4, 0.6], deadline_s=0.8)
        for rule, seeds in (("ours", (0, 1)), ("random", (2, 3)))
        for seed in seeds
    ]
    both = Study((*study(ours=[5, 10] * 3, random=[10, 15] * 3).runs, *late))
    claim = FewestRounds("ours", ("random",), TARGETS)
    (row, _) = claim.judge(both, (0.8, 1.2))
    assert row.verdict == "cannot be judged"
    assert row.findings[0].full.startswith("no seed that all rules have at 0.8 s; so far won 1 of 1 cells")
    assert {row.verdict for row in claim.judge(both, (1.2,))} == {"holds"}


def test_a_claim_about_one_deadline_does_not_look_at_others() -> None:
    """At 2 s ours loses."""
    slow = [made_run("ours", seed, [0.4, 0.4, 0.6], deadline_s=2.0) for seed in range(6)]
    quick = [made_run("random", seed, [0.4, 0.6, 0.6], deadline_s=2.0) for seed in range(6)]
    both = Study((*study(ours=[5, 10] * 3, random=[10, 15] * 3).runs, *slow, *quick))
    claim = FewestRounds("ours", ("random",), TARGETS)
    assert {row.verdict for row in claim.judge(both, (1.2,))} == {"holds"}
    assert {row.verdict for row in claim.judge(both, (1.2, 2.0))} == {"does not hold"}


def test_a_rule_with_options_can_be_ours() -> None:
    runs = [made("fedteddi-search-refined", seed, 5) for seed in range(6)]
    runs += [made("fedteddi", seed, 10) for seed in range(6)]
    claim = FewestRounds("fedteddi[search=refined]", ("fedteddi",), TARGETS)
    assert {row.verdict for row in claim.judge(Study(tuple(runs)), (1.2,))} == {"holds"}


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
    (one, other) = FewestRounds("ours", ("random",), TARGETS, whom="random as it is").judge(runs, (1.2,))
    assert one.claim == other.claim == "ours needs fewer rounds than random as it is"
    assert one.verdict == other.verdict == "holds"
    assert one.schedulers == ("ours", "random")
    assert {
        row.verdict for row in FewestRounds("ours", ("random", "fed-cbs"), TARGETS).judge(runs, (1.2,))
    } == {"does not hold"}


def test_at_a_glance_our_rounds_stand_above_the_best_others() -> None:
    won = cells_at_a_glance(cells(study(ours=[5, 15], random=[10, 20]), "ours", TARGETS))
    assert list(won.columns) == ["rounds to", "1.2 s"]
    assert list(won["rounds to"]) == ["balanced 50%", "global 50%"]
    assert set(won["1.2 s"]) == {"**10 ± 7**<br>random, 15 ± 7"}
    lost = cells_at_a_glance(cells(study(ours=[10, 20], random=[5, 15]), "ours", TARGETS))
    assert set(lost["1.2 s"]) == {"15 ± 7<br>random, 10 ± 7"}


def test_at_a_glance_deadlines_and_frames_are_columns() -> None:
    """What is not contested in one column says why, as long as it is in another."""
    first = cells(study(ours=[5, 15], random=[10, 20]), "ours", TARGETS)
    there = [replace(cell, frame=2) for cell in cells(study(ours=[0], random=[0]), "ours", TARGETS)]
    by_frame = cells_at_a_glance([*first, *there])
    assert list(by_frame.columns) == ["rounds to", "frame 1", "frame 2"]
    assert set(by_frame["frame 2"]) == {"there from the start"}
    later = [replace(cell, deadline_s=2.0) for cell in first]
    assert list(cells_at_a_glance([*first, *later]).columns) == ["rounds to", "1.2 s", "2 s"]
    both = cells_at_a_glance([*first, *later, *there])
    assert list(both.columns) == ["rounds to", "frame 1, 1.2 s", "frame 1, 2 s", "frame 2, 1.2 s"]
    # Frame 2 has no contested cell of its own, and a target that is contested nowhere has no row.
    assert len(cells_at_a_glance(there)) == 0
    higher = [replace(cell, target=0.9) for cell in there]
    assert list(cells_at_a_glance([*first, *higher])["rounds to"]) == ["balanced 50%", "global 50%"]
