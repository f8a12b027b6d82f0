"""The engine for a GPU: the jobs of all runs as one batched program over stacked weights.

Long lists of jobs are cut, and their numbers rounded up with copies, so that captured steps (training.py) fit again.
Probes of one model share its weights (sheets.py). If memory does not suffice, fewer go at once, until other processes
give some back. It runs on a CPU too (tests do), only slower than one by one.
"""

import contextlib
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from fedteddi.errors import InputError
from fedteddi.learning.datasets.dataset import Dataset
from fedteddi.learning.engine import ALL, NO_IMAGE, Candidate, OnStep, Probe, Trained, TrainJob
from fedteddi.learning.evaluation import share_right
from fedteddi.learning.flat import FlatModel
from fedteddi.learning.gpu.gradient_norms import Params
from fedteddi.learning.gpu.programs import Programs, Question
from fedteddi.learning.gpu.sheets import Sheet, images_of, sheets_of
from fedteddi.learning.gpu.training import Ends, Stretches, rule_key, sent
from fedteddi.learning.sample_norms import squares

AT_ONCE = (256, 64, 32, 16, 4, 1)  # jobs at a time; fewer if memory does not suffice
BATCH = 32  # images of a job, by which AT_ONCE is meant: of larger batches, fewer jobs go at a time
GRAIN = 8  # numbers of jobs are rounded up to multiples of it: a step is captured for each number
IMAGES_WORTH_FILLING = 256  # in a step of so many jobs: beyond, an idle row is no trifle
# Share of a device's memory: if others hold that much less, as many jobs as at first are tried again. If they do not
# fit then, others must give back twice as much before the next try: processes do not take turns for ever.
MUCH_MEMORY = 0.05
APART = 8  # jobs under way at a time, where each is to be trained as if it were the only one
COPIES = 8  # of its weights that a running job holds: first, present and next ones, velocity, gradient, …
IMAGES_AT_ONCE = 256  # of one model, where only its answers are wanted
Item = TypeVar("Item")
Measure = Callable[[list[Sheet], Question], Tensor]


