"""One rule against all others, cell by cell: a frame, a deadline, an accuracy and a target make a cell."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import pandas as pd

from fedteddi.results.claims import Judged
from fedteddi.results.comparisons import Finding, Verdict, verdict_of_rounds
from fedteddi.results.runs import ACCURACIES, REFERENCES, Accuracy, RunRecord, Study
from fedteddi.results.tables import RoundsTo, Targets, percent, rounds_to, saving
from fedteddi.schedulers.registry import named_rule

Outcome = Literal["won", "tied", "not won", "open", "there from the start", "nobody gets there"]


@dataclass(frozen=True)
class Cell:
    """Rounds to a target of our rule and of every other, on the seeds that all of them have."""

    frame: int
    deadline_s: float
    accuracy: Accuracy
    target: float
    ours: RoundsTo
    others: dict[str, RoundsTo]

    @property
    def place(self) -> tuple[int, float]:
        """Frame and deadline."""
        return self.frame, self.deadline_s

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
            return "there from the start"
        if not any(rounds.reached for rounds in every):
            return "nobody gets there"
        mine, others = _mean(self.ours), self.others.values()
        if any(self._is_beaten_by(other) for other in others):
            return "not won"
        if not _is_whole(self.ours) or any(self._may_be_beaten_by(other) for other in others):
            return "open"
        return "tied" if any(_is_whole(other) and _mean(other) == mine for other in others) else "won"

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
        return self.outcome not in ("there from the start", "nobody gets there")

    @property
    def is_clear(self) -> bool:
        """Whether 95 % intervals say so too: against every rule if won, against one of the better ones if not."""
        others = self.others.values()
        if self.outcome == "won":
            return all(verdict_of_rounds(self.ours, other) == "holds" for other in others)
        beating = [other for other in others if self._is_beaten_by(other)]
        return any(verdict_of_rounds(self.ours, other) == "does not hold" for other in beating)

    def row(self) -> dict[str, object]:
        """Return the cell as a row of a table."""
        other = self.others[self.best_other]
        facts = saving(self.ours, other)
        return {
            "frame": self.frame,
            "deadline s": self.deadline_s,
            "accuracy": self.accuracy,
            "to": percent(self.target),
            "seeds": len(self.ours.rounds),
            "ours": facts["ours"],
            "best other rule": f"{self.best_other}, {facts['theirs']}",
            "fewer rounds": facts["fewer rounds"],
            "difference (95 %)": facts["difference (95 %)"],
            "outcome": self.outcome + (", clearly" if self.is_clear else ""),
        }


@dataclass(frozen=True)
class FewestRounds:
    """A rule needs fewer rounds than every other of some, in every cell; rules as `named_rule` reads them."""

    ours: str
    others: tuple[str, ...]
    targets: Targets
    whom: str = "every other rule"  # the others in words

    def judge(self, study: Study, deadlines_s: tuple[float, ...]) -> list[Judged]:
        """Count the cells that are won, and name those that are not; without runs of some rule, nothing is decided."""
        rules = tuple(named_rule(rule).name for rule in (self.ours, *self.others))
        missing = [
            f"runs of {rule} at {deadline_s:g} s"
            for deadline_s in deadlines_s
            for rule in rules
            if not any(run.finished for run in study.of(rule, deadline_s))
        ]
        asked = Study(
            tuple(
                r for r in study.runs if r.scheduler in rules and r.settings.radio.deadline_s in deadlines_s
            )
        )
        every = cells(asked, rules[0], self.targets)
        if not missing:
            there = {cell.deadline_s for cell in every}
            missing = [f"seed that all rules have at {time:g} s" for time in deadlines_s if time not in there]
        found = []
        for accuracy in ACCURACIES:
            own = [cell for cell in every if cell.accuracy == accuracy]
            text = cells_in_short(own)
            if missing:
                more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
                text = f"no {missing[0]}{more}" + (f"; so far {text}" if own else "")
            verdict: Verdict = "cannot be judged" if missing else _verdict(own)
            claim = f"{self.ours} needs fewer rounds than {self.whom}"
            found.append(Judged(claim, accuracy, "–", (Finding(verdict, text, text),), rules, deadlines_s))
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
    for frame, deadline_s, accuracy, runs in contests(study, ours):
        for target in targets[accuracy]:
            each = {rule: rounds_to(own, frame, target, accuracy) for rule, own in runs.items()}
            mine = each.pop(ours)
            found.append(Cell(frame, deadline_s, accuracy, target, mine, each))
    return found


def contests(study: Study, ours: str) -> Iterator[tuple[int, float, Accuracy, dict[str, list[RunRecord]]]]:
    """Yield frame, deadline, accuracy and every rule's runs of the seeds that all have, where ours has a rival."""
    for frame in study.frames:
        for deadline_s in study.deadlines_s:
            runs = _runs_of_shared_seeds(study, deadline_s)
            if ours in runs and len(runs) > 1:
                for accuracy in ACCURACIES:
                    yield frame, deadline_s, accuracy, runs


