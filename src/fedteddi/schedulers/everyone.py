"""Everyone: not a rule for a radio link, but the bound that has none (docs/metrics.md)."""

from typing import ClassVar

import numpy as np

from fedteddi.schedulers.references import BASELINE, Reference
from fedteddi.schedulers.schedule import Schedule
from fedteddi.schedulers.view import RoundView


class Everyone:
    """All clients that reported, without band or deadline: a reference bound of 'fedteddi compare'."""

    name: ClassVar[str] = "everyone"
    reference: ClassVar[Reference] = BASELINE
    needs: ClassVar[frozenset[str]] = frozenset()
    unlimited: ClassVar[bool] = True

    def select(self, view: RoundView, rng: np.random.Generator) -> Schedule:
        """Schedule all in random order, as `random` does: uploads added up in another order give other bits."""
        return Schedule(clients=tuple(rng.permutation(view.num_clients)), bandwidth_hz=())
