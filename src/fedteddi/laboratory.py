"""Runs, and the laboratory that advances any number of them round by round, together."""

import hashlib
import inspect
import json
import os
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
import safetensors.torch
import torch
from torch import Tensor

from fedteddi.errors import InputError
from fedteddi.heterogeneity.mixes import pooled_mix
from fedteddi.learning.data import Dataset, load_dataset
from fedteddi.learning.evaluation import class_accuracy, training_loss
from fedteddi.learning.flat import FlatModel
from fedteddi.learning.models import make_model
from fedteddi.learning.pretraining import pretrain
from fedteddi.plugins import load_object
from fedteddi.protocol.environment import Environment
from fedteddi.protocol.messages import Answers, Request
from fedteddi.protocol.server import RoundFacts, ServerState, server_round
from fedteddi.randomness import keyed_rng
from fedteddi.results.folder import RunFolder, write_atomically
from fedteddi.runtimes.in_process import Clients, InProcess
from fedteddi.scenario.build import build_plan
from fedteddi.scenario.plan import Plan
from fedteddi.schedulers.registry import make_scheduler
from fedteddi.settings import Settings
from fedteddi.wireless.radio import watts_from_dbm

# What a pre-trained model depends on, besides the model, the data and the seed.
PRETRAINING = {
    f"pretrain_{part}" for part in ("epochs", "learning_rate", "momentum", "weight_decay", "batch_size")
}


@dataclass(eq=False)
class Run:
    """One scheduler on one seed: its server, its clients, its record."""

    settings: Settings
    plan: Plan
    state: ServerState
    clients: Clients
    world: Environment
    folder: RunFolder | None = None
    best_weights: Tensor | None = None
    best_loss: float = float("inf")
    records: list[dict[str, Any]] = field(default_factory=list)
    finished: bool = False

    def __post_init__(self) -> None:
        self.rule = make_scheduler(self.settings.scheduler, **self.settings.scheduler_options)

    @property
    def last_frame(self) -> int:
        """The number of the last frame."""
        return len(self.settings.rounds) - 1


