"""The laws every rule must keep, as functions: `fedteddi check` and our tests ask the same questions."""

import dataclasses
from collections.abc import Callable, Iterator

import numpy as np

from fedteddi.schedulers.schedule import Schedule, Scheduler, chosen_by, fault_place, schedule_faults
from fedteddi.schedulers.view import RoundView
from fedteddi.wireless.bandwidth import minimum_bandwidth_hz

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


def answers(rule: Scheduler, view: RoundView) -> list[str]:
    """Every round gets a schedule, not an exception."""
    _select(rule, view)
    _select(rule, hopeless(view))
    return []


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
    chosen = _select(rule, hopeless(view)).clients
    return [f"chose {_some(chosen)} although nobody can meet the deadline"] if chosen else []


def ignores_order(rule: Scheduler, view: RoundView) -> list[str]:
    """The order of clients in the input does not matter, up to ties.

    Clients that are alike in everything may be exchanged; a round in which others tie says nothing.
    """
    alike = twins(view)
    return order_faults(rule, view, alike) if only_twins_tie(view, alike) else []


def order_faults(rule: Scheduler, view: RoundView, group: np.ndarray) -> list[str]:
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
    columns = [np.asarray(values).reshape(view.num_clients, -1) for values in per_client(view).values()]
    _, group = np.unique(np.hstack(columns), axis=0, return_inverse=True)
    return np.asarray(group).reshape(-1)


def only_twins_tie(view: RoundView, group: np.ndarray) -> bool:
    """Tell whether whatever a rule might rank by differs between any two clients that are not twins."""
    able = view.schedulable
    drift = np.abs(view.data_mix - view.previous_data_mix).sum(axis=1)
    ranked_by = (view.num_samples, view.needed_hz, view.channel_gain, view.loss, view.update_norm, drift)
    groups = len(np.unique(group[able]))
    return all(len(np.unique(values[able])) == groups for values in ranked_by if values is not None)


ANSWERS = "answers every round"
LAWS: dict[str, Callable[[Scheduler, RoundView], list[str]]] = {
    ANSWERS: answers,
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
            try:
                faults = law(rule, view)
            except (Exception, SystemExit) as error:  # with whatever seed or order: it did not answer
                name, law = ANSWERS, answers
                faults = [f"raised {type(error).__name__}: {error}{fault_place(error)}"]
            if faults:
                asked = hopeless(view) if law is empty_when_nobody_can else view
                broken.setdefault(name, Broken(name, faults[0], asked))
            if faults and law in (answers, obeys_limits):
                break  # the other laws presume a schedule that can be carried out
    return [broken[name] for name in LAWS if name in broken]


def law_rounds(count: int) -> Iterator[RoundView]:
    """Yield random rounds, among them the awkward ones: one client, nobody able, nothing new, many twins."""
    for seed in range(count):
        rng = np.random.default_rng(seed)
        clients, classes = (1, 2, 7, 12, 30)[seed % 5], int(rng.integers(1, 7))
        yield random_round(rng, clients=clients, classes=classes, drifted=seed % 4 != 1, twins=seed % 4 == 3)


def random_round(
    rng: np.random.Generator, *, clients: int, classes: int, drifted: bool = True, twins: bool = False
) -> RoundView:
    """Draw a round with unequal data sizes and some infeasible clients.

    Unless all have `drifted`, half have not; with `twins`, about four clients each are exactly alike.
    """
    who = rng.integers(0, max(1, clients // 4), size=clients) if twins else np.arange(clients)
    data_mix = rng.dirichlet(np.full(classes, 0.5), size=clients)
    before = rng.dirichlet(np.ones(classes), size=clients)
    if not drifted:
        before = np.where(rng.random(clients)[:, None] < 0.5, data_mix, before)
    deadline_s, model_bits = 1.0, 1e6
    compute_s = rng.uniform(0.1, 1.05, size=clients)
    signal = 10.0 ** rng.uniform(5.5, 8, size=clients)  # P|H|²/N0 in hertz: some too weak for 1 Mbit/s
    rounds_in_frame = int(rng.integers(1, 50))
    return RoundView(
        frame=1,
        round=int(rng.integers(1, rounds_in_frame + 1)),
        rounds_in_frame=rounds_in_frame,
        batch_size=int(rng.integers(1, 65)),
        total_hz=float(10.0 ** rng.uniform(4.5, 7)),
        num_samples=rng.integers(1, 100_000, size=clients)[who],
        batch_mix=rng.dirichlet(np.full(classes, 0.5), size=clients)[who],
        data_mix=data_mix[who],
        previous_data_mix=before[who],
        needed_hz=minimum_bandwidth_hz(model_bits, deadline_s - compute_s, 1.0, signal, 1.0)[who],
        channel_gain=signal[who],
        times_scheduled=np.zeros(clients, dtype=np.int64),
        gradient_std=float(rng.uniform(0, 30)),
        class_norm=rng.uniform(0, 10, size=classes),
        loss=rng.random(clients)[who],
        update_norm=rng.random(clients)[who],
        compute_s=compute_s[who],
        deadline_s=deadline_s,
        model_bits=model_bits,
    )


def hopeless(view: RoundView) -> RoundView:
    """Return the same round with a deadline that nobody can meet."""
    return dataclasses.replace(view, needed_hz=np.full(view.num_clients, np.inf))


def per_client(view: RoundView) -> dict[str, np.ndarray]:
    """Return the fields that have an entry for every client."""
    fields = {f.name: getattr(view, f.name) for f in dataclasses.fields(view)}
    return {
        name: values
        for name, values in fields.items()
        if isinstance(values, np.ndarray) and name not in ("class_norm", "classes_seen")
    }


def permuted(view: RoundView, order: np.ndarray) -> RoundView:
    """Return the same round with its clients listed in another order."""
    return dataclasses.replace(view, **{name: values[order] for name, values in per_client(view).items()})


def _select(rule: Scheduler, view: RoundView, seed: int = 0) -> Schedule:
    return chosen_by(rule, view, np.random.default_rng(seed))


def _chosen_by_group(rule: Scheduler, view: RoundView, group: np.ndarray, seed: int) -> list[int]:
    chosen = group[list(set(_select(rule, view, seed).clients))]
    return [int(count) for count in np.bincount(chosen, minlength=int(group.max()) + 1)]


def _some(clients: tuple[int, ...]) -> str:
    listed = sorted(clients)
    return f"{listed[:8]}{'…' if len(listed) > 8 else ''}"
