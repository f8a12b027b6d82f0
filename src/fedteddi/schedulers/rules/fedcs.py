"""FedCS: as many clients as can make the deadline."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedteddi.schedulers.admission import BandOptions, fitting_in_order, granted, ranked
from fedteddi.schedulers.references import FEDCS, Reference
from fedteddi.schedulers.schedule import Schedule
from fedteddi.schedulers.view import RoundView


@dataclass(frozen=True, kw_only=True)
class FedCS(BandOptions):
    """Least bandwidth B* first, until the band is full: the most clients that can make the deadline.

    In the paper uploads follow one another over the whole band. What is scarce is time: each step adds the client that
    lengthens the round least, unless the round would pass its deadline. Here all upload at once, and the deadline is
    already in B*_n; what is scarce is band: each step adds the client that uses least of it. No set within the band has
    more members. A client that does not fit is followed by none that does, so there is no `on_no_fit`. One upload after
    another cannot be expressed: a `Schedule` gives every client its band for the whole round.
    """

    name: ClassVar[str] = "fedcs"
    reference: ClassVar[Reference] = FEDCS

    def select(self, view: RoundView, rng: np.random.Generator) -> Schedule:
        """Fill the band by rising B*, ties at random."""
        order = ranked(-view.needed_hz, rng)
        return granted(view, fitting_in_order(order, view.needed_hz, view.total_hz, "stop"), self.spare_band)
