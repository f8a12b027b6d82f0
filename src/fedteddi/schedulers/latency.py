"""How long clients would take with equal bandwidth: what rules that prefer fast clients compare."""

import numpy as np

from fedteddi.schedulers.admission import timing
from fedteddi.schedulers.view import RoundView
from fedteddi.wireless.uplink import rate_from_signal, signal_hz


def reference_latency_s(view: RoundView, rule: str) -> np.ndarray:
    """Return t_n = t_dl + t_cp + D_s / R_n(B_ref), [N]; inf for clients that cannot meet the deadline.

    At B* every client finishes exactly at the deadline, so finishing times say nothing about clients. Here all have
    the same bandwidth B_ref, the median B* of the schedulable ones: t_n ≤ T_max for the half that needs no more than
    that. Each client's signal P|H|²/N0 is read off its B*, (17) backwards.
    """
    all_ready_s, deadline_s, model_bits = timing(view, rule)
    able, feasible = view.schedulable, np.flatnonzero(np.isfinite(view.needed_hz))
    latency_s = np.full(view.num_clients, np.inf)
    if len(able):
        ready_s = all_ready_s[feasible]
        signal = signal_hz(model_bits, deadline_s - ready_s, view.needed_hz[feasible])
        upload_s = model_bits / rate_from_signal(np.median(view.needed_hz[able]), signal)
        latency_s[feasible] = ready_s + upload_s
    return latency_s
