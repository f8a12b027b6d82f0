"""The engine for a GPU: the jobs of all runs as one batched program over stacked weights.

The programs (programs.py) are compiled for a few numbers of jobs only; longer lists are cut, shorter ones filled up
with copies, but for jobs of very many steps. If memory does not suffice, fewer jobs go at once, until other processes
give some back. It runs on a CPU too (tests do), only slower than one by one.
"""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from fedteddi.errors import InputError
from fedteddi.learning.datasets.dataset import Dataset
from fedteddi.learning.engine import NO_IMAGE, Candidate, OnStep, Probe, Trained, TrainJob
from fedteddi.learning.evaluation import share_right
from fedteddi.learning.flat import FlatModel
from fedteddi.learning.gpu.gradient_variance import Params
from fedteddi.learning.gpu.programs import Programs, Question
from fedteddi.learning.local_training import LocalTraining

AT_ONCE = (256, 64, 32, 16, 4, 1)  # numbers of jobs for which programs are made, each when it is first wanted
SMALLEST = 16  # fewer only of large batches, or for memory: compiling costs more than some idle rows
IMAGES_WORTH_FILLING = 512  # in a step of all jobs of a chunk: beyond, an idle row is no trifle
WORTH_FILLING = 0.7
# Share of a device's memory: if others hold that much less, as many jobs as at first are tried again. If they do not
# fit then, others must give back twice as much before the next try: processes do not take turns for ever.
MUCH_MEMORY = 0.05
MANY_STEPS = 1000  # of a job, which only pre-training has: then idle rows cost more than compiling
COPIES = 8  # of its weights that a running job holds: first, present and next ones, velocity, gradient, …
MEASURED_AT_ONCE = 64  # models, where they are not trained
IMAGES_AT_ONCE = 256  # of one model, where only its answers are wanted
Item = TypeVar("Item")


