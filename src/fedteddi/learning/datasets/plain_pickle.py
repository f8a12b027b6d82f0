"""Read pickled plain data without trusting it.

A pickle names functions and has them called. Here nothing it names is ever looked up: the five names that a
dictionary of arrays, lists, numbers and text needs stand for small classes of ours, every other one is refused.
Not even numpy's own functions are called, because they believe a forged dtype.
"""

import io
import math
import pickle
from typing import Any

import numpy as np

from fedteddi.errors import shown

# What an array of whole numbers may consist of: bytes of pixels, or labels.
WHOLE_NUMBERS = {f"{kind}{size}" for kind in "ui" for size in (1, 2, 4, 8)}


class NotPlainData(Exception):
    """What was given is damaged, or more than plain data; the text says which."""


def read_plain_pickle(content: bytes) -> dict[str, Any]:
    """Return the pickled dictionary with text as keys; arrays of whole numbers among its values are read-only."""
    try:
        found = _Reader(io.BytesIO(content), encoding="bytes").load()
        if not isinstance(found, dict):
            raise NotPlainData(f"it holds a {type(found).__name__} instead of a dictionary")
        return {
            _text(key): value.values() if isinstance(value, _Array) else value for key, value in found.items()
        }
    except NotPlainData:
        raise
    except Exception as error:  # a damaged pickle can fail in almost any way
        raise NotPlainData(f"damaged: {shown(str(error) or type(error).__name__)}") from None


class _Reader(pickle.Unpickler):
    def find_class(self, module_name: str, global_name: str, /) -> Any:
        try:
            return STAND_INS[module_name, global_name]
        except KeyError:
            raise NotPlainData(
                f"it asks for {shown(f'{module_name}.{global_name}')}, which plain data does not need"
            ) from None


# Every stand-in has a __setstate__, because a pickle may otherwise set attributes on whatever it names.


class _Dtype:
    """Stands for `numpy.dtype`: whole numbers only."""

    def __init__(self, code: object, *_: object) -> None:
        self.code = _text(code).lstrip("|<>=")
        if self.code not in WHOLE_NUMBERS:
            raise NotPlainData(f"it holds an array of {shown(self.code)} instead of whole numbers")
        self.dtype = np.dtype(self.code)

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        order = _text(state[1])
        if order not in ("<", ">", "=", "|"):
            raise NotPlainData(f"it holds an array in the byte order {shown(order)}")
        self.dtype = np.dtype(order + self.code)


class _Array:
    """Stands for `_reconstruct`, which is called first, and for the array, whose content comes as its state."""

    def __init__(self, *_: object) -> None:
        self.state: tuple[Any, ...] = ()

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.state = state

    def values(self) -> np.ndarray:
        match self.state:
            case (_, tuple(shape), _Dtype(dtype=dtype), bool() | int() as columns_first, bytes(raw)):
                pass
            case _:
                raise NotPlainData("it holds an array in no form that numpy writes")
        if not all(type(size) is int and size >= 0 for size in shape):
            raise NotPlainData(f"it holds an array of the shape {shown(shape)}")
        if math.prod(shape) * dtype.itemsize != len(raw):
            raise NotPlainData(f"it holds an array of the shape {shown(shape)} in {len(raw)} bytes")
        return np.frombuffer(raw, dtype).reshape(shape, order="F" if columns_first else "C")


class _Latin1:
    """Stands for `_codecs.encode`, by which Python 3 writes bytes that Python 2 can read."""

    def __new__(cls, text: str, encoding: object) -> bytes:  # type: ignore[misc]
        if _text(encoding) != "latin1":
            raise NotPlainData(f"it holds bytes in the encoding {shown(encoding)}")
        return text.encode("latin1")

    def __setstate__(self, state: object) -> None:
        raise NotPlainData("it sets attributes of a function")


STAND_INS: dict[tuple[str, str], Any] = {
    ("numpy.core.multiarray", "_reconstruct"): _Array,
    ("numpy._core.multiarray", "_reconstruct"): _Array,  # since numpy 2
    ("numpy", "ndarray"): "numpy.ndarray",  # only ever an argument of _reconstruct
    ("numpy", "dtype"): _Dtype,
    ("_codecs", "encode"): _Latin1,
}


def _text(value: object) -> str:
    """Return text that Python 2 wrote as bytes, too."""
    if isinstance(value, bytes):
        return value.decode("latin1")
    if isinstance(value, str):
        return value
    raise NotPlainData(f"it has a {type(value).__name__} where text should be")
