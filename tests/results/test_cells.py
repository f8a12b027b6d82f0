"""One rule against all others, cell by cell, on runs made by hand."""

from fedteddi.results.cells import FewestRounds, cells, cells_in_short, cells_table
from fedteddi.results.runs import Study
from fedteddi.results.tables import Targets
from made_study import made_run

TARGETS: Targets = {"balanced": [0.5], "global": [0.5]}


def made(rule: str, seed: int, rounds: int | None, deadline_s: float = 1.2) -> object:
    """A run of 20 rounds, judged every fifth, that reaches 50 % after `rounds`, or never."""
    curve = [0.6 if rounds is not None and 5 * place >= rounds else 0.4 for place in range(5)]
    return made_run(rule, seed, curve, deadline_s=deadline_s)


def study(**rounds: list[int | None]) -> Study:
    """Each rule's rounds to 50 %, by seed; an underscore stands for the hyphen in a name."""
    return Study(
        tuple(
            made(rule.replace("_", "-"), seed, needed)  # type: ignore[misc]
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


def test_a_difference_that_is_the_same_for_every_seed_is_clear() -> None:
    assert outcome(ours=[5, 10], random=[10, 15]) == ("won", "random", True)
    assert outcome(ours=[10, 15], random=[5, 10]) == ("not won", "random", True)


def test_who_reaches_the_target_with_more_seeds_is_ahead() -> None:
    """Censored at K = 20: 15 and 15 that both get there beat 5 and never, although 12.5 is less than 15."""
    assert outcome(ours=[15, 15], random=[5, None])[0] == "won"
    assert outcome(ours=[5, None], random=[15, 15])[0] == "not won"
    assert outcome(ours=[None, None], random=[None, None])[0] == "nobody gets there"
    assert outcome(ours=[0, 0], random=[0, 0])[0] == "there from the start"


def test_rules_are_compared_on_the_seeds_that_all_have() -> None:
    """Seed 1, where ours is slow, is not there for random."""
    (cell, _) = cells(study(ours=[5, 20], random=[10]), "ours", TARGETS)
    assert (cell.ours.rounds, cell.others["random"].rounds) == ((5,), (10,))


def test_cells_that_are_not_won_are_named() -> None:
    found = cells(study(ours=[10, 10], random=[5, 5], fed_cbs=[15, 15]), "ours", TARGETS)
    assert (
        cells_in_short(found) == "won 0 of 2 cells (0 clearly); not won: 1.2 s, balanced 50% (random);"
        " 1.2 s, global 50% (random)"
    )
    assert list(cells_table(found)["outcome"]) == ["not won, clearly"] * 2
    assert "frame" not in cells_table(found).columns


def test_the_claim_holds_only_if_every_cell_is_won_clearly() -> None:
    def verdicts(**rounds: list[int | None]) -> set[str]:
        claim = FewestRounds("ours", TARGETS)
        return {row.verdict for row in claim.judge(study(**rounds), (1.2,))}

    assert verdicts(ours=[5, 10], random=[10, 15]) == {"holds"}
    assert verdicts(ours=[5, 10], random=[10, 10]) == {"cannot be judged"}
    assert verdicts(ours=[10, 15], random=[5, 10]) == {"does not hold"}
    assert verdicts(random=[5, 10]) == {"cannot be judged"}
    assert verdicts(ours=[0, 0], random=[0, 0]) == {"cannot be judged"}
