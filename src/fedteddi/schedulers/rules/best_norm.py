"""Best Norm: whoever moved the model most."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedteddi.schedulers.admission import AdmissionOptions, fill_band, ranked, required
from fedteddi.schedulers.references import UPDATE_AWARE, Reference
from fedteddi.schedulers.schedule import Schedule
from fedteddi.schedulers.view import RoundView


@dataclass(frozen=True, kw_only=True)
class BestNorm(AdmissionOptions):
    """Largest model update ‖w_n − w_{k−1}‖₂ first, until one does not fit."""

    name: ClassVar[str] = "best-norm"
    reference: ClassVar[Reference] = UPDATE_AWARE
    needs: ClassVar[frozenset[str]] = frozenset({"update_norm"})

    def select(self, view: RoundView, rng: np.random.Generator) -> Schedule:
        """Fill the band by falling update norm."""
        return fill_band(view, ranked(required(view, "update_norm", self.name), rng), self)
