"""Two rules on the same seeds: which one is ahead, by the 95 % interval of the per-seed differences.

"Ahead" *holds* if the whole interval is above zero, it *does not hold* if none of it is, and it *cannot be judged* if
zero lies inside, if there are fewer than two seeds, or if too many runs never reach the target.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from fedteddi.protocol.record import RoundRecord
from fedteddi.results.runs import Accuracy, RunRecord, Study
from fedteddi.results.tables import (
    RoundsTo,
    mean_interval,
    percent,
    rounds_interval,
    rounds_to,
    saving,
    spread,
)

Verdict = Literal["holds", "does not hold", "cannot be judged"]
Gain = Literal["faster", "fewer rounds"]  # R'/R − 1, 1 − R/R': two ways to say how much sooner
LEVELS = tuple(round(0.05 * step, 2) for step in range(1, 20))  # where the paper names no target
Measure = Callable[[RunRecord, int], float]  # one number about a frame of a run


@dataclass(frozen=True)
class Finding:
    """One comparison: what was found, in a few words and in full."""

    verdict: Verdict
    short: str
    full: str


def unknown(why: str) -> Finding:
    """Return the finding of a comparison that could not be made."""
    return Finding("cannot be judged", why, why)


def verdict_of(differences: np.ndarray) -> Verdict:
    """Judge "these are above zero" by the 95 % interval of their mean."""
    return _verdict(mean_interval(differences))


def _verdict(interval: tuple[float, float, float]) -> Verdict:
    """Judge by an interval; one seed has none, and NaN is neither above nor below."""
    _, low, high = interval
    return "holds" if low > 0 else "does not hold" if high <= 0 else "cannot be judged"


def faster(
    own: list[RunRecord],
    theirs: list[RunRecord],
    frame: int,
    target: float | None,
    accuracy: Accuracy,
    where: str,
    gain: Gain = "faster",
) -> Finding:
    """Judge whether the first runs reach a target sooner; a miss is a bound, and may decide only one way.

    `gain` is what is told in short.
    """
    if not own:
        return unknown(f"{where}: runs are missing")
    if target is None:
        return unknown(f"{where}: neither reaches a multiple of 5 % above all starts with every seed")
    mine, other = (rounds_to(runs, frame, target, accuracy) for runs in (own, theirs))
    facts = saving(mine, other)
    short = full = f"{where}, {percent(target)}: {facts['ours']} against {facts['theirs']} rounds"
    slower = facts[gain].lstrip("≥≤ ").startswith("-")  # "-31% fewer" would take a second reading
    if facts[gain] != "–" and not slower:
        short = f"{where}, {percent(target)}: {facts[gain]} {gain}"
    told = {"faster": f"{facts['faster']} faster", "fewer rounds": f"{facts['fewer rounds']} fewer rounds"}
    told["difference (95 %)"] = f"difference {facts['difference (95 %)']}"
    full += "".join(f", {words}" for fact, words in told.items() if facts[fact] != "–")
    if not mine.censored.any() and not other.censored.any():
        short = full = f"{where}, {percent(target)}: both are there when the frame begins"
    return Finding(verdict_of_rounds(mine, other), short, full)


def verdict_of_rounds(mine: RoundsTo, other: RoundsTo) -> Verdict:
    """Judge whether the first needs fewer rounds than the second, seed by seed."""
    we_miss, they_miss = (r.reached < len(r.rounds) for r in (mine, other))
    if not mine.censored.any() and not other.censored.any():  # neither had anything to learn
        return "cannot be judged"
    verdict = _verdict(rounds_interval(mine, other))
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
    *,
    smaller: bool = False,
) -> Finding:
    """Judge whether a number is larger (or smaller) in the first runs than in those of the rival.

    The difference that is shown is above zero where it is.
    """
    if not own:
        return unknown(f"{where}: no pair of runs with {rival}")
    mine, other = ([measure(run, frame) for run in runs] for runs in (own, theirs))
    differences = (np.array(mine) - np.array(other)) * (-1 if smaller else 1)
    text = f"{where}: {spread(mine, digits)} against {spread(other, digits)}, difference {points(differences, digits)}"
    return Finding(verdict_of(differences), f"{where}: {points(differences, digits)}", text)


def above_all(
    pairs: list[tuple[list[RunRecord], list[RunRecord]]], frame: int, accuracy: Accuracy
) -> tuple[int, int]:
    """Count at how many evaluations of a frame's rounds our mean curve lies above each rival's, and how many there are.

    Each pair is ours and a rival's runs, on the seeds that both have.
    """

    def mean_curve(runs: list[RunRecord]) -> np.ndarray:
        judged = [[r[accuracy] for r in run.evaluated(frame) if r["round"]] for run in runs]
        return np.asarray(np.mean(judged, axis=0))  # [seeds, evaluations] -> [evaluations]

    above = np.all([mean_curve(own) > mean_curve(theirs) for own, theirs in pairs], axis=0)
    return int(above.sum()), len(above)


def points(differences: np.ndarray, digits: int = 3) -> str:
    """Return the mean of per-seed differences with its 95 % interval."""
    mean, low, high = mean_interval(differences)
    if len(differences) < 2:
        return f"{mean:+.{digits}f}"
    return f"{mean:+.{digits}f} [{low:+.{digits}f}, {high:+.{digits}f}]"


def by_seed(study: Study, rule: str, deadline_s: float) -> dict[int, RunRecord]:
    """Return the finished runs of a rule at a deadline, by seed."""
    return {run.settings.seed: run for run in study.of(rule, deadline_s) if run.finished}


def pair(
    study: Study, ours: str, rival: str, deadline_s: float, frame: int | None = None
) -> tuple[list[RunRecord], list[RunRecord]]:
    """Return the runs of two rules at a deadline, of the seeds both have, in the same order.

    None if a frame is named that they do not have.
    """
    if frame is not None and frame not in study.frames:
        return [], []
    own, theirs = by_seed(study, ours, deadline_s), by_seed(study, rival, deadline_s)
    seeds = sorted(set(own) & set(theirs))
    return [own[seed] for seed in seeds], [theirs[seed] for seed in seeds]


def places(study: Study, frame: int, deadlines_s: tuple[float, ...]) -> list[tuple[float, str]]:
    """Return each deadline with a name for it: the frame is in it where there are several, else the deadline."""
    framed = f"frame {frame}" if len(study.frames) > 1 else ""
    if framed and len(deadlines_s) == 1:
        return [(deadlines_s[0], framed)]
    return [(time, f"{framed}, {time:g} s" if framed else f"{time:g} s") for time in deadlines_s]


def highest_level(groups: list[list[RunRecord]], frame: int, accuracy: Accuracy) -> float | None:
    """Return the highest level above the frame's start that at least one of the groups reaches with every seed."""
    return max(reached_levels(groups, frame, accuracy), default=None)


