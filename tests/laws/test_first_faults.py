"""Which laws count as kept, broken or not tried, by hand-made laws on the cases 1, 2 and 3."""

from collections.abc import Iterator

from fedteddi.laws import Law, NotTried, first_faults


def answers(_part: object, _case: int) -> list[str]:
    return []


def fails_from_2(_part: object, case: int) -> Iterator[str]:
    if case >= 2:
        raise KeyError(case)
    yield from ()


def never_ends_well(_part: object, _case: int) -> list[str]:
    raise ValueError("no")


def breaks_at_3(_part: object, case: int) -> list[str]:
    return ["three"] if case == 3 else []


def test_a_law_that_was_not_tried_in_every_case_is_not_kept() -> None:
    """Case 2 is the first in which "from 2" raises, case 3 the first in which "three" is broken."""
    laws: dict[str, Law[int]] = {
        "answers": answers, "from 2": fails_from_2, "never": never_ends_well, "three": breaks_at_3, "kept": answers,
    }  # fmt: skip
    found = first_faults(laws, [1, 2, 3], lambda law, case: law(None, case), in_words=str)
    assert found == {
        "answers": ("no", 1),
        "from 2": ("not tried in 2 of 3 cases", 2),
        "never": ("not tried", 1),
        "three": ("three", 3),
    }
    assert [name for name, (fault, _) in found.items() if isinstance(fault, NotTried)] == ["from 2", "never"]


def test_laws_after_a_broken_essential_one_are_not_tried() -> None:
    laws: dict[str, Law[int]] = {"three": breaks_at_3, "after": answers}
    found = first_faults(laws, [3, 4], lambda law, case: law(None, case), essential=["three"])
    assert found == {"three": ("three", 3), "after": ("not tried in 1 of 2 cases", 3)}
