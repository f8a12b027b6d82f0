"""One run: what the laboratory advances, and the checkpoint keeps."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from torch import Tensor

from fedteddi.aggregation import AGGREGATIONS, State, make_aggregation
from fedteddi.aggregation.laws import refuse_own_memory as refuse_memory_of_aggregation
from fedteddi.errors import DivergedError, InputError
from fedteddi.learning.local_training import LOCAL_TRAINING
from fedteddi.learning.local_training.laws import refuse_broken
from fedteddi.learning.models import MODELS
from fedteddi.protocol.record import RoundRecord
from fedteddi.protocol.rejections import Failures
from fedteddi.protocol.rollback import put_back
from fedteddi.protocol.state import ServerState
from fedteddi.registry import source_checksums
from fedteddi.results.folder import Failure, RunFolder
from fedteddi.results.trained import Inputs
from fedteddi.scenario.plan import Plan
from fedteddi.scenario.replay import REPLAYS
from fedteddi.schedulers.registry import SCHEDULERS, make_scheduler
from fedteddi.schedulers.schedule import checked_first_state
from fedteddi.schedulers.trial import refuse_own_memory
from fedteddi.settings import Settings
from fedteddi.simulation.clients import Clients
from fedteddi.wireless.channels import CHANNELS, channel_name
from fedteddi.wireless.environment import Environment


@dataclass(eq=False)
class Run:
    """One scheduler on one seed: its server, its clients, its record."""

    settings: Settings
    plan: Plan
    state: ServerState
    clients: Clients
    environment: Environment
    inputs: Inputs  # what its model takes
    folder: RunFolder | None = None
    best_weights: Tensor | None = None
    best_aggregation: State = None  # what the aggregation rule remembered then
    best_loss: float = float("inf")
    records: list[RoundRecord] = field(default_factory=list)
    finished: bool = False
    failure: Failure | None = None
    live: bool = False  # what its clients hold is known by their reports only
    ended: bool = False  # its frame has ended before the last of its rounds

    def __post_init__(self) -> None:
        settings, clients = self.settings, len(self.state.times_scheduled)
        self.rule = make_scheduler(settings.scheduler, **settings.scheduler_options)
        if settings.scheduler not in SCHEDULERS.built_in():
            refuse_own_memory(self.rule, settings.scheduler, clients, len(self.state.class_norm))
        if getattr(self.rule, "sigma", "") == "literal" and settings.estimates.gradient_std == "std":
            raise InputError(
                "sigma='literal' wants the mean variance, which estimates.gradient_std='std' does not give:"
                " use gradient_std='variance' with it"
            )
        self.state.scheduler_state = checked_first_state(self.rule, clients)
        server = settings.server
        self.aggregation = make_aggregation(server.aggregation, **server.aggregation_options)
        if server.aggregation not in AGGREGATIONS.built_in():
            classes = len(self.state.class_norm)
            refuse_memory_of_aggregation(self.aggregation, server.aggregation, self.state.weights, classes)
        name = settings.training.local_training
        if name not in LOCAL_TRAINING.built_in() and self.clients.local_training is not None:
            refuse_broken(self.clients.local_training, name)
        # The run's own parts, by which --resume sees whether one has changed.
        self.plugins = source_checksums(
            [
                (SCHEDULERS, settings.scheduler),
                (CHANNELS, channel_name(settings.radio)),
                (AGGREGATIONS, server.aggregation),
                (LOCAL_TRAINING, settings.training.local_training),
                (REPLAYS, settings.scenario.replay),
                (MODELS, settings.training.model),
            ]
        )

    @property
    def rounds_done(self) -> int:
        """How many rounds it has played, over all frames."""
        return self.state.rounds_done

    @property
    def frame_over(self) -> bool:
        """Whether its frame has come to its end; the last one always has all its rounds."""
        early = self.ended and self.state.frame < self.last_frame
        return early or self.state.round >= self.settings.rounds[self.state.frame]

    @property
    def over(self) -> bool:
        """Whether it came to its end, or failed."""
        return self.finished or self.failure is not None

    @contextmanager
    def failing(self, keep_going: bool = False) -> Iterator[None]:
        """Let what is done inside end this run, and no other, if it diverges; to keep going, whatever it is."""
        try:
            yield
        except DivergedError as error:
            self.failure = Failure(error.frame, error.round, str(error))
        except InputError as error:
            if not keep_going:
                raise
            self.failure = Failure(self.state.frame, self.state.round + 1, str(error))

    def check_not_failed(self) -> None:
        """Refuse to go on with a run that has failed."""
        if self.failure is not None:
            raise InputError(f"{self.settings.name}, seed {self.settings.seed}: {self.failure.cause}")

    def keep(self, record: RoundRecord, timing: dict[str, Any]) -> None:
        """Add a round to the record, and to the folder if there is one."""
        if not math.isfinite(record.loss or 0.0):  # large weights can be finite while their loss is not
            record = self._put_back(record)
        self.records.append(record)
        if self.folder is not None:
            self.folder.append(record, timing)

    def _put_back(self, record: RoundRecord) -> RoundRecord:
        """Put back the last good model after a round whose model has no finite loss, or end the run here."""
        named = put_back(self.state, self.settings)
        if not named:
            raise DivergedError(
                f"training diverged in frame {record.frame}, round {record.round} (its loss is not finite):"
                f" lower training.learning_rate={self.settings.training.learning_rate:g}",
                record.frame,
                record.round,
            )
        failures = Failures({int(client): why for client, why in record.failures.items()})
        failures.add(named)
        return replace(record, loss=None, failures={str(n): why for n, why in failures.causes.items()})

    def keep_if_best(self, loss: float) -> None:
        """Keep the current model if its loss is the lowest of the frame: it starts the next one."""
        if loss < self.best_loss:
            self.best_loss, self.best_weights = loss, self.state.weights.clone()
            self.best_aggregation = self.state.aggregation

    @property
    def last_frame(self) -> int:
        """The number of the last frame."""
        return len(self.settings.rounds) - 1
