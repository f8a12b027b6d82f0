"""What runs of one seed share, for tests that look at draws: the only place that knows where they come from."""

import numpy as np

from fedteddi.learning.datasets.dataset import Dataset
from fedteddi.settings import Settings
from fedteddi.simulation.laboratory import Laboratory


class SeedDraws:
    """The plan, batches, gains and delays of an experiment's seed; nothing is trained."""

    def __init__(self, settings: Settings, data: Dataset | None = None) -> None:
        self._run = Laboratory(settings, data).new_run(settings)

    def held(self, frame: int) -> tuple[np.ndarray, ...]:
        """Return the images that every client holds in a frame."""
        return self._run.plan.frames[frame].held

    def batches(self, frame: int, round: int, client: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the images of a client's τ steps, [τ, b], and dropout's keys, [τ, 2]."""
        samples, *_, keys = self._run.clients.batches(frame, round, client)
        return samples, keys

    def gain(self, frame: int, round: int) -> np.ndarray:
        """Return |H_n|², [N]."""
        return self._run.environment.channel_gain(frame, round)

    def compute_s(self, frame: int, round: int) -> np.ndarray:
        """Return t_cp, [N]."""
        return self._run.environment.compute_s(frame, round)
