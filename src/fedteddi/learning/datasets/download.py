"""Fetch a data set with pooch: over https, checked by SHA-256, put in place in one go."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urljoin, urlsplit

import pooch
import requests

from fedteddi.errors import InputError, shown
from fedteddi.learning.datasets.catalogue import Cifar

PIECE_BYTES = 256 * 1024
SILENCE_S = 60.0  # after which a server is given up
THIS_MACHINE = ("localhost", "127.0.0.1", "::1")

Watch = Callable[[int, int | None], None]  # bytes that are here, bytes in all if known


@dataclass(frozen=True)
class Source:
    """Where a data set's authors publish its archive, and its SHA-256."""

    url: str
    sha256: str


SOURCES = {
    "cifar10": Source(
        "https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz",
        "6d958be074577803d12ecdefd02955f39262c83c16fe9348329d7fe0b5c001ce",
    ),
    "cifar100": Source(
        "https://www.cs.toronto.edu/~kriz/cifar-100-python.tar.gz",
        "85cd44d02ba6437773c5bbd22e183051d648de2e7d6b014e1ef29b855ba677a7",
    ),
}


def fetched_already(which: Cifar, folder: Path) -> bool:
    """Whether the archive lies in the folder, whole."""
    archive = folder / which.archive
    try:
        return archive.is_file() and pooch.file_hash(str(archive)) == SOURCES[which.name].sha256
    except OSError as error:
        raise InputError(
            f"{archive} cannot be read ({error.strerror}): choose another folder with --data-dir"
        ) from None


def download(which: Cifar, folder: Path, mirror: str | None = None, watch: Watch | None = None) -> Path:
    """Fetch the archive into the folder and return its path; whatever goes wrong leaves nothing behind.

    A mirror is the address of the archive, or of the folder that holds it.
    """
    url, archive, sha256 = _address(which, mirror), folder / which.archive, SOURCES[which.name].sha256
    pooch.get_logger().setLevel("WARNING")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with _downloader(watch) as fetch:
            pooch.retrieve(url, f"sha256:{sha256}", fname=archive.name, path=folder, downloader=fetch)
    except InputError:
        raise
    except requests.RequestException as error:
        answer = error.response
        why = _root(error) if answer is None else f"it answers {answer.status_code}, {answer.reason}"
        raise InputError(f"{url} cannot be fetched ({why}): try later, or name a mirror with --url") from None
    except ValueError:
        raise InputError(
            f"what {url} sent is not {which.name} (its SHA-256 is not {sha256}): try again, or name another mirror with"
            " --url"
        ) from None
    except OSError as error:
        raise InputError(
            f"{archive} cannot be written ({error.strerror}): make room, or choose another folder with --data-dir"
        ) from None
    return archive


@contextmanager
def _downloader(watch: Watch | None) -> Iterator[Any]:
    answers: list[requests.Response] = []

    def check(answer: requests.Response, /, **_: Any) -> None:
        answers.append(answer)
        if answer.is_redirect:
            _check_https(urljoin(answer.url, answer.headers["location"]))

    try:
        yield pooch.HTTPDownloader(
            progressbar=False if watch is None else Progress(watch),
            chunk_size=PIECE_BYTES,
            timeout=SILENCE_S,
            headers={"User-Agent": "fedteddi", "Accept-Encoding": "identity"},
            hooks={"response": check},
        )
    finally:
        for answer in answers:  # pooch leaves them open when they break off
            answer.close()


class Progress:
    """Pooch's idea of a progress bar, for a `Watch`."""

    total = 0  # set by pooch, if the server says it

    def __init__(self, watch: Watch) -> None:
        self._watch, self._here = watch, 0

    def update(self, size: int) -> None:
        """Count what has come; pooch counts whole pieces, also for the last one."""
        self._here = min(self._here + size, self.total or self._here + size)
        self._watch(self._here, self.total or None)

    def reset(self) -> None:
        """Keep what is there; pooch then adds all of it once more, for a full bar."""

    def close(self) -> None:
        """Leave the end to whoever shows it."""


def _address(which: Cifar, mirror: str | None) -> str:
    url = mirror or SOURCES[which.name].url
    _check_https(url)
    return url if not mirror or url.endswith(".tar.gz") else f"{url.rstrip('/')}/{which.archive}"


def _check_https(url: str) -> None:
    try:
        parts = urlsplit(url)
        good = parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in THIS_MACHINE)
    except ValueError:
        good = False
    if not good:
        raise InputError(f"{shown(url)} is not safe to fetch from: give an address that starts with https://")


def _root(error: BaseException) -> Any:
    """Return in short what is behind an error of the network."""
    while deeper := error.__cause__ or error.__context__:
        error = deeper
    return getattr(error, "strerror", None) or error
