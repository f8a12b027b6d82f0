"""Models pre-trained on frame 0's classes: one per seed, kept in the user's cache."""

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import safetensors
import safetensors.torch
import torch
from torch import Tensor

from fedteddi.cache import cache_folder
from fedteddi.learning.datasets.dataset import Dataset
from fedteddi.learning.engine import Engine
from fedteddi.learning.models import MODELS
from fedteddi.learning.pretraining import pretraining_job
from fedteddi.registry import source
from fedteddi.results.folder import write_atomically
from fedteddi.simulation.run import Run

# What a pre-trained model depends on, besides the model, the data and the seed.
SETTINGS = {
    f"pretrain_{part}" for part in ("epochs", "learning_rate", "momentum", "weight_decay", "batch_size")
}

VERSION = (
    4  # raised with every change of how pre-training draws or rounds: a cache of older models is not used
)


@dataclass(frozen=True)
class Pretraining:
    """How far the pre-training of one seed's model is."""

    seed: int
    step: int
    steps: int
    epochs: int

    @property
    def epoch(self) -> int:
        """The epoch in which its last step was, from 1."""
        return -(-self.step * self.epochs // self.steps)


OnPretraining = Callable[[Pretraining], None]


class Pretrained:
    """w̃_0 of the runs that share an engine and a data set."""

    def __init__(self, engine: Engine, data: Dataset) -> None:
        self.engine, self.data = engine, data
        self._weights: dict[str, Tensor] = {}

    def weights(self, runs: list[Run], tell: OnPretraining | None = None) -> list[Tensor]:
        """Return every run's first model: trained centrally on frame 0's classes if it asks for it.

        Each is trained as if it were the only one: else a model would depend, by rounding that training magnifies, on
        which others are trained beside it, and parts of a study that are played apart would begin with different ones.
        `tell` hears of every step.
        """
        names = [self._name(run) if run.settings.training.pretrain_epochs else "" for run in runs]
        missing = {
            name: run
            for name, run in zip(names, runs, strict=True)
            if name and name not in self._weights and not self._read(name)
        }
        for name, weights in zip(missing, self._trained(list(missing.values()), tell), strict=True):
            self._weights[name] = weights
            self._keep(name)
        return [
            self._weights[name] if name else run.state.weights for name, run in zip(names, runs, strict=True)
        ]

    def _trained(self, runs: list[Run], tell: OnPretraining | None) -> list[Tensor]:
        if not runs:
            return []
        jobs = [
            pretraining_job(
                run.state.weights,
                self._samples(run),
                run.settings.training,
                run.settings.seed,
                run.clients.outputs(0),
            )
            for run in runs
        ]
        slowest = max(range(len(runs)), key=lambda index: len(jobs[index].samples))
        settings, steps = runs[slowest].settings, len(jobs[slowest].samples)

        def on_step(step: int) -> None:
            if tell is not None:
                tell(Pretraining(settings.seed, step, steps, settings.training.pretrain_epochs))

        done = self.engine.train_apart(jobs, on_step)
        return [self._opened(run, trained.weights) for run, trained in zip(runs, done, strict=True)]

    def _opened(self, run: Run, weights: Tensor) -> Tensor:
        """Let outputs that are yet to come enter as they were made: weight decay has shrunk them meanwhile."""
        outputs = run.clients.outputs(0)
        if outputs is None:
            return weights.clone()
        closed = self.engine.place(self.engine.model.of_outputs(~outputs))
        return torch.where(closed, run.state.weights, weights)

    def _samples(self, run: Run) -> np.ndarray:
        """Return what a model is pre-trained on, each image once: all of frame 0's classes, or what clients hold."""
        if run.settings.training.pretrain_data == "held":
            return np.unique(np.concatenate(run.plan.frames[0].held))
        return np.flatnonzero(run.plan.classes_seen(0)[self.data.train_labels.numpy()])

    def _name(self, run: Run) -> str:
        """Return a checksum of all that a pre-trained model depends on."""
        training, samples = run.settings.training, self._samples(run)
        given = training.model_dump(include={"model", "augment", "head", *SETTINGS})
        machine = [VERSION, torch.__version__, *([] if self.engine.name == "cpu" else [self.engine.name])]
        key = hashlib.sha256(json.dumps([given, run.settings.seed, *machine]).encode())
        key.update(repr(self.engine.model.module).encode())
        if own := source(MODELS, training.model):  # the user's code may change under the same name
            key.update(own)
        key.update(self.data.train_images[samples].numpy().tobytes())
        key.update(self.data.train_labels[samples].numpy().tobytes())
        key.update(self.data.scale_bytes)
        key.update(run.state.weights.cpu().numpy().tobytes())
        return key.hexdigest()[:32]

    def _read(self, name: str) -> bool:
        try:
            found = safetensors.torch.load_file(_file(name))["weights"]
        except (safetensors.SafetensorError, KeyError, OSError):
            return False  # a damaged cache is made anew
        self._weights[name] = self.engine.place(found)
        return True

    def _keep(self, name: str) -> None:
        try:
            _file(name).parent.mkdir(parents=True, exist_ok=True)
            write_atomically(_file(name), safetensors.torch.save({"weights": self._weights[name].cpu()}))
        except OSError:
            pass  # a cache that cannot be written costs time, not results


def _file(name: str) -> Path:
    return cache_folder() / "pretrained" / f"{name}.safetensors"
