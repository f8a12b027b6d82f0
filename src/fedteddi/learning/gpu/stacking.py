"""How a model becomes one of many jobs: each of its layers with weights is replaced by a stacked one."""

import copy
from collections.abc import Callable

from torch import nn

from fedteddi.learning.dropout import KeyedDropout
from fedteddi.learning.flat import only_common_layers
from fedteddi.learning.gpu.layers import (
    PooledDropout,
    StackedConv2d,
    StackedGroupNorm,
    StackedLinear,
    StackedReLUOfSum,
)
from fedteddi.learning.models import ReLUOfSum

STACKED: dict[type[nn.Module], Callable[..., nn.Module]] = {
    nn.Linear: StackedLinear,
    nn.Conv2d: StackedConv2d,
    nn.GroupNorm: StackedGroupNorm,
    ReLUOfSum: StackedReLUOfSum,
}


def stacked_copy(module: nn.Module) -> nn.Module | None:
    """Return a copy with stacked layers under the same parameter names; None if some layer has no stacked form."""
    if not only_common_layers(module):
        return None
    if type(module) in STACKED:
        return STACKED[type(module)](module)
    made = copy.deepcopy(module)
    for parent in list(made.modules()):
        if getattr(parent, "inplace", False):
            # It would overwrite what came out of a layer, of which gradient_norms.py wants the gradient.
            parent.inplace = False  # type: ignore[assignment]
        children = list(parent.named_children())
        for index, (name, child) in enumerate(children):
            after = children[index + 1] if index + 1 < len(children) else ("", parent)
            follows = after[1] if type(parent) is nn.Sequential else None
            if type(child) is nn.GroupNorm and type(follows) is nn.ReLU:
                setattr(parent, name, StackedGroupNorm(child, relu=True))
                setattr(parent, after[0], nn.Identity())
            elif _halves(child) and type(follows) is KeyedDropout and 0 < follows.p < 1:
                setattr(parent, name, nn.Identity())
                setattr(parent, after[0], PooledDropout(follows.p, follows.layer))  # where its key is sought
            elif _halves(child):
                setattr(parent, name, PooledDropout())
            elif type(child) in STACKED:
                setattr(parent, name, STACKED[type(child)](child))
    return made


def _halves(layer: nn.Module) -> bool:
    """Tell whether a layer is max-pooling over windows of 2×2 side by side."""
    if type(layer) is not nn.MaxPool2d or layer.ceil_mode or layer.return_indices:
        return False
    found = (layer.kernel_size, layer.stride, layer.padding, layer.dilation)
    expected = ((2, 2), (2, 2), (0, 0), (1, 1))
    return all(one in (pair, pair[0]) for one, pair in zip(found, expected, strict=True))


def dropout_keys(module: nn.Module) -> list[str]:
    """Return the names under which a module's dropout layers take their keys."""
    return [f"{name}.key" for name, layer in module.named_modules() if isinstance(layer, KeyedDropout)]
