"""Measured gains, from a CSV file."""

from dataclasses import dataclass, field

import numpy as np

from fedteddi.scenario.traces import read_trace, traced
from fedteddi.wireless.channels.channel import Draws


@dataclass(frozen=True, kw_only=True)
class Trace:
    """Gains read from the CSV file `radio.gain_trace`: frame, round, client, value (|H|²)."""

    gain_trace: str
    # By N. Read once, which changes no answer: the file's content is not memory of past rounds.
    _tables: dict[int, dict[int, np.ndarray]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def gains(self, positions_m: np.ndarray, draws: Draws) -> np.ndarray:
        """Return |H_n|² of every client in one round, [N]; after the trace's last round its first comes again."""
        clients = len(positions_m)
        if clients not in self._tables:
            self._tables[clients] = read_trace(self.gain_trace, clients)
        return traced(self._tables[clients], self.gain_trace, draws.frame, draws.round)
