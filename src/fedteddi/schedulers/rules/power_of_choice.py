"""Power-of-Choice: a few candidates by data size, then the highest loss first."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedteddi.errors import check_number
from fedteddi.schedulers.admission import BandOptions, fill_band, ranked, required
from fedteddi.schedulers.references import POWER_OF_CHOICE, Reference
from fedteddi.schedulers.schedule import Schedule
from fedteddi.schedulers.view import RoundView


def draw_candidates(num_samples: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """Draw `count` positions one after another without replacement, each ∝ D_n among those left.

    Exponential clocks with rate D_n ring in exactly that order: one vectorised draw instead of `count`.
    """
    return np.argsort(rng.exponential(size=len(num_samples)) / num_samples)[:count]


@dataclass(frozen=True, kw_only=True)
class PowerOfChoice(BandOptions):
    """Highest loss first among d candidates drawn in proportion to their data, until the band is full."""

    name: ClassVar[str] = "power-of-choice"
    reference: ClassVar[Reference] = POWER_OF_CHOICE
    needs: ClassVar[frozenset[str]] = frozenset({"loss"})

    candidates: int = 15  # d

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("candidates", self.candidates, at_least=1, whole=True)

    def select(self, view: RoundView, rng: np.random.Generator) -> Schedule:
        """Draw the candidates among the schedulable, then fill the band by falling loss."""
        loss = required(view, "loss", self.name)
        able = view.schedulable
        drawn = able[draw_candidates(view.num_samples[able], self.candidates, rng)]
        return fill_band(view, drawn[ranked(loss[drawn], rng)], self.spare_band)
