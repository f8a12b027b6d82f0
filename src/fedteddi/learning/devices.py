"""Where models are trained: picks the engine for a device."""

import torch

from fedteddi.errors import InputError
from fedteddi.learning.cpu import SideBySide
from fedteddi.learning.datasets.dataset import Dataset
from fedteddi.learning.engine import Engine
from fedteddi.learning.flat import FlatModel
from fedteddi.learning.gpu.engine import Stacked


def make_engine(
    model: FlatModel,
    data: Dataset,
    device: str = "cpu",
    precision: str = "float32",
    threads: int | None = 1,
) -> Engine:
    """Return the engine for `cpu`, `cuda` (or `cuda:1`), or `auto`: CUDA where there is one.

    A CPU works on `threads` jobs at a time (cpu.py). With $FEDTEDDI_COMPILE=0 a GPU does without kernels of ours, which
    Triton compiles: slower, but without a C compiler.
    """
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cpu":
        return SideBySide(model, data, threads)
    kind, _, number = device.partition(":")
    if kind != "cuda" or (number and not number.isdecimal()):
        raise InputError(f"device={device!r}: choose cpu, cuda, cuda:1 (and so on) or auto")
    there = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if int(number or 0) >= there:
        raise InputError(
            f"device={device!r}: PyTorch {torch.__version__} sees {there} CUDA devices here; use --device cpu,"
            " or install a PyTorch with CUDA and its driver"
        )
    return Stacked(model, data, device, precision)
