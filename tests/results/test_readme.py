"""A study at a glance: one row per claim, a verdict for each accuracy."""

from fedteddi.results.claims import Judged
from fedteddi.results.comparisons import Finding
from fedteddi.results.readme import at_a_glance
from fedteddi.results.reproduction import Reproduction
from fedteddi.results.runs import Study

AHEAD, BEHIND = Finding("holds", "+5", "5 more"), Finding("does not hold", "-5", "5 less")
OPEN = Finding("cannot be judged", "+1", "1 more or less")


class Said:
    """A claim that has been judged already."""

    def __init__(self, *rows: tuple[str, str, str, tuple[Finding, ...]]) -> None:
        self.rows = [Judged(claim, accuracy, paper, found, (), ()) for claim, accuracy, paper, found in rows]

    def judge(self, _study: Study, _deadlines_s: tuple[float, ...]) -> list[Judged]:
        return self.rows


def rows(*said: tuple[str, str, str, tuple[Finding, ...]]) -> list[str]:
    study = Reproduction("x", "X", (), (1.0,), (), {}, (Said(*said),), {})
    return at_a_glance(study, Study(())).splitlines()


def test_one_comparison_is_told_and_several_are_counted() -> None:
    head, _, one, several, no_accuracy = rows(
        ("faster", "balanced", "40 %", (AHEAD,)),
        ("faster", "global", "40 %", (OPEN,)),
        ("first", "balanced", "figure 3", (AHEAD, OPEN, BEHIND)),
        ("first", "global", "figure 3", (AHEAD, AHEAD, OPEN)),
        ("more", "–", "figure 4", (AHEAD, AHEAD)),
    )
    assert head == "| claim | paper | balanced | global |"
    assert one == "| faster | 40 % | **holds**<br>+5 | cannot be judged<br>+1 |"
    assert (
        several
        == "| first | figure 3 | does not hold<br>ahead in 1 of 3 | cannot be judged<br>ahead in 2 of 3 |"
    )
    assert no_accuracy == "| more | figure 4 | **holds**<br>ahead in 2 of 2 | **holds**<br>ahead in 2 of 2 |"


def test_what_was_not_judged_or_not_claimed_by_the_paper_is_left_out() -> None:
    """To a level that only balanced needs, global has no verdict; a rule of our own is in no paper."""
    *_, row = rows(("faster", "balanced", "40 %", (AHEAD,)))
    assert row == "| faster | 40 % | **holds**<br>+5 | – |"
    head, _, row = rows(("fewer", "balanced", "–", (OPEN,)), ("fewer", "global", "–", (AHEAD,)))
    assert head == "| claim | balanced | global |"
    assert row == "| fewer | cannot be judged<br>+1 | **holds**<br>+5 |"
