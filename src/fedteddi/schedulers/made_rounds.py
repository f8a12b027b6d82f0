"""Made rounds on which rules are tried: random ones, among them the awkward, and rounds that follow each other."""

import dataclasses
from collections.abc import Iterator

import numpy as np

from fedteddi.schedulers.view import RoundView
from fedteddi.wireless.uplink import minimum_bandwidth_hz


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
        update_sketch=rng.standard_normal((clients, 5))[who],
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


def following(view: RoundView, count: int = 4) -> list[RoundView]:
    """Return `count` rounds in a row, the first being `view`; in every other one a client does not report."""
    views = []
    for step in range(count):
        here = np.arange(view.num_clients)
        if step % 2 and view.num_clients > 1:
            here = np.delete(here, step % view.num_clients)
        number = min(view.round + step, view.rounds_in_frame)
        views.append(dataclasses.replace(permuted(view, here), round=number))
    return views
