"""What a GPU is made to do, as plain functions of tensors: gather images, forward, backward, an SGD step.

Parameters are stacked, [jobs, …]; a question is [jobs, images] of indices into the data.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor
from torch.func import functional_call, vmap
from torch.nn import functional as F

from fedteddi.errors import InputError
from fedteddi.learning.augmentation import viewed
from fedteddi.learning.datasets.dataset import Dataset
from fedteddi.learning.engine import NO_IMAGE
from fedteddi.learning.flat import FlatModel, open_scores
from fedteddi.learning.gpu.gradient_norms import (
    Losses,
    Params,
    Squares,
    gradient_squares,
    leaves,
    squares_by_image,
)
from fedteddi.learning.gpu.layers import NO_KERNELS, gpu_kernels, on_gpu
from fedteddi.learning.gpu.layout import Layout, parts
from fedteddi.learning.gpu.stacking import dropout_keys, stacked_copy
from fedteddi.learning.local_training import LocalTraining, checked_direction

Pace = tuple[Tensor, Tensor, Tensor]  # learning rates η, momenta m and weight decays d, [jobs] each


class Question(NamedTuple):
    """Which training images every job is asked about, how it sees them, and the outputs it has."""

    samples: Tensor  # [jobs, m]; NO_IMAGE for none
    views: Tensor | None = None  # [jobs, m] (augmentation.py)
    outputs: Tensor | None = None  # [jobs, C]; None: all


def channels_last(images: Tensor) -> Tensor:
    """Return images, or features as images of one pixel and a channel for each: [n, H, W, channels]."""
    as_images = images if images.dim() == 4 else images[:, :, None, None]
    return as_images.permute(0, 2, 3, 1).contiguous()


class Programs:
    """Functions of stacked models of one shape on one data set, which lies on the device."""

    def __init__(self, model: FlatModel, data: Dataset, device: torch.device, dtype: torch.dtype) -> None:
        self.device, self.dtype = device, dtype
        self.names = [name for name, _ in model.module.named_parameters()]
        self.shapes = [p.shape for p in model.module.parameters()]
        self.trained = [p.requires_grad for p in model.module.parameters()]
        self.keys = dropout_keys(model.module)
        self.plain = model.module
        self.stacked = stacked_copy(model.module)
        # Bytes stay bytes until a program gathers them; channels last, as the programs want them.
        self.input_shape = data.image_shape
        self.train_images, self.test_images = (
            channels_last(images).to(device) for images in (data.train_images, data.test_images)
        )
        self.train_labels = data.train_labels.to(device)
        self.test_labels = data.test_labels.to(device)
        self.mean, self.std = (v.flatten().to(device) for v in (data.mean, data.std))
        self.num_classes = data.num_classes
        self.kernels = gpu_kernels() if on_gpu(self.train_images) else NO_KERNELS
        self.layout = Layout(self.shapes, device, self.kernels, stacked=self.stacked is not None)
        self._check(model)

    def _check(self, model: FlatModel) -> None:
        """Try the stacked form on two models against the plain one; keep it only if it says the same.

        A module may use its layers in ways that stacking does not see, or draw random numbers that have no key. This is
        tried on the CPU, where products are not rounded.
        """
        weights = torch.stack([model.weights, 1.1 * model.weights])
        shape = (4, *self.train_images.shape[1:])
        images = torch.linspace(-2, 2, math.prod(shape)).sin().view(shape)
        self.plain.eval()
        with torch.no_grad():
            expected = torch.cat([self._plain_scores(weights, images, job) for job in (0, 1)])
            try:
                same = self._same(self.layout.params(weights), images, expected)
            except Exception:
                same = False
            if not same:
                self.stacked, self.layout.stacked = None, False
            jobs = self.layout.params(weights)
            try:
                works = same or self._same(jobs, images, expected)
                steady = self._steady(jobs, images)
                self.by_layer = self._shortcuts_hold(jobs, images)
            except Exception as error:
                raise InputError(
                    f"this model cannot be batched over clients ({error}): use the CPU for it"
                ) from None
        if not works:
            raise InputError("the model's output changes when clients are batched: use the CPU for it")
        if not steady:
            raise InputError(
                "this model draws random numbers of its own, which would depend on what runs beside it:"
                " use nn.Dropout in place of other kinds, or the CPU"
            )

    def _plain_scores(self, weights: Tensor, images: Tensor, job: int) -> Tensor:
        own = dict(zip(self.names, (p[job] for p in parts(weights, self.shapes)), strict=True))
        found: Tensor = functional_call(self.plain, own, (self.as_given(images[2 * job : 2 * job + 2]),))
        return found

    def _same(self, jobs: Params, images: Tensor, expected: Tensor) -> bool:
        return torch.allclose(self.scores(jobs, images, None), expected, rtol=1e-3, atol=1e-3)

    def _shortcuts_hold(self, jobs: Params, images: Tensor) -> bool:
        """Compare ‖g‖² by layer, of images and of their sums, with that of gradients: shortcuts must not miss a use of
        a weight.
        """
        if self.stacked is None:
            return False
        labels = torch.arange(len(images)) % self.num_classes
        width = len(images) // len(jobs[0])
        losses: Losses = lambda params, images: self.each_loss(params, images, labels)  # noqa: E731
        try:
            found, _ = gradient_squares(losses, jobs, images, self.stacked, self.names, width, each=True)
        except Exception:
            return False
        expected, _ = squares_by_image(losses, jobs, images, self.trained, width)
        return not found.unsupported and all(
            torch.allclose(getattr(found, part), getattr(expected, part), rtol=1e-3)
            for part in ("of_images", "of_sums")
        )

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
        images = self.as_given(images)
        named = dict(zip(self.names, params, strict=True))
        if self.stacked is not None:
            self.stacked.train(keys is not None)
            named |= {} if keys is None else dict.fromkeys(self.keys, keys)
            return functional_call(self.stacked, named, (images,)).float()  # type: ignore[no-any-return]
        self.plain.train(keys is not None)
        named |= {} if keys is None else dict.fromkeys(self.keys, keys[:, None])
        by_job = images.reshape(len(params[0]), -1, *images.shape[1:])
        call = vmap(lambda own, mine: functional_call(self.plain, own, (mine,)), randomness="different")
        return call(named, by_job).flatten(0, 1).float()  # type: ignore[no-any-return]

    def as_given(self, images: Tensor) -> Tensor:
        """Return images [n, H, W, channels] as models take them: channels first, or features [n, F]."""
        return images.permute(0, 3, 1, 2).reshape(len(images), *self.input_shape)

    def batch(self, source: Tensor, samples: Tensor, views: Tensor | None = None) -> Tensor:
        """Gather images [n, H, W, channels] at samples [n], as seen in views [n], and normalise them."""
        if self.kernels.images is not None:
            return self.kernels.images(source, samples, views, self.mean, self.std, self.dtype)
        images = source[samples.clamp(min=0)]
        if views is not None:
            images = viewed(images, views)
        return ((images.float() - self.mean) / self.std).to(self.dtype)

    def _labelled(self, question: Question) -> tuple[Tensor, Tensor]:
        """Return the images of all jobs as one batch, [jobs·m, …], and their labels [jobs·m]."""
        samples = question.samples.flatten()
        views = None if question.views is None else question.views.flatten()
        return self.batch(self.train_images, samples, views), self.train_labels[samples.clamp(min=0)]

    def each_loss(
        self,
        params: Params,
        images: Tensor,
        labels: Tensor,
        outputs: Tensor | None = None,
        keys: Tensor | None = None,
    ) -> Tensor:
        """Return the loss of every image, [jobs·m]; outputs are [jobs, C]."""
        scores = self.scores(params, images, keys)
        return F.cross_entropy(open_scores(scores, _by_image(outputs, len(scores))), labels, reduction="none")

    def losses(self, params: Params, question: Question, keys: Tensor | None = None) -> Tensor:
        """Return every job's mean loss over its images: [jobs]."""
        each = self.each_loss(params, *self._labelled(question), question.outputs, keys)
        there = question.samples != NO_IMAGE
        # Not a product: an image that fills up a row may be of a class without an output, and inf · 0 is NaN.
        return torch.where(there, each.view(there.shape), 0).sum(dim=1) / there.sum(dim=1)

    def loss_gradients(
        self, params: Params, question: Question, keys: Tensor | None = None
    ) -> tuple[Params, Tensor]:
        """Return every job's gradient, parameter by parameter, and mean loss; frozen parameters have gradient 0.

        With keys it is a step of training, with dropout.
        """
        every = leaves(params, self.trained)
        with torch.enable_grad():
            losses = self.losses(every, question, keys)
        # The jobs do not touch each other, so the gradient of the sum holds the gradient of each.
        given = iter(torch.autograd.grad(losses.sum(), [p for p in every if p.requires_grad]))
        return tuple(next(given) if p.requires_grad else torch.zeros_like(p) for p in every), losses.detach()

    @torch.no_grad()
    def image_losses(self, params: Params, question: Question) -> Tensor:
        """Return the loss of every image, [jobs·m], 0 for none; nothing is kept for a gradient."""
        each = self.each_loss(params, *self._labelled(question), question.outputs)
        return torch.where(question.samples.flatten() != NO_IMAGE, each, 0)

    def step(
        self,
        params: Params,
        velocity: Params,
        question: Question,
        keys: Tensor,
        pace: Pace,
        rule: LocalTraining | None,
        start: Params | None,
    ) -> Tensor:
        """Take one SGD step of every job, in place; return the losses. A rule also needs where the jobs started."""
        gradients, losses = self.loss_gradients(params, question, keys)
        update = self.kernels.update or updated
        with torch.no_grad():
            for trained, p, v, g, first in zip(
                self.trained, params, velocity, gradients, start or params, strict=True
            ):
                if trained:
                    update(p, v, g if rule is None else checked_direction(rule, g, p, first), *pace)
        return losses

    def gradient_squares(
        self, params: Params, question: Question, width: int, *, each: bool
    ) -> tuple[Squares, Tensor]:
        """Return the squared norms of gradients in groups of `width` images, and each image's loss, [jobs·m]."""
        images, labels = self._labelled(question)
        there = question.samples.flatten() != NO_IMAGE

        def losses(params: Params, images: Tensor) -> Tensor:
            return torch.where(there, self.each_loss(params, images, labels, question.outputs), 0)

        if self.stacked is not None and self.by_layer:
            found = gradient_squares(losses, params, images, self.stacked, self.names, width, each=each)
            if not found[0].unsupported:
                return found
        return squares_by_image(losses, params, images, self.trained, width)

    @torch.no_grad()
    def right(self, params: Params, samples: Tensor, outputs: Tensor | None = None) -> Tensor:
        """Return how many of the test images at samples [m] each job classifies correctly, by class: [jobs, C]."""
        jobs, width = len(params[0]), len(samples)
        images = self.batch(self.test_images, samples)
        scores = self.scores(params, images.repeat(jobs, 1, 1, 1), None)
        guesses = open_scores(scores, _by_image(outputs, len(scores))).argmax(dim=1).view(jobs, width)
        labels = self.test_labels[samples.clamp(min=0)]
        right = (guesses == labels) & (samples != NO_IMAGE)
        return right.float() @ F.one_hot(labels, self.num_classes).float()  # [jobs, m] @ [m, C]


def _by_image(outputs: Tensor | None, images: int) -> Tensor | None:
    """Return every job's outputs [jobs, C] for each of its images, [jobs·m, C]."""
    return None if outputs is None else outputs.repeat_interleave(images // len(outputs), dim=0)


def updated(
    weights: Tensor, velocity: Tensor, gradient: Tensor, rates: Tensor, momenta: Tensor, decays: Tensor
) -> None:
    """Change a parameter [jobs, …] and its velocity in place: v ← m v + g + d w, w ← w − η v."""
    rate, momentum, decay = (part.view(-1, *[1] * (weights.dim() - 1)) for part in (rates, momenta, decays))
    velocity.mul_(momentum).add_(gradient).add_(decay * weights)
    weights.sub_(rate * velocity)
