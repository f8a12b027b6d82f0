"""Federated edge learning on changing data: who uploads, and with how much bandwidth."""

from fedteddi.errors import InputError
from fedteddi.heterogeneity.divergence import collective_divergence
from fedteddi.heterogeneity.drift import temporal_drift
from fedteddi.heterogeneity.objective import Objective
from fedteddi.heterogeneity.theory import convergence_bound, deviation_bound
from fedteddi.protocol.example import example_round
from fedteddi.schedulers.laws import check_scheduler
from fedteddi.schedulers.registry import make_scheduler, scheduler_names
from fedteddi.schedulers.schedule import Schedule, Scheduler
from fedteddi.schedulers.view import RoundView
from fedteddi.wireless.bandwidth import minimum_bandwidth_hz, rate_bps

__version__ = "0.1.0"

__all__ = [
    "InputError",
    "Objective",
    "RoundView",
    "Schedule",
    "Scheduler",
    "check_scheduler",
    "collective_divergence",
    "convergence_bound",
    "deviation_bound",
    "example_round",
    "make_scheduler",
    "minimum_bandwidth_hz",
    "rate_bps",
    "scheduler_names",
    "temporal_drift",
]
