"""Rules in two steps: first some candidates by one criterion, then the best of them by another."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from fedteddi.errors import InputError, check_number
from fedteddi.schedulers.admission import AdmissionOptions, fill_band, ranked
from fedteddi.schedulers.schedule import Schedule
from fedteddi.schedulers.view import RoundView

FEWEST = 15  # candidates, where d is half of the schedulable clients


@dataclass(frozen=True, kw_only=True)
class CandidateOptions(AdmissionOptions):
    """How many candidates there are, and whether others may follow where all of them fit."""

    candidates: int | Literal["half"] = "half"  # d; "half" of the schedulable clients, at least 15
    further: bool = True  # where all d fit, go on with those who come next

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.further, bool):
            raise InputError(f"further={self.further!r}: give true or false")
        if isinstance(self.candidates, str):
            if self.candidates != "half":
                raise InputError(f'candidates={self.candidates!r}: give a number from 1, or "half"')
        else:
            check_number("candidates", self.candidates, at_least=1, whole=True)

    def fill_from(
        self, view: RoundView, able: np.ndarray, score: np.ndarray, rng: np.random.Generator
    ) -> Schedule:
        """Fill the band with the first d of `able` by falling score [N]; where all d fit, the rest follow in order."""
        count = max(FEWEST, -(-len(able) // 2)) if self.candidates == "half" else int(self.candidates)
        first, rest = able[:count], able[count:]
        order = first[ranked(score[first], rng)]
        if self.further and view.needed_hz[first].sum() <= view.total_hz:
            order = np.concatenate([order, rest])
        return fill_band(view, order, self)
