"""A trained model as a file for other programs: PyTorch, safetensors or ONNX."""

import contextlib
import io
import json
import logging
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import safetensors.torch
import torch
from torch import Tensor, nn

from fedteddi.errors import InputError, nearest_hint
from fedteddi.extras import explained
from fedteddi.results.folder import write_atomically
from fedteddi.results.trained import Inputs, trained_model, weights_of

if TYPE_CHECKING:
    from fedteddi.results.runs import RunRecord

EXAMPLES = 2  # inputs that the ONNX graph is traced with


class Normalising(nn.Module):
    """A model that takes inputs as the data set has them, as floats."""

    mean: Tensor
    std: Tensor

    def __init__(self, model: nn.Module, inputs: Inputs) -> None:
        super().__init__()
        self.model = model
        self.register_buffer("mean", inputs.mean)
        self.register_buffer("std", inputs.std)

    def forward(self, inputs: Tensor) -> Tensor:
        """Normalise, and return class scores."""
        scores: Tensor = self.model((inputs - self.mean) / self.std)
        return scores


def export_model(run: "RunRecord", file: Path, model: Any = None) -> Path:
    """Write a run's trained model in the format that the file's ending says; `model` as in `RunRecord.model`."""
    write = FORMATS.get(file.suffix.lower())
    if write is None:
        raise InputError(
            f"{file} ends in {file.suffix!r}{nearest_hint(file.suffix, FORMATS)}: choose one of {', '.join(FORMATS)}"
        )
    if not file.parent.is_dir():
        raise InputError(f"there is no folder {file.parent}: make it, or choose another place")
    module, inputs = trained_model(run, model), weights_of(run).inputs
    about = {
        "model": run.settings.training.model,
        "num_classes": run.counts.shape[2],
        "inputs": inputs.as_json(),
        "run": run.title,
        "dataset": run.settings.dataset,
    }
    content = write(module, inputs, about)
    try:
        write_atomically(file, content)
    except OSError as error:
        raise InputError(f"{file} cannot be written ({error.strerror}): choose another place") from None
    return file


def _as_pt(module: nn.Module, inputs: Inputs, about: dict[str, Any]) -> bytes:  # noqa: ARG001
    """Return what `torch.load(file, weights_only=True)` reads: the state dict, and what it belongs to."""
    found = io.BytesIO()
    torch.save({"state_dict": module.state_dict(), **about}, found)
    return found.getvalue()


def _as_safetensors(module: nn.Module, inputs: Inputs, about: dict[str, Any]) -> bytes:  # noqa: ARG001
    """Return the state dict; what it belongs to is JSON in the metadata."""
    tensors = {key: value.contiguous().clone() for key, value in module.state_dict().items()}
    return safetensors.torch.save(tensors, {"fedteddi": json.dumps(about)})


def _as_onnx(module: nn.Module, inputs: Inputs, about: dict[str, Any]) -> bytes:
    """Return a graph from `inputs` [n, …], float32 and not normalised, to `scores` [n, C]."""
    with explained("writing .onnx"):
        import onnx
        import onnxscript  # noqa: F401  # PyTorch's exporter is written in it
    whole = Normalising(module, inputs).eval()
    example = torch.zeros(EXAMPLES, *inputs.shape)
    try:
        with _quiet():
            program = torch.onnx.export(
                whole,
                (example,),
                input_names=["inputs"],
                output_names=["scores"],
                dynamic_shapes=({0: torch.export.Dim("n")},),
                dynamo=True,
                verbose=False,
            )
    except Exception as error:  # the model may use what ONNX does not have
        cause = str(error).partition("\n")[0] or type(error).__name__
        raise InputError(f"this model cannot be written as ONNX ({cause}): write it as .pt") from None
    assert program is not None
    made = program.model_proto
    onnx.helper.set_model_props(made, {key: json.dumps(value) for key, value in about.items()})
    onnx.checker.check_model(made)
    return bytes(made.SerializeToString())


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keep the exporter from talking: what goes wrong it raises."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


FORMATS: dict[str, Callable[[nn.Module, Inputs, dict[str, Any]], bytes]] = {
    ".pt": _as_pt,
    ".safetensors": _as_safetensors,
    ".onnx": _as_onnx,
}
