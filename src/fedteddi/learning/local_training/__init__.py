"""Local-training rules, one per file: what a client's steps follow, given the global model."""

from typing import Any, cast

from fedteddi.learning.local_training.fedprox import FedProx
from fedteddi.learning.local_training.rule import FunctionTraining, LocalTraining, checked_direction
from fedteddi.learning.local_training.sgd import SGD
from fedteddi.registry import Kind, has_method, make, must

__all__ = [
    "LOCAL_TRAINING",
    "SGD",
    "FedProx",
    "LocalTraining",
    "checked_direction",
    "make_local_training",
]

BUILT_IN: dict[str, type[Any]] = {"sgd": SGD, "fedprox": FedProx}
LOCAL_TRAINING = Kind(
    name="local-training",
    one="local training",
    built_in=lambda: BUILT_IN,
    check=must(
        has_method("direction"),
        "is not a local training: it must be a class with direction(self, gradient, weights, start), or a function"
        " (gradient, weights, start)",
    ),
    of_function=FunctionTraining,
)


def make_local_training(name: str, **options: Any) -> LocalTraining:
    """Make a rule by name with its options, such as `make_local_training("fedprox", mu=0.1)`."""
    return cast(LocalTraining, make(LOCAL_TRAINING, name, **options))
