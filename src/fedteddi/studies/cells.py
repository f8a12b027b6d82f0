"""One rule against all others: cell by cell (a frame, a deadline, an accuracy and a target), and without a target."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd

from fedteddi.results.measures import RoundsTo
from fedteddi.results.runs import ACCURACIES, Accuracy
from fedteddi.results.tables import percent, saving
from fedteddi.studies.comparison import Verdict, compared, compared_rounds, together
from fedteddi.studies.outcomes import FINAL, MEAN, Outcomes, Place

Outcome = Literal["won", "tied", "not won", "open", "already met at round 0", "not reached by any scheduler"]
MEASURES = {MEAN: "mean over the frame", FINAL: "at its end"}


@dataclass(frozen=True)
class Cell:
    """Rounds to a target of our rule and of every other, on the seeds that all of them have."""

    place: Place
    accuracy: Accuracy
    target: float
    ours: RoundsTo
    others: dict[str, RoundsTo]

    @property
    def best_other(self) -> str:
        """The rule that gets there with most seeds, and of several the one with the fewest rounds in the mean.

        In this order, because a run that never gets there counts as K, which flatters it. Where only such a rule leaves
        the cell open, it is that one.
        """
        doubtful = [name for name, other in self.others.items() if self._may_be_beaten_by(other)]
        rules = doubtful if self.outcome == "open" and doubtful else self.others
        return min(rules, key=lambda name: (-self.others[name].reached, _mean(self.others[name])))

    @property
    def outcome(self) -> Outcome:
        """Won if our rule needs fewer rounds than every other, in the mean over seeds.

        Of a rule that misses the target with some seed, the mean is more than what it is with K in their place. Where
        that leaves two rules' order open, so is the cell.
        """
        every = (self.ours, *self.others.values())
        if not any(rounds.censored.any() for rounds in every):
            return "already met at round 0"
        if not any(rounds.reached for rounds in every):
            return "not reached by any scheduler"
        others = self.others.values()
        if any(self._is_beaten_by(other) for other in others):
            return "not won"
        if not _is_whole(self.ours) or any(self._may_be_beaten_by(other) for other in others):
            return "open"
        tied = any(_is_whole(other) and _mean(other) == _mean(self.ours) for other in others)
        return "tied" if tied else "won"

    def _is_beaten_by(self, other: RoundsTo) -> bool:
        """Whether another rule surely needs fewer rounds in the mean; where ours misses some, its mean is above K's."""
        mine, theirs = _mean(self.ours), _mean(other)
        return _is_whole(other) and (theirs < mine or (theirs == mine and not _is_whole(self.ours)))

    def _may_be_beaten_by(self, other: RoundsTo) -> bool:
        """Whether ours gets there with every seed, and another would need fewer rounds but for the seeds it misses."""
        return _is_whole(self.ours) and not _is_whole(other) and _mean(other) < _mean(self.ours)

    @property
    def is_contested(self) -> bool:
        """Whether there was anything to be won."""
        return self.outcome not in ("already met at round 0", "not reached by any scheduler")

    @property
    def verdict(self) -> Verdict:
        """What 95 % intervals decide: won against every rule, or not won against one of the better ones."""
        if self.outcome == "won":
            won = together(compared_rounds(self.ours, other).verdict for other in self.others.values())
            return "holds" if won == "holds" else "inconclusive"
        beating = [other for other in self.others.values() if self._is_beaten_by(other)]
        lost = (compared_rounds(self.ours, other).verdict == "does not hold" for other in beating)
        return "does not hold" if any(lost) else "inconclusive"

    @property
    def is_clear(self) -> bool:
        """Whether intervals decide."""
        return self.verdict != "inconclusive"

    def row(self) -> dict[str, object]:
        """Return the cell as a row of a table."""
        facts = saving(self.ours, self.others[self.best_other])
        return {
            "frame": self.place.frame,
            "deadline s": self.place.deadline_s,
            "accuracy": self.accuracy,
            "to": percent(self.target),
            "seeds": len(self.ours.rounds),
            "ours": facts["ours"],
            "best other rule": f"{self.best_other}, {facts['theirs']}",
            "fewer rounds": facts["fewer rounds"],
            "difference (95 %)": facts["difference (95 %)"],
            "outcome": self.outcome + (", clearly" if self.is_clear else ""),
        }


def verdict_of_cells(found: list[Cell]) -> Verdict:
    """Return holds if every cell that can be won is won clearly, does not hold if one is clearly not."""
    return together(cell.verdict for cell in found if cell.is_contested)


