"""An engine that keeps account of its time: training, estimates of reports, evaluation."""

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor

from fedteddi.learning.engine import ALL, Candidate, Engine, OnStep, Probe, Trained, TrainJob


class Timed:
    """Passes everything on to an engine; `seconds` says how long it worked, by purpose.

    Threads that share it take turns; how long one waits for its turn does not count.
    """

    def __init__(self, engine: Engine) -> None:
        self.engine, self.model = engine, engine.model
        self.name, self.together, self.device = engine.name, engine.together, engine.device
        self._turn = threading.RLock()
        self.seconds = {"training": 0.0, "estimates": 0.0, "evaluation": 0.0}

    @property
    def side_by_side(self) -> int:
        """How many jobs the engine can run at a time without a bit of them changing."""
        return self.engine.side_by_side

    def place(self, weights: Tensor) -> Tensor:
        """Bring weights to where the engine works."""
        return self.engine.place(weights)

    def train(self, jobs: Sequence[TrainJob], on_step: OnStep | None = None) -> list[Trained]:
        """Run the jobs."""
        with self._counting("training"):
            return self.engine.train(jobs, on_step)

    def train_apart(self, jobs: Sequence[TrainJob], on_step: OnStep | None = None) -> list[Trained]:
        """Run the jobs, each as if it were the only one."""
        with self._counting("training"):
            return self.engine.train_apart(jobs, on_step)

    def gradient_variances(self, probes: Sequence[Probe]) -> list[tuple[float, float]]:
        """Return the per-sample gradients' variance and the mean loss, for every probe."""
        with self._counting("estimates"):
            return self.engine.gradient_variances(probes)

    def losses(self, probes: Sequence[Probe]) -> list[float]:
        """Return the mean loss of every probe."""
        with self._counting("estimates"):
            return self.engine.losses(probes)

    def gradients(self, probes: Sequence[Probe]) -> list[Tensor]:
        """Return the gradient of the mean loss of every probe, [P]."""
        with self._counting("estimates"):
            return self.engine.gradients(probes)

    def gradient_norms(self, probes: Sequence[Probe], part: slice = ALL) -> list[float]:
        """Return the norm of every probe's gradient, summed over its images, in a part of the weights [P]."""
        with self._counting("estimates"):
            return self.engine.gradient_norms(probes, part)

    def class_accuracy(self, models: Sequence[Candidate]) -> np.ndarray:
        """Return the per-class test accuracy of every model, [models, C]."""
        with self._counting("evaluation"):
            return self.engine.class_accuracy(models)

    @contextmanager
    def own_stream(self) -> Iterator[None]:
        """Let a GPU do what this thread asks beside what others ask, until the end of this."""
        if self.device.type != "cuda":
            yield
            return
        torch.cuda.synchronize(self.device)  # what was asked before is there
        with torch.cuda.stream(torch.cuda.Stream(self.device)):  # type: ignore[no-untyped-call]
            try:
                yield
            finally:
                self._finish()

    def _finish(self) -> None:
        """Wait until a GPU has done what this thread asked."""
        if self.device.type == "cuda":
            torch.cuda.current_stream(self.device).synchronize()

    @contextmanager
    def _counting(self, purpose: str) -> Iterator[None]:
        with self._turn:
            start = time.perf_counter()
            try:
                yield
            finally:
                # A GPU works on after the call: its time belongs to this purpose, and whoever has the next turn, even
                # after an error, uses the same buffers.
                self._finish()
                self.seconds[purpose] += time.perf_counter() - start
