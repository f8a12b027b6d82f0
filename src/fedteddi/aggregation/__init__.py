"""Aggregation rules, one per file: uploads, shares and the server's state in, model and state out."""

from typing import Any, cast

from fedteddi.aggregation.fedavg import FedAvg
from fedteddi.aggregation.fedavgm import FedAvgM
from fedteddi.aggregation.rule import Aggregation, Received, State, Vector
from fedteddi.errors import InputError, nearest_hint, shown
from fedteddi.plugins import load_object, made

__all__ = [
    "AGGREGATIONS",
    "Aggregation",
    "FedAvg",
    "FedAvgM",
    "Received",
    "State",
    "Vector",
    "find_aggregation",
    "make_aggregation",
]

AGGREGATIONS: dict[str, type[Any]] = {"fedavg": FedAvg, "fedavgm": FedAvgM}


def find_aggregation(name: str) -> type[Aggregation]:
    """Return the class of a rule: a name, or one's own as `file.py:Class` (this runs the file)."""
    if name in AGGREGATIONS:
        return AGGREGATIONS[name]
    if ":" not in name:
        raise InputError(
            f"no aggregation is called {shown(name)}{nearest_hint(name, AGGREGATIONS)}: known are"
            f" {', '.join(AGGREGATIONS)}, or give your own as file.py:Class"
        )
    own = load_object(name)
    if not isinstance(own, type) or not callable(getattr(own, "aggregate", None)):
        raise InputError(f"{name} is not an aggregation: it must be a class with aggregate(self, received)")
    return cast(type[Aggregation], own)


def make_aggregation(name: str, **options: Any) -> Aggregation:
    """Make a rule by name with its options, such as `make_aggregation("fedavgm", server_momentum=0.5)`."""
    return cast(Aggregation, made(find_aggregation(name), name, options))
