"""The leaderboard as tables: a number with its interval for every scenario, rule and metric, and how they are shown."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from fedteddi.results.measures import COSTS, mean_interval
from fedteddi.results.runs import ACCURACIES
from fedteddi.results.tables import percent
from fedteddi.studies.benchmark.standings import Reached, Standings
from fedteddi.studies.comparison import points

COLUMNS = ["scenario", "scheduler", "metric", "mean", "low", "high", "seeds", "reached"]
DIGITS = 3  # of accuracies


@dataclass(frozen=True)
class Estimate:
    """A mean over seeds with its 95 % interval; where a target was missed by some seeds, a lower bound."""

    mean: float
    low: float
    high: float
    reached: int  # by how many seeds
    values: tuple[float, ...]  # by seed

    @property
    def seeds(self) -> int:
        """How many."""
        return len(self.values)

    @classmethod
    def of(cls, values: np.ndarray, least_deviation: float = 0.0, reached: int | None = None) -> "Estimate":
        """Estimate a mean; `reached` says how many seeds got there, where that may be fewer than all."""
        every = len(values) if reached is None else reached
        return cls(*mean_interval(values, least_deviation), every, tuple(values.tolist()))

    def shown(self, digits: int | None = None) -> str:
        """Return mean ± half the interval, with so many decimals or three significant digits; > marks a lower bound."""
        if self.reached < self.seeds:
            return f">{_number(self.mean, digits)}"
        half = "" if math.isnan(self.high) else f" ± {_number(self.high - self.mean, digits)}"
        return _number(self.mean, digits) + half


def _number(value: float, digits: int | None) -> str:
    """Return a number with so many decimals, or three significant digits (never as 1e+03)."""
    return (
        f"{value:.{digits}f}" if digits is not None else f"{value:.3g}" if value < 999.5 else f"{value:.0f}"
    )


def estimates(found: Reached, rule: str) -> dict[str, Estimate]:
    """Return everything about a rule in a scenario, by metric: accuracies, rounds, what they cost."""
    means = {accuracy: np.array([*found.mean_accuracy(rule, accuracy).values()]) for accuracy in ACCURACIES}
    made = {f"mean {accuracy}": Estimate.of(values) for accuracy, values in means.items()}
    rounds = found.rounds_to_target(rule)
    deviation = math.sqrt(rounds.rounding_variance)  # a round is known to the next evaluation only
    made["rounds to target"] = Estimate.of(rounds.censored, deviation, rounds.reached)
    until = rounds.censored.astype(int).tolist()
    for name, (column, unit) in COSTS.items():
        spent = found.spent(rule, column, until) / unit
        made[f"{name} to target"] = Estimate.of(spent, reached=rounds.reached)
    for name, (column, unit) in COSTS.items():
        made[name] = Estimate.of(found.spent(rule, column) / unit)
    return made | {"clients a round": Estimate.of(found.clients_a_round(rule))}


Numbers = Mapping[tuple[str, str], Mapping[str, Estimate]]  # by scenario and rule


def numbers(found: Standings) -> Numbers:
    """Return the estimates of every scenario and rule, ranked ones first."""
    return {
        (one.scenario.name, rule): estimates(one, rule)
        for one in found.scenarios
        for rule in in_order(found, one.rules)
    }


def in_order(found: Standings, rules: Iterable[str]) -> list[str]:
    """Return ranked rules by falling score, then the others."""
    there = list(rules)
    ranked = [rule for rule in found.rules if rule in there]
    return ranked + [rule for rule in there if rule not in ranked]


def by_seed(found: Standings, made: Numbers) -> pd.DataFrame:
    """Return what the numbers are the means of, a row per scenario, rule, seed and metric."""
    seeds = {(one.scenario.name, rule): one.seeds([rule]) for one in found.scenarios for rule in one.rules}
    rows = [
        (*place, seed, metric, value)
        for place, metrics in made.items()
        for metric, one in metrics.items()
        for seed, value in zip(seeds[place], one.values, strict=True)
    ]
    return pd.DataFrame(rows, columns=["scenario", "scheduler", "seed", "metric", "value"])


def tidy(made: Numbers) -> pd.DataFrame:
    """Return all numbers for machines, a row per scenario, rule and metric."""
    rows = [
        (*place, metric, one.mean, one.low, one.high, one.seeds, one.reached)
        for place, metrics in made.items()
        for metric, one in metrics.items()
    ]
    return pd.DataFrame(rows, columns=COLUMNS)


def overall_table(found: Standings, made: Numbers, missing: Mapping[tuple[str, str], str]) -> pd.DataFrame:
    """Return the ranking, and below it what the other rules have; `missing` says why a scenario's cell is empty."""
    named = [rule for _, rule in [*made, *missing]]
    rows = []
    for place, rule in enumerate(in_order(found, dict.fromkeys(named)), start=1):
        row: dict[str, object] = {"place": place if rule in found.rules else "–", "scheduler": rule}
        row |= _ranked(found, rule) if rule in found.rules else dict.fromkeys(RANKING, "–")
        for one in found.scenarios:
            key = one.scenario.name, rule
            own = made[key]["mean balanced"].shown(DIGITS) if key in made else missing.get(key, "not run")
            row[one.scenario.title] = own
        rows.append(row)
    return pd.DataFrame(rows)


RANKING = ["score", "behind the first by (95 %)", "clearly", "mean rank", "score by global accuracy"]


def _ranked(found: Standings, rule: str) -> dict[str, object]:
    first = rule == found.rules[0]
    behind = found.behind_first(rule)
    values = (
        Estimate.of(found.score(rule)).shown(DIGITS),
        "–" if first else points(behind.differences, DIGITS),
        "–" if first else "yes" if behind.verdict == "holds" else "no",
        f"{np.mean(found.ranks[rule]):.1f}",
        Estimate.of(found.score(rule, "global")).shown(DIGITS),
    )
    return dict(zip(RANKING, values, strict=True))


def scenario_table(found: Standings, one: Reached, made: Numbers) -> pd.DataFrame:
    """Return what every rule reached and spent in a scenario."""
    target = percent(one.scenario.target)
    rows = []
    for rule in in_order(found, one.rules):
        own = made[one.scenario.name, rule]
        row: dict[str, object] = {"scheduler": rule, "seeds": own["mean balanced"].seeds}
        row |= {f"mean {kind}": own[f"mean {kind}"].shown(DIGITS) for kind in ACCURACIES}
        rounds = own["rounds to target"]
        missed = f" ({rounds.reached} of {rounds.seeds} reached)" if rounds.reached < rounds.seeds else ""
        row[f"rounds to {target}"] = rounds.shown(0) + missed
        row |= {f"{name} to {target}": own[f"{name} to target"].shown() for name in COSTS}
        row |= {name: own[name].shown() for name in (*COSTS, "clients a round")}
        rows.append(row)
    return pd.DataFrame(rows)
