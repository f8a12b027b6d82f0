"""The engine for a CPU: every job and probe on one thread, as many side by side as there are threads.

So no bit depends on the number of threads, and a busy neighbour holds up one job, not every operation of all of them.
"""

import copy
import math
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from queue import SimpleQueue
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from fedteddi.learning.datasets.dataset import Dataset
from fedteddi.learning.engine import ALL, Candidate, OnStep, Probe, Trained, TrainJob
from fedteddi.learning.evaluation import classified, pieces, share_right
from fedteddi.learning.flat import FlatModel
from fedteddi.learning.statistics import class_gradient, gradient_variance, loss_sum
from fedteddi.learning.training import train_one

Item = TypeVar("Item")
Found = TypeVar("Found")
POLL_S = 0.1  # how often `on_step` is called while jobs run side by side
CONTAINER = Path("/sys/fs/cgroup/cpu.max")
MOST_THREADS = 16  # a cautious limit, since Python runs one thread at a time; more than 2 were not measured


def usable_threads() -> int:
    """Return how many threads are worth starting here: one for each core that this process may use, up to a limit.

    OMP_NUM_THREADS lowers it, as it does with PyTorch.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    with suppress(OSError, ValueError):  # no container, or no limit
        quota, period = CONTAINER.read_text(encoding="utf-8").split()
        cores = min(cores, max(1, round(int(quota) / int(period))))
    wanted = os.environ.get("OMP_NUM_THREADS", "")
    return min(cores, MOST_THREADS, max(1, int(wanted)) if wanted.isdecimal() else MOST_THREADS)


class SideBySide:
    """Trains and measures models of one shape on one data set.

    So many `threads` work at a time. None: jobs go one after another, each on as many threads as PyTorch is set to.
    """

    name, together, device = "cpu", False, torch.device("cpu")

    def __init__(self, model: FlatModel, data: Dataset, threads: int | None = 1) -> None:
        self.model, self.data = model, data
        self.threads, self.side_by_side = threads, threads or 1
        self._draws = False  # whether training has drawn from PyTorch's generator
        self._tested: list[tuple[Candidate, np.ndarray]] = []  # lately: runs of a seed start from one model
        self._pool: ThreadPoolExecutor | None = None
        self._idle: SimpleQueue[FlatModel] = SimpleQueue()  # models that no thread works with now

    def place(self, weights: Tensor) -> Tensor:
        """Bring weights to the CPU."""
        return weights.cpu()

    def train(self, jobs: Sequence[TrainJob], on_step: OnStep | None = None) -> list[Trained]:
        """Run the jobs; `on_step` is called by the thread that asks.

        PyTorch's generator is one for all threads. So if anything drew from it, the jobs are run again, in turn and
        each with its own seed, and so are all that follow.
        """
        if not self._draws:
            before = torch.get_rng_state()
            done = self._train_side_by_side(jobs, on_step)
            self._draws = not torch.equal(before, torch.get_rng_state())
            if not self._draws:
                return done
            torch.set_rng_state(before)

        def seeded(model: FlatModel, job: TrainJob) -> Trained:
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(int(job.dropout_keys[0, 0]) + 2**31)
                return train_one(job, model, self.data, on_step)

        return self._in_turn(seeded, jobs)

    train_apart = train  # no job depends on others here

    def _train_side_by_side(self, jobs: Sequence[TrainJob], on_step: OnStep | None) -> list[Trained]:
        taken, stopped, asking = [0] * len(jobs), threading.Event(), threading.get_ident()

        def work(model: FlatModel, index: int) -> Trained:
            def count(step: int) -> None:
                taken[index] = step
                if stopped.is_set():
                    raise InterruptedError("nobody waits for this job any more")
                if on_step is not None and threading.get_ident() == asking:
                    on_step(step)

            return train_one(jobs[index], model, self.data, count)

        def watch(futures: list[Future[Trained]]) -> None:
            longest, working = max(len(job.samples) for job in jobs), True
            while on_step is not None and working:
                working = bool(wait(futures, POLL_S).not_done)
                on_step(longest - max(len(job.samples) - own for job, own in zip(jobs, taken, strict=True)))

        try:
            return self._each(work, range(len(jobs)), watch)
        finally:
            stopped.set()

    def gradient_variances(self, probes: Sequence[Probe]) -> list[tuple[float, float]]:
        """Return the per-sample gradients' variance and the mean loss, for every probe."""

        def work(model: FlatModel, probe: Probe) -> tuple[float, float]:
            return gradient_variance(model, *self._batch(model, probe))

        if self.model.shortcuts is None:  # the first probe finds out, for all threads
            return self._in_turn(work, probes[:1]) + (self._each(work, probes[1:]) if len(probes) > 1 else [])
        return self._each(work, probes)

    def losses(self, probes: Sequence[Probe]) -> list[float]:
        """Return the mean loss of every probe."""
        parts = [(index, part) for index, probe in enumerate(probes) for part in _in_pieces(probe)]

        def work(model: FlatModel, part: tuple[int, Probe]) -> float:
            return loss_sum(model, *self._batch(model, part[1]))

        sums = np.zeros(len(probes))
        for (index, _), found in zip(parts, self._each(work, parts), strict=True):
            sums[index] += found
        return [float(total) / len(probe.samples) for total, probe in zip(sums, probes, strict=True)]

    def gradients(self, probes: Sequence[Probe]) -> list[Tensor]:
        """Return the gradient of the mean loss of every probe, [P]."""

        def work(model: FlatModel, probe: Probe) -> Tensor:
            return class_gradient(model, *self._batch(model, probe))

        return self._each(work, probes)

    def gradient_norms(self, probes: Sequence[Probe], part: slice = ALL) -> list[float]:
        """Return the norm of every probe's gradient, summed over its images, in a part of the weights [P]."""

        def work(model: FlatModel, probe: Probe) -> float:
            row = class_gradient(model, *self._batch(model, probe))[part] * float(len(probe.samples))
            return math.sqrt(float((row * row).sum()))

        return self._each(work, probes)

    def class_accuracy(self, models: Sequence[Candidate]) -> np.ndarray:
        """Return the per-class test accuracy of every model, [models, C]."""
        return np.stack([self._accuracy(model) for model in models])

    def _accuracy(self, candidate: Candidate) -> np.ndarray:
        for known, accuracy in self._tested:  # weights are never changed in place
            if known.weights is candidate.weights and _equal(known.outputs, candidate.outputs):
                return accuracy

        def work(model: FlatModel, piece: slice) -> np.ndarray:
            model.load(candidate.weights, candidate.outputs)
            return classified(model, self.data, piece)

        labels = self.data.test_labels.numpy()
        guesses = np.concatenate(self._each(work, pieces(len(labels))))
        right = np.bincount(labels, weights=guesses == labels, minlength=self.data.num_classes)
        self._tested = [*self._tested[-7:], (candidate, share_right(right, labels))]
        return self._tested[-1][1]

    def _batch(self, model: FlatModel, probe: Probe) -> tuple[Tensor, Tensor]:
        model.load(probe.weights, probe.outputs)
        return self.data.training_batch(probe.samples, probe.views)

    def _in_turn(self, work: Callable[[FlatModel, Item], Found], items: Sequence[Item]) -> list[Found]:
        """Do the work on items in this thread."""
        with one_thread(self.threads is not None):
            return [work(self.model, item) for item in items]

    def _each(
        self,
        work: Callable[[FlatModel, Item], Found],
        items: Sequence[Item],
        watch: Callable[[list[Future[Found]]], None] = lambda _: None,
    ) -> list[Found]:
        """Do the work on items, as many at a time as there are threads, each with a model of its own."""
        pool = None if self.side_by_side == 1 or len(items) < 2 else self._started()
        if pool is None:
            return self._in_turn(work, items)

        def lent(item: Item) -> Found:
            model = self._idle.get()
            try:
                model.shortcuts = self.model.shortcuts
                return work(model, item)
            finally:
                self._idle.put(model)

        with one_thread():
            futures = [pool.submit(lent, item) for item in items]
            try:
                watch(futures)
                return [future.result() for future in futures]
            finally:
                for future in futures:
                    future.cancel()

    def _stands_alone(self, other: FlatModel) -> bool:
        """Tell whether a copy computes with its own weights: a function inside a model still calls the original."""
        few = self.data.training_batch(np.arange(min(4, len(self.data.train_labels))))
        weights, found = self.model.weights.clone(), []
        with one_thread():
            for model in (self.model, other):
                model.module.eval()
                model.load(weights)
                loss, gradient = model.loss_gradient(*few)
                found.append((loss, gradient.clone()))
                self.model.load(weights + 1)
                self.model.gradient.zero_()
        self.model.load(weights)
        return found[0][0] == found[1][0] and torch.equal(found[0][1], found[1][1])

    def _started(self) -> ThreadPoolExecutor | None:
        """Return the threads, each with a model to work with; nothing if the user's model has no true copy."""
        if self._pool is None:
            try:
                models = [FlatModel(copy.deepcopy(self.model.module)) for _ in range(self.side_by_side)]
            except Exception:  # whatever a module holds that has no copy, such as a lock
                models = []
            if not models or not self._stands_alone(models[0]):
                self.side_by_side = 1
                return None
            for model in models:
                self._idle.put(model)
            self._pool = ThreadPoolExecutor(self.side_by_side, "fedteddi", torch.set_num_threads, (1,))
        return self._pool


@contextmanager
def one_thread(limited: bool = True) -> Iterator[None]:
    """Keep PyTorch's operations to one thread meanwhile, if they are to be limited."""
    before = torch.get_num_threads()
    if not limited or before == 1:
        yield
        return
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _in_pieces(probe: Probe) -> list[Probe]:
    if len(found := pieces(len(probe.samples))) == 1:
        return [probe]
    views = probe.views
    return [
        replace(probe, samples=probe.samples[p], views=None if views is None else views[p]) for p in found
    ]


def _equal(one: np.ndarray | None, other: np.ndarray | None) -> bool:
    return one is other or (one is not None and other is not None and np.array_equal(one, other))
