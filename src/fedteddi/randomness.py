"""Keyed randomness: every draw belongs to a cause and a moment, never to a sequence of calls.

So a change of scheduler changes nothing else, and a run's outcome does not depend on what ran beside it.
"""

from collections.abc import Callable, Hashable, Iterable
from typing import Any, Literal, TypeVar, get_args

import numpy as np

Made = TypeVar("Made")

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