class Stacked:
    """Trains and measures models of one shape on one data set, many at a time."""

    together, side_by_side = True, 1

    def __init__(self, model: FlatModel, data: Dataset, device: str, precision: str = "float32") -> None:
        self.model, self.device = model, torch.device(device)
        made_by = torch.cuda.get_device_name(self.device) if self.device.type == "cuda" else self.device.type
        self.name = f"{made_by}, {precision}"
        self.tf32 = precision != "float32"
        dtype = torch.bfloat16 if precision == "bf16" else torch.float32
        self.programs = Programs(model, data, self.device, dtype)
        self.stretches = Stretches(self.programs)
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
            groups.setdefault((job.samples.shape, rule_key(job.rule)), []).append(index)
        for ((_, width), _), indices in groups.items():
            done = self._in_chunks(
                [jobs[index] for index in indices],
                lambda chunk: self._train_chunk(chunk, on_step),
                width,
                grain=grain_of(width),
            )
            ends = [
                Trained(*end)
                for ended, losses, moved in done
                for end in zip(ended, losses.tolist(), moved.tolist(), strict=True)
            ]
            found |= dict(zip(indices, ends, strict=False))  # what filled a chunk up is left out
        return [found[index] for index in range(len(jobs))]

    def train_apart(self, jobs: Sequence[TrainJob], on_step: OnStep | None = None) -> list[Trained]:
        """Run the jobs, each as if it were the only one; a GPU has some under way at a time."""
        done: list[Trained] = []
        while len(done) < len(jobs):
            narrow = self.stretches.capturing < self.stretches.on_gpu  # memory is short
            some = jobs[len(done) : len(done) + (1 if narrow else APART)]
            try:
                with self._at_work():
                    ends = self.stretches.run_apart(some, on_step)
            except torch.OutOfMemoryError:
                self._make_room(len(some), BATCH)
                continue
            done += [Trained(ended[0], losses.item(), moved.item()) for ended, losses, moved in ends]
        return done

    def _train_chunk(self, jobs: list[TrainJob], on_step: OnStep | None) -> Ends:
        return self.stretches.run(jobs, on_step)

    def gradient_variances(self, probes: Sequence[Probe]) -> list[tuple[float, float]]:
        """Return the per-sample gradients' variance and the mean loss, for every probe."""
        width = _longest(probes)
        if any(len(probe.samples) != width for probe in probes):
            raise ValueError("the variance is taken over batches of one size")

        def measure(sheets: list[Sheet], question: Question) -> Tensor:
            found, losses = self.programs.gradient_squares(self._params(sheets), question, width, each=True)
            spread = found.of_images.view(-1, width).sum(dim=1) - found.of_sums / width
            variances = spread.clamp(min=0) / (width - 1)
            return torch.stack([variances, losses.view(-1, width).mean(dim=1)], dim=1)

        return [(variance, loss) for ((variance, loss),) in self._by_row(probes, width, measure)]

    def losses(self, probes: Sequence[Probe]) -> list[float]:
        """Return the mean loss of every probe; those with many images piece by piece."""
        width = min(_longest(probes), IMAGES_AT_ONCE)

        def measure(sheets: list[Sheet], question: Question) -> Tensor:
            return self.programs.image_losses(self._params(sheets), question).view(-1, width).sum(dim=1)

        rows = self._by_row(probes, width, measure)
        return [sum(parts) / len(probe.samples) for parts, probe in zip(rows, probes, strict=True)]

    def gradient_norms(self, probes: Sequence[Probe], part: slice = ALL) -> list[float]:
        """Return ‖Σ_i g_i‖ over the images of every probe, of a part of the weights [P]."""
        width = _longest(probes)
        if part != ALL:
            chunks = self._in_chunks(
                list(probes), lambda some: squares(self._gradients(some, width)[:, part]), width
            )
            means = [square for chunk in chunks for square in chunk.tolist()]
            return [math.sqrt(m) * len(probe.samples) for m, probe in zip(means, probes, strict=True)]

        def measure(sheets: list[Sheet], question: Question) -> Tensor:
            return self.programs.gradient_squares(self._params(sheets), question, width, each=False)[
                0
            ].of_sums

        return [math.sqrt(square) for (square,) in self._by_row(probes, width, measure)]

    def gradients(self, probes: Sequence[Probe]) -> list[Tensor]:
        """Return the gradient of the mean loss of every probe, [P]."""
        width = _longest(probes)
        chunks = self._in_chunks(list(probes), lambda some: self._gradients(some, width), width)
        return [row for chunk in chunks for row in chunk]

    def _gradients(self, probes: list[Probe], width: int) -> Tensor:
        sheets = [Sheet(probe.weights, probe.outputs, [(0, probe)]) for probe in probes]
        found, _ = self.programs.loss_gradients(self._params(sheets), self._question(sheets, width, 1))
        return self.programs.layout.flat(found)

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

        right = torch.cat(self._in_chunks(list(models), measure, IMAGES_AT_ONCE))
        return share_right(right.double().cpu().numpy(), self.test_labels)

    def _by_row(self, probes: Sequence[Probe], width: int, measure: Measure) -> list[list[Any]]:
        """Return what is measured of every probe's rows: [probes, its rows, …]."""
        found: list[list[Any]] = [[] for _ in probes]
        if not probes:
            return found
        sheets = sheets_of(probes, width)
        height = max(len(sheet.rows) for sheet in sheets)

        def work(chunk: list[Sheet]) -> Tensor:
            return measure(chunk, self._question(chunk, width, height))

        rows = torch.cat(self._in_chunks(sheets, work, width * height)).tolist()
        for page, sheet in enumerate(sheets):
            own = rows[page * height : (page + 1) * height]
            for (index, _), row in zip(sheet.rows, own, strict=False):  # what filled a sheet up is left out
                found[index].append(row)
        return found

    def _in_chunks(
        self, items: list[Item], work: Callable[[list[Item]], Any], images: int, *, grain: int = 0
    ) -> list[Any]:
        """Work through items of so many images each in chunks; smaller ones if memory does not do.

        With a grain, the last chunk is filled up to a multiple of it with copies of its first item.
        """
        done, start = [], 0
        self._try_as_many_as_at_first()
        while start < len(items):
            size, left = self._most(images), len(items) - start
            size = min(size, -(-left // grain) * grain if grain else left)
            chunk = items[start : start + size]
            try:
                with self._at_work():
                    done.append(work(chunk + chunk[:1] * (size - len(chunk))))
            except torch.OutOfMemoryError:
                self._make_room(size, images)
                continue
            start += size
        return done

    @contextlib.contextmanager
    def _at_work(self) -> Iterator[None]:
        """Meanwhile kernels go to the engine's device, and matrix products may round their inputs to TF32, or not."""
        before = torch.get_float32_matmul_precision()
        torch.set_float32_matmul_precision("high" if self.tf32 else "highest")
        try:
            with torch.cuda.device(self.device) if self.device.type == "cuda" else contextlib.nullcontext():
                yield
        finally:
            torch.set_float32_matmul_precision(before)

    def _most(self, images: int) -> int:
        """Return how many jobs or sheets of so many images go at a time."""
        return max(1, self.at_once * BATCH // max(images, BATCH))

    def _make_room(self, size: int, images: int) -> None:
        """Forget captured steps, which hold memory; where there are none, take fewer than `size` at a time."""
        if not self.stretches.forget():
            if self.at_once == self.most_at_once:
                self.worth_trying *= 2
            while self._most(images) >= size:
                if self.at_once == 1:
                    raise InputError(
                        f"one job does not fit into the memory of {self.device}: use smaller batches"
                    ) from None
                self.at_once = next(fewer for fewer in AT_ONCE if fewer < self.at_once)
        torch.cuda.empty_cache()
        self.others_held = held_by_others(self.device)

    def _try_as_many_as_at_first(self) -> None:
        """Undo what `_make_room` did, if others have given memory back since."""
        narrow = self.at_once < self.most_at_once or self.stretches.capturing < self.stretches.on_gpu
        if narrow and self.others_held - held_by_others(self.device) > self.worth_trying:
            self.at_once = self.most_at_once
            self.stretches.capturing = self.stretches.on_gpu

    def _question(self, sheets: list[Sheet], width: int, height: int) -> Question:
        samples, views = images_of(sheets, width, height)
        return Question(
            sent(samples, self.device),
            None if views is None else sent(views, self.device),
            self._outputs(sheets),
        )

    def _outputs(self, asked: Sequence[Sheet | Candidate]) -> Tensor | None:
        """Return the outputs of every model, [jobs, C]; None if all have all."""
        if all(one.outputs is None for one in asked):
            return None
        every = np.ones(self.num_classes, dtype=bool)
        return sent(np.stack([every if one.outputs is None else one.outputs for one in asked]), self.device)

    def _params(self, asked: Sequence[Sheet | Candidate]) -> Params:
        return self.programs.layout.params(torch.stack([self.place(one.weights) for one in asked]))


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

    If so many do not fit, the number is taken back.
    """
    return next((jobs for jobs in AT_ONCE if COPIES * weight_bytes * jobs <= device_bytes / 2), AT_ONCE[-1])


def grain_of(batch: int) -> int:
    """Return of what numbers of jobs are multiples: 1 where a batch is so large that idle rows would cost much."""
    return GRAIN if GRAIN * batch <= IMAGES_WORTH_FILLING else 1


def _longest(probes: Sequence[Probe]) -> int:
    return max((len(probe.samples) for probe in probes), default=1)
