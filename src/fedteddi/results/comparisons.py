"""Two rules on the same seeds: which one is ahead, by the 95 % interval of the per-seed differences.

"Ahead" *holds* if the whole interval is above zero, it *does not hold* if none of it is, and it *cannot be judged* if
zero lies inside, if there are fewer than two seeds, or if too many runs never reach the target.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from fedteddi.results.runs import Accuracy, RunRecord, Study
from fedteddi.results.tables import RoundsTo, mean_interval, percent, rounds_to, saving, spread

Verdict = Literal["holds", "does not hold", "cannot be judged"]
LEVELS = tuple(round(0.05 * step, 2) for step in range(1, 20))  # where the paper names no target
Measure = Callable[[RunRecord, int], float]  # one number about a frame of a run


@dataclass(frozen=True)
class Finding:
    """One comparison: what was found, in a few words and in full."""

    verdict: Verdict
    short: str
    full: str


def verdict_of(differences: np.ndarray) -> Verdict:
    """Judge "these are above zero" by the 95 % interval of their mean; one seed has no interval."""
    if len(differences) < 2:
        return "cannot be judged"
    _, low, high = mean_interval(differences)
    return "holds" if low > 0 else "does not hold" if high <= 0 else "cannot be judged"


def faster(
    own: list[RunRecord],
    theirs: list[RunRecord],
    frame: int,
    target: float | None,
    accuracy: Accuracy,
    where: str,
) -> Finding:
    """Judge whether the first runs reach a target sooner; a miss is a bound, and may decide only one way."""
    if not own:
        return Finding("cannot be judged", "–", f"{where}: runs are missing")
    if target is None:
        return Finding("cannot be judged", "–", f"{where}: neither reaches any level with every seed")
    mine, other = (rounds_to(runs, frame, target, accuracy) for runs in (own, theirs))
    facts = saving(mine, other)
    full = f"{where}, {percent(target)}: {facts['ours']} against {facts['theirs']} rounds"
    short = f"{where}, {percent(target)}: {facts['faster']} faster"
    if facts["faster"] == "–":
        short = full
    else:
        full += f", {facts['faster']} faster, {facts['fewer rounds']} fewer rounds"
        full += f", difference {facts['difference (95 %)']}"
    return Finding(_verdict_of_rounds(mine, other), short, full)


def _verdict_of_rounds(mine: RoundsTo, other: RoundsTo) -> Verdict:
    we_miss, they_miss = (r.reached < len(r.rounds) for r in (mine, other))
    verdict = verdict_of(other.censored - mine.censored)
    # Who never reached the target needs more rounds than K: the mean difference is at least as large as it looks. The
    # interval is that of rounds cut off at K; of the rounds they would have needed nothing is known.
    if (
        (we_miss and they_miss)
        or (we_miss and verdict == "holds")
        or (they_miss and verdict == "does not hold")
    ):
        return "cannot be judged"
    return verdict


def ahead(
    own: list[RunRecord],
    theirs: list[RunRecord],
    measure: Measure,
    frame: int,
    where: str,
    rival: str,
    digits: int = 3,
) -> Finding:
    """Judge whether a number is larger in the first runs than in those of the rival."""
    if not own:
        return Finding("cannot be judged", "–", f"{where}: no pair of runs with {rival}")
    mine, other = ([measure(run, frame) for run in runs] for runs in (own, theirs))
    differences = np.array(mine) - np.array(other)
    text = f"{where}: {spread(mine, digits)} against {spread(other, digits)}, difference {points(differences, digits)}"
    return Finding(verdict_of(differences), f"{where}: {points(differences, digits)}", text)


def points(differences: np.ndarray, digits: int = 3) -> str:
    """Return the mean of per-seed differences with its 95 % interval."""
    mean, low, high = mean_interval(differences)
    if len(differences) < 2:
        return f"{mean:+.{digits}f}"
    return f"{mean:+.{digits}f} [{low:+.{digits}f}, {high:+.{digits}f}]"


def by_seed(study: Study, rule: str, deadline_s: float) -> dict[int, RunRecord]:
    """Return the finished runs of a rule at a deadline, by seed."""
    return {run.settings.seed: run for run in study.of(rule, deadline_s) if run.finished}


def pair(study: Study, ours: str, rival: str, deadline_s: float) -> tuple[list[RunRecord], list[RunRecord]]:
    """Return the runs of two rules at a deadline, of the seeds both have, in the same order."""
    own, theirs = by_seed(study, ours, deadline_s), by_seed(study, rival, deadline_s)
    seeds = sorted(set(own) & set(theirs))
    return [own[seed] for seed in seeds], [theirs[seed] for seed in seeds]


def highest_level(groups: list[list[RunRecord]], frame: int, accuracy: Accuracy) -> float | None:
    """Return the highest level above the frame's start that at least one of the groups reaches with every seed."""
    groups = [runs for runs in groups if runs]
    start = max((run.evaluated(frame)[0][accuracy] for runs in groups for run in runs), default=0.0)
    for level in reversed(LEVELS):
        if level > start and any(
            all(run.rounds_to(frame, level, accuracy) is not None for run in runs) for runs in groups
        ):
            return level
    return None


def final(run: RunRecord, frame: int, accuracy: Accuracy) -> float:
    """Return the accuracy at the frame's end."""
    return float(run.evaluated(frame)[-1][accuracy])


def mean_over_frame(run: RunRecord, frame: int, accuracy: Accuracy) -> float:
    """Return the mean accuracy over the frame's evaluations: speed without a target, so that nothing is censored."""
    return float(np.mean([record[accuracy] for record in run.evaluated(frame)]))


def scheduled_new(run: RunRecord, frame: int) -> float:
    """Return how many scheduled clients a round hold new classes."""
    return _mean_of_rounds(run, frame, lambda record: record["scheduled_new"])


def scheduled_old(run: RunRecord, frame: int) -> float:
    """Return how many scheduled clients a round hold only old classes."""
    return _mean_of_rounds(run, frame, lambda record: len(record["clients"]) - record["scheduled_new"])


def _mean_of_rounds(run: RunRecord, frame: int, count: Callable[[dict[str, Any]], int]) -> float:
    counts = [count(record) for record in run.records if record["frame"] == frame and record["round"]]
    return float(np.mean(counts)) if counts else 0.0
