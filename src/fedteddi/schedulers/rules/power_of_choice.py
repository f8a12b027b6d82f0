"""Power-of-Choice: a few candidates by data size, then the highest loss first."""

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from fedteddi.errors import InputError, check_number
from fedteddi.schedulers.admission import AdmissionOptions, fill_band, ranked, required
from fedteddi.schedulers.references import POWER_OF_CHOICE, Reference
from fedteddi.schedulers.schedule import Schedule
from fedteddi.schedulers.view import RoundView

FEWEST = 15  # candidates, where d is half of the schedulable clients


def draw_order(num_samples: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Draw all positions one after another without replacement, each ∝ D_n among those left.

    Exponential clocks with rate D_n ring in exactly that order: one vectorised draw instead of many.
    """
    return np.argsort(rng.exponential(size=len(num_samples)) / num_samples)


@dataclass(frozen=True, kw_only=True)
class PowerOfChoice(AdmissionOptions):
    """Highest loss first among d candidates drawn in proportion to their data, until one does not fit.

    Cho et al. need d ≥ |S|: where all d candidates fit, further ones are drawn until the band is full.
    """

    name: ClassVar[str] = "power-of-choice"
    reference: ClassVar[Reference] = POWER_OF_CHOICE
    needs: ClassVar[frozenset[str]] = frozenset({"loss"})

    candidates: int | Literal["half"] = "half"  # d; "half" of the schedulable clients, at least 15
    further: bool = True  # draw further candidates where all d fit

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.further, bool):
            raise InputError(f"further={self.further!r}: give true or false")
        if isinstance(self.candidates, str):
            if self.candidates != "half":
                raise InputError(f'candidates={self.candidates!r}: give a number from 1, or "half"')
        else:
            check_number("candidates", self.candidates, at_least=1, whole=True)

    def select(self, view: RoundView, rng: np.random.Generator) -> Schedule:
        """Draw the candidates among the schedulable, then fill the band by falling loss."""
        loss = required(view, "loss", self.name)
        able = view.schedulable
        count = max(FEWEST, -(-len(able) // 2)) if self.candidates == "half" else int(self.candidates)
        drawn = able[draw_order(view.num_samples[able], rng)]
        first, further = drawn[:count], drawn[count:]
        order = first[ranked(loss[first], rng)]
        if self.further and view.needed_hz[first].sum() <= view.total_hz:
            order = np.concatenate([order, further])
        return fill_band(view, order, self)
