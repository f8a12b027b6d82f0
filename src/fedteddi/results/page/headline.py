"""The result in words: which accuracy was reached how soon, by whom, over how many seeds."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedteddi.protocol.record import Accuracy
from fedteddi.results.page.conditions import Condition
from fedteddi.results.runs import REFERENCES, RunRecord

STEPS = (0.05, 0.01)  # between the targets that are tried, coarse ones first
NAMED = 4  # schedulers in a sentence
NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


@dataclass(frozen=True)
class Reached:
    """How soon the runs of a scheduler reached a target; None for a run that never did."""

    scheduler: str
    rounds: tuple[int | None, ...]

    @property
    def known(self) -> list[int]:
        """The rounds of the runs that reached it."""
        return [one for one in self.rounds if one is not None]

    @property
    def by_all(self) -> bool:
        """Whether every run reached it."""
        return len(self.known) == len(self.rounds)

    @property
    def mean(self) -> float:
        """Mean over the runs that reached it."""
        return float(np.mean(self.known)) if self.known else float("inf")


def headline(condition: Condition, frame: int, accuracy: Accuracy) -> dict[str, str]:
    """Return a frame's result as a headline and the sentences below it."""
    groups = {
        name: [run for run in runs if run.finished and run.evaluated(frame)]
        for name, runs in condition.groups.items()
        if name not in REFERENCES
    }
    groups = {name: runs for name, runs in groups.items() if runs}
    if not groups:
        return {"title": "No finished run yet", "text": "Accuracy is drawn as far as the runs have come."}
    seeds = sorted({run.settings.seed for runs in groups.values() for run in runs})
    final = {
        name: float(np.mean([run.evaluated(frame)[-1].accuracy(accuracy) for run in runs]))
        for name, runs in groups.items()
    }
    best_first = sorted(final, key=lambda name: -final[name])
    target = _target(groups, frame, accuracy)
    fewest = min(len(runs) for runs in groups.values())
    several = f"{fewest} to {len(seeds)} seeds" if fewest < len(seeds) else _counted(len(seeds), "seed")
    over = f"{several}{'' if len(condition.frames) == 1 else f', frame {frame}'}"
    ends = ", ".join(f"{name} {final[name]:.1%}" for name in best_first[:NAMED])
    rest = f" (and {len(best_first) - NAMED} more below)" if len(best_first) > NAMED else ""
    waiting = [name for name in condition.groups if name not in REFERENCES and name not in groups]
    text = f"Accuracy ({accuracy}) after the last round: {ends}{rest}."
    if waiting:
        text += f" Not finished yet: {', '.join(waiting)}."
    if len(seeds) == 1:
        text += " One seed says little about how the schedulers compare on others."
    if target is None:
        return {
            "title": f"{best_first[0]} ends highest, at {final[best_first[0]]:.0%} {accuracy}; {over}",
            "text": text,
        }
    reached = [
        Reached(name, tuple(run.rounds_to(frame, target, accuracy) for run in runs))
        for name, runs in groups.items()
    ]
    return {
        "title": f"{target:.0%} {accuracy} after {_ranked(reached)}; {over}",
        "text": text + _misses(reached, target),
    }


def _ranked(reached: Sequence[Reached]) -> str:
    """Return who reached a target with all seeds and how soon, the fastest first."""
    there = sorted((one for one in reached if one.by_all), key=lambda one: one.mean)
    first = [one for one in there if one.mean == there[0].mean]
    others = there[len(first) :]
    more = f" and {len(first) - NAMED} more" if len(first) > NAMED else ""
    words = f"{_round(first[0].mean)} rounds ({', '.join(one.scheduler for one in first[:NAMED])}{more})"
    named = others[: NAMED - 1]
    words += "".join(f"; {one.scheduler} {_round(one.mean)}" for one in named)
    if len(others) > len(named):
        words += f"; {len(others) - len(named)} more up to {_round(others[-1].mean)}"
    return words


def _misses(reached: Sequence[Reached], target: float) -> str:
    """Name the schedulers that did not reach a target with all their seeds."""
    words = [
        f"{one.scheduler} with {len(one.known)} of {len(one.rounds)} seeds"
        if len(one.rounds) > 1
        else one.scheduler
        for one in reached
        if not one.by_all
    ]
    return f" Not every run reached {target:.0%}: {', '.join(words)}." if words else ""


def _target(groups: dict[str, list[RunRecord]], frame: int, accuracy: Accuracy) -> float | None:
    """Return the highest round level that most schedulers reach with all seeds, or else any; none met at round 0."""
    for most in (-(-len(groups) // 2) if len(groups) > 2 else len(groups), 1):
        for step in STEPS:
            for level in (round(step * n, 2) for n in range(int(1 / step) - 1, 0, -1)):
                reached = [
                    Reached(name, tuple(run.rounds_to(frame, level, accuracy) for run in runs))
                    for name, runs in groups.items()
                ]
                if any(one.by_all and not any(one.rounds) for one in reached):
                    break  # met at round 0, as all lower levels are
                if sum(one.by_all for one in reached) >= most:
                    return level
    return None


def _round(mean: float) -> str:
    return f"{mean:.0f}" if mean == round(mean) or mean >= 100 else f"{mean:.1f}"


def _counted(number: int, thing: str) -> str:
    word = NUMBERS[number] if number < len(NUMBERS) else str(number)
    return f"{word} {thing}{'' if number == 1 else 's'}"
