"""Which of the paper's claims hold at which level, seed by seed: few seeds give wide intervals, but still a sign.

A claim is *ahead* if our rule is ahead of the rival on every seed, *behind* if it is behind on every one, and *mixed*
otherwise; beside that stands the verdict of the 95 % interval, as everywhere (comparisons.py).
"""

import math
from dataclasses import dataclass
from typing import Literal, Protocol, get_args

import numpy as np

from fedteddi.results.claims import OURS, First, MoreScheduled
from fedteddi.results.comparisons import (
    Verdict,
    by_seed,
    faster,
    final,
    highest_level,
    pair,
    points,
    scheduled_new,
)
from fedteddi.results.runs import Accuracy, Study
from fedteddi.results.tables import percent, rounds_to, saving, spread

Mark = Literal["ahead", "behind", "mixed", "not reached", "not run"]
MARKS: tuple[Mark, ...] = get_args(Mark)
PAPER = "–"  # what the paper says stands on the page of the study itself


@dataclass(frozen=True)
class Outcome:
    """What was found about a claim at a level."""

    mark: Mark
    verdict: Verdict = "cannot be judged"
    seeds: int = 0
    at: str = ""  # the accuracy to be reached, where the claim names none
    ours: str = "–"
    theirs: str = "–"
    difference: str = "–"  # above zero is ahead
    mean: str = "–"  # of the difference alone

    @property
    def words(self) -> str:
        """Say who is ahead on how many seeds."""
        return in_words(self.mark, self.seeds)


def in_words(mark: Mark, seeds: int | None = None) -> str:
    """Say who is ahead on how many seeds, or on every seed there is."""
    if mark in ("ahead", "behind"):
        some = "every seed" if seeds is None else f"all {seeds} seeds"
        every = {1: "the one seed", 2: "both seeds"}.get(seeds or 0, some)
        return f"{mark} on {every}"
    return "neither reaches it" if mark == "not reached" else mark


class LevelClaim(Protocol):
    """A claim of the paper that can be held against the runs of one level."""

    @property
    def title(self) -> str:
        """What is claimed."""

    def judge(self, study: Study, frame: int) -> Outcome:
        """Hold it against the runs of one level."""


@dataclass(frozen=True)
class FasterTo:
    """Ours reaches an accuracy in fewer rounds than a rival."""

    rival: str
    accuracy: Accuracy
    target: float | None = None  # None: the highest level that one of them reaches with every seed

    @property
    def title(self) -> str:
        """What is claimed."""
        goal = percent(self.target) if self.target is not None else "(highest level one of them reaches)"
        return f"faster than {self.rival} to {self.accuracy} {goal}"

    def judge(self, study: Study, frame: int) -> Outcome:
        """Compare the rounds, seed by seed; who misses the target needs more than any who reaches it."""
        own, theirs = pair(study, OURS, self.rival, _deadline_s(study))
        if not own:
            return Outcome("not run")
        level = self.target or highest_level([own, theirs], frame, self.accuracy)
        if level is None:
            return Outcome("not reached", seeds=len(own))
        mine, other = (rounds_to(runs, frame, level, self.accuracy) for runs in (own, theirs))
        each = zip(mine.rounds, other.rounds, strict=True)
        leads = [_or_never(b) - _or_never(a) for a, b in each if a is not None or b is not None]
        facts = saving(mine, other)
        difference = facts["difference (95 %)"]
        return Outcome(
            _mark(leads, len(own)) if leads else "not reached",
            faster(own, theirs, frame, level, self.accuracy, "").verdict,
            len(own),
            percent(level) if self.target is None else "",
            facts["ours"],
            facts["theirs"],
            difference,
            difference.partition(" [")[0],
        )


@dataclass(frozen=True)
class AheadAtTheEnd:
    """Ours ends with a higher accuracy than every one of some rivals."""

    rivals: tuple[str, ...]
    accuracy: Accuracy

    @property
    def title(self) -> str:
        """What is claimed."""
        if len(self.rivals) == 1:
            return f"ahead of {self.rivals[0]} in final {self.accuracy} accuracy"
        return f"first in final {self.accuracy} accuracy"

    def judge(self, study: Study, frame: int) -> Outcome:
        """Compare with the best rival of every seed."""
        time = _deadline_s(study)
        runs = {rule: by_seed(study, rule, time) for rule in (OURS, *self.rivals)}
        seeds = sorted(set.intersection(*(set(own) for own in runs.values())))
        if not seeds:
            return Outcome("not run")
        value = {
            rule: [final(own[seed], frame, self.accuracy) for seed in seeds] for rule, own in runs.items()
        }
        best = [max(value[rival][place] for rival in self.rivals) for place in range(len(seeds))]
        leads = np.array(value[OURS]) - np.array(best)
        judged = First("final accuracy", self.rivals, PAPER, (frame,)).judge(study, (time,))
        verdict = next(row.verdict for row in judged if row.accuracy == self.accuracy)
        return _of_leads(leads, verdict, spread(value[OURS]), spread(best))


@dataclass(frozen=True)
class MoreNew:
    """Ours schedules more clients with new classes in a round than a rival."""

    rival: str

    @property
    def title(self) -> str:
        """What is claimed."""
        return f"more scheduled clients with new classes than {self.rival}"

    def judge(self, study: Study, frame: int) -> Outcome:
        """Compare the mean number a round, seed by seed."""
        time = _deadline_s(study)
        own, theirs = pair(study, OURS, self.rival, time)
        if not own:
            return Outcome("not run")
        mine, other = ([scheduled_new(run, frame) for run in runs] for runs in (own, theirs))
        judged = MoreScheduled("with new classes", self.rival, PAPER, frame).judge(study, (time,))
        leads = np.array(mine) - np.array(other)
        return _of_leads(leads, judged[0].verdict, spread(mine, 1), spread(other, 1), digits=1)


def _of_leads(leads: np.ndarray, verdict: Verdict, ours: str, theirs: str, digits: int = 3) -> Outcome:
    return Outcome(
        _mark(leads.tolist(), len(leads)),
        verdict,
        len(leads),
        "",
        ours,
        theirs,
        points(leads, digits),
        f"{leads.mean():+.{digits}f}",
    )


def _mark(leads: list[float], seeds: int) -> Mark:
    """Judge per-seed leads, of as many seeds as there are runs; where neither reaches a target there is no lead."""
    if len(leads) == seeds and all(lead > 0 for lead in leads):
        return "ahead"
    return "behind" if len(leads) == seeds and all(lead < 0 for lead in leads) else "mixed"


def _or_never(rounds: int | None) -> float:
    return math.inf if rounds is None else rounds


def _deadline_s(study: Study) -> float:
    return study.deadlines_s[0] if study.runs else math.nan
