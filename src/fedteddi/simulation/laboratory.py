"""The laboratory: data and model, and any number of runs advanced round by round, together."""

import time

import numpy as np
import torch
from torch import Tensor

from fedteddi.errors import InputError
from fedteddi.learning.cpu import one_thread
from fedteddi.learning.datasets.dataset import Dataset, load_dataset
from fedteddi.learning.devices import make_engine
from fedteddi.learning.flat import FlatModel
from fedteddi.learning.models import make_model
from fedteddi.learning.timed import Timed
from fedteddi.protocol.record import RoundRecord
from fedteddi.protocol.state import ServerState
from fedteddi.results.trained import Inputs
from fedteddi.settings import Settings
from fedteddi.simulation import evaluator, frames, known
from fedteddi.simulation.clients import Clients
from fedteddi.simulation.in_process import Exchange, InProcess, Live
from fedteddi.simulation.lockstep import play_rounds
from fedteddi.simulation.pretrained import OnPretraining, Pretrained
from fedteddi.simulation.run import Run
from fedteddi.simulation.seed_world import SeedWorld


class Laboratory:
    """Data and model, shared by all runs of an experiment; advances them round by round together."""

    def __init__(
        self,
        settings: Settings,
        data: Dataset | None = None,
        device: str = "cpu",
        runtime: Exchange | None = None,
        threads: int = 1,
        keep_going: bool = False,  # a run whose scheduler fails ends there; the others go on
    ) -> None:
        self.keep_going = keep_going
        self.data = data or load_dataset(settings.dataset)
        self.data = self.data.with_test_images(settings.evaluation.test_images)
        self.inputs = Inputs(shape=self.data.image_shape, mean=self.data.mean, std=self.data.std)
        self.model = FlatModel(
            make_model(settings.training.model, self.data.image_shape, self.data.num_classes, settings.seed)
        )
        precision = settings.training.precision
        self.engine = Timed(make_engine(self.model, self.data, device, precision, threads))
        self.runtime: Exchange = runtime or InProcess(self.engine, self.data)
        if isinstance(self.runtime, Live):
            self.runtime.begin(self.inputs)
        self.pretrained = Pretrained(self.engine, self.data)
        self._worlds: dict[int, SeedWorld] = {}  # by seed

    def new_run(self, settings: Settings) -> Run:
        """Prepare a run from its settings; it is pre-trained when it enters its first frame."""
        world = self._worlds.setdefault(settings.seed, SeedWorld(settings.seed, self.data))
        plan = world.plan(settings)
        if settings.training.batch_size > min(len(own) for frame in plan.frames for own in frame.held):
            raise InputError(
                f"training.batch_size={settings.training.batch_size} is more than a client holds"
                f" ({min(len(own) for frame in plan.frames for own in frame.held)}): use smaller batches"
            )
        if settings.training.augment != "none" and len(self.inputs.shape) != 3:
            raise InputError(
                f"training.augment={settings.training.augment!r} varies images, and the data are features: use none"
            )
        classes = self.data.num_classes
        state = ServerState(
            weights=self.engine.place(self._first_weights(settings)),
            class_norm=np.ones(classes),
            classes_seen=np.zeros(classes, dtype=bool),
            times_scheduled=np.zeros(plan.num_clients, dtype=np.int64),
        )
        clients = Clients(settings, plan, world)
        environment = world.environment(settings, plan.num_clients)
        live = isinstance(self.runtime, Live) and settings.fleet.data == "reported"
        return Run(settings, plan, state, clients, environment, self.inputs, live=live)

    def _first_weights(self, settings: Settings) -> Tensor:
        """w_{0,0}: what the model is made with."""
        made = make_model(
            settings.training.model, self.data.image_shape, self.data.num_classes, settings.seed
        )
        return torch.cat([p.detach().reshape(-1) for p in made.parameters()])

    def advance(self, runs: list[Run], tell: OnPretraining | None = None, at_once: int = 1) -> None:
        """Take every run one step further: into its next frame, or through its next round.

        A run that diverges is marked as failed, and the others go on; nobody can advance it any more. `tell` hears how
        far pre-training is. Lists of runs that are advanced `at_once` share the time that their rounds take.
        """
        for run in runs:
            run.check_not_failed()
        started = time.perf_counter()
        entering = [run for run in runs if run.state.round == 0 and not frames.is_entered(run)]
        # What the server computes must not depend on the number of threads, either.
        with one_thread(self.engine.name == "cpu"):
            self._enter(entering, tell)
            self._play([run for run in runs if run not in entering and not run.over], started, at_once)
            for run in runs:
                frames.leave_if_done(run, self.runtime)

    def _enter(self, runs: list[Run], tell: OnPretraining | None) -> None:
        """Begin a frame, and evaluate the model it begins with (k = 0)."""
        frames.enter(runs, self.pretrained, tell)
        for run in runs:
            frames.ask(run, self.runtime)
        begun = [(run, RoundRecord(frame=run.state.frame, round=0)) for run in runs if not run.over]
        for run, record in evaluator.evaluate(self.engine, begun):
            with run.failing():
                run.keep(record, {"frame": record.frame, "round": 0})

    def _play(self, runs: list[Run], started: float, at_once: int) -> None:
        """Play and evaluate a round of every run; those that diverge fail here."""
        played = []
        outcomes = play_rounds(runs, self.runtime, self.model, self.keep_going)
        for run, outcome in zip(runs, outcomes, strict=True):
            with run.failing(self.keep_going):
                if isinstance(outcome, InputError):
                    raise outcome
                new = known.new_classes(run)
                run.ended = isinstance(self.runtime, Live) and self.runtime.frame_over(run.state)
                played.append((run, RoundRecord.of(outcome, new, run.settings.radio, self.model.bits)))
        evaluated = evaluator.evaluate(self.engine, played)
        seconds = (time.perf_counter() - started) / max(1, len(runs)) / at_once
        for run, record in evaluated:
            with run.failing():
                run.keep(record, {"frame": record.frame, "round": record.round, "seconds": seconds})
