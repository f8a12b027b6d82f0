"""The kinds of claims a study can make, and what its outcomes say about them: never decided by hand.

A claim is a difference that should be above zero; comparison.py says when it is. Claims are read from TOML.
"""

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import replace
from typing import Annotated, Literal, cast

import numpy as np
from pydantic import Field, field_validator

from fedteddi.results.runs import ACCURACIES, Accuracy
from fedteddi.results.tables import percent
from fedteddi.schedulers.registry import named_rule
from fedteddi.settings import Positive, Section
from fedteddi.studies.cells import cells, cells_in_short, verdict_of_cells
from fedteddi.studies.comparison import compared
from fedteddi.studies.findings import Finding, Result, above_all, ahead, counted, decided, faster, unknown
from fedteddi.studies.outcomes import DROP, EARLY, MEAN, NEW, NONE, OLD, ROUNDS, Outcomes, Place

NOT_REACHED = "not reached by any scheduler"
Share = Annotated[float, Field(gt=0, lt=1)]


class _Claim(Section):
    """What all claims share: for each accuracy a result, about every frame and deadline."""

    ours: str = ""  # the rule it is about; none named: every reading of the study's
    paper: str = NONE  # what the paper says
    accuracies: list[Accuracy] = Field(default=[*ACCURACIES])
    deadline_s: Positive | None = None  # None: all deadlines of the study
    frames: list[int] = Field(default=[1])
    # The baseline, or baselines; none named: all of the reading's, or of the study's.
    than: str | list[str] = Field(default=[])

    @field_validator("ours", "than")
    @classmethod
    def _as_runs_are_called(cls, rules: str | list[str]) -> str | list[str]:
        if isinstance(rules, str):
            return named_rule(rules).name if rules else rules
        return [named_rule(rule).name for rule in rules]

    def evaluate(self, found: Outcomes) -> list[Result]:
        """Hold the claim against the outcomes."""
        return [self._result(found, accuracy) for accuracy in self.accuracies]

    def _result(self, found: Outcomes, accuracy: str) -> Result:
        findings, rules = tuple(self._findings(found, accuracy)), (found.ours, *self._others(found))
        return Result(self._title(found), accuracy, self.paper, findings, rules, self._times(found))

    @abstractmethod
    def _title(self, found: Outcomes) -> str:
        """Say what is claimed."""

    @abstractmethod
    def _findings(self, found: Outcomes, accuracy: str) -> Iterator[Finding]:
        """Yield what was found, comparison by comparison."""

    def _others(self, found: Outcomes) -> tuple[str, ...]:
        return (self.than,) if isinstance(self.than, str) else tuple(self.than) or found.others

    def _times(self, found: Outcomes) -> tuple[float, ...]:
        return found.deadlines_s if self.deadline_s is None else (self.deadline_s,)

    def _places(self, found: Outcomes) -> Iterator[Place]:
        """Yield every frame and deadline; called by the frame where there are several, else by the deadline."""
        times = self._times(found)
        for frame in self.frames:
            framed = f"frame {frame}" if len(found.study.frames) > 1 else ""
            for time in times:
                timed = "" if framed and len(times) == 1 else f"{time:g} s"
                yield Place(frame, time, ", ".join(word for word in (framed, timed) if word))


