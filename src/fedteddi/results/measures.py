"""What tables are made of: measures of a run in a frame, by name, and their mean, deviation and interval over seeds."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
from scipy import stats

from fedteddi.errors import InputError, nearest_hint, shown
from fedteddi.results.runs import ACCURACIES, REFERENCES, Accuracy, RunRecord, mean_over_classes

Style = Literal["share", "clients", "cost", "rounds"]
# What is shown of a stretch's costs, and in which unit; "without L̂": without the class gradients it is made of.
COSTS = {
    "seconds": ("round_s", 1.0),
    "uplink Gbit": ("uplink_bits", 1e9),
    "Gbit without L̂": ("bits_without_class_gradients", 1e9),
    "energy J": ("energy_j", 1.0),
    "J without L̂": ("j_without_class_gradients", 1.0),
}
DIGITS: dict[Style, str] = {"share": ".3f", "clients": ".1f", "cost": ".4g", "rounds": ".0f"}


@dataclass(frozen=True)
class RoundsTo:
    """Rounds that runs needed to reach a target, one per seed; None where a run never did. K is the frame's length."""

    rounds: tuple[int | None, ...]
    in_frame: int
    every: int = 1  # so many rounds lie between two evaluations

    @property
    def reached(self) -> int:
        """How many runs reached the target."""
        return sum(r is not None for r in self.rounds)

    @property
    def share(self) -> float:
        """Which part of the runs reached the target."""
        return self.reached / len(self.rounds)

    @property
    def censored(self) -> np.ndarray:
        """The rounds with K standing for those that never got there: a lower bound of what they would need."""
        return np.array([self.in_frame if r is None else r for r in self.rounds], dtype=float)

    @property
    def rounding_variance(self) -> float:
        """Of a round that is uniform between two evaluations; 0 (already met at round 0) and never are not rounded."""
        return (self.every**2 - 1) / 12 if any(self.rounds) else 0.0

    def __str__(self) -> str:
        return Estimate.of(self.sample, "rounds", self.in_frame).text

    @property
    def sample(self) -> "Sample":
        """The rounds as a number for each seed."""
        return Sample(self.censored, len(self.rounds) - self.reached, math.sqrt(self.rounding_variance))


@dataclass(frozen=True)
class Sample:
    """A number for each seed, and how far it can be relied on."""

    values: np.ndarray  # [seeds]
    censored: int = 0  # seeds that never reached the target: K stands for them
    least_deviation: float = 0.0  # what their rounding alone amounts to


@dataclass(frozen=True)
class Estimate:
    """The mean over n seeds, their deviation and the mean's 95 % interval (Student's t); NaN: not known of one seed."""

    n: int
    mean: float
    sd: float
    low: float
    high: float
    censored: int  # seeds that never reached the target: K stands for them, and the mean is a lower bound
    rounds_in_frame: int  # K
    style: Style = "share"

    @classmethod
    def of(cls, sample: Sample, style: Style, in_frame: int) -> "Estimate":
        """Estimate the mean of a number for each seed."""
        values = sample.values
        deviation = float(values.std(ddof=1)) if len(values) > 1 else math.nan
        mean, low, high = mean_interval(values, sample.least_deviation)
        return cls(len(values), mean, deviation, low, high, sample.censored, in_frame, style)

    @property
    def text(self) -> str:
        """As people read it: mean ± deviation, > K where seeds never got there, – where nothing is known."""
        if math.isnan(self.mean):
            return "–"
        if self.style == "rounds" and self.censored:
            return f">{self.rounds_in_frame} ({self.n - self.censored} of {self.n} reached)"
        # The mean of ratios such as 163/20: no rounding of the sum may decide what 8.15 is rounded to.
        mean = float(f"{self.mean:.12g}") if self.style == "clients" else self.mean
        number = f"{'>' if self.censored else ''}{mean:{DIGITS[self.style]}}"
        spreads = self.n > 1 and self.style in ("share", "rounds")
        return f"{number} ± {self.sd:{DIGITS[self.style]}}" if spreads else number


@dataclass(frozen=True, kw_only=True)
class Measure:
    """A number about a run in a frame, up to its end or until something is reached (`until`)."""

    title: str  # for people
    style: Style
    of: Callable[[RunRecord, int, int], float] | None = (
        None  # of a run, a frame, its rounds; none: the rounds
    )
    until: Callable[[Sequence[RunRecord], int, float], RoundsTo] | None = None
    accuracy: Accuracy | None = None  # what is to reach a target
    first_frame: int = 0  # from which on it has a meaning

    def sample(self, runs: Sequence[RunRecord], frame: int, target: float = math.nan) -> Sample:
        """Return the number of every run; NaN where it has no meaning."""
        if frame < self.first_frame:
            return Sample(np.full(len(runs), math.nan))
        found = self.until(runs, frame, target) if self.until else None
        if self.of is None:
            return found.sample if found else Sample(np.full(len(runs), math.nan))
        last = found.censored if found else np.full(len(runs), runs[0].settings.rounds[frame])
        values = [self.of(run, frame, int(k)) for run, k in zip(runs, last, strict=True)]
        return Sample(np.array(values), len(runs) - found.reached if found else 0)

    def estimate(self, runs: Sequence[RunRecord], frame: int, target: float = math.nan) -> Estimate:
        """Return the mean over these runs, one of each seed."""
        return Estimate.of(self.sample(runs, frame, target), self.style, runs[0].settings.rounds[frame])


