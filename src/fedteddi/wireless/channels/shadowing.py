"""Path loss and log-normal shadowing: the paper's channel."""

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from fedteddi.errors import check_choice, check_number
from fedteddi.wireless.channels.channel import Draws

Redrawing = Literal["redrawn", "static"]


def path_loss_db(distance_m: np.ndarray) -> np.ndarray:
    """Return 128.1 + 37.6 log10(d in km) dB, the urban macro-cell law."""
    return np.asarray(128.1 + 37.6 * np.log10(distance_m / 1000.0))


def gain_from_db(loss_db: np.ndarray) -> np.ndarray:
    """Turn a loss in dB into a power gain |H|²."""
    return np.asarray(10.0 ** (-loss_db / 10.0))


@dataclass(frozen=True, kw_only=True)
class Shadowing:
    """Path loss and log-normal shadowing, redrawn each round or fixed for good; no small-scale fading."""

    shadowing_std_db: float = 8.0
    shadowing: Redrawing = "redrawn"

    def __post_init__(self) -> None:
        check_number("shadowing_std_db", self.shadowing_std_db, at_least=0.0)
        check_choice("shadowing", self.shadowing, get_args(Redrawing))

    def gains(self, positions_m: np.ndarray, draws: Draws) -> np.ndarray:
        """Return |H_n|² of every client in one round, [N]."""
        rng = draws.redrawn() if self.shadowing == "redrawn" else draws.static()
        shadowing_db = self.shadowing_std_db * rng.standard_normal(len(positions_m))  # [N]
        distance_m = np.hypot(positions_m[:, 0], positions_m[:, 1])  # [N]
        return gain_from_db(path_loss_db(distance_m) + shadowing_db)  # [N]
