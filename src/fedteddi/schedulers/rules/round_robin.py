"""Round robin: clients take turns."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedteddi.schedulers.admission import AdmissionOptions, fill_band
from fedteddi.schedulers.references import SCHEDULING_POLICIES, Reference
from fedteddi.schedulers.schedule import Schedule
from fedteddi.schedulers.view import RoundView


@dataclass(frozen=True, kw_only=True)
class RoundRobin(AdmissionOptions):
    """Clients in turn, by id, until one does not fit; the first that did not fit begins the next round.

    Its state is the id of the client whose turn it is. Clients that cannot upload or do not report are passed over.
    """

    name: ClassVar[str] = "round-robin"
    reference: ClassVar[Reference] = SCHEDULING_POLICIES

    def initial_state(self, num_clients: int) -> int:  # noqa: ARG002
        """Begin with client 0."""
        return 0

    def select(self, view: RoundView, rng: np.random.Generator, state: int) -> tuple[Schedule, int]:  # noqa: ARG002
        """Fill the band in the order of turns."""
        able = view.schedulable
        ids = view.client_id[able]
        order = able[np.lexsort((ids, ids < state))]  # from `state` on, then from the lowest id
        schedule = fill_band(view, order, self)
        waiting = order[~np.isin(order, schedule.clients)]
        if len(waiting):
            return schedule, int(view.client_id[waiting[0]])
        return schedule, int(view.client_id[order[-1]]) + 1 if len(order) else state
