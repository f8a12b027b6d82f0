"""Path loss and shadowing that is alike at neighbouring places and in neighbouring rounds."""

from dataclasses import dataclass

import numpy as np

from fedteddi.errors import check_number
from fedteddi.wireless.channels.channel import Draws
from fedteddi.wireless.channels.shadowing import gain_from_db, path_loss_db
from fedteddi.wireless.fields import field_at, gauss_markov, wave_vectors

LONGEST_ROUNDS = 1e7


@dataclass(frozen=True, kw_only=True)
class CorrelatedShadowing:
    """Path loss and log-normal shadowing with correlation exp(−d/d₀) over metres and exp(−k/k₀) over rounds.

    Gudmundson, "Correlation model for shadow fading in mobile radio systems", Electronics Letters 27(23), 1991. The
    default d₀ of 50 m is that of TR 38.901, Table 7.5-6 (UMa, no line of sight), the k₀ of 10 rounds that of clients
    which move by 5 m from round to round. 0 switches a correlation off. Rounds are counted over all frames.
    """

    shadowing_std_db: float = 8.0
    correlation_m: float = 50.0  # d₀
    correlation_rounds: float = 10.0  # k₀

    def __post_init__(self) -> None:
        check_number("shadowing_std_db", self.shadowing_std_db, at_least=0.0)
        check_number("correlation_m", self.correlation_m, at_least=0.0)
        check_number("correlation_rounds", self.correlation_rounds, at_least=0.0, at_most=LONGEST_ROUNDS)

    def gains(self, positions_m: np.ndarray, draws: Draws) -> np.ndarray:
        """Return |H_n|² of every client in one round, [N]."""
        distance_m = np.hypot(positions_m[:, 0], positions_m[:, 1])  # [N]
        shadowing_db = self.shadowing_std_db * self._normal(positions_m, draws)  # [N]
        return gain_from_db(path_loss_db(distance_m) + shadowing_db)  # [N]

    def _normal(self, positions_m: np.ndarray, draws: Draws) -> np.ndarray:
        """Return the shadowing of this round over its standard deviation, [N]."""
        waves = wave_vectors(self.correlation_m, draws.static()) if self.correlation_m else None
        shape = (len(positions_m),) if waves is None else waves.shape

        def innovation(time: int) -> np.ndarray:
            return draws.static(part=1 + time).standard_normal(shape)

        state = gauss_markov(draws.elapsed_rounds, self.correlation_rounds, innovation)
        return state if waves is None else field_at(positions_m, waves, state)
