"""Every registered rule, in every mode, keeps the laws; and the laws notice rules that do not."""

import dataclasses
from collections.abc import Callable, Iterable, Iterator

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from fedteddi import RoundView, Schedule, Scheduler, check_scheduler, make_scheduler, scheduler_names
from fedteddi.schedulers.admission import AdmissionOptions
from fedteddi.schedulers.laws import LAWS, ignores_order, only_twins_tie, order_faults, twins
from fedteddi.schedulers.made_rounds import law_rounds, random_round
from fedteddi.schedulers.registry import find_scheduler
from fedteddi.schedulers.schedule import schedule_faults
from strategies import rounds

SEARCHES = ["fedteddi", "fedcgd"]
RULES: dict[str, dict[str, object]] = {name: {} for name in scheduler_names()}
RULES |= {f"{name} sharing": {"spare_band": "share"} for name in scheduler_names()}
IN_ORDER = [name for name in scheduler_names() if issubclass(find_scheduler(name), AdmissionOptions)]
RULES |= {f"{name} skip": {"on_no_fit": "skip"} for name in IN_ORDER}
RULES |= {"proportional-fair served": {"mean": "served", "rate": "bits-per-hz", "window": 2}}
RULES |= {"minimum-latency unused": {"spare_band": "unused"}, "minimum-latency two": {"most_clients": 2}}
RULES |= {"best-channel-best-norm two": {"candidates": 2}}
RULES |= {"fedteddi literal": {"sigma": "literal"}, "fedteddi shared-by-all": {"drift_share": "all"}}
RULES |= {"fedteddi uniform": {"target": "uniform"}, "fedteddi data-mixes": {"mixes": "data"}}
RULES |= {f"{name} refined": {"search": "refined"} for name in SEARCHES}
RULES |= {f"{name} exact": {"search": "exact"} for name in SEARCHES}
RULES |= {"divfl stochastic": {"subset": 2}, "fedcor learned": {"warm_up": 0, "interval": 3}}


def made(case: str) -> Scheduler:
    return make_scheduler(case.split(" ")[0], **RULES[case])


def obey(
    case: str, law: Callable[[Scheduler, RoundView], Iterable[str]], examples: int, clients: int
) -> None:
    @settings(max_examples=examples, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
    @given(view=rounds(max_clients=clients))
    def holds(view: RoundView) -> None:
        assert list(law(made(case), view)) == []

    holds()


@pytest.mark.parametrize("case", RULES)
def test_every_rule_keeps_the_laws(case: str) -> None:
    """All but the order, on the same rounds: to draw one takes longer than to try a law on it."""

    def laws(rule: Scheduler, view: RoundView) -> Iterator[str]:
        for name, law in LAWS.items():
            if law is not ignores_order:
                yield from (f"{name}: {fault}" for fault in law(rule, view))

    obey(case, laws, examples=15 if "exact" in case else 60 if case in scheduler_names() else 30, clients=12)


@pytest.mark.parametrize("case", [case for case in RULES if "sharing" not in case])
def test_order_of_clients_does_not_matter(case: str) -> None:
    """Stricter than the law: our rules leave ties to chance, so every single client's chance must stay.

    Rounds from `rounds` tie often, which asks a few hundred draws of each rule: fewer, smaller ones. The band is shared
    after clients are chosen, so that no other are.
    """

    def strict(rule: Scheduler, view: RoundView) -> list[str]:
        return order_faults(rule, view, np.arange(view.num_clients))

    slow = "exact" in case
    obey(case, strict, examples=3 if slow else 12, clients=4 if slow else 7)


@pytest.mark.parametrize("name", scheduler_names())
def test_check_scheduler_finds_nothing_in_ours(name: str) -> None:
    assert check_scheduler(make_scheduler(name), rounds=10) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", scheduler_names())
def test_check_scheduler_finds_nothing_in_ours_on_2000_rounds(name: str) -> None:
    assert check_scheduler(make_scheduler(name), rounds=2000) == []


@dataclasses.dataclass
class Rogue:
    """A rule that takes everyone who can, at B*, and then spoils the result."""

    spoil: Callable[[RoundView, list[int], np.random.Generator], list[int]]
    name: str = "rogue"

    def select(self, view: RoundView, rng: np.random.Generator) -> Schedule:
        able, left_hz = [], view.total_hz
        for client in np.argsort(-view.channel_gain, kind="stable"):
            if view.needed_hz[client] <= left_hz:
                able.append(int(client))
                left_hz -= view.needed_hz[client]
        clients = self.spoil(view, able, rng)
        return Schedule(clients=tuple(clients), bandwidth_hz=tuple(float(view.needed_hz[n]) for n in clients))


UNSEEDED = np.random.default_rng(0)
ROGUES = {
    "overspends": (
        lambda view, _able, _rng: [int(n) for n in np.flatnonzero(np.isfinite(view.needed_hz))],
        "keeps within the limits",
    ),
    "takes a client twice": (lambda _view, able, _rng: able + able[:1], "keeps within the limits"),
    "invents a client": (lambda _view, able, _rng: [*able, -1], "keeps within the limits"),
    "takes the infeasible": (
        lambda _view, able, _rng: able or [0],
        "empty when nobody can",
    ),
    "has its own chance": (
        lambda _view, able, _rng: able[: UNSEEDED.integers(len(able) + 1)],
        "same seed, same schedule",
    ),
    "prefers the first": (
        lambda _view, able, _rng: [min(able)] if able else [],
        "order of clients does not matter",
    ),
    "raises": (lambda view, able, _rng: [able[0]] if view.total_hz / 0 else [], "answers every round"),
}


@pytest.mark.parametrize("rogue", ROGUES)
def test_a_rule_that_breaks_a_law_is_found(rogue: str) -> None:
    spoil, law = ROGUES[rogue]
    assert law in [b.law for b in check_scheduler(Rogue(spoil))]


def test_exact_answers_even_where_sample_counts_lie_far_apart() -> None:
    """One class only, and 1 to 100,000 samples: rounds on which a fixed tolerance proves nothing."""
    rule = make_scheduler("fedteddi", search="exact")
    for seed in range(120):
        view = random_round(np.random.default_rng(seed), clients=12, classes=1 + seed % 3)
        assert schedule_faults(view, rule.select(view, np.random.default_rng(0))) == []


def test_the_honest_rogue_passes() -> None:
    """So the rogues above are caught for what they spoil, not for what they share."""
    assert check_scheduler(Rogue(lambda _view, able, _rng: able)) == []


def test_too_little_bandwidth_is_found() -> None:
    class Stingy:
        name = "stingy"

        def select(self, view: RoundView, rng: np.random.Generator) -> Schedule:
            full = make_scheduler("random").select(view, rng)
            return dataclasses.replace(full, bandwidth_hz=tuple(0.9 * hz for hz in full.bandwidth_hz))

    faults = [b.fault for b in check_scheduler(Stingy())]
    assert any("needs" in fault for fault in faults)


def test_law_rounds_include_the_awkward_ones() -> None:
    views = list(law_rounds(40))
    assert any(view.num_clients == 1 for view in views)
    assert any(len(view.schedulable) == 0 for view in views)
    assert any(len(np.unique(twins(view))) <= view.num_clients // 3 for view in views)
    assert any((view.data_mix == view.previous_data_mix).all(axis=1).any() for view in views)
    # and enough of them can tell a rule that depends on the order
    assert sum(only_twins_tie(view, twins(view)) for view in views) >= 20
