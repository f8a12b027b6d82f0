"""The laboratory: data and model, and any number of runs advanced round by round, together."""

import math
import time
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fedteddi.errors import DivergedError, InputError
from fedteddi.heterogeneity.mixes import pooled_mix
from fedteddi.learning.data import Dataset, load_dataset
from fedteddi.learning.devices import make_engine
from fedteddi.learning.flat import FlatModel
from fedteddi.learning.jobs import Candidate, Probe
from fedteddi.learning.models import make_model
from fedteddi.learning.timed import Timed
from fedteddi.pretrained import OnPretraining, Pretrained
from fedteddi.protocol.messages import Answers, Request
from fedteddi.protocol.record import round_record
from fedteddi.protocol.server import RoundFacts, ServerState, server_round
from fedteddi.randomness import keyed_rng
from fedteddi.run import Run
from fedteddi.runtimes.clients import Clients
from fedteddi.runtimes.in_process import Exchange, InProcess
from fedteddi.runtimes.seed_world import SeedWorld
from fedteddi.settings import Settings


class Laboratory:
    """Data and model, shared by all runs of an experiment; advances them round by round together."""

    def __init__(
        self,
        settings: Settings,
        data: Dataset | None = None,
        device: str = "cpu",
        runtime: Exchange | None = None,
    ) -> None:
        self.data = data or load_dataset(settings.dataset)
        self.data = self.data.with_test_images(settings.evaluation.test_images)
        self.model = FlatModel(
            make_model(settings.training.model, self.data.image_shape, self.data.num_classes, settings.seed)
        )
        self.engine = Timed(make_engine(self.model, self.data, device, settings.training.precision))
        self.runtime: Exchange = runtime or InProcess(self.engine, self.data)
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
        classes = self.data.num_classes
        state = ServerState(
            weights=self.engine.place(self._first_weights(settings)),
            class_norm=np.ones(classes),
            classes_seen=np.zeros(classes, dtype=bool),
            times_scheduled=np.zeros(plan.num_clients, dtype=np.int64),
        )
        clients = Clients(settings, plan, world)
        return Run(settings, plan, state, clients, world.environment(settings, plan.num_clients))

    def _first_weights(self, settings: Settings) -> Tensor:
        """w_{0,0}: what the model is made with."""
        made = make_model(
            settings.training.model, self.data.image_shape, self.data.num_classes, settings.seed
        )
        return torch.cat([p.detach().reshape(-1) for p in made.parameters()])

    def advance(self, runs: list[Run], tell: OnPretraining | None = None) -> None:
        """Take every run one step further: into its next frame, or through its next round.

        A run that diverges is marked as failed, and the others go on; nobody can advance it any more. `tell` hears how
        far pre-training is.
        """
        for run in runs:
            run.check_not_failed()
        started = time.perf_counter()
        entering = [run for run in runs if run.state.round == 0 and not self._entered(run)]
        self._enter(entering, tell)
        running = [run for run in runs if run not in entering and not run.over]
        records = self._records(running, self._rounds(running))
        self._judge([(run, record) for run, record in records if _to_be_judged(run, record)])
        seconds = (time.perf_counter() - started) / max(1, len(running))
        for run, record in records:
            with run.failing():
                timing = {"frame": record["frame"], "round": record["round"], "seconds": seconds}
                self._append(run, record, timing)
        for run in runs:
            self._leave_frame_if_done(run)

    def _entered(self, run: Run) -> bool:
        return any(r["frame"] == run.state.frame and r["round"] == 0 for r in run.records[-1:])

    def _rounds(self, runs: list[Run]) -> list[RoundFacts | DivergedError]:
        """Play one round of every run; what they ask at the same time is answered together."""
        head = self.model.head
        for world in self._worlds.values():
            world.begin((run.state.frame, run.state.round + 1) for run in runs if run.clients.world is world)
        rounds = [
            server_round(
                run.state,
                run.settings,
                run.rule,
                run.aggregation,
                run.environment,
                self.model.bits,
                head.stop - head.start,
            )
            for run in runs
        ]
        facts: dict[int, RoundFacts | DivergedError] = {}
        try:
            asking: dict[int, Request] = {place: next(game) for place, game in enumerate(rounds)}
            while asking:
                places = list(asking)
                answers = self.runtime.exchange([(runs[place].clients, asking[place]) for place in places])
                asking = {}
                for place, answer in zip(places, answers, strict=True):
                    self._send(place, rounds[place], answer, asking, facts)
        finally:  # a round that did not come to its end puts its run's state back
            for game in rounds:
                game.close()
        return [facts[place] for place in range(len(runs))]

    @staticmethod
    def _send(
        place: int,
        game: Any,
        answer: Answers,
        asking: dict[int, Request],
        facts: dict[int, RoundFacts | DivergedError],
    ) -> None:
        try:
            asking[place] = game.send(answer)
        except StopIteration as stop:
            facts[place] = stop.value
        except DivergedError as error:  # the others go on
            facts[place] = error

    def _enter(self, runs: list[Run], tell: OnPretraining | None) -> None:
        """Start a frame: judge the model it begins with (k = 0)."""
        fresh = [run for run in runs if not run.records]
        for run, weights in zip(fresh, self.pretrained.weights(fresh, tell), strict=True):
            with run.failing():
                if not bool(torch.isfinite(weights).all()):
                    rate = run.settings.training.pretrain_learning_rate
                    raise DivergedError(
                        f"pre-training diverged: lower training.pretrain_learning_rate={rate:g}", 0, 0
                    )
                run.state.weights = weights
        judged: list[tuple[Run, dict[str, Any]]] = [
            (run, {"frame": run.state.frame, "round": 0}) for run in runs if not run.over
        ]
        for run, _ in judged:
            run.best_loss, run.best_weights, run.best_aggregation = float("inf"), None, None
        self._judge(judged)
        for run, record in judged:
            with run.failing():
                self._append(run, record, {"frame": run.state.frame, "round": 0})

    def _judge(self, judged: list[tuple[Run, dict[str, Any]]]) -> None:
        """Add test accuracy (docs/paper.md D11) and, where the next frame needs it, F_l; keep the best model."""
        if not judged:
            return
        accuracies = self.engine.class_accuracy(
            [Candidate(run.state.weights, run.clients.outputs(run.state.frame)) for run, _ in judged]
        )
        for (run, record), accuracy in zip(judged, accuracies, strict=True):
            self._add_accuracy(run, record, accuracy)
        probed = [
            (run, record)
            for run, record in judged
            if run.state.frame < run.last_frame or run.settings.evaluation.loss_in_last_frame
        ]
        losses = self.engine.losses(
            [
                Probe(
                    run.state.weights, self._loss_samples(run), outputs=run.clients.outputs(run.state.frame)
                )
                for run, _ in probed
            ]
        )
        for (run, record), loss in zip(probed, losses, strict=True):
            record["loss"] = loss
            if loss < run.best_loss:
                run.best_loss, run.best_weights = loss, run.state.weights.clone()
                run.best_aggregation = run.state.aggregation

    @staticmethod
    def _loss_samples(run: Run) -> np.ndarray:
        """Return the fixed random part of the current local data on which F_l is estimated."""
        pooled = np.concatenate(run.plan.frames[run.state.frame].held)
        rng = keyed_rng(run.settings.seed, "estimates", frame=run.state.frame, step=1)
        return rng.permutation(pooled)[: run.settings.evaluation.loss_samples]

    @staticmethod
    def _add_accuracy(run: Run, record: dict[str, Any], accuracy: np.ndarray) -> None:
        frame = run.state.frame
        counts = run.plan.frames[frame].counts
        mix = pooled_mix(counts.sum(axis=1), counts / counts.sum(axis=1, keepdims=True))
        seen = run.plan.classes_seen(frame) & np.isfinite(accuracy)
        if not seen.any():
            raise InputError(
                f"no class seen up to frame {frame} has test images: there is nothing to judge by"
            )
        record["class_accuracy"] = [None if np.isnan(a) else float(a) for a in accuracy]
        record["balanced"] = float(accuracy[seen].mean())
        record["global"] = float(accuracy[seen] @ mix[seen] / mix[seen].sum())

    def _records(
        self, runs: list[Run], facts: list[RoundFacts | DivergedError]
    ) -> list[tuple[Run, dict[str, Any]]]:
        """Return the record of every run's round; those that diverged fail here."""
        found = []
        for run, fact in zip(runs, facts, strict=True):
            with run.failing():
                if isinstance(fact, DivergedError):
                    raise fact
                new = run.plan.new_classes(fact.frame)
                found.append((run, round_record(fact, new, run.settings.radio, self.model.bits)))
        return found

    @staticmethod
    def _append(run: Run, record: dict[str, Any], timing: dict[str, Any]) -> None:
        if not math.isfinite(
            record.get("loss", 0.0)
        ):  # large weights can be finite while what they say is not
            raise DivergedError(
                f"training diverged in frame {record['frame']}, round {record['round']} (its loss is not finite):"
                f" lower training.learning_rate={run.settings.training.learning_rate:g}",
                record["frame"],
                record["round"],
            )
        run.records.append(record)
        if run.folder is not None:
            run.folder.append(record, timing)

    def _leave_frame_if_done(self, run: Run) -> None:
        """After a frame's last round, the best model of the frame starts the next: w̃_l (docs/paper.md D12)."""
        if run.over or run.state.round < run.settings.rounds[run.state.frame]:
            return
        if run.state.frame == run.last_frame:
            run.finished = True
            return
        if run.best_weights is not None:
            run.state.weights, run.best_weights = run.best_weights, None
            run.state.aggregation, run.best_aggregation = run.best_aggregation, None
        if (
            not run.state.current_mix
        ):  # a frame without rounds had no reports; what was held then is the past now
            told = self.runtime.told_mixes(run.clients, run.state.frame)
            run.state.current_mix = told
            if told:
                run.state.classes_seen = run.state.classes_seen | (np.max([*told.values()], axis=0) > 0)
        run.state.enter_frame(run.state.frame + 1)


def _to_be_judged(run: Run, record: dict[str, Any]) -> bool:
    last = record["round"] == run.settings.rounds[record["frame"]]
    return bool(last or record["round"] % run.settings.evaluation.every == 0)