def cells(found: Outcomes, rules: Iterable[str], deadlines_s: Iterable[float]) -> list[Cell]:
    """Return every cell for which our rule and at least one other of these have runs of the same seeds."""
    every = []
    for place, accuracy, there, seeds in _contests(found, rules, deadlines_s):
        for target in found.targets[accuracy]:
            each = {rule: found.rounds_to(rule, place, accuracy, target, seeds) for rule in there}
            every.append(Cell(place, accuracy, target, each.pop(found.ours), each))
    return every


def _contests(
    found: Outcomes, rules: Iterable[str], deadlines_s: Iterable[float]
) -> Iterator[tuple[Place, Accuracy, list[str], list[int]]]:
    """Yield place, accuracy, the rules that have runs, and the seeds that all of them have."""
    wanted, times = list(rules), list(deadlines_s)
    for frame in found.study.frames:
        for time in times:
            there = [rule for rule in found.rules if rule in wanted and found.seeds([rule], time)]
            seeds = found.seeds(there, time)
            if seeds and found.ours in there and len(there) > 1:
                yield from ((Place(frame, time), accuracy, there, seeds) for accuracy in ACCURACIES)


def cells_table(found: list[Cell]) -> pd.DataFrame:
    """Return the cells as a table."""
    return _table([cell.row() for cell in found])


def _table(rows: list[dict[str, object]]) -> pd.DataFrame:
    """Return rows as a table; the frame only where there are several."""
    table = pd.DataFrame(rows)
    return table.drop(columns="frame") if len({row["frame"] for row in rows}) == 1 else table


def cells_in_short(found: list[Cell]) -> str:
    """Say how many cells were won and which were not."""
    contested = [cell for cell in found if cell.is_contested]
    won = [cell for cell in contested if cell.outcome == "won"]
    text = f"won {len(won)} of {len(contested)} cells ({sum(cell.is_clear for cell in won)} clearly)"
    lost = [cell for cell in contested if cell.outcome != "won"]
    return text + ("; not won: " + "; ".join(_named(cell, found) for cell in lost) if lost else "")


def _named(cell: Cell, found: list[Cell]) -> str:
    """Name a cell: by its frame if there are several; by its deadline likewise, or if that is all."""
    where = [f"frame {cell.place.frame}"] if len({one.place.frame for one in found}) > 1 else []
    if not where or len({one.place.deadline_s for one in found}) > 1:
        where.append(f"{cell.place.deadline_s:g} s")
    why = cell.best_other if cell.outcome == "not won" else f"{cell.outcome}, {cell.best_other}"
    return f"{', '.join(where)}, {cell.accuracy} {percent(cell.target)} ({why})"


def standing_table(found: Outcomes) -> pd.DataFrame:
    """Return our rule's place and the best other rule, for each frame, deadline and accuracy; seeds that all have."""
    rows = []
    for place, accuracy, rules, seeds in _contests(found, found.rules, found.study.deadlines_s):
        for metric, measure in MEASURES.items():
            each = {rule: found.values(metric, rule, place, accuracy) for rule in rules}
            values = {rule: np.array([own[seed] for seed in seeds]) for rule, own in each.items()}
            where = {"frame": place.frame, "deadline s": place.deadline_s, "accuracy": accuracy}
            rows.append(where | {"measure": measure} | _standing(values, found.ours))
    return _table(rows)


def _standing(values: dict[str, np.ndarray], ours: str) -> dict[str, object]:
    """Return a row: our value, place, the best other rule, and from whom a 95 % interval tells us apart."""
    mine = values[ours]
    against = {rule: compared(mine, own) for rule, own in values.items() if rule != ours}
    best = max(against, key=lambda rule: float(values[rule].mean()))
    ahead = {rule for rule, own in against.items() if own.verdict == "holds"}
    # "Does not hold" of the one is not "ahead" of the other: they may be the same.
    behind = {rule for rule in against if compared(values[rule], mine).verdict == "holds"}
    open_ = [rule for rule in against if rule not in ahead | behind]
    facts = against[best].shown
    better = sum(float(values[rule].mean()) > float(mine.mean()) for rule in against)
    return {
        "seeds": len(mine),
        "ours": facts["ours"],
        "place": f"{1 + better} of {len(values)}",
        "best other rule": f"{best}, {facts['theirs']}",
        "difference (95 %)": facts["difference"],
        "clearly ahead of": len(ahead),
        "clearly behind": len(behind),
        "not told apart from": "any" if len(open_) == len(against) > 1 else ", ".join(open_) or "–",
    }


def _mean(rounds: RoundsTo) -> float:
    """Return the mean rounds, with K for those that never get there: then it is a lower bound."""
    return float(rounds.censored.mean())


def _is_whole(rounds: RoundsTo) -> bool:
    return rounds.reached == len(rounds.rounds)
