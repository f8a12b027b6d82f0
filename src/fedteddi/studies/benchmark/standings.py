"""Which rules are ahead: what each reached and spent in every scenario, and the mean over scenarios.

A rule's *score* on a seed is the mean balanced accuracy over the rounds, over the scenarios: it needs no target, so
that nothing is censored, and a rule that joins does not change anybody's. Rules are compared seed by seed.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate

import numpy as np
from scipy import stats

from fedteddi.results.measures import RoundsTo
from fedteddi.results.runs import ACCURACIES, Accuracy, RunRecord, Study
from fedteddi.results.tables import Targets
from fedteddi.studies.benchmark.plan import Benchmark, Scenario
from fedteddi.studies.comparison import Comparison, compared
from fedteddi.studies.outcomes import MEAN, NEW, OLD, Outcomes, Place
from fedteddi.studies.summaries import Summaries

SCORE: Accuracy = "balanced"


@dataclass(frozen=True, eq=False)
class Reached:
    """What the finished runs of one scenario came to."""

    scenario: Scenario
    outcomes: Outcomes

    @property
    def rules(self) -> list[str]:
        """The rules that have finished runs."""
        return self.outcomes.rules

    def seeds(self, rules: Iterable[str]) -> list[int]:
        """Return the seeds that all these rules have finished."""
        return self.outcomes.seeds(rules, self._deadline_s)

    def mean_accuracy(self, rule: str, accuracy: Accuracy) -> dict[int, float]:
        """Return the mean over the frames' mean accuracies, by seed."""
        frames = self.outcomes.study.frames
        each = [self.outcomes.values(MEAN, rule, self._place(frame), accuracy) for frame in frames]
        return {seed: float(np.mean([own[seed] for own in each])) for seed in each[0]}

    def rounds_to_target(self, rule: str) -> RoundsTo:
        """Return the rounds until the target is first reached, counted over all frames."""
        seeds, frames = self.seeds([rule]), self.outcomes.study.frames
        target = self.scenario.target
        each = [self.outcomes.rounds_to(rule, self._place(frame), SCORE, target, seeds) for frame in frames]
        starts = [0, *accumulate(own.in_frame for own in each)]
        found = []
        for rounds in zip(*(own.rounds for own in each), strict=True):
            reached = (
                before + own for before, own in zip(starts[:-1], rounds, strict=True) if own is not None
            )
            found.append(next(reached, None))
        return RoundsTo(tuple(found), starts[-1], each[0].every)

    def spent(self, rule: str, column: str, rounds: Iterable[int] | None = None) -> np.ndarray:
        """Return the sum of a cost over a rule's first rounds, by seed, or over all of them, [seeds].

        The last of the first rounds was evaluated, or ends its frame.
        """
        runs = self.outcomes.study.of(rule)
        until = [sum(run.settings.rounds) for run in runs] if rounds is None else rounds
        return np.array([_spent(run, column, last) for run, last in zip(runs, until, strict=True)])

    def clients_a_round(self, rule: str) -> np.ndarray:
        """Return how many clients a rule schedules in a round, [seeds]."""
        frames, rounds = self.outcomes.study.frames, self.outcomes.study.runs[0].settings.rounds
        each = []
        for frame in frames:
            new, old = (self.outcomes.values(metric, rule, self._place(frame)) for metric in (NEW, OLD))
            each.append([new[seed] + old[seed] for seed in self.seeds([rule])])
        return np.average(
            each, axis=0, weights=[rounds[frame] for frame in frames]
        )  # [frames, seeds] -> [seeds]

    @property
    def _deadline_s(self) -> float:
        return self.outcomes.deadlines_s[0]

    def _place(self, frame: int) -> Place:
        return Place(frame, self._deadline_s)


def _spent(run: RunRecord, column: str, rounds: int) -> float:
    """Return the sum of a column over a run's first rounds, frame after frame."""
    spent = 0.0
    for frame, in_frame in enumerate(run.settings.rounds):
        own = min(rounds, in_frame)
        spent += run.spent_until(frame, own, column)
        rounds -= own
    return spent


@dataclass(frozen=True, eq=False)
class Standings:
    """All scenarios, the rules that can be ranked, and how each compares with the first."""

    scenarios: tuple[Reached, ...]
    seeds: tuple[int, ...]  # of the ranking
    rules: tuple[str, ...]  # that have all of these in every scenario, by falling score

    def score(self, rule: str, accuracy: Accuracy = SCORE) -> np.ndarray:
        """Return the mean accuracy over the scenarios, [seeds]."""
        each = [found.mean_accuracy(rule, accuracy) for found in self.scenarios]
        return np.array([np.mean([own[seed] for own in each]) for seed in self.seeds])

    def behind_first(self, rule: str) -> Comparison:
        """Compare the first rule's score with another's: the verdict says whether that one is clearly behind."""
        return compared(self.score(self.rules[0]), self.score(rule))

    def level_with_first(self) -> list[str]:
        """Return the other rules that are not clearly behind the first."""
        return [rule for rule in self.rules[1:] if self.behind_first(rule).verdict != "holds"]

    def best_of(self, found: Reached) -> tuple[str, list[str]]:
        """Return a scenario's rule of the highest mean accuracy, and the others not clearly behind it."""
        values = {rule: self._values(found, rule) for rule in self.rules}
        best = max(self.rules, key=lambda rule: float(values[rule].mean()))
        others = [rule for rule in self.rules if rule != best]
        return best, [r for r in others if compared(values[best], values[r]).verdict != "holds"]

    @cached_property
    def ranks(self) -> dict[str, list[float]]:
        """A rule's rank in every scenario, by the mean over seeds; ties share theirs."""
        each = []
        for found in self.scenarios:
            means = [float(self._values(found, rule).mean()) for rule in self.rules]
            each.append(stats.rankdata(-np.array(means)))
        return {rule: [float(own[index]) for own in each] for index, rule in enumerate(self.rules)}

    def _values(self, found: Reached, rule: str) -> np.ndarray:
        own = found.mean_accuracy(rule, SCORE)
        return np.array([own[seed] for seed in self.seeds])


def standings(plan: Benchmark, summaries: Summaries) -> Standings:
    """Rank the rules that have finished the same seeds in every scenario: the seeds that most runs can be used with."""
    each = tuple(found for scenario in plan.scenarios if (found := _reached(plan, scenario, summaries)).rules)
    whole = {
        rule: set.intersection(*(set(own.seeds([rule])) for own in each))
        for rule in dict.fromkeys(rule for own in each for rule in own.rules)
    }

    def usable(seeds: set[int]) -> tuple[int, int]:
        return len(seeds) * sum(own >= seeds for own in whole.values()), len(seeds)

    seeds = max(whole.values(), key=usable, default=set())
    ranked = [rule for rule, own in whole.items() if seeds and own >= seeds]
    unordered = Standings(each, tuple(sorted(seeds)), tuple(ranked))
    order = sorted(ranked, key=lambda rule: -float(unordered.score(rule).mean()))
    return replace(unordered, rules=tuple(order))


def _reached(plan: Benchmark, scenario: Scenario, summaries: Summaries) -> Reached:
    runs = tuple(one.run for one in summaries.runs if one.level == scenario.name)
    deadlines_s = [plan.settings(scenario).radio.deadline_s]
    targets: Targets = {accuracy: [scenario.target] for accuracy in ACCURACIES}
    return Reached(scenario, Outcomes(Study(runs), "", (), deadlines_s, targets))
