"""Rounds in TensorBoard's event files; an extra: pip install 'fedteddi[tensorboard]'."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedteddi.errors import InputError
from fedteddi.extras import imported
from fedteddi.protocol.record import RoundRecord
from fedteddi.settings import write_settings
from fedteddi.tracking.tracker import Outcome, TrackedRun, metrics


@dataclass
class TensorBoard:
    """TensorBoard: an event file in each run's folder; `tensorboard --logdir OUT` shows them."""

    folder: str = ""  # in place of the runs' folders

    def __post_init__(self) -> None:
        imported("tensorboard", "the tracker tensorboard")
        self._writer_of: Any = imported("torch.utils.tensorboard", "the tracker tensorboard").SummaryWriter
        self._writers: dict[str, Any] = {}  # by run

    def on_start(self, run: TrackedRun) -> None:
        """Open the run's event file; what an earlier one says of later rounds does not count."""
        folder = Path(self.folder) / run.name if self.folder else run.folder
        if folder is None:
            raise InputError("there is no folder for event files: give out=, or tensorboard[folder=…]")
        self._writers[run.name] = self._writer_of(str(folder), purge_step=run.told or None)
        if not run.told:
            self._writers[run.name].add_text("settings", f"```toml\n{write_settings(run.settings)}```")

    def on_round(self, run: TrackedRun, record: RoundRecord) -> None:
        """Write a round's numbers through to the file."""
        writer, step = self._writers[run.name], run.step(record)
        for name, value in metrics(record).items():
            writer.add_scalar(name, value, step)
        writer.flush()

    def on_end(self, run: TrackedRun, outcome: Outcome) -> None:  # noqa: ARG002
        """Close the file."""
        self._writers.pop(run.name).close()