def reached_levels(groups: list[list[RunRecord]], frame: int, accuracy: Accuracy) -> list[float]:
    """Return the levels above every run's start of the frame that at least one group reaches with every seed."""
    groups = [runs for runs in groups if runs]
    start = max((run.evaluated(frame)[0][accuracy] for runs in groups for run in runs), default=0.0)

    def reached(level: float) -> bool:
        return any(all(run.rounds_to(frame, level, accuracy) is not None for run in runs) for runs in groups)

    return [level for level in LEVELS if level > start and reached(level)]


def final(run: RunRecord, frame: int, accuracy: Accuracy) -> float:
    """Return the accuracy at the frame's end."""
    return float(run.evaluated(frame)[-1][accuracy])


def mean_over_frame(run: RunRecord, frame: int, accuracy: Accuracy) -> float:
    """Return the mean accuracy over the frame's evaluations: speed without a target, so that nothing is censored."""
    return float(np.mean([record[accuracy] for record in run.evaluated(frame)]))


def late_drop(run: RunRecord, frame: int, accuracy: Accuracy) -> float:
    """Return the best accuracy at any evaluation of the frame's rounds minus that at its end: 0 if it ends best.

    The model that entered the frame does not count: to fall from that is an early drop.
    """
    judged = [record[accuracy] for record in run.evaluated(frame) if record["round"]]
    return float(max(judged) - judged[-1])


def scheduled_new(run: RunRecord, frame: int) -> float:
    """Return how many scheduled clients a round hold new classes."""
    return _mean_of_rounds(run, frame, lambda record: record.scheduled_new)


def scheduled_old(run: RunRecord, frame: int) -> float:
    """Return how many scheduled clients a round hold only old classes."""
    return _mean_of_rounds(run, frame, lambda record: len(record.clients) - record.scheduled_new)


def _mean_of_rounds(run: RunRecord, frame: int, count: Callable[[RoundRecord], int]) -> float:
    counts = [count(record) for record in run.records if record["frame"] == frame and record["round"]]
    return float(np.mean(counts)) if counts else 0.0
