"""The data sets that have a name, how CIFAR's are laid out on disk, and where they are looked for."""

import os
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedteddi.cache import cache_folder
from fedteddi.errors import InputError
from fedteddi.registry import Kind, first_line, must

EMBEDDED = {"fashion-mnist": "fashion_mnist.npz"}


@dataclass(frozen=True)
class Cifar:
    """One of the two CIFAR data sets in its official Python layout."""

    name: str
    num_classes: int
    archive: str
    folder: str  # what the archive holds
    train: tuple[str, ...]  # files in the folder
    test: tuple[str, ...]
    labels: str  # their key in each file

    @property
    def files(self) -> tuple[str, ...]:
        """All files that hold images."""
        return self.train + self.test


CIFAR = {
    "cifar10": Cifar(
        name="cifar10",
        num_classes=10,
        archive="cifar-10-python.tar.gz",
        folder="cifar-10-batches-py",
        train=tuple(f"data_batch_{number}" for number in range(1, 6)),
        test=("test_batch",),
        labels="labels",
    ),
    "cifar100": Cifar(
        name="cifar100",
        num_classes=100,
        archive="cifar-100-python.tar.gz",
        folder="cifar-100-python",
        train=("train",),
        test=("test",),
        labels="fine_labels",
    ),
}

NAMES = (*EMBEDDED, *CIFAR)


def _about(given: Any) -> str:
    if isinstance(given, Cifar):
        return (
            f"{given.num_classes} classes of 32×32 colour images; 'fedteddi data get {given.name}' fetches it"
        )
    return (
        "10 classes of 28×28 grey images, a part of it in the package"
        if given in EMBEDDED.values()
        else first_line(given)
    )


DATASETS = Kind(
    name="datasets",
    one="data set",
    built_in=lambda: EMBEDDED | CIFAR,
    your_own="give an .npz file",
    check=must(
        lambda given: callable(given) or hasattr(given, "train_images"),
        "is no data set: it must be a fedteddi.Dataset, or a function that returns one",
    ),
    describe=_about,
)


def data_folder(data_dir: str | Path | None = None) -> Path:
    """Return where data sets are looked for and fetched to: as given, else $FEDTEDDI_DATA, else the user's cache."""
    given = data_dir or os.environ.get("FEDTEDDI_DATA")
    return Path(given).expanduser() if given else cache_folder() / "data"


def find_cifar(which: Cifar, data_dir: str | Path | None = None) -> Path | None:
    """Return its folder or its archive in the data folder, or which may be the data folder itself; None if missing."""
    place = data_folder(data_dir)
    folders = [place, place / which.folder]
    try:
        for folder in folders:
            if is_complete(which, folder):
                return folder
        for archive in (place, place / which.archive):
            if archive.name == which.archive and archive.is_file():
                return archive
        for folder in folders:  # incomplete: whoever reads it says what is missing
            if folder.name == which.folder and folder.is_dir():
                return folder
    except OSError as error:
        raise InputError(
            f"{place} cannot be searched ({error.strerror}): choose another folder with --data-dir"
        ) from None
    return None


def is_complete(which: Cifar, folder: Path) -> bool:
    """Whether all files with images are in this folder."""
    return all((folder / file).is_file() for file in which.files)


def located_cifar(which: Cifar, data_dir: str | Path | None = None) -> Path:
    """Return what `find_cifar` finds; say where it looked if that is nothing."""
    found = find_cifar(which, data_dir)
    if found is None:
        raise InputError(
            f"{which.name} is not in {data_folder(data_dir)} (neither {which.folder} nor {which.archive}): get it with"
            f" '{how_to_get(which, data_dir)}', or say where it is with --data-dir or FEDTEDDI_DATA"
        )
    return found


def how_to_get(which: Cifar, data_dir: str | Path | None = None) -> str:
    """Return the command that puts it where it is looked for."""
    there = [] if data_dir is None else ["--data-dir", str(data_dir)]
    return shlex.join(["fedteddi", "data", "get", which.name, *there])
