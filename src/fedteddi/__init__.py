"""Federated edge learning on changing data: who uploads, and with how much bandwidth."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from fedteddi.aggregation.laws import check_aggregation
from fedteddi.errors import InputError
from fedteddi.extras import explained
from fedteddi.heterogeneity.divergence import collective_divergence
from fedteddi.heterogeneity.drift import temporal_drift
from fedteddi.heterogeneity.objective import Objective
from fedteddi.heterogeneity.theory import convergence_bound, deviation_bound
from fedteddi.protocol.example import example_round
from fedteddi.schedulers.admission import fill_band
from fedteddi.schedulers.laws import check_scheduler
from fedteddi.schedulers.references import Reference
from fedteddi.schedulers.registry import make_scheduler, scheduler_names
from fedteddi.schedulers.schedule import Schedule, Scheduler, SchedulerWithMemory
from fedteddi.schedulers.view import RoundView
from fedteddi.wireless.channels import Shadowing
from fedteddi.wireless.channels.laws import check_channel
from fedteddi.wireless.uplink import minimum_bandwidth_hz, rate_bps

__version__ = "0.1.0"

# What simulates imports torch, and does so only when it is used.
_SIMULATOR = {
    "Dataset": "fedteddi.learning.datasets.dataset",
    "RunOptions": "fedteddi.simulation.play",
    "Settings": "fedteddi.settings",
    "check_local_training": "fedteddi.learning.local_training.laws",
    "compare": "fedteddi.experiment",
    "read_study": "fedteddi.results.reading",
    "simulate": "fedteddi.experiment",
    "sweep": "fedteddi.sweeps",
}

if TYPE_CHECKING:
    from fedteddi.experiment import compare, simulate
    from fedteddi.learning.datasets.dataset import Dataset
    from fedteddi.learning.local_training.laws import check_local_training
    from fedteddi.results.reading import read_study
    from fedteddi.settings import Settings
    from fedteddi.simulation.play import RunOptions
    from fedteddi.sweeps import sweep

__all__ = [
    "Dataset",
    "InputError",
    "Objective",
    "Reference",
    "RoundView",
    "RunOptions",
    "Schedule",
    "Scheduler",
    "SchedulerWithMemory",
    "Settings",
    "Shadowing",
    "check_aggregation",
    "check_channel",
    "check_local_training",
    "check_scheduler",
    "collective_divergence",
    "compare",
    "convergence_bound",
    "deviation_bound",
    "example_round",
    "fill_band",
    "make_scheduler",
    "minimum_bandwidth_hz",
    "rate_bps",
    "read_study",
    "scheduler_names",
    "simulate",
    "sweep",
    "temporal_drift",
]


def __getattr__(name: str) -> Any:
    if name in _SIMULATOR:
        with explained(f"fedteddi.{name}"):
            return getattr(import_module(_SIMULATOR[name]), name)
    raise AttributeError(f"module 'fedteddi' has no attribute {name!r}")
