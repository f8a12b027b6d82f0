"""From settings and labels to a plan."""

import numpy as np

from fedteddi.errors import InputError
from fedteddi.randomness import keyed_rng
from fedteddi.scenario.layouts import dirichlet, few_classes, one_class_each, rounded_counts, same_mix
from fedteddi.scenario.paper_cifar10 import frame0_units, frame1_news
from fedteddi.scenario.paper_cifar100 import paper_cifar100_arrival, paper_cifar100_first
from fedteddi.scenario.plan import Plan, make_plan
from fedteddi.scenario.replay import find_replay_rule
from fedteddi.scenario.traces import read_arrivals
from fedteddi.settings import Arrival, ScenarioSettings


def build_plan(
    settings: ScenarioSettings, labels: np.ndarray, num_classes: int, frames: int, seed: int
) -> Plan:
    """Deal the training images `labels` [M] to clients for every frame."""
    first = _first(settings, num_classes, seed)
    clients = len(first)
    arrivals = [np.zeros((clients, num_classes), dtype=np.int64) for _ in range(1, frames)]
    forgets = [np.zeros((clients, num_classes), dtype=bool) for _ in range(1, frames)]
    for frame in range(1, frames):
        arrivals[frame - 1] += _papers_arrival(settings, frame, clients, num_classes, seed)
    for number, arrival in enumerate(settings.arrivals):
        where = f"scenario.arrivals.{number}"
        if arrival.frame >= frames:
            raise InputError(
                f"{where}.frame={arrival.frame}, but there are rounds for frames 0 to {frames - 1} only"
            )
        counts = _arrival(arrival, number, clients, num_classes, seed)
        arrivals[arrival.frame - 1] += counts
        forgets[arrival.frame - 1][np.ix_(counts.sum(axis=1) > 0, arrival.forget)] = True
    if settings.arrivals_trace:
        for frame, counts in read_arrivals(settings.arrivals_trace, clients, num_classes, frames).items():
            arrivals[frame - 1] += counts
    plan = make_plan(
        labels,
        num_classes,
        first,
        arrivals,
        forgets,
        storage=int(first.sum(axis=1).max()),
        replay=find_replay_rule(settings.replay),
        seed=seed,
        overlap=settings.overlap,
    )
    return plan.pooled() if settings.pooled else plan


def _first(settings: ScenarioSettings, num_classes: int, seed: int) -> np.ndarray:
    if settings.layout.startswith("paper-") and settings.clients != 30:
        raise InputError(f"scenario.clients={settings.clients}: the layout {settings.layout} has 30, always")
    if settings.layout == "paper-cifar10":
        _need_classes(settings.layout, num_classes, 10)
        units = frame0_units(keyed_rng(seed, "arrival", step=1))  # [30, 10]
        return np.stack([rounded_counts(row.astype(float), settings.samples_per_client) for row in units])
    if settings.layout == "paper-cifar100":
        _need_classes(settings.layout, num_classes, 50)
        return paper_cifar100_first(settings.samples_per_client)[:, :num_classes]
    if len(settings.class_weights) > num_classes:
        raise InputError(
            f"scenario.class_weights has {len(settings.class_weights)} entries: the data set has {num_classes} classes"
        )
    weights = np.zeros(num_classes)
    weights[: len(settings.class_weights)] = settings.class_weights
    if not weights.any():
        raise InputError("scenario.class_weights are all 0: give at least one class some weight")
    samples = settings.samples_per_client
    if settings.layout == "dirichlet":
        return dirichlet(settings.clients, settings.alpha, samples, weights, seed)
    return few_classes(settings.clients, settings.classes_per_client, samples, weights, seed)


def _papers_arrival(
    settings: ScenarioSettings, frame: int, clients: int, num_classes: int, seed: int
) -> np.ndarray:
    rng = keyed_rng(seed, "arrival", frame=frame, step=1)
    if settings.layout == "paper-cifar10" and frame == 1:
        counts = np.zeros((clients, num_classes), dtype=np.int64)
        chosen, classes = frame1_news(rng)
        counts[chosen, classes] = settings.samples_per_client // 2
        return counts
    if settings.layout == "paper-cifar100" and frame in (1, 2):
        return paper_cifar100_arrival(frame, rng, settings.samples_per_client)[:, :num_classes]
    return np.zeros((clients, num_classes), dtype=np.int64)


def _arrival(arrival: Arrival, number: int, clients: int, num_classes: int, seed: int) -> np.ndarray:
    where = f"scenario.arrivals.{number}"
    if isinstance(arrival.clients, list):
        chosen = np.array(arrival.clients, dtype=np.int64)
        if (
            len(chosen) == 0
            or len(np.unique(chosen)) < len(chosen)
            or not np.isin(chosen, np.arange(clients)).all()
        ):
            raise InputError(f"{where}.clients: give different clients from 0 to {clients - 1}")
    elif arrival.clients > clients:
        raise InputError(f"{where}.clients={arrival.clients}, but there are only {clients}: ask for fewer")
    else:
        # Arrivals of one frame choose their clients independently of each other.
        rng = keyed_rng(seed, "arrival", frame=arrival.frame, step=2 + number)
        chosen = rng.permutation(clients)[: arrival.clients]
    named = (arrival.classes or []) + arrival.forget
    if not np.isin(named, np.arange(num_classes)).all() or arrival.classes == []:
        raise InputError(f"{where}: classes are numbers from 0 to {num_classes - 1}, and at least one")
    if arrival.classes is not None:
        return one_class_each(chosen, arrival.classes, arrival.samples, clients, num_classes)
    mix = np.zeros(num_classes)
    given = np.array(arrival.mix)
    if len(given) > num_classes or not given.any():
        raise InputError(f"{where}.mix: give up to {num_classes} class weights, one at least above 0")
    mix[: len(given)] = given
    return same_mix(chosen, mix, arrival.samples, clients)


def _need_classes(layout: str, there: int, needed: int) -> None:
    if there < needed:
        raise InputError(
            f"scenario.layout={layout!r} needs {needed} classes, the data set has {there}: use another"
        )
