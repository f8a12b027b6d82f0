"""Where the clients of a cell stand."""

import numpy as np

from fedteddi.randomness import keyed_rng

PAPERS_RADIUS_M = 250.0


def positions_m(num_clients: int, radius_m: float, rng: np.random.Generator) -> np.ndarray:
    """Draw clients uniformly over the area of a disc around the server, [N, 2] in metres.

    r = R√u, because the area inside r grows with r²; nobody stands closer than 1 m, where the
    path-loss law would turn into a gain.
    """
    radius = np.maximum(radius_m * np.sqrt(rng.random(num_clients)), 1.0)  # [N]
    angle = 2 * np.pi * rng.random(num_clients)  # [N]
    return np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1)  # [N, 2]


def positions_of(seed: int, num_clients: int, radius_m: float = PAPERS_RADIUS_M) -> np.ndarray:
    """Return where the clients of this seed stand, [N, 2]; read-only, because many runs share them."""
    where_m = positions_m(num_clients, radius_m, keyed_rng(seed, "positions"))
    where_m.flags.writeable = False
    return where_m
