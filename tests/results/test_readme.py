"""A study at a glance: one row per claim, a verdict for each accuracy."""

from dataclasses import replace

from fedteddi.results.claims import Judged
from fedteddi.results.comparisons import Finding
from fedteddi.results.readme import at_a_glance
from fedteddi.results.reproduction import Reproduction
from fedteddi.results.runs import Study

AHEAD, BEHIND = Finding("holds", "1 s: +5", "5 more"), Finding("does not hold", "2 s: -5", "5 less")
OPEN = Finding("cannot be judged", "3 s: +1", "1 more or less")


class Said:
    """A claim that has been judged already."""

    def __init__(self, *rows: tuple[str, str, str, tuple[Finding, ...]]) -> None:
        self.rows = [Judged(claim, accuracy, paper, found, (), ()) for claim, accuracy, paper, found in rows]

    def judge(self, _study: Study, _deadlines_s: tuple[float, ...]) -> list[Judged]:
        return self.rows


def rows(*said: tuple[str, str, str, tuple[Finding, ...]]) -> list[str]:
    study = Reproduction("x", "X", (), (1.0,), (), {}, (Said(*said),), {})
    return at_a_glance(study, Study(()), ()).splitlines()


def test_what_was_found_in_each_place_stands_below_the_verdict() -> None:
    head, _, one, several, no_accuracy = rows(
        ("faster", "balanced", "40 %", (AHEAD,)),
        ("faster", "global", "40 %", (OPEN,)),
        ("first", "balanced", "figure 3", (AHEAD, OPEN, BEHIND)),
        ("first", "global", "figure 3", (AHEAD, OPEN)),
        ("more", "–", "figure 4", (AHEAD, replace(AHEAD, short="2 s: +5"))),
    )
    assert head == "| claim | paper | balanced | global |"
    assert one == "| faster | 40 % | **holds**<br>1 s: +5 | cannot be judged<br>3 s: +1 |"
    found = "does not hold<br>1 s: +5<br>3 s: +1<br>2 s: -5", "cannot be judged<br>1 s: +5<br>3 s: +1"
    assert several == f"| first | figure 3 | {found[0]} | {found[1]} |"
    assert no_accuracy == "| more | figure 4 | **holds**<br>+5 | **holds**<br>+5 |"  # in both places


def test_what_was_not_judged_or_not_claimed_by_the_paper_is_left_out() -> None:
    """To a level that only balanced needs, global has no verdict; a rule of our own is in no paper."""
    *_, row = rows(("faster", "balanced", "40 %", (AHEAD,)))
    assert row == "| faster | 40 % | **holds**<br>1 s: +5 | – |"
    head, _, row = rows(("fewer", "balanced", "–", (OPEN,)), ("fewer", "global", "–", (AHEAD,)))
    assert head == "| claim | balanced | global |"
    assert row == "| fewer | cannot be judged<br>3 s: +1 | **holds**<br>1 s: +5 |"
