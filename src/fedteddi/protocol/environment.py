"""The world around the clients in one round: how well each is heard, how long each computes."""

from dataclasses import dataclass

import numpy as np

from fedteddi.randomness import keyed_rng
from fedteddi.scenario.traces import read_trace, traced
from fedteddi.settings import RadioSettings
from fedteddi.wireless.cell import Cell
from fedteddi.wireless.computation import computation_delay_s
from fedteddi.wireless.radio import Radio


@dataclass(frozen=True, eq=False)
class Environment:
    """The simulated cell of one seed, or measured traces in its place. Knows nothing of schedulers."""

    settings: RadioSettings
    seed: int
    samples_per_round: int  # τ·b
    where_m: np.ndarray  # [N, 2]
    gain_trace: dict[int, np.ndarray]
    compute_trace: dict[int, np.ndarray]

    @classmethod
    def make(cls, settings: RadioSettings, seed: int, clients: int, samples_per_round: int) -> "Environment":
        """Place the clients of this seed and read the traces, if there are any."""
        return cls(
            settings,
            seed,
            samples_per_round,
            _cell(settings).positions_m(clients, seed),
            read_trace(settings.gain_trace, clients) if settings.gain_trace else {},
            read_trace(settings.compute_trace, clients) if settings.compute_trace else {},
        )

    @property
    def radio(self) -> Radio:
        """Power and noise."""
        return Radio(power_dbm=self.settings.power_dbm, noise_dbm_per_hz=self.settings.noise_dbm_per_hz)

    def channel_gain(self, frame: int, round: int) -> np.ndarray:
        """|H_n|², [N]."""
        if self.gain_trace:
            return traced(self.gain_trace, self.settings.gain_trace, frame, round)
        return _cell(self.settings).channel_gain(self.where_m, self.seed, frame=frame, round=round)

    def compute_s(self, frame: int, round: int) -> np.ndarray:
        """t_cp, [N]."""
        if self.compute_trace:
            return traced(self.compute_trace, self.settings.compute_trace, frame, round)
        return computation_delay_s(
            len(self.where_m),
            self.samples_per_round,
            keyed_rng(self.seed, "delay", frame=frame, round=round),
            seconds_per_sample=self.settings.seconds_per_sample,
            samples_per_second=self.settings.samples_per_second,
        )


def _cell(settings: RadioSettings) -> Cell:
    return Cell(
        radius_m=settings.radius_m,
        shadowing_std_db=settings.shadowing_std_db,
        shadowing=settings.shadowing,
    )
