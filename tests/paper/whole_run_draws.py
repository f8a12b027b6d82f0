"""Which random numbers a run draws, written out a second time: they define "the same experiment".

Nothing here is imported from `fedteddi`. What is shared with it is the definition of each draw: its key and the numpy
call that uses it. Two readings of the paper can only be compared on the same clients, images, channels and batches.
"""

import math

import numpy as np

from fedteddi.settings import Arrival, Settings

# A cause's number in the key. They are part of the draws, so an order that changes changes every result.
CAUSES = ["positions", "channel", "delay", "arrival", "batches", "dropout", "scheduler", "estimates"]


def draws(
    seed: int, cause: str, frame: int = 0, round: int = 0, client: int = 0, step: int = 0
) -> np.random.Generator:
    """Return the stream of one cause, frame, round, client and step."""
    key = [seed, CAUSES.index(cause), frame, round, client, step]
    return np.random.default_rng(np.random.SeedSequence(key))


def largest_remainders(shares: np.ndarray, total: int) -> list[int]:
    """Return whole numbers in proportion to `shares` that add up to `total`."""
    exact = [share * total / sum(shares) for share in shares]
    counts = [math.floor(value) for value in exact]
    by_remainder = sorted(range(len(exact)), key=lambda c: counts[c] - exact[c])
    for c in by_remainder[: total - sum(counts)]:
        counts[c] += 1
    return counts


class Decks:
    """Each class's images as a shuffled deck, dealt from the top and then from the top again."""

    def __init__(self, labels: np.ndarray, classes: int, seed: int) -> None:
        rng = draws(seed, "arrival")
        self.cards = [list(rng.permutation(np.flatnonzero(labels == c))) for c in range(classes)]
        self.top = [0] * classes

    def deal(self, c: int, count: int, held: list[int]) -> list[int]:
        """Deal `count` images of class c that are not `held` yet."""
        dealt: list[int] = []
        while len(dealt) < count:
            card = int(self.cards[c][self.top[c] % len(self.cards[c])])
            self.top[c] += 1
            if card not in held and card not in dealt:
                dealt.append(card)
        return dealt


def held_images(settings: Settings, labels: np.ndarray, classes: int) -> list[list[list[int]]]:
    """Return the images that every client holds: [frame][client]. Only the Dirichlet layout is read here."""
    scenario, seed = settings.scenario, settings.seed
    decks = Decks(labels, classes, seed)
    weights = np.array(scenario.class_weights, dtype=float)
    rng = draws(seed, "arrival", step=1)
    clients: list[list[int]] = []
    for _ in range(scenario.clients):
        mix = rng.dirichlet(scenario.alpha * weights / weights.mean()) + 1e-12
        counts = largest_remainders(mix, scenario.samples_per_client)
        clients.append([card for c, count in enumerate(counts) for card in decks.deal(c, count, [])])
    frames = [clients]
    for frame in range(1, len(settings.rounds)):
        frames.append(_next_frame(settings, frame, frames[-1], decks, labels))
    return frames


def _next_frame(
    settings: Settings, frame: int, before: list[list[int]], decks: Decks, labels: np.ndarray
) -> list[list[int]]:
    """New images come in, forgotten classes go, and a random part of the rest is kept under the storage limit."""
    storage = settings.scenario.samples_per_client
    arriving: list[dict[int, int]] = [{} for _ in before]
    forgotten: list[set[int]] = [set() for _ in before]
    for number, arrival in enumerate(settings.scenario.arrivals):
        if arrival.frame == frame:
            for turn, client in enumerate(_receivers(settings.seed, arrival, number, len(before))):
                c = arrival.classes[turn % len(arrival.classes)]
                arriving[client][c] = arriving[client].get(c, 0) + arrival.samples
                forgotten[client] |= set(arrival.forget)
    after = []
    for client, old in enumerate(before):
        if not arriving[client]:
            after.append(old)
            continue
        new = [card for c in sorted(arriving[client]) for card in decks.deal(c, arriving[client][c], old)]
        kept = [image for image in old if labels[image] not in forgotten[client]]
        if len(kept) > storage - len(new):
            rng = draws(settings.seed, "arrival", frame=frame, client=client)
            kept = sorted(int(image) for image in rng.choice(kept, storage - len(new), replace=False))
        after.append(kept + new)
    return after


def _receivers(seed: int, arrival: Arrival, number: int, clients: int) -> list[int]:
    if isinstance(arrival.clients, list):
        return arrival.clients
    rng = draws(seed, "arrival", frame=arrival.frame, step=2 + number)
    return [int(client) for client in rng.permutation(clients)[: arrival.clients]]


