"""Rounds as metrics of MLflow runs; an extra: pip install 'fedteddi[mlflow]'."""

import os
import time
from dataclasses import dataclass
from typing import Any

from fedteddi.extras import imported
from fedteddi.protocol.record import RoundRecord
from fedteddi.settings.flat import flattened
from fedteddi.tracking.tracker import Outcome, TrackedRun, metrics

MOST_PARAMS = 100  # in one request
STATUS: dict[Outcome, str] = {"finished": "FINISHED", "failed": "FAILED", "stopped": "KILLED"}


@dataclass
class MLflow:
    """MLflow: a run for each run; to $MLFLOW_TRACKING_URI, or mlflow.db in the current folder."""

    uri: str = ""
    experiment: str = ""  # default: $MLFLOW_EXPERIMENT_NAME, or the name of the folder of all runs

    def __post_init__(self) -> None:
        self._entities = imported("mlflow.entities", "the tracker mlflow")
        self._client: Any = imported("mlflow.tracking", "the tracker mlflow").MlflowClient(self.uri or None)
        self._ids: dict[str, str] = {}  # by run

    def on_start(self, run: TrackedRun) -> str:
        """Make an MLflow run, or go on with the one that was made before; keep its id."""
        if run.kept is not None:
            self._client.update_run(run.kept, "RUNNING")
            self._ids[run.name] = run.kept
            return run.kept
        name = self.experiment or os.environ.get("MLFLOW_EXPERIMENT_NAME") or run.group
        found = self._client.get_experiment_by_name(name)
        experiment = self._client.create_experiment(name) if found is None else found.experiment_id
        made = self._client.create_run(experiment, run_name=run.name)
        self._ids[run.name] = made.info.run_id
        params = [self._entities.Param(key, str(value)) for key, value in flattened(run.settings).items()]
        for some in _batches(params):
            self._client.log_batch(made.info.run_id, params=some)
        return str(made.info.run_id)

    def on_round(self, run: TrackedRun, record: RoundRecord) -> None:
        """Log a round's numbers in one request."""
        now_ms, step = int(time.time() * 1000), run.step(record)
        found = [self._entities.Metric(name, value, now_ms, step) for name, value in metrics(record).items()]
        self._client.log_batch(self._ids[run.name], metrics=found)

    def on_end(self, run: TrackedRun, outcome: Outcome) -> None:
        """Say how the run ended."""
        self._client.set_terminated(self._ids.pop(run.name), STATUS[outcome])


def _batches(params: list[Any]) -> list[list[Any]]:
    return [params[first : first + MOST_PARAMS] for first in range(0, len(params), MOST_PARAMS)]
