"""What a client measures besides training: gradient variance, loss, class gradients. Dropout is off throughout."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap
from torch.nn import functional as F
from torch.nn.grad import conv2d_weight

from fedteddi.learning.flat import FlatModel, layers_with_parameters, only_common_layers, open_scores
from fedteddi.learning.sample_norms import gram_squares, grams_cost_less, outer_squares, watching

# Images whose per-sample gradients are held at once, for models with layers that have no shortcut.
SAMPLES_AT_ONCE = 8
VALUES_AT_ONCE = 2**18  # of per-sample gradients of one layer


def gradient_variance(model: FlatModel, images: Tensor, labels: Tensor) -> tuple[float, float]:
    """Return 1/(b−1) Σ_i ‖g_i − ḡ‖² and the mean loss on a batch (docs/paper.md D5).

    Σ‖g_i − ḡ‖² = Σ‖g_i‖² − b‖ḡ‖², and both follow layer by layer from what went in and the gradient of what came out.
    So one backward pass does, autograd need not compute any weight's gradient, and no per-sample gradient of the whole
    model is ever held.
    """
    model.module.eval()
    if model.shortcuts is None:
        model.shortcuts = _has_shortcut(model.module) and _shortcuts_hold(model, images, labels)
    if not model.shortcuts:
        return _variance_one_by_one(model, images, labels)
    found, loss = _squared_norms(model, images, labels)
    if found.unsupported:
        return _variance_one_by_one(model, images, labels)
    batch = len(labels)
    total = found.of_samples * batch**2 - batch * found.of_sum
    return max(total, 0.0) / (batch - 1), loss


def _shortcuts_hold(model: FlatModel, images: Tensor, labels: Tensor) -> bool:
    """Compare ‖ḡ‖² with the plain gradient's, once per model: a module may read a layer's weights directly."""
    found, _ = _squared_norms(model, images, labels)
    expected = _squared(model.loss_gradient(images, labels)[1])
    return math.isclose(found.of_sum, expected, rel_tol=1e-3) or found.unsupported


def loss_sum(model: FlatModel, images: Tensor, labels: Tensor) -> float:
    """Return the sum of the losses of some images."""
    model.module.eval()
    with torch.no_grad():
        return float(F.cross_entropy(model.scores(images), labels, reduction="sum"))


def class_gradient(model: FlatModel, images: Tensor, labels: Tensor) -> Tensor:
    """Return the mean gradient over images of one class, [P]."""
    model.module.eval()
    return model.loss_gradient(images, labels)[1].clone()


@dataclass
class SquaredNorms:
    """Σ_i ‖g_i‖² and ‖Σ_i g_i‖², added up layer by layer."""

    of_samples: float = 0.0
    of_sum: float = 0.0
    unsupported: bool = False

    def add(self, layer: nn.Module, given: Tensor, back: Tensor) -> None:
        """Add a layer's part, from what went in and the gradient of what came out."""
        SHORTCUTS[type(layer)](layer, given, back, self)

    def add_samples(self, sample_gradients: Tensor) -> None:
        """Add a layer's per-sample gradients, [b, …]."""
        self.of_samples += _squared(sample_gradients)
        self.of_sum += _squared(sample_gradients.sum(dim=0))


def _squared(values: Tensor) -> float:
    return float(torch.linalg.vector_norm(values, dtype=torch.float64)) ** 2


def _linear(layer: nn.Linear, given: Tensor, back: Tensor, found: SquaredNorms) -> None:
    """‖δ aᵀ‖² = ‖δ‖² ‖a‖²: a sample's gradient need not be formed."""
    if given.dim() != 2:  # tokens: a sample's gradient is a sum of products
        found.unsupported = True
        return
    found.of_samples += float(outer_squares(given, back).sum())
    found.of_sum += _squared(back.T @ given)
    if layer.bias is not None:
        found.add_samples(back)


