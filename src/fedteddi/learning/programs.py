"""What a GPU is made to do, as plain functions of tensors: gather images, forward, backward, an SGD step.

Parameters are stacked, [jobs, …]; a question is [jobs, images] of indices into the data. What touches every value of an
image or a weight in training (forward with its backward, update) is compiled; the rest is bookkeeping.
"""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.func import functional_call, vmap
from torch.nn import functional as F

from fedteddi.errors import InputError
from fedteddi.learning.data import Dataset
from fedteddi.learning.flat import FlatModel
from fedteddi.learning.jobs import NO_IMAGE
from fedteddi.learning.stacked_layers import dropout_keys, stacked_copy

Params = tuple[Tensor, ...]
Program = Callable[..., Any]


class Programs:
    """Functions of stacked models of one shape on one data set, which lies on the device."""

    def __init__(
        self, model: FlatModel, data: Dataset, device: torch.device, dtype: torch.dtype, compiled: bool
    ) -> None:
        self.dtype = dtype
        self.names = [name for name, _ in model.module.named_parameters()]
        self.shapes = [p.shape for p in model.module.parameters()]
        self.trained = [p.requires_grad for p in model.module.parameters()]
        self.keys = dropout_keys(model.module)
        self.plain = model.module
        self.stacked = stacked_copy(model.module)
        # Bytes stay bytes until a program gathers them; channels last, as the programs want them.
        self.train_images = data.train_images.permute(0, 2, 3, 1).contiguous().to(device)
        self.test_images = data.test_images.permute(0, 2, 3, 1).contiguous().to(device)
        self.train_labels = data.train_labels.to(device)
        self.test_labels = data.test_labels.to(device)
        self.mean, self.std = (v.flatten().to(device) for v in (data.mean, data.std))
        self.num_classes = data.num_classes
        self._training_losses: Program = self.losses
        self._updated: Program = updated
        self._variance: Program = variance_of_rows
        self._check(model)
        if compiled:
            torch._dynamo.config.recompile_limit = max(64, torch._dynamo.config.recompile_limit)
            # Where nothing is dropped, the kernels leave little to be gained by compiling.
            for name in ("_training_losses", "_updated", "_variance"):
                setattr(self, name, torch.compile(getattr(self, name), dynamic=False))

    def _check(self, model: FlatModel) -> None:
        """Try the stacked form on two models against the plain one; keep it only if it says the same.

        A module may use its layers in ways that stacking does not see, or draw random numbers that have no key. This is
        tried on the CPU, where products are not rounded.
        """
        jobs = unflat(torch.stack([model.weights, 1.1 * model.weights]), self.shapes)
        shape = (4, *self.train_images.shape[1:])
        images = torch.linspace(-2, 2, math.prod(shape)).sin().view(shape)
        self.plain.eval()
        with torch.no_grad():
            expected = []
            for job in range(2):
                own = dict(zip(self.names, (p[job] for p in jobs), strict=True))
                mine = images[2 * job : 2 * job + 2].permute(0, 3, 1, 2)
                expected.append(functional_call(self.plain, own, (mine,)))
            try:
                self.stacked = self.stacked if self._same(jobs, images, torch.cat(expected)) else None
            except Exception:
                self.stacked = None
            try:
                works = self.stacked is not None or self._same(jobs, images, torch.cat(expected))
                steady = self._steady(jobs, images)
            except Exception as error:
                raise InputError(
                    f"this model cannot be batched over clients ({error}): use the CPU for it"
                ) from None
        if not works:
            raise InputError(
                "this model answers otherwise when it is batched over clients: use the CPU for it"
            )
        if not steady:
            raise InputError(
                "this model draws random numbers of its own, which would depend on what runs beside it:"
                " use nn.Dropout in place of other kinds, or the CPU"
            )

    def _same(self, jobs: Params, images: Tensor, expected: Tensor) -> bool:
        return torch.allclose(self.scores(jobs, images, None), expected, rtol=1e-3, atol=1e-3)

    def _steady(self, jobs: Params, images: Tensor) -> bool:
        keys = torch.zeros(2, 2, dtype=torch.int32)
        with torch.random.fork_rng(devices=[]):
            found = []
            for seed in (0, 1):
                torch.manual_seed(seed)
                found.append(self.scores(jobs, images, keys))
        return torch.equal(*found)

    def scores(self, params: Params, images: Tensor, keys: Tensor | None) -> Tensor:
        """Return class scores [jobs·m, C] of images [jobs·m, H, W, channels] in the jobs' models."""
        images = images.permute(0, 3, 1, 2)
        named: dict[str, Tensor] = dict(zip(self.names, params, strict=True))
        if self.stacked is not None:
            self.stacked.train(keys is not None)
            named |= {} if keys is None else dict.fromkeys(self.keys, keys)
            scores: Tensor = functional_call(self.stacked, named, (images,))
            return scores.float()
        self.plain.train(keys is not None)
        named |= {} if keys is None else dict.fromkeys(self.keys, keys[:, None])
        by_job = images.reshape(len(params[0]), -1, *images.shape[1:])
        call = vmap(lambda own, mine: functional_call(self.plain, own, (mine,)), randomness="different")
        found: Tensor = call(named, by_job)
        return found.flatten(0, 1).float()

    def batch(self, source: Tensor, samples: Tensor, flips: Tensor | None) -> Tensor:
        """Gather images [n, H, W, channels] at samples [n], mirror some, normalise."""
        images = source[samples.clamp(min=0)]
        if flips is not None:
            images = torch.where(flips[:, None, None, None], images.flip(2), images)
        return ((images.float() - self.mean) / self.std).to(self.dtype)

    def losses(
        self, params: Params, samples: Tensor, flips: Tensor | None, keys: Tensor | None = None
    ) -> Tensor:
        """Return every job's mean loss over its images, samples [jobs, m]: [jobs]."""
        scores = self.scores(
            params,
            self.batch(self.train_images, samples.flatten(), None if flips is None else flips.flatten()),
            keys,
        )
        each = F.cross_entropy(scores, self.train_labels[samples.flatten().clamp(min=0)], reduction="none")
        there = samples != NO_IMAGE
        return (each.view(samples.shape) * there).sum(dim=1) / there.sum(dim=1)

    def loss_gradients(self, params: Params, *question: Any) -> tuple[Params, Tensor]:
        """Return every job's gradient, parameter by parameter, and mean loss; frozen parameters have gradient 0."""
        every = tuple(
            p.detach().requires_grad_() if t else p for t, p in zip(self.trained, params, strict=True)
        )
        with torch.enable_grad():
            losses = (self._training_losses if len(question) > 2 else self.losses)(every, *question)
        # The jobs do not touch each other, so the gradient of the sum holds the gradient of each.
        given = iter(torch.autograd.grad(losses.sum(), [p for p in every if p.requires_grad]))
        return tuple(next(given) if p.requires_grad else torch.zeros_like(p) for p in every), losses.detach()

    def mean_losses(self, params: Params, samples: Tensor, flips: Tensor | None) -> Tensor:
        """Return every job's mean loss, with nothing kept for a gradient."""
        with torch.no_grad():
            return self.losses(params, samples, flips)

    def step(
        self,
        params: Params,
        velocity: Params,
        samples: Tensor,
        flips: Tensor | None,
        keys: Tensor,
        rate: Tensor,
        momentum: Tensor,
        decay: Tensor,
    ) -> tuple[Params, Params, Tensor]:
        """One SGD step of every job; rate, momentum and decay are [jobs]."""
        gradients, losses = self.loss_gradients(params, samples, flips, keys)
        with torch.no_grad():
            params, velocity = self._updated(
                params, velocity, gradients, rate, momentum, decay, tuple(self.trained)
            )
        return params, velocity, losses

    def spread(self, params: Params, samples: Tensor, flips: Tensor | None) -> tuple[Tensor, Tensor]:
        """Return every job's variance of per-sample gradients and mean loss: each image is a job of its own."""
        jobs, width = samples.shape
        each = tuple(p.repeat_interleave(width, dim=0) for p in params)
        alone = None if flips is None else flips.reshape(-1, 1)
        gradients, losses = self.loss_gradients(each, samples.reshape(-1, 1), alone)
        with torch.no_grad():
            return self._variance(gradients, jobs), losses.view(jobs, width).mean(dim=1)

    def right(self, params: Params, samples: Tensor) -> Tensor:
        """Return how many of the test images at samples [m] each job tells right, by class: [jobs, C]."""
        with torch.no_grad():
            return self._told_right(params, samples)

    def _told_right(self, params: Params, samples: Tensor) -> Tensor:
        jobs, width = len(params[0]), len(samples)
        images = self.batch(self.test_images, samples, None)
        guesses = self.scores(params, images.repeat(jobs, 1, 1, 1), None).argmax(dim=1).view(jobs, width)
        labels = self.test_labels[samples.clamp(min=0)]
        right = (guesses == labels) & (samples != NO_IMAGE)
        return right.float() @ F.one_hot(labels, self.num_classes).float()  # [jobs, m] @ [m, C]


