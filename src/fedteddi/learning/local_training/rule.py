"""The local-training seam: what a client's SGD step follows in place of the loss's gradient."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from torch import Tensor

from fedteddi.errors import InputError, guarded


@runtime_checkable
class LocalTraining(Protocol):
    """A rule: any class with this method; its parameters are `training.local_training_options`.

    One method, entry by entry, is what lets the same rule train one client on a CPU, hundreds of clients of many runs
    stacked on a GPU, and a device of a fleet.
    """

    def direction(self, gradient: Tensor, weights: Tensor, start: Tensor) -> Tensor:
        """Return what the step follows, shaped like the gradient: v ← m v + direction, w ← w − η v.

        `gradient` is the loss's at `weights`, `start` the global model w_{k−1} that the client was sent. All three have
        one shape, which may be a part of one model or of many: work entry by entry, and change none of them.
        """
        ...


@dataclass(frozen=True)
class FunctionTraining:
    """A function (gradient, weights, start) as a rule."""

    function: Callable[[Tensor, Tensor, Tensor], Tensor]

    def direction(self, gradient: Tensor, weights: Tensor, start: Tensor) -> Tensor:
        """Ask the function."""
        return self.function(gradient, weights, start)


def called(rule: LocalTraining) -> str:
    """Return what a rule is called in messages."""
    named = rule.function if isinstance(rule, FunctionTraining) else type(rule)
    return f"training.local_training={getattr(named, '__name__', type(named).__name__)}"


def checked_direction(rule: LocalTraining, gradient: Tensor, weights: Tensor, start: Tensor) -> Tensor:
    """Ask a rule for a direction; whatever it does wrong becomes one sentence."""
    with guarded(called(rule), "local-training"):
        found = rule.direction(gradient, weights, start)
    if not isinstance(found, Tensor) or found.shape != gradient.shape or found.dtype != gradient.dtype:
        raise InputError(
            f"{called(rule)} returned {_described(found)}: return a tensor like the gradient,"
            f" {_described(gradient)}"
        )
    return found


def _described(value: object) -> str:
    kind = type(value).__name__
    return f"{value.dtype} of shape {tuple(value.shape)}" if isinstance(value, Tensor) else kind
