"""CIFAR-10 and CIFAR-100 as their authors publish them: a folder of pickles, or the archive of it."""

import gzip
import tarfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from fedteddi.errors import InputError, shown
from fedteddi.learning.datasets.catalogue import Cifar
from fedteddi.learning.datasets.plain_pickle import NotPlainData, read_plain_pickle

IMAGE_SHAPE = (3, 32, 32)  # planes of red, green, blue
IMAGE_BYTES = 3 * 32 * 32
# The largest real file (CIFAR-100's train) has 155 MB; more is no CIFAR, and might exhaust the machine.
MAX_FILE_BYTES = 512 * 1024**2
PIECE_BYTES = 1024**2

Labelled = tuple[np.ndarray, np.ndarray]


def read_cifar(which: Cifar, place: Path) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return training images [M, 3, 32, 32] and labels [M], test images and labels, from a folder or an archive."""
    contents = _in_archive(which, place) if place.is_file() else _in_folder(which, place)
    parts = {file: _checked(which, f"{place}: {file}", content) for file, content in contents}
    missing = [file for file in which.files if file not in parts]
    if missing:
        raise InputError(f"{place} lacks {missing[0]}: {_remedy(which, place)}")
    train, test = (_joined([parts[file] for file in files]) for files in (which.train, which.test))
    return (*train, *test)


def _in_folder(which: Cifar, folder: Path) -> Iterator[tuple[str, bytes]]:
    for name in which.files:
        file = folder / name
        try:
            if not file.is_file():
                raise InputError(f"{folder} lacks {name}: {_remedy(which, folder)}")
            with file.open("rb") as opened:
                content = opened.read(MAX_FILE_BYTES + 1)
        except OSError as error:
            raise InputError(f"{file} cannot be read ({error.strerror}): {_remedy(which, folder)}") from None
        _check_size(which, file, len(content))
        yield name, content


def _in_archive(which: Cifar, archive: Path) -> Iterator[tuple[str, bytes]]:
    """Read the wanted members in one pass; nothing is written to disk, so their paths can do no harm."""
    wanted = {f"{which.folder}/{file}": file for file in which.files}
    try:
        with gzip.open(archive, "rb") as unpacked, tarfile.open(fileobj=unpacked, mode="r|") as members:
            for member in members:
                name = wanted.get(member.name.removeprefix("./"))
                if name is None:
                    continue
                opened = members.extractfile(member) if member.isreg() else None
                if opened is None:
                    raise InputError(f"{archive}: {name} is no plain file: {_remedy(which, archive)}")
                _check_size(which, f"{archive}: {name}", member.size)
                yield name, opened.read()
            while unpacked.read(PIECE_BYTES):  # to the end, where its checksum is
                pass
    except (OSError, EOFError, zlib.error, tarfile.TarError) as error:
        raise InputError(f"{archive} is damaged ({error}): {_remedy(which, archive)}") from None


def _check_size(which: Cifar, file: object, size: int) -> None:
    if size > MAX_FILE_BYTES:
        raise InputError(
            f"{file} is larger than {MAX_FILE_BYTES // 1024**2} MiB: give the official {which.name}"
        )


def _checked(which: Cifar, where: str, content: bytes) -> Labelled:
    try:
        held = read_plain_pickle(content)
    except NotPlainData as error:
        raise InputError(
            f"{where} is no file of {which.name} ({error}): give the official one (pickle protocol 4 or lower)"
        ) from None
    for key in ("data", which.labels):
        if key not in held:
            raise InputError(f"{where} lacks {key!r}: give the official file of {which.name}")
    images = held["data"]
    is_array = isinstance(images, np.ndarray)
    if not is_array or images.dtype != np.uint8 or images.shape[1:] != (IMAGE_BYTES,):
        what = f"{images.dtype} {list(images.shape)}" if is_array else _what(images)
        raise InputError(f"{where}: data is {what}: give bytes (uint8), {IMAGE_BYTES} for each image")
    labels = _labels(which, where, held[which.labels])
    if len(labels) != len(images):
        raise InputError(
            f"{where} has {len(images)} images and {len(labels)} labels: give one for each image"
        )
    return images, labels


def _labels(which: Cifar, where: str, given: Any) -> np.ndarray:
    if isinstance(given, np.ndarray) and given.ndim == 1:
        given = given.tolist()
    if not isinstance(given, list):
        raise InputError(f"{where}: {which.labels} is {_what(given)}: give a list of class numbers")
    for label in given:
        if type(label) is not int or not 0 <= label < which.num_classes:
            raise InputError(
                f"{where}: {which.labels} has {_what(label)}: give class numbers from 0 to {which.num_classes - 1}"
            )
    return np.array(given, dtype=np.int64)


def _what(value: object) -> str:
    """Name a value that nobody has checked: a number, or only its kind, because the rest may be too large to show."""
    return shown(value) if type(value) is int and value.bit_length() < 64 else f"a {type(value).__name__}"


def _joined(parts: list[Labelled]) -> Labelled:
    images = np.concatenate([images for images, _ in parts])
    return images.reshape(-1, *IMAGE_SHAPE), np.concatenate([labels for _, labels in parts])


def _remedy(which: Cifar, place: Path) -> str:
    get = f"get it anew with 'fedteddi data get {which.name}'"
    return get if place.is_file() else f"complete the folder, or delete it and {get}"