def cells_table(found: list[Cell]) -> pd.DataFrame:
    """Return the cells as a table; the frame only where there are several."""
    table = pd.DataFrame([cell.row() for cell in found])
    if len(found) and len({cell.frame for cell in found}) == 1:
        table = table.drop(columns="frame")
    return table


def cells_at_a_glance(found: list[Cell]) -> pd.DataFrame:
    """Return a row for each target that is contested somewhere, a column for each frame or deadline.

    In a cell our rounds, bold in Markdown where they are the fewest, above those of the best other rule.
    """
    named = _places(found)
    contested = {(cell.accuracy, cell.target) for cell in found if cell.is_contested}
    rows: dict[tuple[str, float], dict[str, str]] = {}
    for cell in found:
        if (target := (cell.accuracy, cell.target)) in contested:
            rows.setdefault(target, {})[named[cell.place]] = _at_a_glance(cell)
    return pd.DataFrame(
        [{"rounds to": f"{accuracy} {percent(target)}"} | each for (accuracy, target), each in rows.items()]
    )


def _at_a_glance(cell: Cell) -> str:
    if not cell.is_contested:
        return cell.outcome
    facts = cell.row()
    mine = f"**{facts['ours']}**" if cell.outcome == "won" else str(facts["ours"])
    return f"{mine}<br>{facts['best other rule']}"


def cells_in_short(found: list[Cell]) -> str:
    """Say how many cells were won and which were not."""
    contested = [cell for cell in found if cell.is_contested]
    won = [cell for cell in contested if cell.outcome == "won"]
    text = f"won {len(won)} of {len(contested)} cells ({sum(cell.is_clear for cell in won)} clearly)"
    lost = [cell for cell in contested if cell.outcome != "won"]
    if lost:
        named = _places(found)
        text += "; not won: " + "; ".join(_named(cell, named[cell.place]) for cell in lost)
    return text


def _named(cell: Cell, place: str) -> str:
    why = cell.best_other if cell.outcome == "not won" else f"{cell.outcome}, {cell.best_other}"
    return f"{place}, {cell.accuracy} {percent(cell.target)} ({why})"


def _places(found: list[Cell]) -> dict[tuple[int, float], str]:
    """Name each frame and deadline: by the frame if there are several; by the deadline likewise, or if that is all."""
    frames, deadlines = {cell.frame for cell in found}, {cell.deadline_s for cell in found}
    named = {}
    for cell in found:
        of_frame = [f"frame {cell.frame}"] if len(frames) > 1 else []
        of_deadline = [f"{cell.deadline_s:g} s"] if len(deadlines) > 1 or not of_frame else []
        named[cell.place] = ", ".join(of_frame + of_deadline)
    return named


def _mean(rounds: RoundsTo) -> float:
    """Return the mean rounds, with K for those that never get there: then it is a lower bound."""
    return float(rounds.censored.mean())


def _is_whole(rounds: RoundsTo) -> bool:
    return rounds.reached == len(rounds.rounds)


def _runs_of_shared_seeds(study: Study, deadline_s: float) -> dict[str, list[RunRecord]]:
    """Return the finished runs of every rule at a deadline, of the seeds that all of them have."""
    each = {
        rule: {run.settings.seed: run for run in study.of(rule, deadline_s) if run.finished}
        for rule in study.schedulers
        if rule not in REFERENCES
    }
    each = {rule: own for rule, own in each.items() if own}
    shared = sorted(set.intersection(*(set(own) for own in each.values()))) if each else []
    return {rule: [own[seed] for seed in shared] for rule, own in each.items()} if shared else {}
