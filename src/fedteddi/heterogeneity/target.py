"""The moving target t_k: from equal shares of all classes seen towards everyone's mix, within a frame."""

from dataclasses import dataclass

import numpy as np

from fedteddi.errors import check_number
from fedteddi.heterogeneity.mixes import uniform_mix


def uniform_share(first: float, last: float, round: int, rounds_in_frame: int) -> float:
    """Return θ_k = first + (last − first) k/K: how much of the target is equal shares of all classes seen."""
    return first + (last - first) * round / rounds_in_frame


@dataclass(frozen=True, kw_only=True)
class MovingTarget:
    """The options of whatever steers a class mix: t_k = θ_k · uniform + (1 − θ_k) · everyone."""

    uniform_first: float = 1.0  # θ before the first round of a frame
    uniform_last: float = 0.25  # θ in the last

    def __post_init__(self) -> None:
        check_number("uniform_first", self.uniform_first, at_least=0, at_most=1)
        check_number("uniform_last", self.uniform_last, at_least=0, at_most=1)

    def target_mix(
        self, everyone: np.ndarray, classes_seen: np.ndarray, round: int, rounds_in_frame: int
    ) -> np.ndarray:
        """Return t_k, [C], given everyone's mix [C] and which classes have appeared [C]."""
        uniform = uniform_share(self.uniform_first, self.uniform_last, round, rounds_in_frame)
        return np.asarray(uniform * uniform_mix(classes_seen) + (1.0 - uniform) * everyone)
