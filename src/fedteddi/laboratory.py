"""Runs, and the laboratory that advances any number of them round by round, together."""

import hashlib
import inspect
import json
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
import safetensors.torch
import torch
from torch import Tensor

from fedteddi.cache import cache_folder
from fedteddi.errors import InputError
from fedteddi.heterogeneity.mixes import pooled_mix
from fedteddi.learning.data import Dataset, load_dataset
from fedteddi.learning.devices import make_engine
from fedteddi.learning.flat import FlatModel
from fedteddi.learning.jobs import Probe
from fedteddi.learning.models import make_model
from fedteddi.learning.pretraining import pretraining_job
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

    def __init__(self, settings: Settings, data: Dataset | None = None, device: str = "cpu") -> None:
        self.data = data or load_dataset(settings.dataset)
        self.model = FlatModel(
            make_model(settings.training.model, self.data.image_shape, self.data.num_classes, settings.seed)
        )
        self.engine = make_engine(self.model, self.data, device, settings.training.precision)
        self.runtime = InProcess(self.engine, self.data)
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
            weights=self.engine.place(self._first_weights(settings)),
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

    def _pretrain(self, runs: list[Run]) -> None:
        """Give runs w̃_0, trained centrally on frame 0's data: one model per seed, cached, if they ask for it."""
        wanted: dict[str, Run] = {}
        names = {}
        for run in runs:
            if run.settings.training.pretrain_epochs:
                names[run] = self._pretrained_name(run)
                wanted.setdefault(names[run], run)
        missing = {
            name: run
            for name, run in wanted.items()
            if name not in self._pretrained_weights and not self._read_pretrained(name)
        }
        jobs = [
            pretraining_job(
                run.state.weights, _pooled_samples(run.plan), run.settings.training, run.settings.seed
            )
            for run in missing.values()
        ]
        for name, trained in zip(missing, self.engine.train(jobs), strict=True):
            self._pretrained_weights[name] = trained.weights.clone()
            self._keep_pretrained(name)
        for run, name in names.items():
            run.state.weights = self._pretrained_weights[name]

    def _pretrained_name(self, run: Run) -> str:
        """Return a checksum of all that a pre-trained model depends on."""
        training, samples = run.settings.training, _pooled_samples(run.plan)
        given = training.model_dump(include={"model", "augment", *PRETRAINING})
        machine = [torch.__version__, *([] if self.engine.name == "cpu" else [self.engine.name])]
        key = hashlib.sha256(json.dumps([given, run.settings.seed, *machine]).encode())
        key.update(repr(self.model.module).encode())
        if ":" in training.model:  # the user's code may change under the same name
            source = inspect.getsourcefile(load_object(training.model))
            key.update(Path(source).read_bytes() if source else b"")
        key.update(self.data.train_images[samples].numpy().tobytes())
        key.update(self.data.train_labels[samples].numpy().tobytes())
        key.update(run.state.weights.cpu().numpy().tobytes())
        return key.hexdigest()[:32]

    def _read_pretrained(self, name: str) -> bool:
        try:
            found = safetensors.torch.load_file(_pretrained_file(name))["weights"]
        except (safetensors.SafetensorError, KeyError, OSError):
            return False  # a damaged cache is made anew
        self._pretrained_weights[name] = self.engine.place(found)
        return True

    def _keep_pretrained(self, name: str) -> None:
        file, weights = _pretrained_file(name), self._pretrained_weights[name]
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(file, safetensors.torch.save({"weights": weights.cpu()}))
        except OSError:
            pass  # a cache that cannot be written costs time, not results

    def advance(self, runs: list[Run]) -> None:
        """Take every run one step further: into its next frame, or through its next round."""
        started = time.perf_counter()
        entering = [run for run in runs if run.state.round == 0 and not self._entered(run)]
        self._enter(entering)
        running = [run for run in runs if run not in entering and not run.finished]
        facts = self._rounds(running)
        records = [self._record(run, fact) for run, fact in zip(running, facts, strict=True)]
        self._judge(
            [
                (run, record)
                for run, record in zip(running, records, strict=True)
                if record["round"] % run.settings.evaluation.every == 0
                or record["round"] == run.settings.rounds[record["frame"]]
            ]
        )
        seconds = (time.perf_counter() - started) / max(1, len(running))
        for run, record in zip(running, records, strict=True):
            timing = {"frame": record["frame"], "round": record["round"], "seconds": seconds}
            self._append(run, record, timing)
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

    def _enter(self, runs: list[Run]) -> None:
        """Start a frame: judge the model it begins with (k = 0)."""
        self._pretrain([run for run in runs if not run.records])
        records: list[dict[str, Any]] = [{"frame": run.state.frame, "round": 0} for run in runs]
        for run in runs:
            run.best_loss, run.best_weights = float("inf"), None
        self._judge(list(zip(runs, records, strict=True)))
        for run, record in zip(runs, records, strict=True):
            self._append(run, record, {"frame": run.state.frame, "round": 0})

    def _judge(self, judged: list[tuple[Run, dict[str, Any]]]) -> None:
        """Add test accuracy (docs/paper.md D11) and, where the next frame needs it, F_l; keep the best model."""
        if not judged:
            return
        accuracies = self.engine.class_accuracy([run.state.weights for run, _ in judged])
        for (run, record), accuracy in zip(judged, accuracies, strict=True):
            self._add_accuracy(run, record, accuracy)
        probed = [
            (run, record)
            for run, record in judged
            if run.state.frame < run.last_frame or run.settings.evaluation.loss_in_last_frame
        ]
        losses = self.engine.losses([Probe(run.state.weights, self._loss_samples(run)) for run, _ in probed])
        for (run, record), loss in zip(probed, losses, strict=True):
            record["loss"] = loss
            if loss < run.best_loss:
                run.best_loss, run.best_weights = loss, run.state.weights.clone()

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

    def _record(self, run: Run, facts: RoundFacts) -> dict[str, Any]:
        if not bool(torch.isfinite(run.state.weights).all()):
            raise InputError(
                f"{run.settings.name}, seed {run.settings.seed}: training diverged in frame {facts.frame}, round"
                f" {facts.round}: lower training.learning_rate={run.settings.training.learning_rate:g}"
            )
        new = run.plan.new_classes(facts.frame)
        clients, terms = facts.schedule.clients, facts.terms
        upload_s = [done - compute for done, compute in zip(facts.finish_s, facts.compute_s, strict=True)]
        radio = run.settings.radio
        return {
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


def _pooled_samples(plan: Plan) -> np.ndarray:
    """Return frame 0's samples of all clients, each once."""
    return np.unique(np.concatenate(plan.frames[0].held))


def _pretrained_file(name: str) -> Path:
    return cache_folder() / "pretrained" / f"{name}.safetensors"
