"""Replay: what a client keeps of its old samples when its storage is full. A plug-in point."""

from typing import Protocol

import numpy as np

from fedteddi.errors import InputError
from fedteddi.registry import BUILT_IN, Kind, find, must, one_sentence


class ReplayRule(Protocol):
    """Picks `keep` of the samples `held` [n], whose classes are `classes` [n]; all chance comes from `rng`."""

    def __call__(
        self, held: np.ndarray, classes: np.ndarray, keep: int, rng: np.random.Generator
    ) -> np.ndarray:
        """Return the samples to keep."""
        ...


def keep_random(held: np.ndarray, classes: np.ndarray, keep: int, rng: np.random.Generator) -> np.ndarray:  # noqa: ARG001
    """Keep a random part: the paper's rule."""
    return np.sort(rng.choice(held, size=keep, replace=False))


def keep_balanced(held: np.ndarray, classes: np.ndarray, keep: int, rng: np.random.Generator) -> np.ndarray:
    """Keep equally many of each class as far as there are enough: every class in turn gives one at random."""
    order = rng.permutation(len(held))
    turn = np.empty(len(held), dtype=np.int64)  # how many of its class come before each sample
    for c in np.unique(classes):
        mine = order[classes[order] == c]
        turn[mine] = np.arange(len(mine))
    first = np.lexsort((rng.random(len(held)), turn))[:keep]
    return np.sort(held[first])


REPLAY_RULES: dict[str, ReplayRule] = {"random": keep_random, "balanced": keep_balanced}
REPLAYS = Kind(
    name="replays",
    one="replay rule",
    built_in=lambda: REPLAY_RULES,
    your_own="give your own as file.py:function",
    check=must(callable, "is no replay rule: it must be a function (held, classes, keep, rng)"),
)


def find_replay_rule(name: str) -> ReplayRule:
    """Return a rule by name, or one's own as `file.py:function`; what it returns is checked on every use."""
    part = find(REPLAYS, name)
    own: ReplayRule = part.value
    if part.source == BUILT_IN:
        return own

    def checked(held: np.ndarray, classes: np.ndarray, keep: int, rng: np.random.Generator) -> np.ndarray:
        with one_sentence(f"the replay rule {name} failed"):
            kept = np.asarray(own(held, classes, keep, rng))
        if kept.shape != (keep,) or len(np.unique(kept)) != keep or not np.isin(kept, held).all():
            raise InputError(
                f"the replay rule {name} must return {keep} different ones of the samples it is given"
            )
        return kept

    return checked
