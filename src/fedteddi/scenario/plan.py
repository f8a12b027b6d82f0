"""A scenario's plan: which samples every client holds in every frame, before anything is trained."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fedteddi.errors import InputError
from fedteddi.randomness import keyed_rng
from fedteddi.scenario.replay import ReplayRule


@dataclass(frozen=True, eq=False)
class Frame:
    """What the clients hold in one frame: indices into the training set, one array per client."""

    held: tuple[np.ndarray, ...]
    counts: np.ndarray  # samples of each class, [N, C]


@dataclass(frozen=True, eq=False)
class Plan:
    """All frames of a scenario."""

    frames: tuple[Frame, ...]

    @property
    def num_clients(self) -> int:
        """N."""
        return len(self.frames[0].held)

    def classes_seen(self, frame: int) -> np.ndarray:
        """Return which classes anybody has held up to this frame, [C]."""
        return np.asarray(self._seen[frame])

    @cached_property
    def _seen(self) -> np.ndarray:  # [frames, C]
        return np.logical_or.accumulate([f.counts.sum(axis=0) > 0 for f in self.frames])

    def new_classes(self, frame: int) -> np.ndarray:
        """Return, per client, whether it holds a class that nobody held before this frame, [N]."""
        return self._new[frame]

    @cached_property
    def _new(self) -> list[np.ndarray]:  # [N], by frame
        fresh = self._seen[1:] & ~self._seen[:-1]  # [frames - 1, C]
        found = [np.zeros(self.num_clients, dtype=bool)]
        for frame, new in zip(self.frames[1:], fresh, strict=True):
            found.append(np.asarray((frame.counts[:, new] > 0).any(axis=1)))
        return found

    def pooled(self) -> "Plan":
        """Return the same data in one place: a single client that holds what all of them do.

        What several clients hold is there several times, so that the class mix is the global one.
        """
        return Plan(
            tuple(Frame((np.concatenate(f.held),), f.counts.sum(axis=0, keepdims=True)) for f in self.frames)
        )


class Decks:
    """The training images of each class as a shuffled deck, dealt from the top, over and over.

    So clients overlap only where more images are wanted than exist, and a client never holds an image twice.
    """

    def __init__(self, labels: np.ndarray, num_classes: int, seed: int, *, overlap: bool) -> None:
        rng = keyed_rng(seed, "arrival")
        self.cards = [rng.permutation(np.flatnonzero(labels == c)) for c in range(num_classes)]
        self.next = [0] * num_classes
        self.overlap = overlap

    def deal(self, wanted_class: int, count: int, already: np.ndarray) -> np.ndarray:
        """Deal `count` images of a class that are not among those `already` held."""
        cards = self.cards[wanted_class]
        # The exact number is looked up only where it may matter.
        free = (
            cards if count <= len(cards) - len(already) else np.setdiff1d(cards, already, assume_unique=True)
        )
        if count > len(free):
            raise InputError(
                f"a client should get {count} images of class {wanted_class}, but only {len(free)} that it does"
                f" not hold yet exist ({len(cards)} in all): ask for fewer samples"
            )
        held: set[int] = set(already.tolist())
        dealt: list[int] = []
        index = self.next[wanted_class]
        while len(dealt) < count:
            if index >= len(cards) and not self.overlap:
                raise InputError(
                    f"more images of class {wanted_class} are asked for than the {len(cards)} that exist, and"
                    " scenario.overlap is false: ask for fewer samples, or allow overlap"
                )
            card = int(cards[index % len(cards)])
            index += 1
            if card not in held:
                held.add(card)
                dealt.append(card)
        self.next[wanted_class] = index
        return np.array(dealt, dtype=np.int64)


def make_plan(
    labels: np.ndarray,
    num_classes: int,
    first: np.ndarray,
    arrivals: list[np.ndarray],
    forgets: list[np.ndarray],
    *,
    storage: int | None,
    replay: ReplayRule,
    seed: int,
    overlap: bool = True,
) -> Plan:
    """Deal samples: `first` [N, C] in frame 0, then in each later frame `arrivals[l − 1]` [N, C] new ones.

    A client whose data would pass `storage` keeps all that is new and what `replay` picks of the old; clients drop
    the old samples of classes marked in `forgets[l − 1]` [N, C]. To whom nothing arrives keeps what they have.
    """
    decks = Decks(labels, num_classes, seed, overlap=overlap)
    nothing = np.zeros(0, dtype=np.int64)
    held = [_dealt(decks, row, nothing) for row in first]
    frames = [_frame(held, labels, num_classes)]
    for number, (arriving, forgotten) in enumerate(zip(arrivals, forgets, strict=True), start=1):
        held = list(held)
        for client in np.flatnonzero(arriving.sum(axis=1) > 0):
            new = _dealt(decks, arriving[client], held[client])
            old = held[client][~forgotten[client][labels[held[client]]]]
            room = len(old) if storage is None else storage - len(new)
            if room < 0:
                raise InputError(
                    f"frame {number} brings client {client} {len(new)} samples, but it can store {storage}:"
                    " raise the storage limit or send fewer"
                )
            if len(old) > room:
                rng = keyed_rng(seed, "arrival", frame=number, client=int(client))
                old = replay(old, labels[old], room, rng)
            held[client] = np.concatenate([old, new])
        frames.append(_frame(held, labels, num_classes))
    return Plan(tuple(frames))


def _dealt(decks: Decks, row: np.ndarray, already: np.ndarray) -> np.ndarray:
    dealt = [decks.deal(int(c), int(row[c]), already) for c in np.flatnonzero(row)]
    return np.concatenate(dealt) if dealt else np.zeros(0, dtype=np.int64)


def _frame(held: list[np.ndarray], labels: np.ndarray, num_classes: int) -> Frame:
    counts = np.stack([np.bincount(labels[own], minlength=num_classes) for own in held])
    empty = np.flatnonzero(counts.sum(axis=1) == 0)
    if len(empty):
        raise InputError(f"client {empty[0]} would hold no data at all: give every client some samples")
    return Frame(tuple(held), counts)
