"""Lyapunov energy queues: much data, while no client spends more than its energy budget in the long run."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedteddi.errors import check_number
from fedteddi.schedulers.admission import AdmissionOptions, fill_band, ranked, timing
from fedteddi.schedulers.references import ENERGY_QUEUES, Reference
from fedteddi.schedulers.schedule import Schedule
from fedteddi.schedulers.view import RoundView
from fedteddi.wireless.uplink import rate_from_signal, signal_hz


def next_queue(queue: np.ndarray, spent: np.ndarray) -> np.ndarray:
    """Return max(q_n + e_n − 1, 0), [n]; energies and queues in units of the budget Ē."""
    return np.asarray(np.maximum(queue + spent - 1.0, 0.0))


@dataclass(frozen=True, kw_only=True)
class LyapunovEnergy(AdmissionOptions):
    """Largest (V × data − energy queue × energy) per hertz first, until one does not fit or none is positive.

    Each client has a virtual queue of the energy spent beyond its budget, q_n ← max(q_n + E_n·1[n ∈ S] − Ē, 0), and S
    minimises drift plus penalty, Σ_{n∈S} (q_n E_n − V u_n) with u_n = D_n / mean D: greedily, by gain per hertz, as
    for a knapsack. Energies and queues are in units of Ē, so that V has none. After K rounds a client's mean energy is
    at most 1 + q_n/K, and q_n never exceeds V max u_n / min E_n + max E_n. A round may stay empty.

    E_n = P t_cm + P_cp t_cp; at B* a client transmits until the deadline, t_cm = T_max − t_cp. Every client that
    reports has computed, scheduled or not, so P_cp is 0; give it where only scheduled clients pay (as in Sun et al.).

    Queues and drift-plus-penalty are those of the papers. Sun et al. upload over the air and weigh gradient norms; Xu
    and Wang let a round's weight grow with time and optimise the bandwidth, too. Here the weight is the data.
    """

    name: ClassVar[str] = "lyapunov-energy"
    reference: ClassVar[Reference] = ENERGY_QUEUES

    energy_per_round_j: float = 0.02  # Ē of every client
    v: float = 20.0  # V: larger = more data, but longer until the budget is kept
    power_w: float = 0.2  # P: 23 dBm
    compute_power_w: float = 0.0  # P_cp

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("energy_per_round_j", self.energy_per_round_j, at_least=1e-12, at_most=1e12)
        check_number("v", self.v, at_least=0, at_most=1e12)
        check_number("power_w", self.power_w, at_least=0, at_most=1e12)
        check_number("compute_power_w", self.compute_power_w, at_least=0, at_most=1e12)

    def initial_state(self, num_clients: int) -> np.ndarray:
        """Return the queues by client id, in units of the budget, [all clients]."""
        return np.zeros(num_clients)

    def select(
        self, view: RoundView, rng: np.random.Generator, state: np.ndarray
    ) -> tuple[Schedule, np.ndarray]:
        """Fill the band by falling gain per hertz; then let all queues drain by the budget."""
        able, ids = view.schedulable, view.client_id
        data = view.num_samples[able] / view.num_samples.mean()
        gain = self.v * data - state[ids[able]] * self.energy(view, able, view.needed_hz[able])
        worth = gain > 0
        order = able[worth][ranked(gain[worth] / view.needed_hz[able[worth]], rng)]
        schedule = fill_band(view, order, self)
        scheduled = np.array(schedule.clients, dtype=np.intp)
        spent = np.zeros(len(state))
        spent[ids[scheduled]] = self.energy(view, scheduled, np.array(schedule.bandwidth_hz))
        return schedule, next_queue(state, spent)

    def energy(self, view: RoundView, clients: np.ndarray, granted_hz: np.ndarray) -> np.ndarray:
        """Return E_n of clients with this bandwidth, in units of the budget, [n]."""
        ready_s, deadline_s, model_bits = timing(view, self.name)
        compute_s = np.asarray(view.compute_s)  # it is there: ready_s is made of it
        signal = signal_hz(model_bits, deadline_s - ready_s[clients], view.needed_hz[clients])
        upload_s = model_bits / rate_from_signal(granted_hz, signal)
        joules = self.power_w * upload_s + self.compute_power_w * compute_s[clients]
        return np.asarray(joules / self.energy_per_round_j)
