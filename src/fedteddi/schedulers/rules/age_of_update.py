"""Age of update: whoever has not been scheduled for longest."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedteddi.schedulers.admission import AdmissionOptions, fill_band
from fedteddi.schedulers.references import AGE_OF_UPDATE, Reference
from fedteddi.schedulers.schedule import Schedule
from fedteddi.schedulers.view import RoundView


@dataclass(frozen=True, kw_only=True)
class AgeOfUpdate(AdmissionOptions):
    """Largest age of update first, then least bandwidth, until one does not fit.

    The age is the number of rounds since a client was last scheduled: 0 right after, one more every round, whether it
    reports or not. All begin with 0. Yang et al. weigh age and channel together; here age comes first.
    """

    name: ClassVar[str] = "age-of-update"
    reference: ClassVar[Reference] = AGE_OF_UPDATE

    def initial_state(self, num_clients: int) -> np.ndarray:
        """Return the ages by client id, [all clients]."""
        return np.zeros(num_clients, dtype=np.int64)

    def select(
        self, view: RoundView, rng: np.random.Generator, state: np.ndarray
    ) -> tuple[Schedule, np.ndarray]:
        """Fill the band by falling age; ties by rising B*, then at random."""
        able = view.schedulable
        age = state[view.client_id[able]]
        order = able[np.lexsort((rng.random(len(able)), view.needed_hz[able], -age))]
        schedule = fill_band(view, order, self)
        state = state + 1
        state[view.client_id[list(schedule.clients)]] = 0
        return schedule, state
