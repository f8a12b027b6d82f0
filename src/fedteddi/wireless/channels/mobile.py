"""Clients that walk about the cell; path loss and shadowing follow them."""

from dataclasses import dataclass

import numpy as np

from fedteddi.errors import InputError, check_number
from fedteddi.wireless import cell
from fedteddi.wireless.channels.channel import Draws
from fedteddi.wireless.channels.shadowing import gain_from_db, path_loss_db
from fedteddi.wireless.fields import field_at, wave_vectors

FASTEST_MPS = 100.0  # and so no endless number of legs
LONGEST_ROUND_S = 600.0  # all legs since the start are walked in every round
NEAREST_M = 1.0  # where the path-loss law ends (wireless/cell.py); a walk may lead past the server


@dataclass(frozen=True, kw_only=True)
class Mobile:
    """Random waypoint in the cell's disc: path loss and shadowing at the places where the clients are by now.

    A client starts where the scenario puts it, walks straight to a place drawn uniformly over the disc at a speed
    drawn for this leg, rests for `pause_s`, and goes on (Johnson, Maltz 1996). In the long run it is nearer to the
    centre than a uniform place: without pauses the density at r (of R = 1) becomes
    45 (1 − r²)/(64π) ∫₀^π √(1 − r² cos²φ) dφ (Hyytiä, Lassila, Virtamo, IEEE TMC 5(6), 2006).

    Shadowing is a map of the cell with correlation exp(−d/`correlation_m`) that clients walk through (Gudmundson
    1991); with `correlation_m` = 0 it is redrawn each round. Every round walks all legs since the run began.
    """

    radius_m: float = cell.PAPERS_RADIUS_M
    shadowing_std_db: float = 8.0
    speed_min_mps: float = 0.5
    speed_max_mps: float = 2.0  # of pedestrians
    pause_s: float = 0.0
    seconds_per_round: float = 1.0
    correlation_m: float = 50.0

    def __post_init__(self) -> None:
        check_number("radius_m", self.radius_m, at_least=NEAREST_M)
        # At speeds down to 0 clients get stuck on ever longer legs, and nothing is stationary.
        for name in ("speed_min_mps", "speed_max_mps"):
            check_number(name, getattr(self, name), above=0.0, at_most=FASTEST_MPS)
        if self.speed_max_mps < self.speed_min_mps:
            raise InputError(
                f"speed_max_mps={self.speed_max_mps:g} lies below speed_min_mps={self.speed_min_mps:g}: swap them"
            )
        for name in ("shadowing_std_db", "pause_s", "correlation_m"):
            check_number(name, getattr(self, name), at_least=0.0)
        check_number("seconds_per_round", self.seconds_per_round, at_least=0.0, at_most=LONGEST_ROUND_S)

    def gains(self, positions_m: np.ndarray, draws: Draws) -> np.ndarray:
        """Return |H_n|² of every client in one round, [N]."""
        now_m = self.places_m(positions_m, draws)  # [N, 2]
        distance_m = np.maximum(np.hypot(now_m[:, 0], now_m[:, 1]), NEAREST_M)  # [N]
        if self.correlation_m:
            waves = wave_vectors(self.correlation_m, draws.static())
            normal = field_at(now_m, waves, draws.static(part=1).standard_normal(waves.shape))
        else:
            normal = draws.redrawn().standard_normal(len(now_m))
        return gain_from_db(path_loss_db(distance_m) + self.shadowing_std_db * normal)  # [N]

    def places_m(self, positions_m: np.ndarray, draws: Draws) -> np.ndarray:
        """Return where the clients are as the round begins, [N, 2]: in the first one, where the scenario puts them."""
        clients = len(positions_m)
        left_s = np.full(clients, (draws.elapsed_rounds - 1) * self.seconds_per_round)
        here_m, leg = np.array(positions_m, dtype=np.float64), 0
        going = np.flatnonzero(left_s > 0)
        while len(going):
            rng = draws.static("movement", part=leg)  # a leg of all clients: each has its own row of numbers
            goal_m = cell.positions_m(clients, self.radius_m, rng)[going]  # [n, 2]
            speed_mps = rng.uniform(self.speed_min_mps, self.speed_max_mps, size=clients)[going]  # [n]
            way_m = goal_m - here_m[going]
            walk_s = np.hypot(way_m[:, 0], way_m[:, 1]) / speed_mps
            share = np.minimum(left_s[going] / walk_s, 1.0)  # of the leg that is done
            here_m[going] += share[:, None] * way_m
            left_s[going] -= walk_s + self.pause_s
            going, leg = going[left_s[going] > 0], leg + 1
        return here_m
