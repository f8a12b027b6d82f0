"""Where the parameters of many models lie: side by side, [jobs, P], or each by itself, as programs read them."""

import math
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from fedteddi.learning.gpu.gradient_norms import Params
from fedteddi.learning.gpu.layers import Kernels, on_gpu, stacked_layout


class Layout:
    """Brings weights from one form to the other and back."""

    def __init__(
        self, shapes: list[torch.Size], device: torch.device, kernels: Kernels, *, stacked: bool
    ) -> None:
        self.shapes, self.device, self.kernels = shapes, device, kernels
        self.starts = np.cumsum([0, *(shape.numel() for shape in shapes)])[:-1].tolist()
        self.stacked = stacked  # whether parameters lie as stacked layers want them

    def params(self, weights: Tensor) -> Params:
        """Cut [jobs, P] into the parameters, as they are held while jobs run."""
        if self.kernels.turned is None or not on_gpu(weights):
            return tuple(view.contiguous() for view in self._views(weights))
        made = self.empty(len(weights))
        self.fill(made, weights)
        return made

    def empty(self, jobs: int) -> Params:
        """Make room for the parameters of so many jobs."""
        views = self._views(torch.empty(jobs, sum(map(math.prod, self.shapes)), device="meta"))
        return tuple(torch.empty(view.shape, device=self.device) for view in views)

    def fill(self, params: Params, weights: Tensor) -> None:
        """Put [jobs, P] into such room."""
        for p, view, start in zip(params, self._views(weights), self.starts, strict=True):
            if (turned := self._turning(p)) is not None:
                turned(weights, start, p, to_flat=False)
            else:
                p.copy_(view)

    def flat(self, params: Params) -> Tensor:
        """Put parameters, or their gradients, back side by side: [jobs, P]."""
        numbers = sum(shape.numel() for shape in self.shapes)
        weights = params[0].new_empty(len(params[0]), numbers)
        for p, view, start in zip(params, self._views(weights), self.starts, strict=True):
            if (turned := self._turning(p)) is not None:
                turned(weights, start, p, to_flat=True)
            else:
                view.copy_(p)
        return weights

    def _turning(self, parameter: Tensor) -> Callable[..., None] | None:
        """Return the kernel that brings it to and from flat weights, if it lies otherwise and there is one."""
        lies_otherwise = self.stacked and parameter.dim() == 5
        return (
            self.kernels.turned
            if lies_otherwise and on_gpu(parameter) and parameter.is_contiguous()
            else None
        )

    def _views(self, weights: Tensor) -> Params:
        """Return where the parameters lie in [jobs, P], laid out as the form of the model in use wants them."""
        own = parts(weights, self.shapes)
        return tuple(stacked_layout(p) for p in own) if self.stacked else own


def parts(weights: Tensor, shapes: list[torch.Size]) -> Params:
    """View [jobs, P] as the module's own parameters, [jobs, …] each."""
    cut = torch.split(weights, [shape.numel() for shape in shapes], dim=1)
    return tuple(part.view(len(weights), *shape) for part, shape in zip(cut, shapes, strict=True))