class Faster(_Claim):
    """Ours reaches a target in fewer rounds than a baseline."""

    kind: Literal["faster"]
    than: str
    target: Share | None = None  # None: the highest level that one of them reaches
    gain: Literal["faster", "fewer rounds"] = "faster"  # R'/R − 1 or 1 − R/R': how the paper counts it
    fallback: bool = (
        False  # where the target leaves it inconclusive: also at the highest level that is reached
    )

    def evaluate(self, found: Outcomes) -> list[Result]:
        """Compare rounds at the target and, if asked to, at the highest level that is reached."""
        results = []
        highest = self.model_copy(update={"target": None, "paper": NONE})
        for accuracy in self.accuracies:
            results.append(self._result(found, accuracy))
            levels = {highest._level(found, place, accuracy) for place in self._places(found)}
            inconclusive = results[-1].verdict == "inconclusive" and not levels <= {None, self.target}
            if self.target is not None and self.fallback and inconclusive:
                results.append(highest._result(found, accuracy))
        return results

    def _title(self, found: Outcomes) -> str:
        text = f"{self.gain} than {self.than}" + (f", {self.deadline_s:g} s" if self.deadline_s else "")
        text = f"frame {self.frames[0]}: {text}" if len(found.study.frames) > 1 else text
        level = percent(self.target) if self.target else "the highest level one of them reaches"
        return f"{text}, to {level}"

    def _level(self, found: Outcomes, place: Place, accuracy: str) -> float | None:
        """Return the accuracy to be reached; None if neither reaches a level with every seed."""
        both = (found.ours, self.than)
        groups = [(rule, found.seeds(both, place.deadline_s, place.frame)) for rule in both]
        return self.target or max(found.reached_levels(groups, place, accuracy), default=None)

    def _findings(self, found: Outcomes, accuracy: str) -> Iterator[Finding]:
        for place in self._places(found):
            level = self._level(found, place, accuracy)
            finding = faster(found, self.than, place, accuracy, level, self.gain)
            every = [found.values(ROUNDS, rule, place, accuracy, level) for rule in found.rules]
            if finding.numbers and level and all(np.isnan(r) for own in every for r in own.values()):
                short = f"{place.name}, {percent(level)}: {NOT_REACHED}"
                finding = replace(finding, short=short, full=f"{finding.full}, {NOT_REACHED}")
            yield finding if self.target or not level else replace(finding, at=percent(level))


class First(_Claim):
    """Ours is ahead of every baseline, at every deadline and in every frame that is named."""

    kind: Literal["first"]
    what: Literal[
        "speed",
        "speed to each level",
        "final accuracy",
        "mean accuracy over the frame",
        "early accuracy on new classes",
    ]

    def evaluate(self, found: Outcomes) -> list[Result]:
        """Compare for each accuracy; that on new classes is neither balanced nor global."""
        return [self._result(found, NONE)] if self.what == EARLY else super().evaluate(found)

    def _title(self, found: Outcomes) -> str:
        others = self._others(found)
        what = f"first in {self.what}" if len(others) > 1 else f"ahead of {others[0]} in {self.what}"
        frames = " in every frame" if len(found.study.frames) > 1 else ""
        return what + frames + (" at every deadline" if len(self._times(found)) > 1 else "")

    def _findings(self, found: Outcomes, accuracy: str) -> Iterator[Finding]:
        """Compare with each baseline; behind one of them is not first."""
        for place in self._places(found):
            others, (frame, time, where) = self._others(found), place
            present = [rule for rule in others if found.seeds((found.ours, rule), time, frame)]
            missing = [rule for rule in others if rule not in present]
            if not present:
                yield unknown(f"{where}: no runs of {found.ours} and {missing[0]}")
            elif self.what == EARLY and np.isnan([*found.values(EARLY, found.ours, place).values()]).all():
                yield unknown(f"{where}: nothing is new, or nothing was evaluated that early")
            elif "accuracy" in self.what:
                each = {rule: ahead(found, self.what, rule, place, accuracy) for rule in present}
                finding = counted(where, each, missing)
                numbers = found.compare(self.what, others, place, accuracy)
                if self.what == MEAN:
                    often = above_all(found, present, place, cast(Accuracy, accuracy))
                    finding = replace(finding, full=f"{finding.full}, {often}")
                yield replace(finding, numbers=numbers, mark=numbers.mark) if numbers else finding
            else:
                groups = [(rule, found.seeds([rule], time, frame)) for rule in (found.ours, *present)]
                levels = found.reached_levels(groups, place, accuracy)
                if not levels:
                    why = "no scheduler reaches a multiple of 5 % above all starts with every seed"
                    yield unknown(f"{where}: {why}", "not reached")
                for level in levels if self.what == "speed to each level" else levels[-1:]:
                    each = {rule: faster(found, rule, place, accuracy, level) for rule in present}
                    at = where if self.what == "speed" else f"{where}, {percent(level)}"
                    yield counted(at, each, missing)


