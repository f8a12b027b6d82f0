"""What a scheduler remembers from round to round: a plain value, copied on its way in and out, written as JSON."""

import base64
from typing import Any

import numpy as np

# None, bool, int, float, str, tuples, lists and dicts of them, numpy numbers and arrays. Nothing else: what a
# checkpoint cannot hold to the bit would make a resumed run another one.
State = Any
_ATOMS = (type(None), bool, int, float, str)
_NUMPY_KINDS = "biufc"


class NotPlainError(TypeError):
    """A state holds something that is not a plain value; the text says what and where."""


def copied(value: State, where: str = "state") -> State:
    """Return a copy that shares nothing with `value`; refuse what is not plain."""
    if type(value) in _ATOMS:
        return value
    if isinstance(value, np.generic) and value.dtype.kind in _NUMPY_KINDS:
        return value
    if type(value) is np.ndarray and value.dtype.kind in _NUMPY_KINDS:
        return value.copy(order="C")
    if type(value) in (list, tuple):
        return type(value)(copied(entry, f"{where}[{i}]") for i, entry in enumerate(value))
    if type(value) is dict:
        return {_key(key, where): copied(entry, f"{where}[{key!r}]") for key, entry in value.items()}
    raise NotPlainError(
        f"{where} is a {type(value).__name__}: a state consists of None, bool, int, float, str, tuples, lists and"
        " dicts of them, and numpy arrays of numbers"
    )


def _key(key: Any, where: str) -> Any:
    if type(key) not in _ATOMS:
        raise NotPlainError(
            f"{where} has a {type(key).__name__} as a key: use int, str or another plain value"
        )
    return key


def as_json(value: State) -> Any:
    """Return a plain value as JSON can hold it, exactly: tuples, dicts and arrays are marked."""
    if isinstance(value, np.generic | np.ndarray):
        bits = base64.b64encode(np.asarray(value).tobytes()).decode()
        mark = "array" if isinstance(value, np.ndarray) else "number"
        return {mark: [value.dtype.str, list(value.shape), bits]}
    if isinstance(value, list):
        return [as_json(entry) for entry in value]
    if isinstance(value, tuple):
        return {"tuple": [as_json(entry) for entry in value]}
    if isinstance(value, dict):
        return {"dict": [[key, as_json(entry)] for key, entry in value.items()]}
    return value


def from_json(data: Any) -> State:
    """Return the value that `as_json` wrote."""
    if isinstance(data, list):
        return [from_json(entry) for entry in data]
    if not isinstance(data, dict):
        return data
    ((mark, content),) = data.items()
    if mark == "tuple":
        return tuple(from_json(entry) for entry in content)
    if mark == "dict":
        return {key: from_json(entry) for key, entry in content}
    kind, shape, bits = content
    array = np.frombuffer(base64.b64decode(bits), dtype=np.dtype(kind)).reshape(shape).copy()
    return array if mark == "array" else array[()]
