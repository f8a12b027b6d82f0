"""Tables about a study: what was reached, how soon, at what cost, and what was forgotten."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy import stats

from fedteddi.results.runs import ACCURACIES, REFERENCES, Accuracy, RunRecord, Study

Targets = dict[Accuracy, list[float]]  # accuracies to be reached
MOST_TARGETS = 3  # unless they are given
# What is shown of a stretch's costs, and in which unit; "without L̂": without the class gradients it is made of.
COSTS = {
    "seconds": ("round_s", 1.0),
    "uplink Gbit": ("uplink_bits", 1e9),
    "Gbit without L̂": ("bits_without_class_gradients", 1e9),
    "energy J": ("energy_j", 1.0),
    "J without L̂": ("j_without_class_gradients", 1.0),
}


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
        if self.reached < len(self.rounds):
            return f">{self.in_frame} ({self.reached} of {len(self.rounds)} reached)"
        spread = f" ± {self.censored.std(ddof=1):.0f}" if len(self.rounds) > 1 else ""
        return f"{self.censored.mean():.0f}{spread}"


def rounds_to(runs: list[RunRecord], frame: int, target: float, accuracy: Accuracy) -> RoundsTo:
    """Return the first evaluated round of a frame at which each run reaches the target."""
    settings = runs[0].settings
    return RoundsTo(
        tuple(run.rounds_to(frame, target, accuracy) for run in runs),
        settings.rounds[frame],
        settings.evaluation.every,
    )


def summary(study: Study, frame: int) -> pd.DataFrame:
    """Return final, best and mean accuracy, who was scheduled, and what the frame cost, per scheduler and deadline."""
    rows = []
    for deadline_s, scheduler, runs in groups(study):
        row: dict[str, object] = {"deadline s": deadline_s, "scheduler": scheduler, "seeds": len(runs)}
        for accuracy in ACCURACIES:
            curves = [[r.accuracy(accuracy) for r in run.evaluated(frame)] for run in runs]
            row[f"final {accuracy}"] = spread([values[-1] for values in curves])
            row[f"best {accuracy}"] = spread([max(values) for values in curves])
            row[f"mean {accuracy}"] = spread([float(np.mean(values)) for values in curves])
        played = [run.played(frame) for run in runs]
        clients, new = scheduled_a_round(runs, frame)
        one_place = scheduler == "centralised"  # there are no clients to count
        row["clients a round"] = "–" if one_place else f"{clients:.1f}"
        row["with new classes"] = "–" if one_place else f"{new:.1f}"
        for name, (column, unit) in COSTS.items():
            spent = _mean(sum(getattr(r, column) for r in own) / unit for own in played)
            row[name] = (
                "–" if scheduler in REFERENCES else _shown_cost(spent)
            )  # no limits, no meaningful cost
        rows.append(row)
    return _known_costs(pd.DataFrame(rows))


def scheduled_a_round(runs: Iterable[RunRecord], frame: int) -> tuple[float, float]:
    """Return how many clients, and how many of them with new classes, were scheduled in a round of a frame."""
    played = [one for run in runs for one in run.played(frame)]
    rounds = sum(one.rounds for one in played)
    totals = (sum(one.scheduled for one in played), sum(one.scheduled_new for one in played))
    clients, new = (total / rounds if rounds else math.nan for total in totals)
    return clients, new


def rounds_table(study: Study, frame: int, targets: Targets) -> pd.DataFrame:
    """Return rounds to each target, for both accuracies; unreached ones are shown, never averaged away."""
    rows = []
    for deadline_s, scheduler, runs in groups(study):
        row: dict[str, object] = {"deadline s": deadline_s, "scheduler": scheduler}
        for accuracy in ACCURACIES:
            for target in targets[accuracy]:
                row[f"{accuracy} {percent(target)}"] = str(rounds_to(runs, frame, target, accuracy))
        rows.append(row)
    return pd.DataFrame(rows)


def telling(study: Study, frame: int, targets: Targets) -> Targets:
    """Return the targets that some run reaches and not all have met at round 0: the others tell nothing."""
    runs = [run for _, _, own in groups(study) for run in own]

    def tells(target: float, accuracy: Accuracy) -> bool:
        found = {run.rounds_to(frame, target, accuracy) for run in runs}
        return found != {0} and found != {None}

    return {kind: [target for target in own if tells(target, kind)] for kind, own in targets.items()}


def costs_table(study: Study, frame: int, targets: Targets) -> pd.DataFrame:
    """Return what was spent until each target was reached: seconds, uplink, energy; censored like the rounds."""
    rows = []
    for deadline_s, scheduler, runs in groups(study):
        if scheduler in REFERENCES:
            continue
        for accuracy in ACCURACIES:
            for target in targets[accuracy]:
                found = rounds_to(runs, frame, target, accuracy)
                row: dict[str, object] = {"deadline s": deadline_s, "scheduler": scheduler}
                row |= {"accuracy": accuracy, "target": percent(target), "rounds": str(found)}
                for name, (column, unit) in COSTS.items():
                    until = zip(runs, found.censored, strict=True)
                    spent = _mean(run.spent_until(frame, int(k), column) / unit for run, k in until)
                    row[name] = f"{'>' if found.reached < len(runs) else ''}{_shown_cost(spent)}"
                rows.append(row)
    return _known_costs(pd.DataFrame(rows))


def savings_table(study: Study, frame: int, targets: Targets, ours: str) -> pd.DataFrame:
    """Return how much sooner `ours` reaches each target than every baseline, with paired 95 % intervals."""
    rows = []
    for deadline_s, baseline, *pair in pairs(study, ours):
        for accuracy in ACCURACIES:
            for target in targets[accuracy]:
                row = {"deadline s": deadline_s, "baseline": baseline, "accuracy": accuracy}
                row["target"] = percent(target)
                rows.append(row | saving(*(rounds_to(runs, frame, target, accuracy) for runs in pair)))
    return pd.DataFrame(rows)


def pairs(study: Study, ours: str) -> Iterator[tuple[float, str, list[RunRecord], list[RunRecord]]]:
    """Yield, for every deadline and baseline, the finished runs of `ours` and of the baseline with the same seeds."""
    for deadline_s, baseline, theirs in groups(study):
        own = [run for run in study.of(ours, deadline_s) if run.finished]
        shared = {run.settings.seed for run in own} & {run.settings.seed for run in theirs}
        if baseline not in (ours, *REFERENCES) and shared:
            mine, other = ([run for run in runs if run.settings.seed in shared] for runs in (own, theirs))
            yield deadline_s, baseline, mine, other


def saving(ours: RoundsTo, theirs: RoundsTo) -> dict[str, str]:
    """Return "fewer rounds" 1 − R/R', "faster" R'/R − 1 and the paired difference R' − R of two rules.

    Where the baseline is censored these are lower bounds (≥), where we are, upper bounds (≤), where both are, nothing.
    """
    we_miss, they_miss = (r.reached < len(r.rounds) for r in (ours, theirs))
    mine, other = ours.censored, theirs.censored
    sign = "≥ " if they_miss else "≤ " if we_miss else ""
    known = not (we_miss and they_miss)
    fewer = faster = "–"
    # No bound where one meets it at round 0: 100 % fewer rounds than anybody, however many these would need.
    if known and other.any():
        fewer = f"{sign if mine.any() else ''}{1 - mine.mean() / other.mean():.1%}"
    if known and mine.any():
        faster = f"{sign if other.any() else ''}{other.mean() / mine.mean() - 1:.1%}"
    return {
        "ours": str(ours),
        "theirs": str(theirs),
        "fewer rounds": fewer,
        "faster": faster,
        "difference (95 %)": sign + _shown(rounds_interval(ours, theirs)) if known else "–",
    }


def rounds_interval(ours: RoundsTo, theirs: RoundsTo) -> tuple[float, float, float]:
    """Return the mean of the per-seed differences R' − R and its 95 % interval.

    A round is known to the next evaluation only, so a few seeds easily have the same difference; their deviation then
    says nothing. By convention it counts as at least that of the roundings, taken as independent.
    """
    least = math.sqrt(ours.rounding_variance + theirs.rounding_variance)
    return mean_interval(theirs.censored - ours.censored, least)


def _shown(interval: tuple[float, float, float]) -> str:
    mean, low, high = interval
    return f"{mean:+.0f}" + ("" if math.isnan(low) else f" [{low:+.0f}, {high:+.0f}]")


def mean_interval(values: np.ndarray, least_deviation: float = 0.0) -> tuple[float, float, float]:
    """Return a mean and its 95 % interval (Student's t); of one value, no interval: NaN."""
    mean, half = float(values.mean()), math.nan
    if len(values) > 1:
        deviation = max(float(values.std(ddof=1)), least_deviation)
        half = float(stats.t.ppf(0.975, len(values) - 1)) * deviation / math.sqrt(len(values))
    return mean, mean - half, mean + half


def continual_table(study: Study, frame: int) -> pd.DataFrame:
    """Return accuracy on old and new classes at the frame's end, forgetting, backward transfer, rounds to recover."""
    rows = []
    for deadline_s, scheduler, runs in groups(study):
        curves = [run.curve() for run in runs]
        last = [curve[curve["frame"] == frame].iloc[-1] for curve in curves]
        row: dict[str, object] = {"deadline s": deadline_s, "scheduler": scheduler}
        row["old classes"] = spread([float(r["old"]) for r in last])
        row["new classes"] = spread([float(r["new"]) for r in last])
        row["forgetting"] = spread([run.forgetting(frame) for run in runs])
        row["backward transfer"] = spread([run.backward_transfer(frame) for run in runs])
        for accuracy in ACCURACIES:
            found = tuple(run.rounds_to_recover(frame, accuracy) for run in runs)
            shown = str(RoundsTo(found, runs[0].settings.rounds[frame]))
            row[f"rounds to recover {accuracy}"] = shown if frame else "–"
        rows.append(row)
    return pd.DataFrame(rows)


def groups(study: Study) -> list[tuple[float, str, list[RunRecord]]]:
    """Return the runs of each deadline and scheduler that have come to their end."""
    found = []
    for deadline_s in study.deadlines_s:
        for scheduler in study.schedulers:
            runs = [run for run in study.of(scheduler, deadline_s) if run.finished]
            if runs:
                found.append((deadline_s, scheduler, runs))
    return found


def default_targets(study: Study, frame: int) -> Targets:
    """Return, for each accuracy, up to three round levels above every run's start that the best runs just reach."""
    found: Targets = {}
    runs = [run for _, _, own in groups(study) for run in own]
    for accuracy in ACCURACIES:
        curves = [[r.accuracy(accuracy) for r in run.evaluated(frame)] for run in runs]
        start = max((curve[0] for curve in curves), default=0.0)
        best = max((max(curve) for curve in curves), default=0.0)
        for per_unit in (20, 50, 100):  # steps of 5 %, or of 2 or 1 % where less is learned
            top, first = math.floor(best * per_unit + 1e-9), math.floor(start * per_unit + 1e-9) + 1
            found[accuracy] = [level / per_unit for level in range(max(first, top - 2), top + 1)]
            if len(found[accuracy]) == MOST_TARGETS:
                break
    return found


def levels(study: Study, frame: int, targets: Sequence[float]) -> Targets:
    """Return the targets for both accuracies; where none are given, the default ones of the frame."""
    return {kind: list(targets) for kind in ACCURACIES} if targets else default_targets(study, frame)


def percent(share: float) -> str:
    """Return a share as a percentage with as many digits as it has."""
    return f"{round(100 * share, 6):g}%"


def markdown(table: pd.DataFrame) -> str:
    """Return a table as Markdown."""
    lines = ["| " + " | ".join(table.columns) + " |", "|" + "---|" * len(table.columns)]
    lines += ["| " + " | ".join(str(value) for value in row) + " |" for row in table.itertuples(index=False)]
    return "\n".join(lines)


def spread(values: list[float], digits: int = 3) -> str:
    """Return mean ± standard deviation over seeds."""
    array = np.array(values, dtype=float)
    if np.isnan(array).all():
        return "–"
    deviation = f" ± {array.std(ddof=1):.{digits}f}" if len(array) > 1 else ""
    return f"{array.mean():.{digits}f}{deviation}"


def _shown_cost(spent: float) -> str:
    return "–" if math.isnan(spent) else f"{spent:.4g}"


def _known_costs(table: pd.DataFrame) -> pd.DataFrame:
    """Leave columns out of what no run counted."""
    unknown = [name for name in COSTS if name in table and table[name].str.endswith("–").all()]
    return table.drop(columns=unknown)


def _mean(values: Iterable[float]) -> float:
    listed = list(values)
    return float(np.mean(listed)) if listed else float("nan")
