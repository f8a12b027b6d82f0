"""One rule against another on the same seeds, and the verdict: the 95 % interval of the per-seed differences.

"Ahead" *holds* if the whole interval is above zero, it *does not hold* if none of it is, and it is *inconclusive* if
zero lies inside, with fewer than two seeds, or where runs that never reach the target leave the sign open.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from fedteddi.results.tables import RoundsTo, mean_interval, rounds_interval, saving, spread

Verdict = Literal["holds", "does not hold", "inconclusive"]
Mark = Literal[
    "ahead", "behind", "mixed", "not reached", "not run"
]  # seed by seed, whatever the interval says
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)
MARKS: tuple[Mark, ...] = get_args(Mark)


def verdict_of(
    interval: tuple[float, float, float], ours_missed: bool = False, theirs_missed: bool = False
) -> Verdict:
    """Decide by mean, low and high whether differences are above zero; a missed target decides one way only.

    One seed has no interval: NaN is neither above nor below. A run that misses the target needs more than K rounds: the
    interval is that of rounds cut off at K, and of the rounds it would have needed nothing is known.
    """
    _, low, high = interval
    if low > 0 and not ours_missed:
        return "holds"
    return "does not hold" if high <= 0 and not theirs_missed else "inconclusive"


def together(verdicts: Iterable[Verdict]) -> Verdict:
    """Join verdicts: holds if all do, does not if one does not."""
    found = set(verdicts)
    return "holds" if found == {"holds"} else "does not hold" if "does not hold" in found else "inconclusive"


@dataclass(frozen=True, eq=False)
class Comparison:
    """A number of two rules, seed by seed; a difference above zero means that ours is ahead."""

    ours: np.ndarray
    theirs: np.ndarray
    digits: int = 3
    smaller: bool = False  # whether the smaller number is ahead

    @property
    def differences(self) -> np.ndarray:
        """By how much ours is ahead, [seeds]."""
        return np.asarray(self.theirs - self.ours if self.smaller else self.ours - self.theirs)

    @property
    def verdict(self) -> Verdict:
        """Whether ours is ahead."""
        return verdict_of(mean_interval(self.differences))

    @property
    def mark(self) -> Mark:
        """Whether ours is ahead, or behind, on every seed."""
        if np.isnan(self.differences).all():
            return "not reached"
        ahead, behind = (self.differences > 0).all(), (self.differences < 0).all()
        return "ahead" if ahead else "behind" if behind else "mixed"

    @property
    def rank(self) -> tuple[float, float]:
        """Where the other rule stands among others: the best has the least."""
        return 0.0, -float(self.theirs.mean())

    @property
    def shown(self) -> dict[str, str]:
        """Both numbers and their difference as text: ours, theirs, difference."""
        ours, theirs = (spread(values.tolist(), self.digits) for values in (self.ours, self.theirs))
        return {"ours": ours, "theirs": theirs, "difference": points(self.differences, self.digits)}


@dataclass(frozen=True, eq=False)
class RoundsComparison(Comparison):
    """Rounds to a target, fewer being ahead; NaN where a run never reaches it."""

    in_frame: int = 0  # K
    every: int = 1  # rounds from one evaluation to the next

    @property
    def both(self) -> tuple[RoundsTo, RoundsTo]:
        """Ours and theirs as tables show them."""
        mine, other = (rounds_of(values, self.in_frame, self.every) for values in (self.ours, self.theirs))
        return mine, other

    @property
    def differences(self) -> np.ndarray:
        """Rounds saved, [seeds]; infinite where one of the two never gets there, NaN where neither does."""
        ours, theirs = (np.where(np.isnan(values), np.inf, values) for values in (self.ours, self.theirs))
        with np.errstate(invalid="ignore"):
            return np.asarray(theirs - ours)

    @property
    def verdict(self) -> Verdict:
        """Whether ours needs fewer rounds."""
        return verdict_of_rounds(*self.both)

    @property
    def rank(self) -> tuple[float, float]:
        """Who reaches the target with most seeds is best, and of these who needs the fewest rounds."""
        return -self.both[1].share, float(self.both[1].censored.mean())

    @property
    def shown(self) -> dict[str, str]:
        """Rounds of both, their difference, and both ways to tell it: fewer rounds, faster."""
        facts = saving(*self.both)
        return facts | {"difference": facts["difference (95 %)"]}


def rounds_of(values: np.ndarray, in_frame: int, every: int) -> RoundsTo:
    """Return rounds as tables show them; NaN is never."""
    return RoundsTo(tuple(None if np.isnan(value) else int(value) for value in values), in_frame, every)


def verdict_of_rounds(mine: RoundsTo, other: RoundsTo) -> Verdict:
    """Decide whether the first needs fewer rounds than the second, seed by seed."""
    missed = [rounds.reached < len(rounds.rounds) for rounds in (mine, other)]
    if all(missed) or not (mine.censored.any() or other.censored.any()):  # or neither had anything to learn
        return "inconclusive"
    return verdict_of(rounds_interval(mine, other), *missed)


def points(differences: np.ndarray, digits: int = 3) -> str:
    """Return the mean of per-seed differences with its 95 % interval."""
    mean, low, high = mean_interval(differences)
    interval = f" [{low:+.{digits}f}, {high:+.{digits}f}]" if len(differences) > 1 else ""
    return f"{mean:+.{digits}f}{interval}"


def in_words(mark: Mark, seeds: int | None = None) -> str:
    """Say who is ahead on how many seeds, or on every seed there is."""
    if mark not in ("ahead", "behind"):
        return "neither reaches it" if mark == "not reached" else mark
    some = "every seed" if seeds is None else f"all {seeds} seeds"
    return f"{mark} on {({1: 'the one seed', 2: 'both seeds'}).get(seeds or 0, some)}"
