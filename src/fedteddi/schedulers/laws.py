"""The laws every rule must keep, as functions: `fedteddi check` and our tests ask the same questions."""

import dataclasses
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from fedteddi.schedulers.schedule import Schedule, Scheduler, schedule_faults
from fedteddi.schedulers.view import RoundView

# How often a rule that uses chance is asked to compare two distributions, and how unlikely a difference must
# be before it counts: with a few hundred comparisons, six standard errors do not happen by chance.
DRAWS = 200
STANDARD_ERRORS = 6.0


@dataclasses.dataclass(frozen=True)
class Broken:
    """A law that a rule broke, and the round on which it did."""

    law: str
    fault: str
    view: RoundView


def obeys_limits(rule: Scheduler, view: RoundView) -> list[str]:
    """Nobody twice, nobody infeasible, everybody enough bandwidth, the band not overspent."""
    return schedule_faults(view, _select(rule, view))


def repeats_itself(rule: Scheduler, view: RoundView) -> list[str]:
    """The same round and the same seed give the same schedule."""
    first, second = _select(rule, view), _select(rule, view)
    same = first.clients == second.clients and first.bandwidth_hz == second.bandwidth_hz
    return (
        []
        if same
        else [f"chose {_some(first.clients)}, then {_some(second.clients)}: use only the given rng"]
    )


def empty_when_nobody_can(rule: Scheduler, view: RoundView) -> list[str]:
    """With nobody feasible the schedule is empty."""
    hopeless = dataclasses.replace(view, needed_hz=np.full(view.num_clients, np.inf))
    chosen = _select(rule, hopeless).clients
    return [f"chose {_some(chosen)} although nobody can meet the deadline"] if chosen else []


def ignores_order(rule: Scheduler, view: RoundView) -> list[str]:
    """The order of clients in the input does not matter, up to ties.

    A few seeds settle it for a rule without chance; otherwise each client's chance of being chosen must stay
    what it was.
    """
    shuffle = np.random.default_rng(1).permutation(view.num_clients)
    shuffled = permuted(view, shuffle)
    sets = {frozenset(_select(rule, view, seed).clients) for seed in range(4)}
    other_sets = {
        frozenset(int(shuffle[n]) for n in _select(rule, shuffled, seed).clients) for seed in range(4)
    }
    if sets == other_sets and len(sets) == 1:
        return []
    chance = _inclusion(rule, view, seed_from=0)
    other = np.empty(view.num_clients)
    other[shuffle] = _inclusion(rule, shuffled, seed_from=DRAWS)
    pooled = (chance + other) / 2
    # One draw more and one less keep clients that are (almost) always or never chosen from looking exact.
    error = np.sqrt(2 * (pooled * (1 - pooled) + 1 / DRAWS) / DRAWS)
    far = np.flatnonzero(np.abs(chance - other) > STANDARD_ERRORS * error)
    return [
        f"chose client {n} in {chance[n]:.0%} of {DRAWS} draws,"
        f" but in {other[n]:.0%} after the clients were listed in another order"
        for n in far[:1]
    ]


LAWS: dict[str, Callable[[Scheduler, RoundView], list[str]]] = {
    "keeps within the limits": obeys_limits,
    "same seed, same schedule": repeats_itself,
    "empty when nobody can": empty_when_nobody_can,
    "order of clients does not matter": ignores_order,
}


def check_scheduler(rule: Scheduler, rounds: int = 40) -> list[Broken]:
    """Try every law on random rounds; return the first fault found for each law that is broken."""
    broken: dict[str, Broken] = {}
    for view in law_rounds(rounds):
        for name, law in LAWS.items():
            if name in broken:
                continue
            try:
                faults = law(rule, view)
            except Exception as error:
                faults = [f"raised {type(error).__name__}: {error}{fault_place(error)}"]
            if faults:
                broken[name] = Broken(name, faults[0], view)
    return list(broken.values())


def law_rounds(count: int) -> Iterator[RoundView]:
    """Yield random rounds, among them the awkward ones: one client, nobody able, everybody alike."""
    for seed in range(count):
        rng = np.random.default_rng(seed)
        clients = (1, 2, 7, 12, 30)[seed % 5]
        yield random_round(rng, clients=clients, classes=int(rng.integers(1, 7)), alike=seed % 4 == 3)


def random_round(rng: np.random.Generator, *, clients: int, classes: int, alike: bool = False) -> RoundView:
    """Draw a round with unequal data sizes and some infeasible clients; or one where most clients tie."""
    data_mix = rng.dirichlet(np.full(classes, 0.5), size=clients)
    previous = np.where(
        rng.random(clients)[:, None] < 0.5, data_mix, rng.dirichlet(np.ones(classes), size=clients)
    )
    num_samples = rng.integers(1, 1000, size=clients)
    needed_hz = rng.lognormal(0.0, 1.0, size=clients)
    needed_hz[rng.random(clients) < 0.15] = np.inf
    channel_gain, loss, update_norm = rng.random((3, clients))
    if alike:  # whole groups of equal clients
        twin = rng.integers(0, max(1, clients // 4), size=clients)
        data_mix, previous, num_samples, needed_hz = (
            data_mix[twin],
            previous[twin],
            num_samples[twin],
            needed_hz[twin],
        )
        channel_gain, loss, update_norm = channel_gain[twin], loss[twin], update_norm[twin]
    rounds_in_frame = int(rng.integers(1, 50))
    return RoundView(
        frame=1,
        round=int(rng.integers(1, rounds_in_frame + 1)),
        rounds_in_frame=rounds_in_frame,
        batch_size=int(rng.integers(1, 65)),
        total_hz=float(rng.uniform(0.5, 8.0)),
        num_samples=num_samples,
        batch_mix=data_mix,
        data_mix=data_mix,
        previous_data_mix=previous,
        needed_hz=needed_hz,
        channel_gain=channel_gain,
        times_scheduled=np.zeros(clients, dtype=np.int64),
        gradient_std=float(rng.uniform(0, 30)),
        class_norm=rng.uniform(0, 10, size=classes),
        loss=loss,
        update_norm=update_norm,
    )


def permuted(view: RoundView, order: np.ndarray) -> RoundView:
    """Return the same round with its clients listed in another order."""
    per_client = {
        f.name: value[order]
        for f in dataclasses.fields(view)
        if isinstance(value := getattr(view, f.name), np.ndarray)
        and f.name not in ("class_norm", "classes_seen")
    }
    return dataclasses.replace(view, **per_client)


def _select(rule: Scheduler, view: RoundView, seed: int = 0) -> Schedule:
    return rule.select(view, np.random.default_rng(seed))


def _inclusion(rule: Scheduler, view: RoundView, seed_from: int) -> np.ndarray:
    times = np.zeros(view.num_clients)
    for seed in range(seed_from, seed_from + DRAWS):
        times[list(_select(rule, view, seed).clients)] += 1
    return times / DRAWS


def _some(clients: object) -> str:
    listed = sorted(clients)  # type: ignore[call-overload]
    return f"{listed[:8]}{'…' if len(listed) > 8 else ''}"


def fault_place(error: Exception) -> str:
    """Return " (file, line n)" where an error was raised, for messages."""
    frames = traceback.extract_tb(error.__traceback__)
    return f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""