def rounds_to(runs: Sequence[RunRecord], frame: int, target: float, accuracy: Accuracy) -> RoundsTo:
    """Return the first evaluated round of a frame at which each run reaches the target."""
    settings = runs[0].settings
    return RoundsTo(
        tuple(run.rounds_to(frame, target, accuracy) for run in runs),
        settings.rounds[frame],
        settings.evaluation.every,
    )


def rounds_to_recover(runs: Sequence[RunRecord], frame: int, _: float, accuracy: Accuracy) -> RoundsTo:
    """Return the first round at which each run is back at its accuracy before the frame's data arrived."""
    found = tuple(run.rounds_to_recover(frame, accuracy) for run in runs)
    return RoundsTo(found, runs[0].settings.rounds[frame], runs[0].settings.evaluation.every)


def mean_interval(values: np.ndarray, least_deviation: float = 0.0) -> tuple[float, float, float]:
    """Return a mean and its 95 % interval (Student's t); of one value, no interval: NaN."""
    mean, half = float(values.mean()), math.nan
    if len(values) > 1:
        deviation = max(float(values.std(ddof=1)), least_deviation)
        half = float(stats.t.ppf(0.975, len(values) - 1)) * deviation / math.sqrt(len(values))
    return mean, mean - half, mean + half


def measure(name: str) -> Measure:
    """Return a measure by its name."""
    if name not in MEASURES:
        raise InputError(
            f"no measure is called {shown(name)}{nearest_hint(name, MEASURES)}: known are {', '.join(MEASURES)}"
        )
    return MEASURES[name]


def named(title: str) -> str:
    """Return the name, in columns and calls, of what people call so: `uplink_gbit` of "uplink Gbit"."""
    return title.lower().replace("l̂", "class gradients").replace(" ", "_")


def _accuracy(
    run: RunRecord, frame: int, _: int, accuracy: Accuracy, pick: Callable[[list[float]], float]
) -> float:
    """Return the accuracy that is picked from those of a frame."""
    return pick([one.accuracy(accuracy) for one in run.evaluated(frame)])


def _last(each: list[float]) -> float:
    return each[-1]


def _mean(each: list[float]) -> float:
    return float(np.mean(each))


def _a_round(run: RunRecord, frame: int, _: int, column: str) -> float:
    """Return how many clients were scheduled in a round; data in one place has none to count."""
    played = run.played(frame)
    if run.scheduler == "centralised" or not played:
        return math.nan
    return float(sum(getattr(one, column) for one in played) / sum(one.rounds for one in played))


def _spent(run: RunRecord, frame: int, until: int, column: str, unit: float) -> float:
    """Return a cost until a round; what has no limits has no meaningful cost."""
    return math.nan if run.scheduler in REFERENCES else run.spent_until(frame, until, column) / unit


def _on_classes(run: RunRecord, frame: int, _: int, which: Literal["old", "new"]) -> float:
    """Return the accuracy on the frame's old or new classes after its last round."""
    classes = run.old_classes(frame) if which == "old" else run.new_classes(frame)
    return mean_over_classes(np.array(run.evaluated(frame)[-1].class_accuracy, dtype=float)[classes])


def _forgetting(run: RunRecord, frame: int, _: int) -> float:
    return run.forgetting(frame)


def _backward_transfer(run: RunRecord, frame: int, _: int) -> float:
    return run.backward_transfer(frame)


def _measures() -> dict[str, Measure]:
    """Return all measures by name, in the order of the tables."""
    found: list[Measure] = []
    picks: dict[str, Callable[[list[float]], float]] = {"final": _last, "best": max, "mean": _mean}
    for accuracy in ACCURACIES:
        for kind, pick in picks.items():
            of = partial(_accuracy, accuracy=accuracy, pick=pick)
            found.append(Measure(title=f"{kind} {accuracy}", style="share", of=of))
    for title, column in (("clients a round", "scheduled"), ("new clients a round", "scheduled_new")):
        found.append(Measure(title=title, style="clients", of=partial(_a_round, column=column)))
    costs = {title: partial(_spent, column=column, unit=unit) for title, (column, unit) in COSTS.items()}
    found += [Measure(title=title, style="cost", of=of) for title, of in costs.items()]
    for accuracy in ACCURACIES:
        to: dict[str, Any] = {"until": partial(rounds_to, accuracy=accuracy), "accuracy": accuracy}
        found.append(Measure(title=f"rounds to {accuracy}", style="rounds", **to))
        found += [Measure(title=f"{t} to {accuracy}", style="cost", of=of, **to) for t, of in costs.items()]
    for which in ("old", "new"):
        found.append(Measure(title=f"{which} classes", style="share", of=partial(_on_classes, which=which)))
    later: dict[str, Any] = {"first_frame": 1}
    found.append(Measure(title="forgetting", style="share", of=_forgetting, **later))
    found.append(Measure(title="backward transfer", style="share", of=_backward_transfer, **later))
    for accuracy in ACCURACIES:
        until = partial(rounds_to_recover, accuracy=accuracy)
        found.append(Measure(title=f"rounds to recover {accuracy}", style="rounds", until=until, **later))
    return {named(one.title): one for one in found}


MEASURES = _measures()
