"""What the runs of a study came to: one row per run, frame and metric, and the comparisons made of them."""

import copy
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from fedteddi.results.measures import RoundsTo
from fedteddi.results.runs import ACCURACIES, REFERENCES, Accuracy, RunRecord, Study
from fedteddi.results.tables import Targets, scheduled_a_round
from fedteddi.studies.comparison import Comparison, compared

LEVELS = tuple(round(0.05 * step, 2) for step in range(1, 20))  # accuracies, where a claim names no target
COLUMNS = ["scheduler", "deadline_s", "seed", "frame", "metric", "accuracy", "target", "value"]
ROUNDS = "rounds to"
FINAL, MEAN = "final accuracy", "mean accuracy over the frame"
DROP, START = "late drop", "accuracy at round 0"
NEW, OLD = "scheduled clients with new classes", "scheduled clients with only old classes"
EARLY = "early accuracy on new classes"
NONE = "–"  # the accuracy of a metric that has none


class Place(NamedTuple):
    """Where schedulers are compared, and what that is called."""

    frame: int
    deadline_s: float
    name: str = ""


def mean_over_frame(run: RunRecord, frame: int, accuracy: Accuracy) -> float:
    """Return the mean accuracy over the frame's evaluations: speed without a target, so that nothing is censored."""
    return float(np.mean([record.accuracy(accuracy) for record in run.evaluated(frame)]))


def late_drop(run: RunRecord, frame: int, accuracy: Accuracy) -> float:
    """Return the best accuracy at any evaluation of the frame's rounds minus that at its end.

    The model that entered the frame does not count: to fall from that is an early drop.
    """
    found = [record.accuracy(accuracy) for record in run.evaluated(frame) if record.round]
    return float(max(found) - found[-1])


def early_on_new(run: RunRecord, frame: int) -> float:
    """Return the mean accuracy on the frame's new classes over the evaluations of the first quarter of its rounds.

    The model that entered the frame does not count. NaN where nothing is new, or that early nothing was evaluated.
    """
    quarter, curve = run.settings.rounds[frame] / 4, run.curve()
    own = curve[(curve["frame"] == frame) & (curve["round"] > 0) & (curve["round"] <= quarter)]
    return float(own["new"].mean())


METRICS: dict[str, Callable[[RunRecord, int, Accuracy], float]] = {
    FINAL: lambda run, frame, accuracy: run.evaluated(frame)[-1].accuracy(accuracy),
    MEAN: mean_over_frame,
    DROP: late_drop,
    START: lambda run, frame, accuracy: run.evaluated(frame)[0].accuracy(accuracy),
}


class Outcomes:
    """The finished runs of a study as one tidy table, and one rule of it compared with others."""

    def __init__(
        self, study: Study, ours: str, others: Iterable[str], deadlines_s: Iterable[float], targets: Targets
    ) -> None:
        self.study = Study(tuple(run for run in study.runs if run.finished))
        self.ours, self.others, self.deadlines_s = ours, tuple(others), tuple(deadlines_s)
        self.targets = targets
        self.rules = [rule for rule in self.study.schedulers if rule not in REFERENCES]
        rows = [row for run in self.study.runs for row in self._rows(run)]
        self.table = pd.DataFrame(rows, columns=COLUMNS)
        self._found: dict[tuple[Any, ...], dict[int, float]] = {}
        for rule, time, seed, *what, value in rows:
            self._found.setdefault((rule, time, *what), {})[seed] = value

    def about(self, ours: str, others: Iterable[str]) -> "Outcomes":
        """Return the same outcomes, of another rule compared with others."""
        found = copy.copy(self)
        found.ours, found.others = ours, tuple(others)
        return found

    def _rows(self, run: RunRecord) -> Iterator[tuple[Any, ...]]:
        about = (run.scheduler, run.settings.radio.deadline_s, run.settings.seed)
        for frame in self.study.frames:
            for accuracy in ACCURACIES:
                for metric, measure in METRICS.items():
                    yield (*about, frame, metric, accuracy, None, measure(run, frame, accuracy))
                for target in sorted({*LEVELS, *self.targets[accuracy]}):
                    needed = run.rounds_to(frame, target, accuracy)
                    yield (*about, frame, ROUNDS, accuracy, target, np.nan if needed is None else needed)
            clients, new = scheduled_a_round([run], frame)
            yield (*about, frame, NEW, NONE, None, new)
            yield (*about, frame, OLD, NONE, None, clients - new)
            yield (*about, frame, EARLY, NONE, None, early_on_new(run, frame))

    def values(
        self, metric: str, rule: str, place: Place, accuracy: str = NONE, target: float | None = None
    ) -> dict[int, float]:
        """Return one outcome of a rule by seed."""
        return self._found.get((rule, place.deadline_s, place.frame, metric, accuracy, target), {})

    def seeds(self, rules: Iterable[str], deadline_s: float, frame: int | None = None) -> list[int]:
        """Return the seeds that all these rules have at a deadline; none if a frame is named that has no rounds."""
        each = [{run.settings.seed for run in self.study.of(rule, deadline_s)} for rule in rules]
        there = frame is None or frame in self.study.frames
        return sorted(set.intersection(*each)) if each and there else []

    def rounds_to(
        self, rule: str, place: Place, accuracy: str, target: float, seeds: Iterable[int]
    ) -> RoundsTo:
        """Return the rounds of a rule to a target, seed by seed."""
        found, settings = self.values(ROUNDS, rule, place, accuracy, target), self.study.runs[0].settings
        rounds = (None if np.isnan(found[seed]) else int(found[seed]) for seed in seeds)
        return RoundsTo(tuple(rounds), settings.rounds[place.frame], settings.evaluation.every)

    def compare(
        self, metric: str, others: Sequence[str], place: Place, accuracy: str = NONE, digits: int = 3
    ) -> Comparison | None:
        """Compare ours with another rule, or with the best of several on each seed; None without a common seed."""
        rules = (self.ours, *others)
        seeds = self.seeds(rules, place.deadline_s, place.frame)
        each = [self.values(metric, rule, place, accuracy) for rule in rules]
        ours, *theirs = (np.array([own[seed] for seed in seeds]) for own in each)
        return compared(ours, np.max(theirs, axis=0), digits, smaller=metric == DROP) if seeds else None

    def reached_levels(
        self, groups: Iterable[tuple[str, list[int]]], place: Place, accuracy: str
    ) -> list[float]:
        """Return the levels above every start of the frame that at least one rule reaches with all given seeds."""
        groups = [(rule, seeds) for rule, seeds in groups if seeds]
        starts = [self.values(START, rule, place, accuracy)[seed] for rule, own in groups for seed in own]

        def reached(level: float) -> bool:
            rounds = (self.rounds_to(rule, place, accuracy, level, seeds) for rule, seeds in groups)
            return any(own.share == 1 for own in rounds)

        return [level for level in LEVELS if level > max(starts, default=0.0) and reached(level)]
