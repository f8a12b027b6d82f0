"""What the server carries from round to round, what it asks with it, and what a round came to."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fedteddi.aggregation import State, Vector
from fedteddi.heterogeneity.objective import ObjectiveTerms
from fedteddi.protocol.costs import Cost
from fedteddi.protocol.messages import Kind, Request
from fedteddi.protocol.rejections import Rejections
from fedteddi.protocol.vectors import NotFiniteError
from fedteddi.schedulers.schedule import Schedule
from fedteddi.settings import Settings


@dataclass(kw_only=True)
class ServerState:
    """What the server carries from round to round."""

    weights: Vector
    class_norm: np.ndarray  # L̂, [C]
    classes_seen: np.ndarray  # [C]
    times_scheduled: np.ndarray  # in this frame, [N]
    previous_mix: dict[int, np.ndarray] = field(default_factory=dict)  # of the frame before, by client
    current_mix: dict[int, np.ndarray] = field(default_factory=dict)  # as last reported in this frame
    first_mix: dict[int, np.ndarray] = field(default_factory=dict)  # as first reported in it
    num_samples: dict[int, int] = field(default_factory=dict)  # D_n as last reported
    seen_before: frozenset[int] = frozenset()  # classes that anybody held when an earlier frame began
    frame: int = 0
    round: int = 0  # rounds done in this frame
    rounds_done: int = 0  # in all frames: the learning rate never resets
    aggregation: State = None  # what the aggregation rule remembers; None: nothing yet
    # Who sent numbers that are not finite since the model last changed, in phases without one valid answer.
    not_finite: frozenset[int] = frozenset()
    gradient_std: float = 0.0  # the last σ̂: it stays where none of those asked for a variance sends one
    loss_mix: np.ndarray | None = (
        None  # of a fleet's clients as the frame began: what F_l is measured on, [C]
    )
    scheduler_state: State = None  # what a rule with memory carries from round to round
    # Only with `server.quarantine_rounds` (protocol/rollback.py):
    good: Vector | None = None  # the last model that others than its makers could train
    good_aggregation: State = None  # what the aggregation rule remembered then
    suspects: dict[int, float] = field(
        default_factory=dict
    )  # who made it what it is now: ‖w_n − w‖, by client
    alone: tuple[
        int, ...
    ] = ()  # who was scheduled alone in the last rounds, as long as it is the same client
    quarantine: dict[int, int] = field(
        default_factory=dict
    )  # after which `rounds_done` a client is asked again

    def hear(self, clients: Iterable[int], mixes: np.ndarray, num_samples: np.ndarray) -> None:
        """Take down what clients say of their data: class mixes [n, C], and how many samples they hold, [n]."""
        said = dict(zip(clients, mixes, strict=True))
        self.first_mix, self.current_mix = said | self.first_mix, self.current_mix | said
        self.num_samples = self.num_samples | dict(zip(said, num_samples.tolist(), strict=True))

    def enter_frame(self, frame: int) -> None:
        """New data has arrived: what was current is now the past."""
        self.frame, self.round, self.loss_mix = frame, 0, None
        held = [np.flatnonzero(mix) for mix in self.first_mix.values()]
        self.seen_before |= frozenset(np.concatenate(held).tolist()) if held else frozenset()
        # Data that changed within a frame have drifted since it began.
        self.previous_mix, self.first_mix, self.current_mix = self.current_mix | self.first_mix, {}, {}
        self.times_scheduled = np.zeros_like(self.times_scheduled)
        self.good, self.good_aggregation, self.suspects = None, None, {}  # the model is another one


@dataclass(frozen=True, kw_only=True)
class RoundFacts:
    """What happened in one round, for the record."""

    frame: int
    round: int
    reported: tuple[int, ...]
    failures: dict[int, str]
    schedule: Schedule  # its trace only where `evaluation.trace` asks for it
    gradient_std: float | None
    class_norm: tuple[float, ...] | None
    terms: ObjectiveTerms | None
    finish_s: tuple[float, ...]
    compute_s: tuple[float, ...]  # of the scheduled
    download_s: tuple[float, ...] | None = None  # of the scheduled; None: the broadcast takes no time
    all_compute_s: float  # of all who reported, added up
    round_s: float
    reports: Cost  # of all that were received
    class_gradients: Cost  # sent for L̂
    message_bytes: Mapping[str, int] | None = None  # by kind, as sent; None: nobody counted
    uplink_bps: Mapping[int, float] | None = None  # measured, of those whose uploads arrived
    epsilon_spent: float | None  # of each client at most, up to this frame; None: nothing is hidden


def check_not_diverged(
    state: ServerState, settings: Settings, rejections: Rejections, valid: Collection[int]
) -> None:
    """Tell a run that diverged from one broken client (docs/metrics.md).

    It has diverged when two clients say so by their numbers and nobody has sent a valid answer meanwhile; where there
    is only one client, that one. With `server.quarantine_rounds`, valid answers speak against it only if they are at
    least as many: whoever spoilt the model may say that all is well.
    """
    enough = len(rejections.not_finite) if settings.server.quarantine_rounds else 1
    if not rejections.not_finite or len(valid) >= enough:
        return
    state.not_finite = state.not_finite | rejections.not_finite
    if len(state.not_finite) >= min(2, len(state.times_scheduled)):
        raise NotFiniteError


def ask(kind: Kind, state: ServerState, clients: tuple[int, ...], **more: Any) -> Request:
    """Make a request about the current model."""
    return Request(
        kind=kind, frame=state.frame, round=state.round, weights=state.weights, clients=clients, **more
    )
