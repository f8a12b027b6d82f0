"""Tiny files in CIFAR's official layouts, for tests of readers and downloads."""

import io
import pickle
import struct
import tarfile
from pathlib import Path
from typing import Any

import numpy as np

from fedteddi.learning.datasets.catalogue import Cifar


def batch(which: Cifar, number: int, images: int = 4) -> dict[Any, Any]:
    """A few random images; image i of file f has the label (f + i) modulo the number of classes."""
    rng = np.random.default_rng(number)
    data = rng.integers(0, 256, size=(images, 3072), dtype=np.uint8)
    labels = [(number + i) % which.num_classes for i in range(images)]
    return {"batch_label": f"batch {number}", "data": data, which.labels: labels}


def batches(which: Cifar) -> dict[str, dict[Any, Any]]:
    return {file: batch(which, number) for number, file in enumerate(which.files)}


def write_folder(which: Cifar, parent: Path, protocol: int = 2, as_bytes: bool = False) -> Path:
    folder = parent / which.folder
    folder.mkdir(parents=True)
    for file, content in batches(which).items():
        keys = {key.encode() if as_bytes else key: value for key, value in content.items()}
        (folder / file).write_bytes(pickle.dumps(keys, protocol=protocol))
    return folder


def write_archive(which: Cifar, parent: Path, prefix: str = "", **replaced: bytes) -> Path:
    """Pack the files as the official archives do, in no particular order."""
    parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(parent / which.archive, "w:gz") as archive:
        for file, content in reversed(batches(which).items()):
            packed = replaced.get(file, pickle.dumps(content, protocol=2))
            member = tarfile.TarInfo(f"{prefix}{which.folder}/{file}")
            member.size = len(packed)
            archive.addfile(member, io.BytesIO(packed))
    return parent / which.archive


def as_python_2_wrote_it(content: dict[str, Any], labels: str) -> bytes:
    """Spell out the opcodes of the official files: 8-bit strings for keys, for the dtype and for the pixels."""

    def text(value: bytes) -> bytes:
        return b"U" + bytes([len(value)]) + value

    data = content["data"]
    pixels = data.tobytes()
    numbers = b"".join(b"K" + bytes([label]) for label in content[labels])
    dtype = b"cnumpy\ndtype\n" + text(b"u1") + b"K\x00K\x01\x87R(K\x03" + text(b"|")
    dtype += b"NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
    array = b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85" + text(b"b") + b"\x87R"
    array += b"(K\x01M" + struct.pack("<H", len(data)) + b"M" + struct.pack("<H", 3072) + b"\x86"
    array += dtype + b"\x89T" + struct.pack("<I", len(pixels)) + pixels + b"tb"
    pairs = text(labels.encode()) + b"](" + numbers + b"e" + text(b"data") + array
    return b"\x80\x02}(" + pairs + b"u."
