"""One rule against all others, cell by cell: a frame, a deadline, an accuracy and a target make a cell."""

from dataclasses import dataclass
from typing import Literal

import pandas as pd

from fedteddi.results.claims import Judged
from fedteddi.results.comparisons import Finding, Verdict
from fedteddi.results.runs import ACCURACIES, REFERENCES, Accuracy, RunRecord, Study
from fedteddi.results.tables import RoundsTo, Targets, mean_interval, percent, rounds_to, saving

Outcome = Literal["won", "tied", "not won", "there from the start", "nobody gets there"]


@dataclass(frozen=True)
class Cell:
    """Rounds to a target of our rule and of the best other one, on the seeds that all of them have."""

    frame: int
    deadline_s: float
    accuracy: Accuracy
    target: float
    ours: RoundsTo
    others: dict[str, RoundsTo]

    @property
    def best_other(self) -> str:
        """The rule that is there first: most seeds that get there at all, then fewest rounds in the mean."""
        return min(self.others, key=lambda name: _standing(self.others[name]))

    @property
    def outcome(self) -> Outcome:
        """Won if our rule is there before every other, in the mean over seeds."""
        best = self.others[self.best_other]
        if not self.ours.censored.any() and not best.censored.any():
            return "there from the start"
        if self.ours.reached == best.reached == 0:
            return "nobody gets there"
        mine, theirs = _standing(self.ours), _standing(best)
        return "won" if mine < theirs else "tied" if mine == theirs else "not won"

    @property
    def is_contested(self) -> bool:
        """Whether there was anything to be won."""
        return self.outcome not in ("there from the start", "nobody gets there")

    @property
    def is_clear(self) -> bool:
        """Whether the 95 % interval of the difference from the best other rule, seed by seed, leaves out zero."""
        differences = self.others[self.best_other].censored - self.ours.censored
        _, low, high = mean_interval(differences)
        return low > 0 or high < 0

    def row(self) -> dict[str, object]:
        """Return the cell as a row of a table."""
        other = self.others[self.best_other]
        facts = saving(self.ours, other)
        clear = self.outcome in ("won", "not won") and self.is_clear
        return {
            "frame": self.frame,
            "deadline s": self.deadline_s,
            "accuracy": self.accuracy,
            "to": percent(self.target),
            "ours": facts["ours"],
            "best other rule": f"{self.best_other}, {facts['theirs']}",
            "fewer rounds": facts["fewer rounds"],
            "difference (95 %)": facts["difference (95 %)"],
            "outcome": self.outcome + (", clearly" if clear else ""),
        }


@dataclass(frozen=True)
class FewestRounds:
    """A rule needs fewer rounds than every other, in every cell."""

    ours: str
    targets: Targets

    def judge(self, study: Study, deadlines_s: tuple[float, ...]) -> list[Judged]:
        """Count the cells that are won, and name those that are not."""
        found = []
        for accuracy in ACCURACIES:
            own = [cell for cell in cells(study, self.ours, self.targets) if cell.accuracy == accuracy]
            text = cells_in_short(own) if own else f"no runs of {self.ours} and another rule"
            finding = Finding(_verdict(own), text, text)
            claim = f"{self.ours} needs fewer rounds than every other rule"
            found.append(Judged(claim, accuracy, "–", (finding,), tuple(study.schedulers), deadlines_s))
        return found


def _verdict(found: list[Cell]) -> Verdict:
    """Holds if every cell that can be won is won clearly; does not if one is clearly not."""
    contested = [cell for cell in found if cell.is_contested]
    if any(cell.outcome == "not won" and cell.is_clear for cell in contested):
        return "does not hold"
    won = [cell.outcome == "won" and cell.is_clear for cell in contested]
    return "holds" if won and all(won) else "cannot be judged"


def cells(study: Study, ours: str, targets: Targets) -> list[Cell]:
    """Return every cell for which our rule and at least one other have runs of the same seeds."""
    found = []
    for frame in study.frames:
        for deadline_s in study.deadlines_s:
            runs = _by_rule(study, deadline_s)
            if ours not in runs or len(runs) < 2:
                continue
            for accuracy in ACCURACIES:
                for target in targets[accuracy]:
                    each = {rule: rounds_to(own, frame, target, accuracy) for rule, own in runs.items()}
                    mine = each.pop(ours)
                    found.append(Cell(frame, deadline_s, accuracy, target, mine, each))
    return found


def cells_table(found: list[Cell]) -> pd.DataFrame:
    """Return the cells as a table; the frame only where there are several."""
    table = pd.DataFrame([cell.row() for cell in found])
    if len(found) and len({cell.frame for cell in found}) == 1:
        table = table.drop(columns="frame")
    return table


def cells_in_short(found: list[Cell]) -> str:
    """Say how many cells were won and which were not."""
    contested = [cell for cell in found if cell.is_contested]
    won = [cell for cell in contested if cell.outcome == "won"]
    text = f"won {len(won)} of {len(contested)} cells ({sum(cell.is_clear for cell in won)} clearly)"
    lost = [cell for cell in contested if cell.outcome != "won"]
    if lost:
        text += "; not won: " + "; ".join(_named(cell, len({c.frame for c in found}) > 1) for cell in lost)
    return text


def _named(cell: Cell, with_frame: bool) -> str:
    frame = f"frame {cell.frame}, " if with_frame else ""
    return f"{frame}{cell.deadline_s:g} s, {cell.accuracy} {percent(cell.target)} ({cell.best_other})"


def _standing(rounds: RoundsTo) -> tuple[int, float]:
    return -rounds.reached, float(rounds.censored.mean())


def _by_rule(study: Study, deadline_s: float) -> dict[str, list[RunRecord]]:
    """Return the finished runs of every rule at a deadline, of the seeds that all of them have."""
    each = {
        rule: {run.settings.seed: run for run in study.of(rule, deadline_s) if run.finished}
        for rule in study.schedulers
        if rule not in REFERENCES
    }
    each = {rule: own for rule, own in each.items() if own}
    shared = sorted(set.intersection(*(set(own) for own in each.values()))) if each else []
    return {rule: [own[seed] for seed in shared] for rule, own in each.items()} if shared else {}
