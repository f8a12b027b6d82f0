"""Aggregation rules, one per file: uploads, shares and the server's state in, model and state out."""

from typing import Any, cast

from fedteddi.aggregation.fedavg import FedAvg
from fedteddi.aggregation.fedavgm import FedAvgM
from fedteddi.aggregation.median import Median
from fedteddi.aggregation.norm_clipping import NormClipping
from fedteddi.aggregation.rule import Aggregation, FunctionAggregation, Received, State, Vector
from fedteddi.aggregation.target_weights import TargetWeights
from fedteddi.aggregation.trimmed_mean import TrimmedMean
from fedteddi.registry import Kind, has_method, make, must

__all__ = [
    "AGGREGATIONS",
    "Aggregation",
    "FedAvg",
    "FedAvgM",
    "Median",
    "NormClipping",
    "Received",
    "State",
    "TargetWeights",
    "TrimmedMean",
    "Vector",
    "make_aggregation",
]

BUILT_IN: dict[str, type[Any]] = {
    "fedavg": FedAvg,
    "fedavgm": FedAvgM,
    "target-weights": TargetWeights,
    "norm-clipping": NormClipping,
    "median": Median,
    "trimmed-mean": TrimmedMean,
}
AGGREGATIONS = Kind(
    name="aggregations",
    one="aggregation",
    built_in=lambda: BUILT_IN,
    check=must(
        has_method("aggregate"),
        "is not an aggregation: it must be a class with aggregate(self, received), or a function (received)",
    ),
    of_function=FunctionAggregation,
)


def make_aggregation(name: str, **options: Any) -> Aggregation:
    """Make a rule by name with its options, such as `make_aggregation("fedavgm", server_momentum=0.5)`."""
    return cast(Aggregation, make(AGGREGATIONS, name, **options))
