"""When a frame of a fleet ends before the last of its rounds: on a clock, or because devices' data have changed."""

import time
from collections.abc import Mapping

import numpy as np

from fedteddi.errors import InputError
from fedteddi.protocol.state import ServerState
from fedteddi.settings import FleetSettings, Settings


def changed_share(first: Mapping[int, np.ndarray], now: Mapping[int, np.ndarray], least: float) -> float:
    """Return the share of clients whose mix has moved by Σ_c |p^(c) − p'^(c)| ≥ `least` since the frame began."""
    moved = [np.abs(now[n] - first[n]).sum() >= least for n in now if n in first]
    return sum(moved) / len(moved) if moved else 0.0


def check_frames(settings: Settings) -> None:
    """Refuse to look for changes that privacy hides."""
    if settings.fleet.frames == "detected" and settings.privacy.epsilon > 0:
        raise InputError(
            "fleet.frames='detected' cannot see a change where privacy.epsilon lets a device release one mix a frame:"
            " use 'scheduled' or 'clock'"
        )


class FrameEnds:
    """Decides after every round whether the frame is over. Its clock begins anew when a server is resumed."""

    def __init__(self, settings: FleetSettings) -> None:
        self.settings = settings
        self._frame, self._began = -1, 0.0

    def hear(self, frame: int) -> None:
        """Note that something is asked about a frame; the first time, it begins."""
        if frame != self._frame:
            self._frame, self._began = frame, time.monotonic()

    def over(self, state: ServerState) -> bool:
        """Tell whether the frame is over."""
        if self.settings.frames == "clock":
            return time.monotonic() - self._began >= self.settings.frame_s
        if self.settings.frames == "scheduled":
            return False
        share = changed_share(state.first_mix, state.current_mix, self.settings.changed_mix)
        return share >= self.settings.changed_clients