def channel_gain(settings: Settings, clients: int, frame: int, round: int) -> list[float]:
    """|H_n|²: uniform over a disc's area, 128.1 + 37.6 log10(d in km) dB, shadowing redrawn each round."""
    radius = draws(settings.seed, "positions").random(clients)
    distance_m = [max(settings.radio.radius_m * math.sqrt(u), 1.0) for u in radius]
    shadowing = draws(settings.seed, "channel", frame, round).standard_normal(clients)
    loss_db = [
        128.1 + 37.6 * math.log10(d / 1000) + settings.radio.shadowing_std_db * s
        for d, s in zip(distance_m, shadowing, strict=True)
    ]
    return [10 ** (-loss / 10) for loss in loss_db]


def compute_s(settings: Settings, clients: int, frame: int, round: int) -> list[float]:
    """t_cp = a·τ·b + Exp(mean τ·b/μ), redrawn each round."""
    samples = settings.training.local_steps * settings.training.batch_size
    random = draws(settings.seed, "delay", frame, round).exponential(
        samples / settings.radio.samples_per_second, clients
    )
    return [settings.radio.seconds_per_sample * samples + float(part) for part in random]


def batches(
    settings: Settings, held: list[int], frame: int, round: int, client: int
) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Return for each of the τ steps its b images, which of them are mirrored, and dropout's key."""
    tau, b = settings.training.local_steps, settings.training.batch_size
    rng = draws(settings.seed, "batches", frame, round, client)
    images = [rng.choice(held, b, replace=False) for _ in range(tau)]
    mirrored = [row < 0.5 for row in rng.random((tau, b))]
    keys = draws(settings.seed, "dropout", frame, round, client).integers(
        0, 2**32, size=(tau, 2), dtype=np.uint32
    )
    return list(zip(images, mirrored, keys, strict=True))


def pretraining_batches(
    settings: Settings, images: list[int]
) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Return the steps of pre-training: in every epoch each image once, in a new order."""
    steps = math.ceil(len(images) / settings.training.pretrain_batch_size)
    found = []
    for epoch in range(settings.training.pretrain_epochs):
        rng = draws(settings.seed, "batches", step=1 + epoch)
        parts = np.array_split(rng.permutation(images), steps)
        mirrored = rng.random((steps, math.ceil(len(images) / steps))) < 0.5
        keys = draws(settings.seed, "dropout", step=1 + epoch).integers(
            0, 2**32, size=(steps, 2), dtype=np.uint32
        )
        found += [(part, row[: len(part)], key) for part, row, key in zip(parts, mirrored, keys, strict=True)]
    return found


def class_images(
    settings: Settings, held: list[list[int]], labels: np.ndarray, classes: int, frame: int, round: int
) -> tuple[dict[int, list[int]], list[int]]:
    """Draw up to `class_gradient_samples` images of each class from all clients; round 0 is the frame's start.

    Also return of how many classes each client is asked for a gradient.
    """
    counts = np.array([[sum(labels[own] == c) for c in range(classes)] for own in held])
    rng = draws(settings.seed, "estimates", frame, round)
    most = settings.estimates.class_gradient_samples
    wanted = [
        rng.multivariate_hypergeometric(counts[:, c], min(most, counts[:, c].sum())) for c in range(classes)
    ]
    found: dict[int, list[int]] = {c: [] for c in range(classes)}
    for client, own in enumerate(held):
        rng = draws(settings.seed, "estimates", frame, round, client + 1)
        for c in range(classes):
            if wanted[c][client]:
                mine = [image for image in own if labels[image] == c]
                found[c] += list(rng.choice(mine, wanted[c][client], replace=False))
    return found, [sum(wanted[c][client] > 0 for c in range(classes)) for client in range(len(held))]


def loss_images(settings: Settings, held: list[list[int]], frame: int) -> np.ndarray:
    """Return the fixed part of the frame's local data on which F_l is estimated."""
    pooled = [image for own in held for image in own]
    order = draws(settings.seed, "estimates", frame=frame, step=1).permutation(pooled)
    return order[: settings.evaluation.loss_samples]


def dropout_mask(key: np.ndarray, layer: int, entries: int, p: float) -> np.ndarray:
    """Return which entries dropout keeps: MurmurHash3's finaliser of a counter, twice, with half of the key each."""
    first, second = (np.uint64(half) for half in key)
    word = np.uint64(2**32 - 1)

    def finaliser(h: np.ndarray) -> np.ndarray:
        h = ((h ^ (h >> np.uint64(16))) * np.uint64(0x85EBCA6B)) & word
        h = ((h ^ (h >> np.uint64(13))) * np.uint64(0xC2B2AE35)) & word
        return np.asarray(h ^ (h >> np.uint64(16)))

    offset = np.uint64(layer * 0x9E3779B9 % 2**32)
    counter = (np.arange(entries, dtype=np.uint64) + (first ^ offset)) & word
    bits = finaliser(finaliser(counter) ^ second)
    return np.asarray((bits ^ np.uint64(2**31)) >= int(p * 2**32))  # the top bit flipped: as a signed number
