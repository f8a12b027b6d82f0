"""Keyed randomness: every draw belongs to a cause and a moment, never to a sequence of calls.

So a change of scheduler changes nothing else, and a run's outcome does not depend on what ran beside it.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Any, Literal, TypeVar, get_args

import numpy as np
from numpy.random.bit_generator import ISeedSequence
from numpy.typing import NDArray

Made = TypeVar("Made")
Words = NDArray[np.uint32]

Cause = Literal[
    "positions",
    "channel",
    "delay",
    "arrival",
    "batches",
    "dropout",
    "scheduler",
    "estimates",
    "privacy",
    "fading",
    "variance",
    "sketch",
    "movement",
]
# A cause's index in this list is part of every key: append new ones at the end.
_CAUSE_NUMBER = {cause: number for number, cause in enumerate(get_args(Cause))}


def keyed_rng(
    seed: int, cause: Cause, *, frame: int = 0, round: int = 0, client: int = 0, step: int = 0
) -> np.random.Generator:
    """Return the generator of one (seed, cause, frame, round, client, step)."""
    key = (seed, _CAUSE_NUMBER[cause], frame, round, client, step)
    # The same words that numpy makes of these numbers one by one, which takes three times as long.
    words = np.array(key, dtype=np.uint32) if seed < 2**32 else key
    return np.random.default_rng(np.random.SeedSequence(words))


def keyed_rngs(
    seed: int, cause: Cause, clients: Sequence[int], *, frame: int = 0, round: int = 0
) -> Iterator[np.random.Generator]:
    """Give the generator of each client, as `keyed_rng` does: many at once take a fifth of the time."""
    (seeds,) = keyed_seeds(seed, [cause], clients, frame=frame, round=round)
    return map(seeded_rng, seeds)


def keyed_seeds(
    seed: int, causes: Sequence[Cause], clients: Sequence[int], *, frame: int = 0, round: int = 0
) -> "list[list[Seeded]]":
    """Return, for each cause, what `seeded_rng` makes the generator of each client from."""
    count = len(clients)
    cause = np.repeat([_CAUSE_NUMBER[cause] for cause in causes], count)
    client = np.tile(np.asarray(clients, dtype=np.uint32), len(causes))
    seed_words = [seed] if seed < 2**32 else [seed % 2**32, seed >> 32]
    states = _seeded([*seed_words, cause, frame, round, client, 0], len(client))
    made = [Seeded(state) for state in states]
    return [made[index * count : (index + 1) * count] for index in range(len(causes))]


def seeded_rng(seeded: "Seeded") -> np.random.Generator:
    """Return the generator of a seed sequence."""
    return np.random.Generator(np.random.PCG64(seeded))  # type: ignore[arg-type]  # too narrow a stub


class Seeded(ISeedSequence):
    """A seed sequence that has been computed already."""

    def __init__(self, state: np.ndarray) -> None:
        self.state = state

    def generate_state(self, n_words: int, dtype: Any = np.uint64) -> np.ndarray:  # noqa: ARG002
        """Return what PCG64 asks for: four words of 64 bits."""
        return self.state


def _seeded(words: Sequence[int | np.ndarray], count: int) -> np.ndarray:
    """Return `SeedSequence(words).generate_state(4, uint64)` for many keys at once, [count, 4].

    numpy guarantees this algorithm (O'Neill's seed_seq_fe); of the words, 32 bits each, some are arrays [count].
    """
    mixer = _Hash(0x43B0D7E5, 0x931E8875)
    entropy = [np.broadcast_to(np.asarray(word, dtype=np.uint32), (count,)) for word in words]
    pool = [mixer.hashed(word) for word in entropy[:4]]
    for source in range(4):
        for target in range(4):
            if source != target:
                pool[target] = _mixed(pool[target], mixer.hashed(pool[source]))
    for word in entropy[4:]:
        pool = [_mixed(part, mixer.hashed(word)) for part in pool]
    maker = _Hash(0x8B51F9DD, 0x58F38DED)
    halves = [maker.hashed(pool[index % 4]) for index in range(8)]
    return np.ascontiguousarray(np.stack(halves, axis=1)).astype("<u4").view("<u8").astype(np.uint64)


class _Hash:
    """A hash of 32-bit words whose constant moves on with every call."""

    def __init__(self, constant: int, multiplier: int) -> None:
        self.constant, self.multiplier = constant, multiplier

    def hashed(self, words: Words) -> Words:
        """Hash words [count]."""
        words = words ^ np.uint32(self.constant)
        self.constant = self.constant * self.multiplier % 2**32
        words = words * np.uint32(self.constant)
        return words ^ (words >> np.uint32(16))


def _mixed(one: Words, other: Words) -> Words:
    words: Words = one * np.uint32(0xCA01F9DD) - other * np.uint32(0x4973F715)
    return words ^ (words >> np.uint32(16))


class RoundDraws:
    """What the runs of one seed share in a round: made for the first of them, kept while the round goes on.

    Round 0 stands for the frame as a whole.
    """

    def __init__(self) -> None:
        self._made: dict[tuple[int, int], dict[Hashable, Any]] = {}

    def once(self, frame: int, round: int, key: Hashable, make: Callable[[], Made]) -> Made:
        """Return what belongs to a key in a round; it is made the first time."""
        made = self._made.setdefault((frame, round), {})
        if key not in made:
            made[key] = make()
        found: Made = made[key]
        return found

    def keep_only(self, rounds: Iterable[tuple[int, int]]) -> None:
        """Forget all rounds but these, by (frame, round)."""
        kept = {(frame, number) for frame, round in rounds for number in (0, round)}
        self._made = {where: made for where, made in self._made.items() if where in kept}
