"""Trackers, one per file: they hear of every round's record, and change nothing."""

import inspect
from collections.abc import Callable, Iterable
from typing import Any, cast

from fedteddi.errors import InputError
from fedteddi.given import PYTHON, label_of
from fedteddi.protocol.record import RoundRecord
from fedteddi.registry import Kind, has_method, make, must, name_of, read_named
from fedteddi.tracking.mlflow import MLflow
from fedteddi.tracking.tensorboard import TensorBoard
from fedteddi.tracking.tracker import Outcome, TrackedRun, Tracker, metrics
from fedteddi.tracking.trackio import Trackio
from fedteddi.tracking.wandb import WandB

__all__ = [
    "TRACKERS",
    "MLflow",
    "OnRound",
    "Outcome",
    "TensorBoard",
    "TrackedRun",
    "Tracker",
    "Trackio",
    "WandB",
    "make_tracker",
    "metrics",
    "named_trackers",
]

OnRound = Callable[[TrackedRun, RoundRecord], object]
BUILT_IN: dict[str, type[Any]] = {
    "tensorboard": TensorBoard,
    "mlflow": MLflow,
    "wandb": WandB,
    "trackio": Trackio,
}
has_on_round = has_method("on_round")
TRACKERS = Kind(
    name="trackers",
    one="tracker",
    built_in=lambda: BUILT_IN,
    check=must(
        lambda given: inspect.isroutine(given) or has_on_round(given),
        "is not a tracker: it must be a class with on_round(self, run, record), or a function (run, record)",
    ),
)


class FunctionTracker:
    """A function (run, record) as a tracker."""

    def __init__(self, function: OnRound) -> None:
        self._function = function

    def on_round(self, run: TrackedRun, record: RoundRecord) -> object:
        """Call the function."""
        return self._function(run, record)


def make_tracker(given: str | Any, **options: Any) -> Tracker:
    """Make a tracker from its name (`mlflow[uri=…]`), or from a class, an instance or a function."""
    if isinstance(given, str):
        name, own = read_named(given, "tracker")
        made = make(TRACKERS, name, **(own | options))
    else:
        TRACKERS.check(given, name_of(given, TRACKERS))
        made = given(**options) if isinstance(given, type) else given
    return cast(Tracker, FunctionTracker(made) if inspect.isroutine(made) else made)


def named_trackers(track: str | Any | Iterable[str | Any]) -> dict[str, Tracker]:
    """Make the trackers of `track=`: one, or several, by the names under which runs remember them."""
    several = isinstance(track, Iterable) and not isinstance(track, str) and not has_on_round(track)
    made: dict[str, Tracker] = {}
    for given in track if several else [track]:
        name = given.strip() if isinstance(given, str) else _called(given)
        if name in made:
            raise InputError(f"two trackers are called {name}: keep one, or give them different names")
        made[name] = make_tracker(given)
    return made


def _called(given: Any) -> str:
    """Return how runs remember a Python object: not by what it holds, which may change from round to round."""
    name = name_of(given, TRACKERS)
    return f"{PYTHON}{label_of(given)}" if name.startswith(PYTHON) else name
