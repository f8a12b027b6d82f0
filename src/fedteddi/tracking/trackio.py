"""Rounds in Trackio; an extra: pip install 'fedteddi[trackio]'."""

import contextvars
import io
import os
from contextlib import redirect_stdout
from dataclasses import dataclass
from typing import Any

from fedteddi.extras import imported
from fedteddi.protocol.record import RoundRecord
from fedteddi.settings.flat import flattened
from fedteddi.tracking.tracker import Outcome, TrackedRun, metrics


@dataclass
class Trackio:
    """Trackio: a run for each run, in a local database; `trackio show` shows them."""

    project: str = ""  # default: $TRACKIO_PROJECT, or fedteddi

    def __post_init__(self) -> None:
        self._trackio = imported("trackio", "the tracker trackio")
        self._runs: dict[str, Any] = {}  # by run

    def on_start(self, run: TrackedRun) -> str:
        """Begin a run beside the others, or go on with the one that was begun before; keep its name."""
        with redirect_stdout(io.StringIO()):  # five lines for each run
            # In a context of its own: in the same one it would end the run that was begun before.
            begun = contextvars.Context().run(
                self._trackio.init,
                project=self.project or os.environ.get("TRACKIO_PROJECT") or "fedteddi",
                group=run.group,
                name=run.kept or f"{run.group}/{run.name}",
                config=flattened(run.settings),
                resume="never" if run.kept is None else "allow",
                embed=False,
                auto_log_gpu=False,
                auto_log_cpu=False,
            )
        self._runs[run.name] = begun
        return str(begun.name)

    def on_round(self, run: TrackedRun, record: RoundRecord) -> None:
        """Log a round's numbers; Trackio writes them a moment later."""
        self._runs[run.name].log(metrics(record), step=run.step(record))

    def on_end(self, run: TrackedRun, outcome: Outcome) -> None:  # noqa: ARG002
        """Write what is left."""
        with redirect_stdout(io.StringIO()):
            self._runs.pop(run.name).finish()
