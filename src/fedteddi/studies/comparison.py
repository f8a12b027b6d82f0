"""One rule against another on the same seeds, and the verdict: the 95 % interval of the per-seed differences.

"Ahead" *holds* if the whole interval is above zero, it *does not hold* if none of it is, and it is *inconclusive* if
zero lies inside, with fewer than two seeds, or where runs that never reach the target leave the sign open.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from fedteddi.results.measures import RoundsTo, mean_interval
from fedteddi.results.tables import rounds_interval, saving, spread

Verdict = Literal["holds", "does not hold", "inconclusive"]
# Seed by seed, whatever the interval says.
Mark = Literal["ahead", "behind", "mixed", "not reached", "not run"]
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
    """A number of two rules, seed by seed."""

    differences: np.ndarray  # by how much ours is ahead, [seeds]
    verdict: Verdict
    shown: dict[str, str]  # as text: ours, theirs, difference; of rounds also what is saved
    rank: tuple[float, float]  # where the other rule stands among others: the best has the least

    @property
    def mark(self) -> Mark:
        """Whether ours is ahead, or behind, on every seed."""
        if np.isnan(self.differences).all():
            return "not reached"
        ahead, behind = (self.differences > 0).all(), (self.differences < 0).all()
        return "ahead" if ahead else "behind" if behind else "mixed"

    @property
    def signs(self) -> str:
        """On how many seeds ours is ahead and behind, and p of an exact sign test, which needs no misses to be known.

        Ties, and seeds on which neither gets there, say nothing.
        """
        ahead, behind = int((self.differences > 0).sum()), int((self.differences < 0).sum())
        return f"ahead {ahead}, behind {behind}, p = {sign_test(ahead, behind):.2g}" if ahead + behind else ""


def sign_test(ahead: int, behind: int) -> float:
    """Return the chance that a fair coin falls at least as unevenly: two-sided, exact."""
    tosses, fewer = ahead + behind, min(ahead, behind)
    tail = sum(math.comb(tosses, heads) for heads in range(fewer + 1)) / 2**tosses
    return float(min(1.0, 2 * tail))


def compared(ours: np.ndarray, theirs: np.ndarray, digits: int = 3, smaller: bool = False) -> Comparison:
    """Compare a number that should be larger, or smaller, [seeds]."""
    differences = theirs - ours if smaller else ours - theirs
    facts = {"ours": spread(ours.tolist(), digits), "theirs": spread(theirs.tolist(), digits)}
    facts["difference"] = points(differences, digits)
    return Comparison(
        differences, verdict_of(mean_interval(differences)), facts, (0.0, -float(theirs.mean()))
    )


def compared_rounds(ours: RoundsTo, theirs: RoundsTo) -> Comparison:
    """Compare rounds to a target: a rule that gets there with more seeds ranks first, then one with fewer rounds.

    Differences are infinite where one of the two never gets there, NaN where neither does.
    """
    mine, other = (np.array([np.inf if r is None else r for r in own.rounds]) for own in (ours, theirs))
    with np.errstate(invalid="ignore"):
        differences = other - mine
    missed = [own.reached < len(own.rounds) for own in (ours, theirs)]
    verdict: Verdict = "inconclusive"
    if not all(missed) and (mine.any() or other.any()):  # else neither had anything to learn
        verdict = verdict_of(rounds_interval(ours, theirs), *missed)
    facts = saving(ours, theirs)
    facts["difference"] = facts["difference (95 %)"]
    return Comparison(differences, verdict, facts, (-theirs.share, float(theirs.censored.mean())))


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
