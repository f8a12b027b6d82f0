"""Power-of-Choice: a few candidates by data size, then the highest loss first."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedteddi.schedulers.admission import required
from fedteddi.schedulers.candidates import CandidateOptions
from fedteddi.schedulers.references import POWER_OF_CHOICE, Reference
from fedteddi.schedulers.schedule import Schedule
from fedteddi.schedulers.view import RoundView


def draw_order(num_samples: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Draw all positions one after another without replacement, each ∝ D_n among those left.

    Exponential clocks with rate D_n ring in exactly that order: one vectorised draw instead of many.
    """
    return np.argsort(rng.exponential(size=len(num_samples)) / num_samples)


@dataclass(frozen=True, kw_only=True)
class PowerOfChoice(CandidateOptions):
    """Highest loss first among d candidates drawn in proportion to their data, until one does not fit.

    Cho et al. need d ≥ |S|: where all d candidates fit, further ones are drawn until the band is full.
    """

    name: ClassVar[str] = "power-of-choice"
    reference: ClassVar[Reference] = POWER_OF_CHOICE
    needs: ClassVar[frozenset[str]] = frozenset({"loss"})

    def select(self, view: RoundView, rng: np.random.Generator) -> Schedule:
        """Draw the candidates among the schedulable, then fill the band by falling loss."""
        loss = required(view, "loss", self.name)
        able = view.schedulable
        return self.fill_from(view, able[draw_order(view.num_samples[able], rng)], loss, rng)
