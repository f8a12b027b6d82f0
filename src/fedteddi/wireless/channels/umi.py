"""3GPP TR 38.901, urban microcell in a street canyon (UMi): path loss, line of sight and shadowing."""

from dataclasses import dataclass
from typing import get_args

import numpy as np

from fedteddi.errors import check_choice, check_number
from fedteddi.wireless.channels.channel import Draws
from fedteddi.wireless.channels.shadowing import Redrawing, gain_from_db

SERVER_HEIGHT_M = 10.0  # h_BS
ENVIRONMENT_HEIGHT_M = 1.0  # h_E
LIGHT_MPS = 3.0e8  # as TR 38.901 writes it
NEAREST_M = 10.0  # where the table begins; whoever stands closer counts as there
SIGHT_STD_DB, NO_SIGHT_STD_DB = 4.0, 7.82


def sight_probability(distance_m: np.ndarray) -> np.ndarray:
    """Return how likely a line of sight is: 1 up to 18 m, then 18/d + e^(−d/36) (1 − 18/d), Table 7.4.2-1."""
    near = 18.0 / np.maximum(distance_m, 18.0)
    return np.asarray(near + np.exp(-distance_m / 36.0) * (1.0 - near))


def sight_loss_db(distance_m: np.ndarray, carrier_ghz: float, client_height_m: float) -> np.ndarray:
    """Return PL_LOS of Table 7.4.1-1: 21 dB a decade up to the breakpoint 4 h'_BS h'_UT f_c/c, then 40."""
    rise_m = SERVER_HEIGHT_M - client_height_m
    log_m = np.log10(np.hypot(distance_m, rise_m))  # d_3D
    heights_m2 = (SERVER_HEIGHT_M - ENVIRONMENT_HEIGHT_M) * (client_height_m - ENVIRONMENT_HEIGHT_M)
    bend_m = 4 * heights_m2 * carrier_ghz * 1e9 / LIGHT_MPS  # d'_BP
    carrier_db = 20 * np.log10(carrier_ghz)
    before = 32.4 + 21 * log_m + carrier_db
    beyond = 32.4 + 40 * log_m + carrier_db - 9.5 * np.log10(bend_m**2 + rise_m**2)
    return np.asarray(np.where(distance_m <= bend_m, before, beyond))


def no_sight_loss_db(distance_m: np.ndarray, carrier_ghz: float, client_height_m: float) -> np.ndarray:
    """Return PL_NLOS of Table 7.4.1-1: 35.3 dB a decade, and never below PL_LOS."""
    log_m = np.log10(np.hypot(distance_m, SERVER_HEIGHT_M - client_height_m))
    loss_db = 35.3 * log_m + 22.4 + 21.3 * np.log10(carrier_ghz) - 0.3 * (client_height_m - 1.5)
    return np.asarray(np.maximum(sight_loss_db(distance_m, carrier_ghz, client_height_m), loss_db))


@dataclass(frozen=True, kw_only=True)
class UMi:
    """TR 38.901 UMi outdoors: a line of sight or none, for good, with its path loss and log-normal shadowing.

    Server at 10 m, clients outdoors, no antenna gains, no small-scale fading. Shadowing has σ = 4 dB with and 7.82 dB
    without a line of sight, and is independent from client to client.
    """

    carrier_ghz: float = 3.5
    client_height_m: float = 1.5
    shadowing: Redrawing = "redrawn"

    def __post_init__(self) -> None:
        check_number("carrier_ghz", self.carrier_ghz, at_least=0.5, at_most=100.0)
        check_number("client_height_m", self.client_height_m, at_least=1.5, at_most=22.5)
        check_choice("shadowing", self.shadowing, get_args(Redrawing))

    def gains(self, positions_m: np.ndarray, draws: Draws) -> np.ndarray:
        """Return |H_n|² of every client in one round, [N]."""
        distance_m = np.maximum(np.hypot(positions_m[:, 0], positions_m[:, 1]), NEAREST_M)  # d_2D, [N]
        clients, at = len(positions_m), (distance_m, self.carrier_ghz, self.client_height_m)
        in_sight = draws.static(part=1).random(clients) < sight_probability(distance_m)  # [N]
        rng = draws.redrawn() if self.shadowing == "redrawn" else draws.static()
        shadowing_db = np.where(in_sight, SIGHT_STD_DB, NO_SIGHT_STD_DB) * rng.standard_normal(clients)  # [N]
        return gain_from_db(np.where(in_sight, sight_loss_db(*at), no_sight_loss_db(*at)) + shadowing_db)
