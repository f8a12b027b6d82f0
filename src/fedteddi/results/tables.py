"""Tables about a study as people read them: what was reached, how soon, at what cost, and what was forgotten."""

import math
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pandas as pd

from fedteddi.results.measures import COSTS, MEASURES, RoundsTo, mean_interval, named, rounds_to
from fedteddi.results.runs import ACCURACIES, REFERENCES, Accuracy, RunRecord, Study

Targets = dict[Accuracy, list[float]]  # accuracies to be reached
MOST_TARGETS = 3  # unless they are given


def summary(study: Study, frame: int) -> pd.DataFrame:
    """Return final, best and mean accuracy, who was scheduled, and what the frame cost, per scheduler and deadline."""
    accuracies = {f"{kind} {a}": f"{kind}_{a}" for a in ACCURACIES for kind in ("final", "best", "mean")}
    clients = {"clients a round": "clients_a_round", "with new classes": "new_clients_a_round"}
    columns = accuracies | clients | {title: named(title) for title in COSTS}
    rows = []
    for deadline_s, scheduler, runs in groups(study):
        row: dict[str, object] = {"deadline s": deadline_s, "scheduler": scheduler, "seeds": len(runs)}
        row |= {title: _text(name, runs, frame) for title, name in columns.items()}
        rows.append(row)
    return _known_costs(pd.DataFrame(rows))


def _text(name: str, runs: list[RunRecord], frame: int, target: float = math.nan) -> str:
    return MEASURES[name].estimate(runs, frame, target).text


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
                row[f"{accuracy} {percent(target)}"] = _text(f"rounds_to_{accuracy}", runs, frame, target)
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
                row: dict[str, object] = {"deadline s": deadline_s, "scheduler": scheduler}
                row |= {"accuracy": accuracy, "target": percent(target)}
                for title in ("rounds", *COSTS):
                    row[title] = _text(f"{named(title)}_to_{accuracy}", runs, frame, target)
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


def continual_table(study: Study, frame: int) -> pd.DataFrame:
    """Return accuracy on old and new classes at the frame's end, forgetting, backward transfer, rounds to recover."""
    titles = ["old classes", "new classes", "forgetting", "backward transfer"]
    titles += [f"rounds to recover {accuracy}" for accuracy in ACCURACIES]
    rows = []
    for deadline_s, scheduler, runs in groups(study):
        row: dict[str, object] = {"deadline s": deadline_s, "scheduler": scheduler}
        rows.append(row | {title: _text(named(title), runs, frame) for title in titles})
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


def _known_costs(table: pd.DataFrame) -> pd.DataFrame:
    """Leave columns out of what no run counted."""
    unknown = [name for name in COSTS if name in table and table[name].str.endswith("–").all()]
    return table.drop(columns=unknown)
