"""Local training of some jobs at once: where their weights and images lie, and the step that moves all of them on.

On a GPU a step is captured once as a CUDA graph; all others replay it, so that nothing waits for Python. Buffers stay
where they are, and a counter on the device says which step it is.
"""

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fedteddi.learning.engine import OnStep, TrainJob
from fedteddi.learning.gpu.gradient_norms import Params
from fedteddi.learning.gpu.programs import Programs, Question
from fedteddi.learning.local_training import LocalTraining

WARM_UP = 2  # steps before one is captured: kernels are compiled and libraries loaded in them
MOST_STRETCHES = 32  # that are kept
Ends = tuple[Tensor, Tensor, Tensor]  # weights [jobs, P], mean losses [jobs], how far each has moved [jobs]


class Room:
    """Weights of so many jobs, twice: as they are, and how they move; and where they started, once a rule asks."""

    def __init__(self, programs: Programs, jobs: int) -> None:
        self.programs, self.jobs = programs, jobs
        self.params, self.velocity = programs.layout.empty(jobs), programs.layout.empty(jobs)

    @cached_property
    def start(self) -> Params:
        """Where the jobs started."""
        return self.programs.layout.empty(self.jobs)


class Stretch:
    """The local training of so many jobs of one shape and rule, in the first rows of a room.

    Captured steps that share a pool of memory, or a stream, must not be under way at the same time.
    """

    def __init__(
        self,
        programs: Programs,
        room: Room,
        jobs: Sequence[TrainJob],
        pool: Any = None,
        stream: torch.cuda.Stream | None = None,
    ) -> None:
        self.programs, self.pool, self.stream, self.rule = programs, pool, stream, jobs[0].rule
        self.steps, self.width = jobs[0].samples.shape
        count = len(jobs)
        self.params, self.velocity = _first(room.params, count), _first(room.velocity, count)
        self.start = None if self.rule is None else _first(room.start, count)
        self.given = {key: sent(part, programs.device).clone() for key, part in _arrays(jobs).items()}
        self.at = torch.zeros(1, dtype=torch.int64, device=programs.device)
        self.total = torch.zeros(count, device=programs.device)
        self.graph: torch.cuda.CUDAGraph | None = None
        self.left_to_warm_up = WARM_UP

    def run(self, jobs: Sequence[TrainJob], on_step: OnStep | None = None, *, capturing: bool = True) -> Ends:
        """Train jobs like those it was made for; `on_step` may hear of a step before the device has taken it."""
        started = self.load(jobs)
        for step in range(self.steps):
            self.advance(capturing)
            if on_step is not None:
                on_step(step + 1)
        return self.ends(started)

    def load(self, jobs: Sequence[TrainJob]) -> Tensor:
        """Take jobs in hand; return where they start, [jobs, P]."""
        started = torch.stack([job.weights.to(self.programs.device) for job in jobs])
        for part in (self.params, self.start):
            if part is not None:
                self.programs.layout.fill(part, started)
        for v in self.velocity:
            v.zero_()
        for key, array in _arrays(jobs).items():
            self.given[key].copy_(sent(array, self.programs.device))
        self.at.zero_()
        self.total.zero_()
        return started

    def advance(self, capturing: bool) -> None:
        """Take one step."""
        if self.graph is not None:
            self.graph.replay()
            return
        self._step()
        if capturing and self.left_to_warm_up >= 0:
            self.left_to_warm_up -= 1
            self.graph = self._captured() if self.left_to_warm_up == 0 else None

    def ends(self, started: Tensor) -> Ends:
        """Return what became of the jobs."""
        ended = self.programs.layout.flat(self.params)
        moved = torch.linalg.vector_norm(ended - started, dim=1, dtype=torch.float64)
        return ended, self.total / self.steps, moved

    def _step(self) -> None:
        now = {
            key: part.index_select(0, self.at)[0] if key in EVERY_STEP else part
            for key, part in self.given.items()
        }
        question = Question(now["samples"], now.get("views"), now.get("outputs"))
        pace = (now["rates"], now["momenta"], now["decays"])
        self.total += self.programs.step(
            self.params, self.velocity, question, now["keys"], pace, self.rule, self.start
        )
        self.at += 1

    def _captured(self) -> torch.cuda.CUDAGraph | None:
        """Return a step as a graph; None if it cannot be one, such as with a rule that looks at values."""
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(graph, self.pool, self.stream, capture_error_mode="thread_local"):
                self._step()
        except torch.OutOfMemoryError:
            raise
        except RuntimeError:
            torch.cuda.synchronize()
            return None
        return graph