class Laboratory:
    """Data and model, shared by all runs of an experiment; advances them round by round together."""

    def __init__(self, settings: Settings, data: Dataset | None = None) -> None:
        self.data = data or load_dataset(settings.dataset)
        self.data = self.data.with_test_images(settings.evaluation.test_images)
        self.model = FlatModel(
            make_model(settings.training.model, self.data.image_shape, self.data.num_classes, settings.seed)
        )
        self.runtime = InProcess(self.model, self.data)
        self._plans: dict[str, Plan] = {}
        self._pretrained_weights: dict[str, Tensor] = {}

    def new_run(self, settings: Settings) -> Run:
        """Prepare a run from its settings; it is pre-trained when it enters its first frame."""
        plan = self._plan(settings)
        if settings.training.batch_size > min(len(own) for frame in plan.frames for own in frame.held):
            raise InputError(
                f"training.batch_size={settings.training.batch_size} is more than a client holds"
                f" ({min(len(own) for frame in plan.frames for own in frame.held)}): use smaller batches"
            )
        classes = self.data.num_classes
        training = settings.training
        state = ServerState(
            weights=self._first_weights(settings),
            class_norm=np.ones(classes),
            classes_seen=np.zeros(classes, dtype=bool),
            times_scheduled=np.zeros(plan.num_clients, dtype=np.int64),
        )
        world = Environment.make(
            settings.radio, settings.seed, plan.num_clients, training.local_steps * training.batch_size
        )
        return Run(settings, plan, state, Clients(settings, plan), world)

    def _plan(self, settings: Settings) -> Plan:
        key = f"{settings.seed} {len(settings.rounds)} {settings.scenario.model_dump_json()}"
        if key not in self._plans:
            self._plans[key] = build_plan(
                settings.scenario,
                self.data.train_labels.numpy(),
                self.data.num_classes,
                len(settings.rounds),
                settings.seed,
            )
        return self._plans[key]

    def _first_weights(self, settings: Settings) -> Tensor:
        """w_{0,0}: what the model is made with."""
        made = make_model(
            settings.training.model, self.data.image_shape, self.data.num_classes, settings.seed
        )
        return torch.cat([p.detach().reshape(-1) for p in made.parameters()])

    def _starting_weights(self, settings: Settings, plan: Plan) -> Tensor:
        """w_{0,0}, or the model trained centrally on frame 0's data that stands for w̃_0; one per seed, cached."""
        training, weights = settings.training, self._first_weights(settings)
        if training.pretrain_epochs == 0:
            return weights
        pooled = np.unique(np.concatenate(plan.frames[0].held))
        given = training.model_dump(include={"model", "augment", *PRETRAINING})
        key = hashlib.sha256(json.dumps([given, settings.seed, torch.__version__]).encode())
        key.update(repr(self.model.module).encode())
        if ":" in training.model:  # the user's code may change under the same name
            source = inspect.getsourcefile(load_object(training.model))
            key.update(Path(source).read_bytes() if source else b"")
        key.update(self.data.train_images[pooled].numpy().tobytes())
        key.update(self.data.train_labels[pooled].numpy().tobytes())
        key.update(weights.numpy().tobytes())
        name = key.hexdigest()[:32]
        if name not in self._pretrained_weights:
            self._pretrained_weights[name] = self._pretrained(name, weights, pooled, settings)
        return self._pretrained_weights[name]

    def _pretrained(self, name: str, weights: Tensor, pooled: np.ndarray, settings: Settings) -> Tensor:
        file = cache_folder() / "pretrained" / f"{name}.safetensors"
        if file.is_file():
            try:
                return safetensors.torch.load_file(file)["weights"]
            except (safetensors.SafetensorError, KeyError, OSError):
                pass  # a damaged cache is made anew
        self.model.load(weights)
        pretrain(self.model, self.data, pooled, settings.training, settings.seed)
        found = self.model.weights.clone()
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(file, safetensors.torch.save({"weights": found}))
        except OSError:
            pass  # a cache that cannot be written costs time, not results
        return found

    def advance(self, runs: list[Run]) -> None:
        """Take every run one step further: into its next frame, or through its next round."""
        started = time.perf_counter()
        entering = [run for run in runs if run.state.round == 0 and not self._entered(run)]
        for run in entering:
            self._enter(run)
        running = [run for run in runs if run not in entering and not run.finished]
        facts = self._rounds(running)
        seconds = (time.perf_counter() - started) / max(1, len(running))
        for run, fact in zip(running, facts, strict=True):
            self._record(run, fact, seconds)
        for run in runs:
            self._leave_frame_if_done(run)

    def _entered(self, run: Run) -> bool:
        return any(r["frame"] == run.state.frame and r["round"] == 0 for r in run.records[-1:])

    def _rounds(self, runs: list[Run]) -> list[RoundFacts]:
        """Play one round of every run; what they ask at the same time is answered together."""
        rounds = [server_round(run.state, run.settings, run.rule, run.world, self.model.bits) for run in runs]
        asking: dict[int, Request] = {place: next(game) for place, game in enumerate(rounds)}
        facts: dict[int, RoundFacts] = {}
        while asking:
            places = list(asking)
            answers = self.runtime.exchange([(runs[place].clients, asking[place]) for place in places])
            asking = {}
            for place, answer in zip(places, answers, strict=True):
                self._send(place, rounds[place], answer, asking, facts)
        return [facts[place] for place in range(len(runs))]

    @staticmethod
    def _send(
        place: int, game: Any, answer: Answers, asking: dict[int, Request], facts: dict[int, RoundFacts]
    ) -> None:
        try:
            asking[place] = game.send(answer)
        except StopIteration as stop:
            facts[place] = stop.value

    def _enter(self, run: Run) -> None:
        """Start a frame: judge the model it begins with (k = 0)."""
        if not run.records:
            run.state.weights = self._starting_weights(run.settings, run.plan)
        run.best_loss, run.best_weights = float("inf"), None
        record: dict[str, Any] = {"frame": run.state.frame, "round": 0}
        self._judge(run, record)
        self._append(run, record, {"frame": run.state.frame, "round": 0})

    def _judge(self, run: Run, record: dict[str, Any]) -> None:
        """Add test accuracy (docs/paper.md D11) and, where the next frame needs it, F_l; keep the best model."""
        frame, evaluation = run.state.frame, run.settings.evaluation
        self.model.load(run.state.weights)
        accuracy = class_accuracy(self.model, self.data)
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
        if frame < run.last_frame or evaluation.loss_in_last_frame:
            pooled = np.concatenate(run.plan.frames[frame].held)
            rng = keyed_rng(run.settings.seed, "estimates", frame=frame, step=1)
            some = rng.permutation(pooled)[: evaluation.loss_samples]
            record["loss"] = training_loss(self.model, self.data, some)
            if record["loss"] < run.best_loss:
                run.best_loss, run.best_weights = record["loss"], run.state.weights.clone()

    def _record(self, run: Run, facts: RoundFacts, seconds: float) -> None:
        if not bool(torch.isfinite(run.state.weights).all()):
            raise InputError(
                f"{run.settings.name}, seed {run.settings.seed}: training diverged in frame {facts.frame}, round"
                f" {facts.round}: lower training.learning_rate={run.settings.training.learning_rate:g}"
            )
        new = run.plan.new_classes(facts.frame)
        clients, terms = facts.schedule.clients, facts.terms
        upload_s = [done - compute for done, compute in zip(facts.finish_s, facts.compute_s, strict=True)]
        radio = run.settings.radio
        record: dict[str, Any] = {
            "frame": facts.frame,
            "round": facts.round,
            "clients": list(clients),
            "scheduled_new": int(sum(new[n] for n in clients)),
            "bandwidth_hz": list(facts.schedule.bandwidth_hz),
            "compute_s": list(facts.compute_s),
            "finish_s": list(facts.finish_s),
            "round_s": facts.round_s,
            "uplink_bits": self.model.bits * len(clients),
            "energy_j": watts_from_dbm(radio.power_dbm) * sum(upload_s)
            + radio.compute_power_w * facts.all_compute_s,
            "gradient_std": facts.gradient_std,
            "class_norm": None if facts.class_norm is None else list(facts.class_norm),
            "objective": None
            if terms is None
            else {"variance": terms.variance, "divergence": terms.divergence, "drift": terms.drift}
            | {"drift_weight": terms.drift_weight, "total": terms.total},
            "failures": {str(n): why for n, why in facts.failures.items()},
        }
        last = facts.round == run.settings.rounds[facts.frame]
        if facts.round % run.settings.evaluation.every == 0 or last:
            self._judge(run, record)
        self._append(run, record, {"frame": facts.frame, "round": facts.round, "seconds": seconds})

    @staticmethod
    def _append(run: Run, record: dict[str, Any], timing: dict[str, Any]) -> None:
        run.records.append(record)
        if run.folder is not None:
            run.folder.append(record, timing)

    @staticmethod
    def _leave_frame_if_done(run: Run) -> None:
        """After a frame's last round, the best model of the frame starts the next (w̃_l)."""
        if run.finished or run.state.round < run.settings.rounds[run.state.frame]:
            return
        if run.state.frame == run.last_frame:
            run.finished = True
            return
        if run.best_weights is not None:
            run.state.weights, run.best_weights = run.best_weights, None
        if (
            not run.state.current_mix
        ):  # a frame without rounds had no reports; what was held then is the past now
            counts = run.plan.frames[run.state.frame].counts
            run.state.current_mix = {n: row / row.sum() for n, row in enumerate(counts)}
            run.state.classes_seen = run.state.classes_seen | (counts.sum(axis=0) > 0)
        run.state.enter_frame(run.state.frame + 1)


def cache_folder() -> Path:
    """Where pre-trained models are kept: $FEDTEDDI_CACHE, or the user's cache."""
    given = os.environ.get("FEDTEDDI_CACHE")
    if given:
        return Path(given)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "fedteddi"
