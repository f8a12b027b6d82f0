"""Random: the baseline."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedteddi.schedulers.admission import AdmissionOptions, fill_band
from fedteddi.schedulers.references import BASELINE, Reference
from fedteddi.schedulers.schedule import Schedule
from fedteddi.schedulers.view import RoundView


@dataclass(frozen=True, kw_only=True)
class Random(AdmissionOptions):
    """Clients in random order until one does not fit."""

    name: ClassVar[str] = "random"
    reference: ClassVar[Reference] = BASELINE

    def select(self, view: RoundView, rng: np.random.Generator) -> Schedule:
        """Fill the band in random order."""
        return fill_band(view, rng.permutation(view.num_clients), self)
