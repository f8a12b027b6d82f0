"""A run's model with its trained weights: from memory, or from its folder's checkpoint."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

from fedteddi.errors import InputError
from fedteddi.given import PYTHON
from fedteddi.learning.datasets.dataset import load_dataset
from fedteddi.learning.flat import open_scores
from fedteddi.learning.models import MODELS, make_model
from fedteddi.registry import find, name_of
from fedteddi.results.folder import RunFolder
from fedteddi.settings import Settings

if TYPE_CHECKING:
    from fedteddi.results.runs import RunRecord


@dataclass(frozen=True, kw_only=True, eq=False)
class Inputs:
    """What a model takes: the shape of one input, and how inputs are normalised before."""

    shape: tuple[int, ...]
    mean: Tensor  # [channels, 1, 1], or [F] of features
    std: Tensor

    def as_json(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {
            "shape": list(self.shape),
            "mean": self.mean.flatten().tolist(),
            "std": self.std.flatten().tolist(),
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> "Inputs":
        """Read what `as_json` wrote."""
        shape = tuple(data["shape"])
        mean, std = (
            torch.tensor(data[part]).reshape(-1, *[1] * (len(shape) - 1)) for part in ("mean", "std")
        )
        return cls(shape=shape, mean=mean, std=std)


@dataclass(frozen=True, eq=False)
class Weights:
    """A run's weights [P] after its last round, and what the model takes."""

    vector: Tensor
    inputs: Inputs


class Opened(nn.Module):
    """A model whose other outputs are closed: their classes have not appeared (docs/paper.md D10)."""

    outputs: Tensor

    def __init__(self, model: nn.Module, outputs: np.ndarray) -> None:
        super().__init__()
        self.model = model
        self.register_buffer("outputs", torch.from_numpy(outputs))

    def forward(self, inputs: Tensor) -> Tensor:
        """Return class scores, -inf for closed outputs."""
        return open_scores(self.model(inputs), self.outputs)


def trained_model(run: "RunRecord", model: Any = None) -> nn.Module:
    """Return the module with the run's weights, in evaluation mode; it takes normalised inputs.

    `model` is the run's model where its name says nothing here: a module, its class or a function.
    """
    weights, settings = weights_of(run), run.settings
    name = settings.training.model if model is None else name_of(model)
    if model is None:
        _check_here(name)
    made = make_model(name, weights.inputs.shape, run.counts.shape[2], settings.seed)
    parameters = list(made.parameters())
    size = sum(p.numel() for p in parameters)
    if size != len(weights.vector):
        raise InputError(
            f"the model {name} has {size} parameters, the run's has {len(weights.vector)}: give the model that was"
            " trained"
        )
    nn.utils.vector_to_parameters(weights.vector.clone(), parameters)
    reached = run.records[-1].frame if run.records else 0
    seen = run.counts[: reached + 1].sum(axis=(0, 1)) > 0
    if settings.training.head == "expanding" and not seen.all():
        made = Opened(made, seen)
    return made.eval()


def _check_here(name: str) -> None:
    """Say how to name the run's model, where it is an object of another process."""
    if name.startswith((PYTHON, "__main__:")):
        try:
            find(MODELS, name)
        except InputError:
            raise InputError(
                f"the run's model, {name}, is an object of the Python process that started the run: give it with"
                " run.model(…), or as --model file.py:Name"
            ) from None


def weights_of(run: "RunRecord") -> Weights:
    """Return a run's weights, from memory or from its folder."""
    if isinstance(run.trained, Weights):
        return run.trained
    if run.trained is None:
        raise InputError(
            f"{run.title} has no weights: they are in run folders (out=…) and in the records that simulate and compare"
            " return, not in summaries"
        )
    return read_weights(run.trained, run.settings)


def read_weights(folder: Path, settings: Settings) -> Weights:
    """Read the weights of a run folder; a run that is not finished has those of its last checkpoint."""
    file = RunFolder(folder).checkpoint
    try:
        with safe_open(file, framework="pt") as checkpoint:
            vector = checkpoint.get_tensor("weights")
            facts = json.loads((checkpoint.metadata() or {})["state"])
    except (OSError, SafetensorError, ValueError, KeyError) as error:
        raise InputError(
            f"{file} cannot be read ({error}): a run's weights are in it; without it, run again"
        ) from None
    if "inputs" in facts:
        return Weights(vector, Inputs.from_json(facts["inputs"]))
    data = load_dataset(settings.dataset)  # a checkpoint of before this was kept
    return Weights(vector, Inputs(shape=data.image_shape, mean=data.mean, std=data.std))
