"""What travels between the server and its clients in one round."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np

from fedteddi.aggregation import Vector

# Numbers of a class gradient's sketch (learning/sketch.py): few enough to be cheap, and a prime, so that entries which
# share one come from all over a layer, whatever its shape.
SKETCH_SIZE = 509
# And of an update's: only distances between clients are wanted of it, and everyone sends one in every round.
UPDATE_SKETCH_SIZE = 127
# Answers "class_gradients" in place of every client that was asked.
ALL_CLIENTS = -1

Kind = Literal["report", "upload", "class_gradients"]
Told = float | np.ndarray | None  # what a report says of one thing that was measured


@dataclass(frozen=True, kw_only=True, eq=False)
class Request:
    """The server asks some clients for something; the runtime answers with `Answers`."""

    kind: Kind
    frame: int
    round: int
    weights: Vector  # the model the question is about
    clients: tuple[int, ...]
    needs: frozenset[str] = frozenset()  # for "report": what the rule wants to know
    # For "report": who is asked for a gradient variance, if the rule needs one; None: everyone (docs/paper.md D5).
    variance_from: frozenset[int] | None = None
    learning_rate: float = 0.0
    # For "class_gradients": images of each class wanted from each client, [N, C].
    samples: np.ndarray | None = None
    # For "upload": how long each of these clients takes with its share of the band.
    upload_s: Sequence[float] = ()

    @property
    def measuring(self) -> tuple[int, ...]:
        """Who is asked for a gradient variance."""
        if "gradient_std" not in self.needs:
            return ()
        some = self.variance_from
        return self.clients if some is None else tuple(n for n in self.clients if n in some)

    def needs_from(self, client: int) -> frozenset[str]:
        """Return what one client is asked for."""
        if self.variance_from is None or client in self.variance_from:
            return self.needs
        return self.needs - {"gradient_std"}


@dataclass(frozen=True, kw_only=True, eq=False, slots=True)
class Report:
    """What every client says after local training, before anybody uploads a model.

    Either both counts, or, where `privacy.epsilon` is set, `num_samples` and `released_mix` in their place.
    """

    data_counts: np.ndarray | None = None  # samples held of each class, [C]
    batch_counts: np.ndarray | None = None  # samples trained on in this round of each class, [C]
    num_samples: int | None = None  # D_n
    released_mix: np.ndarray | None = None  # the frame's noisy class mix, [C]
    gradient_variance: float | None = None
    loss: float | None = None
    update_norm: float | None = None
    update_sketch: np.ndarray | None = None  # of w_n − w_{k−1}, [UPDATE_SKETCH_SIZE]
    compute_s: float | None = None  # measured; None: the server's model of the client's speed
    channel_gain: float | None = None  # measured; None: the server's model of the cell


@dataclass(frozen=True, kw_only=True, eq=False)
class ReportTable(Mapping[int, Report]):
    """The reports of many clients, by client, from a runtime that holds them all: checked together, not one by one."""

    clients: tuple[int, ...]
    data_counts: np.ndarray  # [n, C]
    batch_counts: np.ndarray  # [n, C]
    numbers: Mapping[str, Mapping[int, Told]]  # by part of the report, then by client

    @cached_property
    def _rows(self) -> dict[int, int]:
        return {client: row for row, client in enumerate(self.clients)}

    def __getitem__(self, client: int) -> Report:
        row = self._rows[client]
        told: dict[str, Any] = {part: own[client] for part, own in self.numbers.items() if client in own}
        return Report(data_counts=self.data_counts[row], batch_counts=self.batch_counts[row], **told)

    def __iter__(self) -> Iterator[int]:
        return iter(self.clients)

    def __len__(self) -> int:
        return len(self.clients)

    def __contains__(self, client: object) -> bool:
        return client in self._rows


@dataclass(frozen=True, kw_only=True, eq=False)
class ClassGradients:
    """Sums of loss gradients over images of each class, [C, P], or their sketches, and how many images each had, [C].

    A client that holds fewer images of a class than it is asked for takes what it has. A runtime may answer for all
    clients at once, under the number `ALL_CLIENTS`: only the sum over all answers matters.
    """

    gradient_sum: Any
    counts: np.ndarray


@dataclass(frozen=True, kw_only=True, eq=False)
class ClassNorms:
    """The norms of such sums over all clients' images of each class, [C], and how many images those were, [C].

    A runtime that answers for all clients may give these instead: the server wants no more, and a hundred gradients of
    a large model, for each of many runs, do not fit into a device's memory.
    """

    norms: np.ndarray
    counts: np.ndarray


@dataclass(frozen=True, eq=False)
class Answers:
    """Who answered what, and who failed and why."""

    given: Mapping[int, Any]
    failed: Mapping[int, str]
    num_bytes: int | None = None  # of all that arrived, as it was sent; None: nobody counted
    uplink_bps: Mapping[int, float] | None = None  # measured, smoothed, of those whose uploads arrived
