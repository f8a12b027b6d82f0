"""Random: the baseline."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedteddi.schedulers.admission import BandOptions, fill_band
from fedteddi.schedulers.references import BASELINE, Reference
from fedteddi.schedulers.schedule import Schedule
from fedteddi.schedulers.view import RoundView


@dataclass(frozen=True, kw_only=True)
class Random(BandOptions):
    """Clients in random order until the band is full."""

    name: ClassVar[str] = "random"
    reference: ClassVar[Reference] = BASELINE

    def select(self, view: RoundView, rng: np.random.Generator) -> Schedule:
        """Fill the band in random order."""
        return fill_band(view, rng.permutation(view.schedulable), self.spare_band)
