"""Keyed randomness: every draw belongs to a cause and a place in time, never to a sequence of calls.

So a change of scheduler changes nothing else, and a run's outcome does not depend on what ran beside it.
"""

from typing import Literal, get_args

import numpy as np

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
]
# A cause's place in this list is part of every key: append new ones at the end.
_CAUSE_NUMBER = {cause: number for number, cause in enumerate(get_args(Cause))}


def keyed_rng(
    seed: int, cause: Cause, *, frame: int = 0, round: int = 0, client: int = 0, step: int = 0
) -> np.random.Generator:
    """Return the generator of one (seed, cause, frame, round, client, step)."""
    key = (seed, _CAUSE_NUMBER[cause], frame, round, client, step)
    # The same words that numpy makes of these numbers one by one, which takes three times as long.
    words = np.array(key, dtype=np.uint32) if seed < 2**32 else key
    return np.random.default_rng(np.random.SeedSequence(words))
