"""A run from evaluation to evaluation: what tables and figures need of its rounds, and all that a summary keeps."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from fedteddi.protocol.record import Evaluated, RoundRecord


@dataclass(frozen=True, kw_only=True)
class Stretch(Evaluated):
    """The rounds since the evaluation before, summed up, and how good the model was after the last of them."""

    frame: int
    round: int  # the last of them; 0: the model that a frame begins with
    rounds: int  # how many they are; 0 at round 0
    scheduled: int = 0  # Σ |S| over them
    scheduled_new: int = 0  # of these, with classes that are new in this frame
    round_s: float = 0.0
    uplink_bits: float = 0.0
    energy_j: float = 0.0
    class_gradient_bits: float | None = None  # of uplink_bits, for L̂; None: they were not counted
    class_gradient_j: float | None = None  # of energy_j
    class_accuracy: Sequence[float | None] | None = None
    balanced: float | None = None  # None: the run ended, or stands, before the next evaluation
    global_: float | None = None
    loss: float | None = None  # F_l, where it was estimated; no summary keeps it

    @property
    def bits_without_class_gradients(self) -> float:
        """What clients sent beside class gradients; NaN where these were not counted."""
        return math.nan if self.class_gradient_bits is None else self.uplink_bits - self.class_gradient_bits

    @property
    def j_without_class_gradients(self) -> float:
        """The energy of all else; NaN where class gradients were not counted."""
        return math.nan if self.class_gradient_j is None else self.energy_j - self.class_gradient_j


SUMS = ("scheduled_new", "round_s", "uplink_bits", "energy_j")
WHERE_COUNTED = ("class_gradient_bits", "class_gradient_j")


def stretches(records: Iterable[RoundRecord]) -> tuple[Stretch, ...]:
    """Sum up rounds from one evaluation to the next."""
    return tuple(map(_summed, _parted(records)))


def _parted(records: Iterable[RoundRecord]) -> Iterator[list[RoundRecord]]:
    """Yield the rounds of every stretch; a frame ends one, evaluated or not."""
    part: list[RoundRecord] = []
    for record in records:
        if part and part[-1].frame != record.frame:
            yield part
            part = []
        part.append(record)
        if record.is_evaluated:
            yield part
            part = []
    if part:
        yield part


def _summed(part: list[RoundRecord]) -> Stretch:
    played, last = [record for record in part if record.round], part[-1]
    sums = {name: sum(getattr(record, name) for record in played) for name in SUMS}
    for name in WHERE_COUNTED:
        found = [getattr(record, name) for record in played]
        sums[name] = None if not found or None in found else sum(found)
    return Stretch(
        frame=last.frame,
        round=last.round,
        rounds=len(played),
        scheduled=sum(len(record.clients) for record in played),
        class_accuracy=last.class_accuracy,
        balanced=last.balanced,
        global_=last.global_,
        loss=last.loss,
        **sums,
    )