class Stretches:
    """Stretches that are kept for further jobs like theirs, and the room that they share."""

    def __init__(self, programs: Programs) -> None:
        self.programs, self.on_gpu = programs, programs.device.type == "cuda"
        self.capturing = (
            self.on_gpu
        )  # where nothing can be captured, or memory is short, steps are taken one by one
        self.kept: dict[Any, Stretch] = {}  # the last used last
        self.rooms: dict[int, Room] = {}  # by jobs: powers of two
        self.pool = torch.cuda.graph_pool_handle() if self.on_gpu else None
        self.stream = self._new_stream()  # in which steps are captured

    def run(self, jobs: Sequence[TrainJob], on_step: OnStep | None = None) -> Ends:
        """Train jobs of one shape and rule."""
        key = (shape_of(jobs), rule_key(jobs[0].rule))
        stretch = self.kept.pop(key, None) or Stretch(
            self.programs, self._room(len(jobs)), jobs, self.pool, self.stream
        )
        self.kept[key] = stretch
        if len(self.kept) > MOST_STRETCHES:
            del self.kept[next(iter(self.kept))]
        return stretch.run(jobs, on_step, capturing=self.capturing)

    def run_apart(self, jobs: Sequence[TrainJob], on_step: OnStep | None = None) -> list[Ends]:
        """Train each job by itself, all of them under way at the same time on a GPU, each in a stream of its own."""
        streams = [self._new_stream() for _ in jobs]
        alone = [
            Stretch(self.programs, Room(self.programs, 1), [job], stream=stream)
            for job, stream in zip(jobs, streams, strict=True)
        ]
        started = [stretch.load([job]) for stretch, job in zip(alone, jobs, strict=True)]
        self._wait()
        try:
            for step in range(max(stretch.steps for stretch in alone)):
                for stretch, stream in zip(alone, streams, strict=True):
                    if step < stretch.steps:
                        with torch.cuda.stream(stream):
                            stretch.advance(self.capturing)
                if on_step is not None:
                    on_step(step + 1)
        finally:
            self._wait()  # the buffers, made in another stream, are free for others now
        return [stretch.ends(first) for stretch, first in zip(alone, started, strict=True)]

    def _new_stream(self) -> torch.cuda.Stream | None:
        return torch.cuda.Stream(self.programs.device) if self.on_gpu else None  # type: ignore[no-untyped-call]

    def _wait(self) -> None:
        if self.on_gpu:
            torch.cuda.synchronize(self.programs.device)

    def forget(self) -> bool:
        """Give the memory back; tell whether captured steps held some. No more are captured until memory is found."""
        held = any(stretch.graph is not None for stretch in self.kept.values())
        self.kept.clear()
        self.rooms.clear()
        self.capturing = False
        return held

    def _room(self, jobs: int) -> Room:
        size = 1 << (jobs - 1).bit_length()
        if size not in self.rooms:
            self.rooms[size] = Room(self.programs, size)
        return self.rooms[size]


EVERY_STEP = {"samples", "views", "keys", "rates"}  # [steps, jobs, …]; the others are [jobs, …]


def _first(part: Params, jobs: int) -> Params:
    return tuple(p[:jobs] for p in part)


def _arrays(jobs: Sequence[TrainJob]) -> dict[str, np.ndarray]:
    """Put what jobs say side by side, step by step."""
    shape = jobs[0].samples.shape
    found = {
        "samples": np.stack([job.samples for job in jobs], axis=1),
        "keys": np.stack([job.dropout_keys for job in jobs], axis=1),
        "rates": np.stack([np.broadcast_to(np.float32(job.learning_rate), shape[0]) for job in jobs], axis=1),
        "momenta": np.array([job.momentum for job in jobs], dtype=np.float32),
        "decays": np.array([job.weight_decay for job in jobs], dtype=np.float32),
    }
    if any(job.views is not None for job in jobs):  # view 0 is the image as it is
        plain = np.zeros(shape, dtype=np.int16)
        views = [plain if job.views is None else job.views.astype(np.int16) for job in jobs]
        found["views"] = np.stack(views, axis=1)
    if any(job.outputs is not None for job in jobs):
        every = next(np.ones_like(job.outputs) for job in jobs if job.outputs is not None)
        found["outputs"] = np.stack([every if job.outputs is None else job.outputs for job in jobs])
    return found


def shape_of(jobs: Sequence[TrainJob]) -> tuple[object, ...]:
    """Return what chunks of jobs must have in common to be trained by one stretch, beside their rule."""
    viewed, closed = (any(getattr(job, key) is not None for job in jobs) for key in ("views", "outputs"))
    return len(jobs), jobs[0].samples.shape, viewed, closed


def rule_key(rule: LocalTraining | None) -> Any:
    """Return what equal rules have in common; a user's rule may have no hash, and is only like itself then."""
    return rule if rule is None or type(rule).__hash__ is not None else id(rule)


def sent(array: np.ndarray, device: torch.device) -> Tensor:
    """Bring an array to the device; from pinned memory, a copy waits for nothing."""
    found = torch.from_numpy(np.ascontiguousarray(array))
    return found.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else found.to(device)
