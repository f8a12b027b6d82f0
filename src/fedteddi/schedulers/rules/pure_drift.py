"""Pure Drift: whoever's data changed most, and nothing else."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedteddi.heterogeneity.drift import unweighted_drift
from fedteddi.schedulers.admission import AdmissionOptions, fill_band, ranked
from fedteddi.schedulers.references import IN_FEDTEDDI, Reference
from fedteddi.schedulers.schedule import Schedule
from fedteddi.schedulers.view import RoundView

# Drifts that differ by rounding only (0.5 + 0.3 + 0.2 against 1) must tie.
DECIMALS = 9


@dataclass(frozen=True, kw_only=True)
class PureDrift(AdmissionOptions):
    """Largest unweighted drift ‖p_l − p_{l−1}‖₁ first, ties at random, until one does not fit."""

    name: ClassVar[str] = "pure-drift"
    reference: ClassVar[Reference] = IN_FEDTEDDI

    def select(self, view: RoundView, rng: np.random.Generator) -> Schedule:
        """Fill the band by falling drift."""
        drift = unweighted_drift(view.data_mix, view.previous_data_mix)
        return fill_band(view, ranked(drift, rng, decimals=DECIMALS), self)
