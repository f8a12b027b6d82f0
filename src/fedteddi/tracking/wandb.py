"""Rounds in Weights & Biases; an extra: pip install 'fedteddi[wandb]'."""

import os
from dataclasses import dataclass
from typing import Any

from fedteddi.extras import imported
from fedteddi.protocol.record import RoundRecord
from fedteddi.settings.flat import flattened
from fedteddi.tracking.tracker import Outcome, TrackedRun, metrics

LOGIN_S = 30.0  # a run does not wait longer for somebody to log in


@dataclass
class WandB:
    """Weights & Biases: a run for each run; `mode=offline` (or $WANDB_MODE) sends nothing."""

    project: str = ""  # default: $WANDB_PROJECT, or fedteddi
    mode: str = ""  # online, offline, disabled
    folder: str = (
        ""  # what `wandb` writes goes into a folder of that name here; default $WANDB_DIR, or the current one
    )

    def __post_init__(self) -> None:
        self._wandb = imported("wandb", "the tracker wandb")
        self._runs: dict[str, Any] = {}  # by run

    def on_start(self, run: TrackedRun) -> str:
        """Begin a run beside the others, or go on with the one that was begun before; keep its id."""
        if self.folder:
            os.makedirs(self.folder, exist_ok=True)
        begun = self._wandb.init(
            project=self.project or os.environ.get("WANDB_PROJECT") or "fedteddi",
            group=run.group,
            name=run.name,
            config=flattened(run.settings),
            id=run.kept,
            resume=None if run.kept is None else "allow",
            mode=self.mode or os.environ.get("WANDB_MODE") or None,  # W&B reads it once in a process
            dir=self.folder or os.environ.get("WANDB_DIR") or None,
            reinit="create_new",
            settings=self._wandb.Settings(silent=True, login_timeout=LOGIN_S),
        )
        self._runs[run.name] = begun
        return str(begun.id)

    def on_round(self, run: TrackedRun, record: RoundRecord) -> None:
        """Log a round's numbers."""
        self._runs[run.name].log(metrics(record), step=run.step(record), commit=True)

    def on_end(self, run: TrackedRun, outcome: Outcome) -> None:
        """Finish the run; W&B shows it as failed where it was not finished."""
        self._runs.pop(run.name).finish(exit_code=0 if outcome == "finished" else 1)
