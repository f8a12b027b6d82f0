"""A round on record: typed here, and one line of rounds.jsonl (docs/metrics.md) in the order of its fields."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Literal

import numpy as np

from fedteddi.heterogeneity.objective import ObjectiveTerms
from fedteddi.protocol.costs import upload_times_s
from fedteddi.protocol.state import RoundFacts
from fedteddi.schedulers.schedule import Trace
from fedteddi.settings import RadioSettings
from fedteddi.wireless.radio import watts_from_dbm

Accuracy = Literal["balanced", "global"]


class Evaluated:
    """What has the test accuracies of the model after a round, if it was evaluated."""

    frame: int
    round: int
    balanced: float | None
    global_: float | None

    @property
    def is_evaluated(self) -> bool:
        """Whether the model was evaluated after this round."""
        return self.balanced is not None

    def accuracy(self, kind: Accuracy) -> float:
        """Return the test accuracy after this round."""
        found = self.balanced if kind == "balanced" else self.global_
        if found is None:
            raise ValueError(f"frame {self.frame}, round {self.round} was not evaluated")
        return found


@dataclass(frozen=True, kw_only=True)
class RoundRecord(Evaluated):
    """What happened in a round, and how good the model was after it, if it was evaluated.

    What a round cannot say is not in its line of JSON, such as the clients of round 0.
    """

    frame: int
    round: int  # 0: the model that a frame begins with
    clients: Sequence[int] = ()  # S
    scheduled_new: int = 0
    bandwidth_hz: Sequence[float] = ()
    compute_s: Sequence[float] = ()
    download_s: Sequence[float] | None = None  # None: the broadcast takes no time
    finish_s: Sequence[float] = ()
    round_s: float = 0.0
    uplink_bits: float = 0.0
    energy_j: float = 0.0
    class_gradient_bits: float | None = None  # of uplink_bits, for L̂; None: they were not counted
    class_gradient_j: float | None = None  # of energy_j
    message_bytes: Mapping[str, int] | None = (
        None  # that arrived, by kind; None: nobody counted, as in a simulation
    )
    uplink_bps: Mapping[str, float] | None = None  # measured, by client
    gradient_std: float | None = None
    class_norm: Sequence[float] | None = None
    objective: Mapping[str, float] | None = None
    failures: Mapping[str, str] = field(default_factory=dict)
    epsilon_spent: float | None = None
    trace: Mapping[str, Any] | None = None
    class_accuracy: Sequence[float | None] | None = None
    balanced: float | None = None
    global_: float | None = None
    loss: float | None = None

    @classmethod
    def of(
        cls, facts: RoundFacts, new_classes: np.ndarray, radio: RadioSettings, model_bits: float
    ) -> "RoundRecord":
        """Put a round on record; `new_classes` [N] says who holds a class that is new in this frame."""
        clients = facts.schedule.clients
        upload_s = upload_times_s(facts.finish_s, facts.compute_s, facts.download_s)
        return cls(
            frame=facts.frame,
            round=facts.round,
            clients=list(clients),
            scheduled_new=int(np.count_nonzero(new_classes[list(clients)])),
            bandwidth_hz=list(facts.schedule.bandwidth_hz),
            compute_s=list(facts.compute_s),
            download_s=None if facts.download_s is None else list(facts.download_s),
            finish_s=list(facts.finish_s),
            round_s=facts.round_s,
            uplink_bits=model_bits * len(clients) + facts.reports.bits + facts.class_gradients.bits,
            energy_j=watts_from_dbm(radio.power_dbm) * sum(upload_s)
            + radio.compute_power_w * facts.all_compute_s
            + facts.reports.joules
            + facts.class_gradients.joules,
            class_gradient_bits=facts.class_gradients.bits,
            class_gradient_j=facts.class_gradients.joules,
            message_bytes=facts.message_bytes,
            uplink_bps={str(n): rate for n, rate in (facts.uplink_bps or {}).items()} or None,
            gradient_std=facts.gradient_std,
            class_norm=None if facts.class_norm is None else list(facts.class_norm),
            objective=None if facts.terms is None else _objective(facts.terms),
            failures={str(n): why for n, why in facts.failures.items()},
            epsilon_spent=facts.epsilon_spent,
            trace=None if facts.schedule.trace is None else _trace(facts.schedule.trace),
        )

    @classmethod
    def from_json(cls, line: Mapping[str, Any]) -> "RoundRecord":
        """Read a line of rounds.jsonl; what this version does not know is left out."""
        missing = [key for key in ALWAYS if key not in line] if line["round"] else []
        if missing:
            raise ValueError(f"round {line['round']} of frame {line['frame']} lacks {', '.join(missing)}")
        return cls(**{ATTRIBUTE[key]: value for key, value in line.items() if key in ATTRIBUTE})

    def as_json(self) -> dict[str, Any]:
        """Return the record as its line of rounds.jsonl."""
        line = {key: getattr(self, name) for key, name in ATTRIBUTE.items()}
        return {key: value for key, value in line.items() if self._says(key, value)}

    def _says(self, key: str, value: Any) -> bool:
        return value is not None if key in WHERE_KNOWN else key in ("frame", "round") or self.round > 0


def are_all(records: Sequence[RoundRecord], rounds: Sequence[int]) -> bool:
    """Tell whether the last of these records is a run's last; `rounds` are the most that each frame has.

    A fleet's frames may have fewer (`fleet.frames`), but for the last one.
    """
    return bool(records) and (records[-1].frame, records[-1].round) == (len(rounds) - 1, rounds[-1])


def rounds_played(records: Sequence[RoundRecord], rounds: Sequence[int]) -> list[int]:
    """Return how many rounds each frame had: `rounds`, but for frames that ended early and those still to come."""
    last = {record.frame: record.round for record in records}
    ended = max(last, default=0)
    return [last[frame] if frame < ended and frame in last else most for frame, most in enumerate(rounds)]


ALWAYS = ("clients", "scheduled_new", "round_s", "uplink_bits", "energy_j")  # in a line, but for round 0
# The attribute of every key of a line.
ATTRIBUTE = {part.name.rstrip("_"): part.name for part in fields(RoundRecord)}
WHERE_KNOWN = {
    *("download_s", "class_gradient_bits", "class_gradient_j", "epsilon_spent", "trace"),
    *("message_bytes", "uplink_bps"),
    *("class_accuracy", "balanced", "global", "loss"),
}


def _trace(trace: Trace) -> dict[str, Any]:
    return {"admissions": [asdict(one) for one in trace.admissions], "stopped": trace.stopped}


def _objective(terms: ObjectiveTerms) -> dict[str, float]:
    return {
        "variance": terms.variance,
        "divergence": terms.divergence,
        "drift": terms.drift,
        "drift_weight": terms.drift_weight,
        "total": terms.total,
    }