class LargestLead(_Claim):
    """Our lead over the mean of the baselines is largest at the tightest deadline."""

    kind: Literal["largest lead"]
    what: Literal["final accuracy", "mean accuracy over the frame"]

    def _title(self, found: Outcomes) -> str:  # noqa: ARG002
        return f"the lead in {self.what} is largest at the tightest deadline"

    def _findings(self, found: Outcomes, accuracy: str) -> Iterator[Finding]:
        tight, *others = sorted(found.deadlines_s)
        leads = {time: self._leads(found, time, accuracy) for time in (tight, *others)}
        for time in others:
            where, seeds = f"{tight:g} s against {time:g} s", sorted(set(leads[tight]) & set(leads[time]))
            if not seeds:
                yield unknown(f"{where}: runs are missing")
                continue
            one, other = (np.array([leads[t][seed] for seed in seeds]) for t in (tight, time))
            numbers = compared(one, other)
            difference = numbers.shown["difference"]
            text = f"{where}: lead {one.mean():+.3f} against {other.mean():+.3f}, difference {difference}"
            yield decided(numbers, f"{where}: {difference}", text)

    def _leads(self, found: Outcomes, time: float, accuracy: str) -> dict[int, float]:
        """Return ours minus the mean of the baselines, by seed; only seeds that all of them have."""
        rules, place = (found.ours, *self._others(found)), Place(self.frames[0], time)
        ours, *others = (found.values(self.what, rule, place, accuracy) for rule in rules)
        seeds = found.seeds(rules, time, place.frame)
        return {seed: ours[seed] - float(np.mean([own[seed] for own in others])) for seed in seeds}


class MoreScheduled(_Claim):
    """Ours schedules more clients of a kind in a round than a baseline."""

    kind: Literal["more scheduled"]
    than: str
    holding: Literal["new classes", "only old classes"]

    def evaluate(self, found: Outcomes) -> list[Result]:
        """Compare the mean number a round, which concerns no accuracy."""
        return [self._result(found, NONE)]

    def _title(self, found: Outcomes) -> str:  # noqa: ARG002
        return f"more scheduled clients with {self.holding} than {self.than}"

    def _findings(self, found: Outcomes, accuracy: str) -> Iterator[Finding]:
        metric = NEW if self.holding == "new classes" else OLD
        return (ahead(found, metric, self.than, place, accuracy, 1) for place in self._places(found))


class SmallerLateDrop(_Claim):
    """Ours falls less from a frame's best accuracy to its last than a baseline does."""

    kind: Literal["smaller late drop"]
    than: str

    def _title(self, found: Outcomes) -> str:  # noqa: ARG002
        return f"a smaller late drop than {self.than} in every frame"

    def _findings(self, found: Outcomes, accuracy: str) -> Iterator[Finding]:
        return (ahead(found, DROP, self.than, place, accuracy) for place in self._places(found))


class FewestRounds(_Claim):
    """Ours needs fewer rounds than every baseline, in every cell: a frame, a deadline, an accuracy and a target."""

    kind: Literal["fewest rounds"]
    whom: str = "every other scheduler"  # the baselines in words

    def _title(self, found: Outcomes) -> str:
        return f"{found.ours} needs fewer rounds than {self.whom}"

    def _findings(self, found: Outcomes, accuracy: str) -> Iterator[Finding]:
        """Count the cells that are won, and name those that are not; without runs of some rule, nothing is decided."""
        rules, times = (found.ours, *self._others(found)), self._times(found)
        missing = [
            f"runs of {rule} at {t:g} s" for t in times for rule in rules if not found.seeds([rule], t)
        ]
        every = [cell for cell in cells(found, rules, times) if cell.place.frame in self.frames]
        there = {cell.place.deadline_s for cell in every}
        missing = missing or [f"seed that all rules have at {t:g} s" for t in times if t not in there]
        own = [cell for cell in every if cell.accuracy == accuracy]
        text = cells_in_short(own)
        if missing:
            more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
            text = f"no {missing[0]}{more}" + (f"; so far {text}" if own else "")
        yield Finding("inconclusive" if missing else verdict_of_cells(own), text, text)


Claim = Annotated[
    Faster | First | LargestLead | MoreScheduled | SmallerLateDrop | FewestRounds, Field(discriminator="kind")
]