class Stacked:
    """Trains and measures models of one shape on one data set, many at a time."""

    together, side_by_side = True, 1

    def __init__(
        self, model: FlatModel, data: Dataset, device: str, precision: str = "float32", compiled: bool = True
    ) -> None:
        self.model, self.device = model, torch.device(device)
        made_by = torch.cuda.get_device_name(self.device) if self.device.type == "cuda" else self.device.type
        self.name = f"{made_by}, {precision}"
        self.tf32 = precision != "float32"
        dtype = torch.bfloat16 if precision == "bf16" else torch.float32
        self.programs = Programs(model, data, self.device, dtype, compiled)
        self.at_once = self.most_at_once = jobs_at_once(4 * len(model.weights), memory_bytes(self.device))
        self.others_held = 0.0  # share of the memory that other processes had when there was too little of it
        # How much less they must hold for another try; each miss doubles it, the first included.
        self.worth_trying = MUCH_MEMORY / 2
        self.test_labels, self.num_classes = data.test_labels.numpy(), data.num_classes

    def place(self, weights: Tensor) -> Tensor:
        """Bring weights to the device."""
        return weights.to(self.device)

    def train(self, jobs: Sequence[TrainJob], on_step: OnStep | None = None) -> list[Trained]:
        """Run the jobs: those of one shape and rule together."""
        found: dict[int, Trained] = {}
        groups: dict[Any, list[int]] = {}
        for index, job in enumerate(jobs):
            groups.setdefault((job.samples.shape, _key(job.rule)), []).append(index)
        for (shape, _), indices in groups.items():
            alike = [jobs[index] for index in indices]
            fewest = 0 if shape[0] >= MANY_STEPS else fewest_jobs(shape[1])
            done = self._in_chunks(alike, lambda chunk: self._train_chunk(chunk, on_step), fewest=fewest)
            ends = [
                Trained(*end)
                for ended, losses, moved in done
                for end in zip(ended, losses.tolist(), moved.tolist(), strict=True)
            ]
            found |= dict(zip(indices, ends, strict=False))  # what filled a chunk up is left out
        return [found[index] for index in range(len(jobs))]

    def gradient_variances(self, probes: Sequence[Probe]) -> list[tuple[float, float]]:
        """Return the per-sample gradients' variance and the mean loss, for every probe."""
        if not probes:
            return []
        width = len(probes[0].samples)
        if any(len(probe.samples) != width for probe in probes):
            raise ValueError("the variance is taken over batches of one size")

        def measure(chunk: list[Probe]) -> Tensor:
            spread = self.programs.spread(self._params(chunk), self._question(chunk, width))
            return torch.stack(spread, dim=1)

        return [(variance, loss) for variance, loss in self._rows(probes, measure).tolist()]

    def losses(self, probes: Sequence[Probe]) -> list[float]:
        """Return the mean loss of every probe; those with many images piece by piece."""
        width = min(max((len(p.samples) for p in probes), default=1), IMAGES_AT_ONCE)
        cuts = [
            (index, slice(start, start + width))
            for index, p in enumerate(probes)
            for start in range(0, len(p.samples), width)
        ]
        pieces = [_part(probes[index], cut) for index, cut in cuts]

        def measure(chunk: list[Probe]) -> Tensor:
            return self.programs.mean_losses(self._params(chunk), self._question(chunk, width))

        totals = np.zeros(len(probes))
        values = self._rows(pieces, measure).tolist() if pieces else []
        for (index, _), piece, value in zip(cuts, pieces, values, strict=True):
            totals[index] += value * len(piece.samples)
        return [float(t / len(p.samples)) for t, p in zip(totals, probes, strict=True)]

    def gradients(self, probes: Sequence[Probe]) -> list[Tensor]:
        """Return the gradient of the mean loss of every probe, [P]."""
        width = max((len(p.samples) for p in probes), default=1)

        def measure(chunk: list[Probe]) -> Tensor:
            found, _ = self.programs.loss_gradients(self._params(chunk), self._question(chunk, width))
            return self.programs.flat(found)

        # Not `_rows`, which would hold all of them twice.
        chunks = self._in_chunks(list(probes), measure, MEASURED_AT_ONCE)
        return [row for chunk in chunks for row in chunk]

    def class_accuracy(self, models: Sequence[Candidate]) -> np.ndarray:
        """Return the per-class test accuracy of every model, [models, C]."""

        def measure(chunk: list[Candidate]) -> Tensor:
            params, outputs = self._params(chunk), self._outputs(chunk)
            right = torch.zeros(len(chunk), self.num_classes, device=self.device)
            for start in range(0, len(self.test_labels), IMAGES_AT_ONCE):
                part = torch.arange(start, start + IMAGES_AT_ONCE, device=self.device)
                samples = torch.where(part < len(self.test_labels), part, NO_IMAGE)
                right += self.programs.right(params, samples, outputs)
            return right

        return share_right(self._rows(models, measure).double().cpu().numpy(), self.test_labels)

    def _rows(self, items: Sequence[Item], work: Callable[[list[Item]], Tensor]) -> Tensor:
        """Return what the work gives for every item, [items, …]; at least one item."""
        return torch.cat(self._in_chunks(list(items), work, MEASURED_AT_ONCE))

    def _in_chunks(
        self, items: list[Item], work: Callable[[list[Item]], Any], most: int = AT_ONCE[0], *, fewest: int = 0
    ) -> list[Any]:
        """Work through a list in chunks; smaller ones if memory does not do.

        For compiled work, which names the fewest jobs of a chunk, there are few sizes, and the last one is filled up.
        """
        done, start = [], 0
        narrowed = self.at_once < self.most_at_once
        if narrowed and self.others_held - held_by_others(self.device) > self.worth_trying:
            self.at_once = self.most_at_once
        while start < len(items):
            size, left = min(self.at_once, most), len(items) - start
            long = len(items) > AT_ONCE[0]
            size = chunk_size(left, size, fewest, long=long) if fewest else min(size, left)
            chunk = items[start : start + size]
            try:
                with _tf32(self.tf32):
                    done.append(work(chunk + chunk[:1] * (size - len(chunk))))
            except torch.OutOfMemoryError:
                if size == 1:
                    raise InputError(
                        f"one job does not fit into the memory of {self.device}: use smaller batches"
                    ) from None
                if self.at_once == self.most_at_once:
                    self.worth_trying *= 2
                self.at_once = next(fewer for fewer in AT_ONCE if fewer < size)
                torch.cuda.empty_cache()
                self.others_held = held_by_others(self.device)
                continue
            start += size
        return done

    def _train_chunk(
        self, jobs: list[TrainJob], on_step: OnStep | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Run jobs of one shape; nothing waits for the device here, so a step may be reported some ahead of it."""
        started = torch.stack([self.place(job.weights) for job in jobs])
        params = start = self.programs.params(started)
        velocity = tuple(torch.zeros_like(p) for p in params)
        samples = self._sent(np.stack([job.samples for job in jobs]))  # [jobs, τ, b]
        views = None
        if any(job.views is not None for job in jobs):  # view 0 is the image as it is
            plain = np.zeros(jobs[0].samples.shape, dtype=bool)
            views = self._sent(np.stack([plain if job.views is None else job.views for job in jobs]))
        outputs = self._outputs(jobs)
        keys = self._sent(np.stack([job.dropout_keys for job in jobs]))  # [jobs, τ, 2]
        steps = jobs[0].samples.shape[0]
        rates = self._sent(np.stack([np.broadcast_to(np.float32(job.learning_rate), steps) for job in jobs]))
        steady = np.array([(job.momentum, job.weight_decay) for job in jobs], dtype=np.float32)
        momentum, decay = (self._sent(column) for column in steady.T)
        total = torch.zeros(len(jobs), device=self.device)
        for step in range(steps):
            question = Question(samples[:, step], None if views is None else views[:, step], outputs)
            pace = (rates[:, step], momentum, decay)
            params, velocity, losses = self.programs.step(
                params, velocity, question, keys[:, step], pace, jobs[0].rule, start
            )
            total += losses
            if on_step is not None:
                on_step(step + 1)
        ended = self.programs.flat(params)
        moved = torch.linalg.vector_norm(ended - started, dim=1, dtype=torch.float64)
        return ended, total / steps, moved

    def _question(self, probes: list[Probe], width: int) -> Question:
        """Put probes side by side; rows with fewer images are filled up with NO_IMAGE."""
        samples = np.full((len(probes), width), NO_IMAGE, dtype=np.int64)
        given = [probe.views for probe in probes if probe.views is not None]
        views = np.zeros((len(probes), width), dtype=np.result_type(bool, *given))
        for row, probe in enumerate(probes):
            samples[row, : len(probe.samples)] = probe.samples
            if probe.views is not None:
                views[row, : len(probe.samples)] = probe.views
        return Question(self._sent(samples), self._sent(views) if given else None, self._outputs(probes))

    def _outputs(self, asked: Sequence[TrainJob | Probe | Candidate]) -> Tensor | None:
        """Return the outputs of every model, [jobs, C]; None if all have all."""
        if all(one.outputs is None for one in asked):
            return None
        every = np.ones(self.num_classes, dtype=bool)
        return self._sent(np.stack([every if one.outputs is None else one.outputs for one in asked]))

    def _params(self, asked: Sequence[Probe | Candidate]) -> Params:
        return self.programs.params(torch.stack([self.place(one.weights) for one in asked]))

    def _sent(self, array: np.ndarray) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(array)).to(self.device, non_blocking=True)


def held_by_others(device: torch.device) -> float:
    """Return the share of a GPU's memory that is neither free nor in our tensors: what other processes hold, mostly."""
    if device.type != "cuda":
        return 0.0
    free_bytes, total_bytes = torch.cuda.mem_get_info(device)
    return 1 - (free_bytes + torch.cuda.memory_reserved(device)) / total_bytes


def memory_bytes(device: torch.device) -> float:
    """Return how much memory a GPU has; a CPU's is no limit here."""
    return torch.cuda.get_device_properties(device).total_memory if device.type == "cuda" else np.inf


def jobs_at_once(weight_bytes: int, device_bytes: float) -> int:
    """Return the most jobs whose weights take half of a device's memory; images and their values take the rest.

    A larger number would be compiled first and found not to fit then; if this one does not fit, it is taken back.
    """
    return next((jobs for jobs in AT_ONCE if COPIES * weight_bytes * jobs <= device_bytes / 2), AT_ONCE[-1])


def fewest_jobs(batch: int) -> int:
    """Return the fewest jobs that are worth a program: of large batches, fewer."""
    return next((jobs for jobs in AT_ONCE if jobs <= SMALLEST and jobs * batch <= IMAGES_WORTH_FILLING), 1)


def chunk_size(left: int, most: int, fewest: int = SMALLEST, *, long: bool = False) -> int:
    """Return how many jobs to take next: the largest size that they mostly fill, else the smallest worth compiling.

    The rest of a long list is not worth a program for few jobs.
    """
    smallest = min(most, max(fewest, most // 4) if long else fewest)
    for size in AT_ONCE:
        if smallest <= size <= most and left >= WORTH_FILLING * size:
            return size
    return smallest


def _key(rule: LocalTraining | None) -> Any:
    """Return what equal rules have in common; a user's rule may have no hash, and is only like itself then."""
    return rule if rule is None or type(rule).__hash__ is not None else id(rule)


def _part(probe: Probe, cut: slice) -> Probe:
    views = None if probe.views is None else probe.views[cut]
    return replace(probe, samples=probe.samples[cut], views=views)


@contextlib.contextmanager
def _tf32(allowed: bool) -> Iterator[None]:
    """Let matrix products round their inputs to TF32, or not, while active."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high" if allowed else "highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)