def _conv(layer: nn.Conv2d, given: Tensor, back: Tensor, found: SquaredNorms) -> None:
    """Norms from products of positions where those are few (late layers), else from the samples' gradients."""
    assert not isinstance(layer.padding, str)  # _has_shortcut
    shape, how = layer.weight.shape, (layer.stride, layer.padding, layer.dilation)
    if grams_cost_less(back[0, 0].numel(), shape[1:].numel(), len(layer.weight)):
        columns = F.unfold(
            given, layer.kernel_size, layer.dilation, layer.padding, layer.stride
        )  # [b, in·k², L]
        found.of_samples += float(gram_squares(columns.mT, back.flatten(2).mT).sum())
        found.of_sum += _squared(conv2d_weight(given, shape, back, *how))  # type: ignore[no-untyped-call]
    else:
        total = torch.zeros(shape.numel())
        for some, own in _slices(given, back, shape.numel()):
            # One convolution with a group for each sample: its weights' gradient is all of theirs.
            groups, alike = len(some), (len(some) * len(layer.weight), *shape[1:])
            given_all, back_all = some.flatten(0, 1)[None], own.flatten(0, 1)[None]
            flat = conv2d_weight(given_all, alike, back_all, *how, groups)  # type: ignore[no-untyped-call]
            each = flat.view(groups, -1)
            found.of_samples += _squared(each)
            total += each.sum(dim=0)
        found.of_sum += _squared(total)
    if layer.bias is not None:
        found.add_samples(back.sum(dim=(2, 3)))


def _slices(given: Tensor, back: Tensor, values_each: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Give some samples at a time: gradients of so many values each are quickest while they fit a core's cache."""
    some = max(1, VALUES_AT_ONCE // values_each)
    yield from zip(torch.split(given, some), torch.split(back, some), strict=True)


def _group_norm(layer: nn.GroupNorm, given: Tensor, back: Tensor, found: SquaredNorms) -> None:
    plain = F.group_norm(given, layer.num_groups, eps=layer.eps)
    found.add_samples((back * plain).flatten(2).sum(dim=2))  # scale, [b, channels]
    found.add_samples(back.flatten(2).sum(dim=2))  # shift


SHORTCUTS: dict[type[nn.Module], Callable[..., None]] = {
    nn.Linear: _linear,
    nn.Conv2d: _conv,
    nn.GroupNorm: _group_norm,
}


def _has_shortcut(module: nn.Module) -> bool:
    """Tell whether every layer is one whose per-sample norms we know; frozen weights are no part of the gradient."""
    return only_common_layers(module) and all(p.requires_grad for p in module.parameters())


def _squared_norms(model: FlatModel, images: Tensor, labels: Tensor) -> tuple[SquaredNorms, float]:
    """Return the squared norms of the mean loss's gradients, and that loss; weights get no gradient meanwhile."""
    found = SquaredNorms()
    images = images.detach().requires_grad_()  # or nothing would flow back
    try:
        model.module.requires_grad_(False)
        with watching(layers_with_parameters(model.module), len(labels), found):
            # The batch's mean loss: sample i contributes g_i / b to every gradient.
            loss = F.cross_entropy(model.scores(images), labels)
            torch.autograd.grad(loss, images)
    finally:
        model.module.requires_grad_(True)
    return found, float(loss.detach())


def _variance_one_by_one(model: FlatModel, images: Tensor, labels: Tensor) -> tuple[float, float]:
    """The same for any module, from per-sample gradients, a few samples at a time."""
    parameters = {name: p.detach() for name, p in model.module.named_parameters() if p.requires_grad}

    def sample_loss(values: dict[str, Tensor], image: Tensor, label: Tensor) -> Tensor:
        scores = functional_call(model.module, values, (image[None],))
        return F.cross_entropy(open_scores(scores, model.outputs), label[None])

    per_sample = vmap(grad(sample_loss), in_dims=(None, 0, 0))
    total, gradient_sum = 0.0, torch.zeros(sum(p.numel() for p in parameters.values()), dtype=torch.float64)
    for start in range(0, len(labels), SAMPLES_AT_ONCE):
        part = slice(start, start + SAMPLES_AT_ONCE)
        found = per_sample(parameters, images[part], labels[part])
        rows = torch.cat([found[name].flatten(1) for name in parameters], dim=1).double()  # [samples, P]
        total += float(rows.square().sum())
        gradient_sum += rows.sum(dim=0)
    variance = (total - float(gradient_sum.square().sum()) / len(labels)) / (len(labels) - 1)
    return max(variance, 0.0), loss_sum(model, images, labels) / len(labels)
