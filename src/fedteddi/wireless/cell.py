"""Positions, path loss and shadowing: the power gain |H|² of every client's channel."""

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from fedteddi.errors import check_choice, check_number
from fedteddi.randomness import keyed_rng

Shadowing = Literal["redrawn", "static"]


def positions_m(num_clients: int, radius_m: float, rng: np.random.Generator) -> np.ndarray:
    """Draw clients uniformly over the area of a disc around the server, [N, 2] in metres.

    r = R√u, because the area inside r grows with r²; nobody stands closer than 1 m, where the
    path-loss law would turn into a gain.
    """
    radius = np.maximum(radius_m * np.sqrt(rng.random(num_clients)), 1.0)  # [N]
    angle = 2 * np.pi * rng.random(num_clients)  # [N]
    return np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1)  # [N, 2]


def path_loss_db(distance_m: np.ndarray) -> np.ndarray:
    """Return 128.1 + 37.6 log10(d in km) dB, the urban macro-cell law."""
    return np.asarray(128.1 + 37.6 * np.log10(distance_m / 1000.0))


def gain_from_db(loss_db: np.ndarray) -> np.ndarray:
    """Turn a loss in dB into a power gain |H|²."""
    return np.asarray(10.0 ** (-loss_db / 10.0))


@dataclass(frozen=True, kw_only=True)
class Cell:
    """A disc with the server in its middle; log-normal shadowing, redrawn each round or fixed for good."""

    radius_m: float = 250.0
    shadowing_std_db: float = 8.0
    shadowing: Shadowing = "redrawn"

    def __post_init__(self) -> None:
        check_number("radius_m", self.radius_m, at_least=1.0)
        check_number("shadowing_std_db", self.shadowing_std_db, at_least=0.0)
        check_choice("shadowing", self.shadowing, get_args(Shadowing))

    def positions_m(self, num_clients: int, seed: int) -> np.ndarray:
        """Return where the clients of this seed stand, [N, 2]."""
        return positions_m(num_clients, self.radius_m, keyed_rng(seed, "positions"))

    def channel_gain(self, where_m: np.ndarray, seed: int, *, frame: int, round: int) -> np.ndarray:
        """Return |H|² of every client in one round, [N]."""
        redrawn = self.shadowing == "redrawn"
        rng = keyed_rng(seed, "channel", frame=frame, round=round) if redrawn else keyed_rng(seed, "channel")
        shadowing_db = self.shadowing_std_db * rng.standard_normal(len(where_m))  # [N]
        return gain_from_db(path_loss_db(np.hypot(where_m[:, 0], where_m[:, 1])) + shadowing_db)  # [N]
