"""What the leaderboard consists of: small scenarios on the embedded images, rules, seeds."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from fedteddi.errors import InputError
from fedteddi.experiment import run_name, variant
from fedteddi.results.folder import first_difference
from fedteddi.results.reading import without_variant
from fedteddi.results.runs import REFERENCES
from fedteddi.schedulers.registry import built_in, named_rule
from fedteddi.settings import Settings, load_experiment
from fedteddi.studies.study import known

SEEDS = (0, 1, 2)


@dataclass(frozen=True)
class Scenario:
    """An experiment that every rule plays, and the balanced accuracy whose cost is compared."""

    name: str  # of its folder
    title: str
    experiment: str
    target: float
    quick: dict[str, Any]  # settings that --quick changes


SCENARIOS = (
    Scenario(
        name="arrival",
        title="Class arrival",
        experiment="benchmark-arrival",
        target=0.70,
        quick={"rounds": [0, 10], "evaluation__test_images": 500},
    ),
    Scenario(
        name="shares",
        title="Growing and vanishing shares",
        experiment="benchmark-shares",
        target=0.75,
        quick={"rounds": [4, 4, 4], "evaluation__test_images": 500},
    ),
    Scenario(
        name="static",
        title="Static, not i.i.d.",
        experiment="benchmark-static",
        target=0.75,
        quick={"rounds": [10], "evaluation__test_images": 500},
    ),
)


@dataclass(frozen=True, kw_only=True)
class Benchmark:
    """Scenarios, whole or shortened."""

    scenarios: tuple[Scenario, ...] = SCENARIOS
    is_quick: bool = False

    @property
    def command(self) -> str:
        """What plays it."""
        return "fedteddi benchmark --quick" if self.is_quick else "fedteddi benchmark"

    @property
    def name(self) -> str:
        """The name of its folder, and of its summaries."""
        return "benchmark-quick" if self.is_quick else "benchmark"

    def settings(self, scenario: Scenario) -> Settings:
        """Return the settings of a scenario's runs, but for rule and seed."""
        return load_experiment(scenario.experiment).changed(**(scenario.quick if self.is_quick else {}))

    def check(self, scenario: str, own: Settings, where: object) -> None:
        """Refuse a run that is no run of this scenario, whatever its rule and seed."""
        named = {one.name: one for one in self.scenarios}
        (name,) = known("scenario", [scenario], named)
        base = self.settings(named[name])
        expected, own = (without_variant(settings, base) for settings in (base, own))
        if own != expected:
            raise InputError(
                f"{where} holds another benchmark ({first_difference(own, expected)}): choose another folder"
            )

    def runs(self, rules: Sequence[str], seeds: Iterable[int]) -> dict[str, Settings]:
        """Return the settings of every run by its folder, SCENARIO/RUN; seed by seed."""
        bases = {scenario.name: self.settings(scenario) for scenario in self.scenarios}
        found: dict[str, Settings] = {}
        for seed, (scenario, base), rule in product(seeds, bases.items(), rules):
            own = variant(base, rule, seed, base.radio.deadline_s)
            name = f"{scenario}/{run_name(own)}"
            if found.setdefault(name, own) != own:
                raise InputError(
                    f"two runs would both be called {name}: give your schedulers different names"
                )
        return found


def chosen_rules(joining: Iterable[str], only: Iterable[str]) -> list[str]:
    """Return the rules to be played: all built-in ones, or only some, and those that join them."""
    rules = list(dict.fromkeys([*(only or built_in()), *joining]))
    for rule in rules:
        if named_rule(rule).name in REFERENCES:
            raise InputError(f"{rule} is a reference bound, not a scheduler: run it with compare")
    return rules
