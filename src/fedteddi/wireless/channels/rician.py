"""Rician block fading on top of path loss and shadowing."""

from dataclasses import dataclass

import numpy as np

from fedteddi.errors import check_number
from fedteddi.wireless.channels.channel import Draws
from fedteddi.wireless.channels.shadowing import Shadowing


@dataclass(frozen=True, kw_only=True)
class Rician(Shadowing):
    """Shadowing times Rician block fading of mean power 1: a fixed ray K times as strong as all scattered ones.

    The default K of 9 dB is the mean of a line of sight in TR 38.901, Table 7.5-6 (UMi and UMa).
    """

    k_db: float = 9.0  # −100 dB is Rayleigh fading for all purposes

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("k_db", self.k_db, at_least=-100.0, at_most=100.0)

    def gains(self, positions_m: np.ndarray, draws: Draws) -> np.ndarray:
        """Return |H_n|² of every client in one round, [N]; the mean over the fading is the shadowed gain."""
        k = 10.0 ** (self.k_db / 10.0)
        real, imaginary = draws.redrawn("fading").standard_normal((2, len(positions_m)))
        # |h|² of h = √(K/(K+1)) + (x + iy)/√(2(K+1)): 2(K+1)|h|² ~ χ² of 2 degrees of freedom around 2K.
        power = ((np.sqrt(2 * k) + real) ** 2 + imaginary**2) / (2 * (k + 1))  # [N]
        return np.asarray(super().gains(positions_m, draws) * power)  # [N]
