"""What the record of a run can do with its trained model. Torch is imported only when it is used."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, Union, cast

if TYPE_CHECKING:
    from torch import nn

    from fedteddi.results.runs import RunRecord
    from fedteddi.results.trained import Weights

Trained = Union["Weights", Path]  # weights in memory, or the run folder they are in


class WithModel:
    """A record whose model can be had."""

    def model(self, model: Any = None) -> "nn.Module":
        """Return the trained model, in evaluation mode; it takes normalised inputs (`Dataset.normalised`).

        Its weights are those after the last round, or of the last checkpoint. `model` is the module, class or function
        that was trained, where this process cannot find it by the name on record.
        """
        from fedteddi.results.trained import trained_model

        return trained_model(cast("RunRecord", self), model)

    def export(self, file: str | Path, model: Any = None) -> Path:
        """Write the trained model to a .pt, .safetensors or .onnx file (docs/usage.md); `model` as above."""
        from fedteddi.results.export import export_model

        return export_model(cast("RunRecord", self), Path(file), model)
