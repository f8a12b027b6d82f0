"""What a tracker is: the protocol, the run it hears about, and a round as the numbers that dashboards show."""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

from fedteddi.protocol.record import RoundRecord
from fedteddi.settings import Settings

Outcome = Literal["finished", "failed", "stopped"]  # stopped: it can be resumed


@dataclass(frozen=True, kw_only=True)
class TrackedRun:
    """A run as a tracker sees it."""

    name: str  # of its folder, such as fedteddi-d1-s0
    group: str  # of all runs that are played together
    settings: Settings
    folder: Path | None = None  # None: nothing is written
    told: int = 0  # how many records this tracker heard of before the run was resumed
    kept: str | None = None  # what `on_start` returned then

    def step(self, record: RoundRecord) -> int:
        """Count records from 0 over all frames; each frame begins with its round 0."""
        return sum(self.settings.rounds[: record.frame]) + record.frame + record.round


class Tracker(Protocol):
    """Hears of every round's record: of many runs in turn, of each run in order and once.

    When `on_round` returns, the round is the tracker's to keep. It may also have `on_start(run)`, called before a run's
    first record in this process, and `on_end(run, outcome)`, after its last. What `on_start` returns, text or None, is
    kept with the run and comes back as `run.kept` when the run is resumed.
    """

    def on_round(self, run: TrackedRun, record: RoundRecord) -> object:
        """Hear of a round's record."""


def metrics(record: RoundRecord) -> dict[str, float]:
    """Return a round as numbers with names (docs/metrics.md); what a round cannot say is left out."""
    found: dict[str, Any] = {
        "frame": record.frame,
        "round": record.round,
        "accuracy/balanced": record.balanced,
        "accuracy/global": record.global_,
        "loss": record.loss,
        "epsilon_spent": record.epsilon_spent,
    }
    if record.class_accuracy is not None:
        found |= {f"accuracy/class_{c}": value for c, value in enumerate(record.class_accuracy)}
    if record.round:
        found |= {
            "scheduled/clients": len(record.clients),
            "scheduled/new": record.scheduled_new,
            "scheduled/failures": len(record.failures),
            "cost/round_s": record.round_s,
            "cost/uplink_bits": record.uplink_bits,
            "cost/energy_j": record.energy_j,
            "cost/bandwidth_hz": sum(record.bandwidth_hz),
            "gradient_std": record.gradient_std,
        }
        found |= {f"objective/{name}": value for name, value in (record.objective or {}).items()}
    return {name: float(value) for name, value in found.items() if value is not None and math.isfinite(value)}
