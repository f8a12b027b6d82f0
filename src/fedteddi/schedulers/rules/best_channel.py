"""Best Channel: the strongest signals."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedteddi.schedulers.admission import AdmissionOptions, fill_band, ranked
from fedteddi.schedulers.references import UPDATE_AWARE, Reference
from fedteddi.schedulers.schedule import Schedule
from fedteddi.schedulers.view import RoundView


@dataclass(frozen=True, kw_only=True)
class BestChannel(AdmissionOptions):
    """Strongest channel |H|² first, until one does not fit."""

    name: ClassVar[str] = "best-channel"
    reference: ClassVar[Reference] = UPDATE_AWARE

    def select(self, view: RoundView, rng: np.random.Generator) -> Schedule:
        """Fill the band by falling channel gain."""
        return fill_band(view, ranked(view.channel_gain, rng), self)