def updated(
    params: Params,
    velocity: Params,
    gradients: Params,
    rate: Tensor,
    momentum: Tensor,
    decay: Tensor,
    trained: tuple[bool, ...],
) -> tuple[Params, Params]:
    """Return parameters and velocities after v ← m v + g + d w, w ← w − η v; m, d and η are [jobs]."""
    moved, turned = [], []
    for t, p, v, g in zip(trained, params, velocity, gradients, strict=True):
        own = (-1,) + (1,) * (p.dim() - 1)
        turned.append(momentum.view(own) * v + g + (decay.view(own) * p if t else 0))
        moved.append(p - rate.view(own) * turned[-1])
    return tuple(moved), tuple(turned)


def variance_of_rows(gradients: Params, jobs: int) -> Tensor:
    """Return 1/(b−1) Σ_i ‖g_i − ḡ‖² of every job, from per-sample gradients [jobs·b, …] of each parameter: [jobs]."""
    total, width = torch.zeros(jobs, device=gradients[0].device), len(gradients[0]) // jobs
    for g in gradients:
        rows = g.reshape(jobs, width, -1)
        total = total + (rows - rows.mean(dim=1, keepdim=True)).square().sum(dim=(1, 2))
    return total / (width - 1)


def unflat(weights: Tensor, shapes: list[torch.Size]) -> Params:
    """Cut [jobs, P] into the parameters, [jobs, …] each."""
    parts = torch.split(weights, [shape.numel() for shape in shapes], dim=1)
    return tuple(
        part.reshape(len(weights), *shape).contiguous() for part, shape in zip(parts, shapes, strict=True)
    )


def flat(params: Params) -> Tensor:
    """Put parameters [jobs, …] side by side: [jobs, P]."""
    return torch.cat([p.flatten(1) for p in params], dim=1)
