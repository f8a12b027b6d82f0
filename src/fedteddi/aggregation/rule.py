"""The aggregation seam: what a rule is given, what it must return, and what its memory may be."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np

# A model as one vector [P]; numpy and torch both do, on whatever device, because rules need only arithmetic.
Vector = Any
# What a rule remembers: None, bool, int, float, str, a vector, or a list or dict (with text as keys) of these.
State = Any
# What a vector of a state may hold: what numpy, torch and a checkpoint all know.
NUMBERS = frozenset(("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64"))


@dataclass(frozen=True, kw_only=True, eq=False)
class Received:
    """What the server holds when it aggregates; n clients' uploads have arrived and are finite. Do not change it.

    A server gives all of it; who calls a rule that looks at no classes may leave them out.
    """

    frame: int
    round: int  # k, from 1
    model: Vector  # w_{k−1}, [P]
    uploads: tuple[Vector, ...]  # w_n after local training, n vectors [P] like the model
    shares: np.ndarray  # α_n(S), [n]; they add up to 1
    client_id: np.ndarray  # which client each upload is from, [n]
    rounds_in_frame: int | None = None  # K
    batch_mix: np.ndarray | None = None  # class shares of what each upload was trained on, [n, C]
    data_mix: np.ndarray | None = None  # of all that its client holds, [n, C]
    everyone_batch_mix: np.ndarray | None = None  # Σ α_n p_n over all who reported, [C]
    everyone_data_mix: np.ndarray | None = None  # [C]
    classes_seen: np.ndarray | None = None  # which classes have appeared so far, [C]
    max_sample_share: float = 1.0  # no weight may be above it, but for 1/n where n of it are less than 1


@runtime_checkable
class Aggregation(Protocol):
    """A rule: any class with this method; its parameters are `server.aggregation_options`.

    A rule with memory also has `initial_state(model)`, takes the state as a second argument and returns
    (model, state). It is not asked in rounds in which nothing arrived.
    """

    def aggregate(self, received: Received) -> Vector:
        """Return w_k, a vector like `received.model`. The result depends on the arguments alone."""
        ...


@dataclass(frozen=True)
class FunctionAggregation:
    """A function (received) as a rule."""

    function: Callable[[Received], Vector]

    def aggregate(self, received: Received) -> Vector:
        """Ask the function."""
        return self.function(received)


def remembers(rule: Aggregation) -> bool:
    """Tell whether a rule has a memory."""
    return callable(getattr(rule, "initial_state", None))


def asked(rule: Any, received: Received, state: State) -> tuple[Vector, State]:
    """Ask a rule for w_k and its next state; a state of None is where its memory begins."""
    if not remembers(rule):
        return rule.aggregate(received), None
    answer = rule.aggregate(received, rule.initial_state(received.model) if state is None else state)
    if not isinstance(answer, tuple) or len(answer) != 2:
        raise TypeError(f"aggregate returned {type(answer).__name__}: it must return (model, state)")
    return answer


def model_fault(found: Any, model: Vector) -> str:
    """Return in which way a vector is not like the model, in words, or nothing; its numbers are not looked at."""
    if not isinstance(found, type(model)):
        return f"{type(found).__name__}, not {type(model).__name__}"
    if tuple(found.shape) != tuple(model.shape):
        return f"shape {tuple(found.shape)}, not {tuple(model.shape)}"
    if found.dtype != model.dtype:
        return f"{found.dtype}, not {model.dtype}"
    return "" if _together(found, model) else f"a vector on {found.device}, not {model.device}"


def state_fault(state: State, model: Vector) -> str:
    """Return why a state could not be restored to the bit from a checkpoint, in words, or nothing."""
    # Exactly these: a numpy number would come back as a plain one, and compute in another precision.
    if state is None or type(state) in (bool, int, float, str):
        return ""
    if isinstance(state, np.ndarray | type(model)):
        kind = str(state.dtype).removeprefix("torch.")
        if kind not in NUMBERS:
            return f"an array of {kind}"
        elsewhere = isinstance(state, type(model)) and not _together(state, model)
        return f"a vector on {state.device}, the model on {model.device}" if elsewhere else ""
    if type(state) is dict:
        strange = [key for key in state if type(key) is not str]
        return f"a dict with the key {strange[0]!r}" if strange else _first(state.values(), model)
    return _first(state, model) if type(state) is list else f"a {type(state).__name__}"


def _first(parts: Any, model: Vector) -> str:
    return next((fault for part in parts if (fault := state_fault(part, model))), "")


def _together(vector: Vector, model: Vector) -> bool:
    return bool(getattr(vector, "device", None) == getattr(model, "device", None))
