"""Pickles that try to run something, or to bend what reads them, are refused before anything happens."""

import builtins
import os
import pickle
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cifar_files import batch, write_archive, write_folder
from fedteddi.errors import InputError
from fedteddi.learning.datasets import cifar
from fedteddi.learning.datasets.catalogue import CIFAR
from fedteddi.learning.datasets.dataset import load_dataset
from fedteddi.learning.datasets.plain_pickle import STAND_INS, NotPlainData, read_plain_pickle

TEN = CIFAR["cifar10"]


class Call:
    """Pickles to a call of any function, which plain `pickle.loads` would make."""

    def __init__(self, function: Any, *arguments: Any) -> None:
        self.call = function, arguments

    def __reduce__(self) -> Any:
        return self.call

    def __call__(self) -> None:
        """Stand for a function that a call returns."""


def touch(file: Path) -> str:
    return f"__import__('pathlib').Path({str(file)!r}).touch()"


def name(module: str, attribute: str) -> bytes:
    """Push a global without looking it up when it is written."""
    return f"c{module}\n{attribute}\n".encode()


def text(value: str) -> bytes:
    return b"X" + len(value).to_bytes(4, "little") + value.encode()


def hostile_array(file: Path) -> bytes:
    """An .npy file of Python objects, one of which is a call: what numpy.load(allow_pickle=True) would run."""
    path = file.with_name("objects.npy")
    np.save(path, np.array([Call(eval, touch(file))], dtype=object), allow_pickle=True)
    return (
        b"\x80\x04" + name("numpy", "load") + text(str(path)) + b"N\x88\x87R."
    )  # load(path, None, allow_pickle=True)


# These run when they are trusted,
RUNNING: dict[str, Callable[[Path], bytes]] = {
    "os.system": lambda f: pickle.dumps(Call(os.system, f"touch {f}")),
    "os.system inside a batch": lambda f: pickle.dumps(batch(TEN, 0) | {"x": Call(os.system, f"touch {f}")}),
    "eval": lambda f: pickle.dumps(Call(eval, touch(f)), protocol=2),
    "exec": lambda f: pickle.dumps(Call(exec, touch(f)), protocol=0),
    "a nested getattr": lambda f: pickle.dumps(
        Call(Call(getattr, Call(__import__, "os"), "system"), f"touch {f}")
    ),
    "a process": lambda f: pickle.dumps(Call(subprocess.check_call, ["touch", str(f)])),
    "a class's instance": lambda f: b"(" + text(f"touch {f}") + b"ios\nsystem\n.",
    "numpy.load of pickled objects": hostile_array,
    "numpy.f2py's eval": lambda f: (
        b"\x80\x02" + name("numpy.f2py.crackfortran", "myeval") + text(touch(f) + " or 1") + b"\x85R."
    ),
    "numpy.testing's exec": lambda f: (
        b"\x80\x02" + name("numpy.testing._private.utils", "runstring") + text(touch(f)) + b"}\x86R."
    ),
    "a dotted name": lambda f: (
        b"\x80\x04" + text("os") + text("path.os.system") + b"\x93" + text(f"touch {f}") + b"\x85R."
    ),
}
# and these would if a reader were careless in other ways.
HOSTILE = RUNNING | {
    "a dotted name from an allowed one": lambda f: (
        b"\x80\x04" + text("numpy") + text("ndarray.tofile") + b"\x93" + text(str(f)) + b"\x85R."
    ),
    "a new object": lambda f: b"\x80\x02" + name("subprocess", "Popen") + text(f"touch {f}") + b"\x85\x81.",
    "a persistent id": lambda f: b"P" + touch(f).encode() + b"\n.",
    "a binary persistent id": lambda f: b"\x80\x02" + text(touch(f)) + b"Q.",
    "an extension code": lambda f: b"\x80\x02\x82\x01" + text(touch(f)) + b"\x85R.",
}


@pytest.mark.parametrize("make", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_file_runs_nothing(make: Callable[[Path], bytes], tmp_path: Path) -> None:
    trace = tmp_path / "ran"
    content = make(trace)
    folder = write_folder(TEN, tmp_path / "folder")
    (folder / "test_batch").write_bytes(content)
    archive = write_archive(TEN, tmp_path / "archive", test_batch=content)
    for place in (folder, archive):
        with pytest.raises(InputError, match="test_batch is no file of cifar10"):
            load_dataset("cifar10", place)
    assert not trace.exists()


@pytest.mark.parametrize("make", RUNNING.values(), ids=RUNNING)
def test_the_same_files_run_where_they_are_trusted(make: Callable[[Path], bytes], tmp_path: Path) -> None:
    """So the test above proves something."""
    trace = tmp_path / "ran"
    pickle.loads(make(trace))
    assert trace.exists()


FORGED = {
    "an array of objects": b"cnumpy\ndtype\n" + text("O8") + b"\x89\x88\x87R.",
    "a record": b"cnumpy\ndtype\n" + text("V8") + b"\x89\x88\x87R.",
    "another codec": name("_codecs", "encode") + text("x") + text("rot13") + b"\x86R.",
    "attributes of a function": name("_codecs", "encode") + b"N}" + text("__new__") + b"Ns\x86b.",
    "attributes of a class": name("numpy", "dtype") + b"N}" + text("__init__") + b"Ns\x86b.",
    "attributes of a type": name("numpy", "ndarray") + b"N}" + text("shape") + b"Ns\x86b.",
    "a call of a type": name("numpy", "ndarray") + b"K\x05\x85\x85R.",
    "more bytes than there are": b"}" + text("a") + b"\x8e" + (2**62).to_bytes(8, "little") + b"s.",
}


@pytest.mark.parametrize("content", FORGED.values(), ids=FORGED)
def test_what_is_allowed_cannot_be_bent(content: bytes) -> None:
    before = {place: dict(vars(s)) for place, s in STAND_INS.items() if isinstance(s, type)}
    with pytest.raises(NotPlainData):
        read_plain_pickle(b"\x80\x04" + content)
    assert before == {place: dict(vars(s)) for place, s in STAND_INS.items() if isinstance(s, type)}


def test_forged_shapes_and_orders_are_refused() -> None:
    good = pickle.dumps({"data": np.arange(200, dtype=np.int16)}, protocol=2)
    shape = b"K\xc8\x85"
    assert shape in good
    for forged in (
        b"K\xc9\x85",
        b"J\xff\xff\xff\xff\x85",
        b"]\x85",
        b"N",
        b"\x8a\x09" + b"\x01" * 9 + b"\x85",
    ):
        with pytest.raises(NotPlainData):
            read_plain_pickle(good.replace(shape, forged))


def test_deep_nesting_is_an_error_not_a_crash() -> None:
    deep = b"\x80\x02}" + text("data") + b"]" * 100_000 + b"a" * 99_999 + b"s" + text("labels") + b"]s."
    held = read_plain_pickle(deep)  # deep, but plain
    with pytest.raises(InputError, match="data is a list"):
        cifar._checked(TEN, "here", deep)
    assert set(held) == {"data", "labels"}


def test_nothing_of_the_interpreter_is_reachable() -> None:
    """All names a file may use stand for something of ours."""
    for stand_in in STAND_INS.values():
        assert isinstance(stand_in, str) or stand_in.__module__ == "fedteddi.learning.datasets.plain_pickle"
    for word in dir(builtins):
        with pytest.raises(NotPlainData):
            read_plain_pickle(b"\x80\x02" + name("builtins", word) + b".")
