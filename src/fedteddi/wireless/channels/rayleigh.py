"""Rayleigh block fading on top of path loss and shadowing."""

from dataclasses import dataclass

import numpy as np

from fedteddi.wireless.channels.channel import Draws
from fedteddi.wireless.channels.shadowing import Shadowing


@dataclass(frozen=True, kw_only=True)
class Rayleigh(Shadowing):
    """Shadowing times Rayleigh block fading: a power ~ Exp(1), redrawn each round, independent per client."""

    def gains(self, positions_m: np.ndarray, draws: Draws) -> np.ndarray:
        """Return |H_n|² of every client in one round, [N]; the mean over the fading is the shadowed gain."""
        power = draws.redrawn("fading").standard_exponential(len(positions_m))  # |h|², h ~ CN(0, 1), [N]
        return super().gains(positions_m, draws) * power  # [N]
