"""The laws every rule must keep, as functions: `fedteddi check` and our tests ask the same questions."""

import inspect
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fedteddi.laws import Law, first_faults
from fedteddi.schedulers.made_rounds import following, hopeless, law_rounds, per_client, permuted
from fedteddi.schedulers.registry import make_scheduler
from fedteddi.schedulers.schedule import (
    AnyScheduler,
    Schedule,
    choice_of,
    fault_in_words,
    first_state,
    schedule_faults,
)
from fedteddi.schedulers.trial import keeps_no_memory_in_itself, num_clients_of, played, resumes, some
from fedteddi.schedulers.view import RoundView

# How often a rule that uses chance is asked to compare two distributions, and how unlikely a difference must
# be before it counts: with a few hundred comparisons, six standard errors do not happen by chance.
DRAWS = 200
STANDARD_ERRORS = 6.0


@dataclass(frozen=True)
class Broken:
    """A law that a rule broke, or that could not be tried (`NotTried`), and the first round on which that was so."""

    law: str
    fault: str
    view: RoundView = field(repr=False)  # too much to be shown


def answers(rule: AnyScheduler, view: RoundView) -> list[str]:
    """Every round gets a schedule, not an exception."""
    _select(rule, view)
    _select(rule, hopeless(view))
    return []


def obeys_limits(rule: AnyScheduler, view: RoundView) -> Iterator[str]:
    """Nobody twice, nobody infeasible, everybody enough bandwidth, the band not overspent."""
    views = following(view)
    for each, chosen in zip(views, played(rule, views)[0], strict=True):
        yield from schedule_faults(each, chosen)


def repeats_itself(rule: AnyScheduler, view: RoundView) -> Iterator[str]:
    """The same round and the same seed give the same schedule."""
    first, second = _select(rule, view), _select(rule, view)
    if (first.clients, first.bandwidth_hz) != (second.clients, second.bandwidth_hz):
        yield f"chose {some(first.clients)}, then {some(second.clients)}: use only the given rng"


def empty_when_nobody_can(rule: AnyScheduler, view: RoundView) -> Iterator[str]:
    """With nobody feasible the schedule is empty."""
    chosen = _select(rule, hopeless(view)).clients
    if chosen:
        yield f"chose {some(chosen)} although nobody can meet the deadline"


def ignores_order(rule: AnyScheduler, view: RoundView) -> list[str]:
    """The order of clients in the input does not matter, up to ties.

    Clients that are alike in everything may be exchanged; a round in which others tie says nothing.
    """
    alike = twins(view)
    return order_faults(rule, view, alike) if only_twins_tie(view, alike) else []


def order_faults(rule: AnyScheduler, view: RoundView, group: np.ndarray) -> list[str]:
    """Compare how many of each group [N] are chosen before and after the clients are listed differently.

    A few seeds settle it for a rule without chance; otherwise the average counts must stay what they were.
    """
    shuffle = np.random.default_rng(1).permutation(view.num_clients)
    shuffled, shuffled_group = permuted(view, shuffle), group[shuffle]
    few = {tuple(_chosen_by_group(rule, view, group, seed)) for seed in range(4)}
    if (
        few == {tuple(_chosen_by_group(rule, shuffled, shuffled_group, seed)) for seed in range(4)}
        and len(few) == 1
    ):
        return []
    size = np.bincount(group)
    draws = [_chosen_by_group(rule, view, group, seed) for seed in range(DRAWS)]
    other_draws = [_chosen_by_group(rule, shuffled, shuffled_group, seed + DRAWS) for seed in range(DRAWS)]
    chance, other = np.mean(draws, axis=0) / size, np.mean(other_draws, axis=0) / size
    pooled = (chance + other) / 2
    # One draw more and one less keep groups that are (almost) always or never chosen from looking exact.
    error = np.sqrt(2 * (pooled * (1 - pooled) + 1 / DRAWS) / DRAWS)
    far = np.flatnonzero(np.abs(chance - other) > STANDARD_ERRORS * error)
    return [
        f"chose client {np.flatnonzero(group == g)[0]} in {chance[g]:.0%} of {DRAWS} draws,"
        f" but in {other[g]:.0%} after the clients were listed in another order"
        for g in far[:1]
    ]


def twins(view: RoundView) -> np.ndarray:
    """Return a group number for every client, [N]; clients that are alike in everything share one."""
    fields = {name: values for name, values in per_client(view).items() if name != "client_id"}
    columns = [np.asarray(values).reshape(view.num_clients, -1) for values in fields.values()]
    _, group = np.unique(np.hstack(columns), axis=0, return_inverse=True)
    return np.asarray(group).reshape(-1)


def only_twins_tie(view: RoundView, group: np.ndarray) -> bool:
    """Tell whether whatever a rule might rank by differs between any two clients that are not twins."""
    able = view.schedulable
    drift = np.abs(view.data_mix - view.previous_data_mix).sum(axis=1)
    numbers = (view.num_samples, view.needed_hz, view.channel_gain, view.loss, view.update_norm)
    ranked_by = (*numbers, _total_distance(view), drift)
    groups = len(np.unique(group[able]))
    return all(len(np.unique(values[able])) == groups for values in ranked_by if values is not None)


def _total_distance(view: RoundView) -> np.ndarray | None:
    """Return how far each client's update is from all others', [N]: between two clients, the same for both."""
    if view.update_sketch is None:
        return None
    from scipy.spatial.distance import cdist  # when needed: a start takes milliseconds

    distance = cdist(view.update_sketch, view.update_sketch)  # [N, N]
    return np.asarray(distance.sum(axis=1).round(9))


ANSWERS = "answers every round"
LIMITS = "keeps within the limits"
EMPTY = "empty when nobody can"
LAWS: dict[str, Law[RoundView]] = {
    ANSWERS: answers,
    LIMITS: obeys_limits,
    "same seed, same schedule": repeats_itself,
    EMPTY: empty_when_nobody_can,
    "order of clients does not matter": ignores_order,
    "keeps no memory in itself": keeps_no_memory_in_itself,
    "resuming changes nothing": resumes,
}


def check_scheduler(rule: AnyScheduler | Any, rounds: int = 40) -> list[Broken]:
    """Try every invariant on random rounds; return the first fault, or "not tried", of each not kept.

    `rule` may also be a scheduler's name, class or function.
    """
    if inspect.isclass(rule) or not callable(getattr(rule, "select", None)):
        rule = make_scheduler(rule)
    faults = first_faults(
        LAWS,
        law_rounds(rounds),
        lambda law, view: law(rule, view),
        in_words=lambda error: fault_in_words(rule, error),
        essential=(ANSWERS, LIMITS),  # the other laws presume a schedule that can be carried out
    )
    return [
        Broken(law, fault, hopeless(view) if law == EMPTY else view) for law, (fault, view) in faults.items()
    ]


def _select(rule: AnyScheduler, view: RoundView, seed: int = 0) -> Schedule:
    state = first_state(rule, num_clients_of([view]))
    return choice_of(rule, view, np.random.default_rng(seed), state)[0]


def _chosen_by_group(rule: AnyScheduler, view: RoundView, group: np.ndarray, seed: int) -> list[int]:
    chosen = group[list(set(_select(rule, view, seed).clients))]
    return [int(count) for count in np.bincount(chosen, minlength=int(group.max()) + 1)]
