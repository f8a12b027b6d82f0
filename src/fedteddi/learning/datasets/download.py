"""Fetch a data set: into a .part file that can be continued, checked, then put in place in one go."""

import errno
import fcntl
import hashlib
import http.client
import os
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from fedteddi.errors import InputError, shown
from fedteddi.learning.datasets.catalogue import Cifar

PIECE_BYTES = 256 * 1024
SILENCE_S = 60.0  # after which a server is given up

Watch = Callable[[int, int | None], None]  # bytes that are here, bytes in all if known


@dataclass(frozen=True)
class Source:
    """Where a data set's archive is published, and the MD5 sum its authors give."""

    url: str
    md5: str


SOURCES = {
    "cifar10": Source(
        "https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz", "c58f30108f718f92721af3b95e74349a"
    ),
    "cifar100": Source(
        "https://www.cs.toronto.edu/~kriz/cifar-100-python.tar.gz", "eb9058c3a382ffc7106e4002c42a8d85"
    ),
}


def fetched_already(which: Cifar, folder: Path) -> bool:
    """Whether the archive lies in the folder, whole."""
    archive = folder / which.archive
    try:
        return archive.is_file() and _md5(archive) == SOURCES[which.name].md5
    except OSError as error:
        raise InputError(
            f"{archive} cannot be read ({error.strerror}): choose another folder with --data-dir"
        ) from None


def download(which: Cifar, folder: Path, mirror: str | None = None, watch: Watch | None = None) -> Path:
    """Fetch the archive into the folder and return its path; what an earlier try has left is continued.

    A mirror is the address of the archive, or of the folder that holds it.
    """
    archive = folder / which.archive
    part = archive.with_name(f"{archive.name}.part")
    url = _address(which, mirror)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with part.open("ab") as file:
            _lock(file, part)
            try:
                _fetch(url, file, watch)
            finally:
                if file.tell() == 0:
                    part.unlink()  # nothing came: leave nothing
            file.flush()
            os.fsync(file.fileno())
            _check(which, url, part)
            part.replace(archive)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            part.unlink(missing_ok=True)  # half a file must not keep the disk full
        raise InputError(
            f"{archive} cannot be written ({error.strerror}): make room, or choose another folder with --data-dir"
        ) from None
    return archive


def _check(which: Cifar, url: str, part: Path) -> None:
    expected, found = SOURCES[which.name].md5, _md5(part)
    if found != expected:
        part.unlink()
        raise InputError(
            f"what {url} sent is not {which.name} (MD5 {found}, expected {expected}): try again, or name another"
            " mirror with --url"
        )


def _address(which: Cifar, mirror: str | None) -> str:
    if not mirror:
        return SOURCES[which.name].url
    if not mirror.startswith(("http://", "https://")):
        raise InputError(f"--url {shown(mirror)}: give an address that starts with https:// or http://")
    return mirror if mirror.endswith(".tar.gz") else f"{mirror.rstrip('/')}/{which.archive}"


def _lock(file: IO[bytes], part: Path) -> None:
    """Keep a second process from writing the same file; the lock goes with the process."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        mine = os.path.samestat(os.fstat(file.fileno()), part.stat())
    except (BlockingIOError, FileNotFoundError):
        mine = False
    if not mine:  # it is being written, or was put in place while we opened it
        raise InputError(f"another process is fetching {part.with_suffix('')}: wait for it, then try again")


def _fetch(url: str, file: IO[bytes], watch: Watch | None) -> None:
    """Append to the file what it lacks; if the server cannot continue, start again."""
    have = file.seek(0, os.SEEK_END)
    answer = _opened(url, have)
    if answer is None:
        return  # nothing is left to be sent; the checksum will tell
    with answer:
        if have and not _continues(answer, have):
            have = 0
            file.truncate(0)
        length = answer.headers.get("Content-Length", "")
        in_all = have + int(length) if length.isdecimal() else None
        while True:
            if watch is not None:
                watch(have, in_all)
            piece = _read(answer, url)
            if not piece:
                break
            file.write(piece)
            have += len(piece)
    if not have or (in_all is not None and have < in_all):
        raise InputError(
            f"{url} broke off after {have} of {in_all or 'all'} bytes: try again, it goes on from there"
        )


def _opened(url: str, have: int) -> http.client.HTTPResponse | None:
    """Ask for what comes after the bytes we have; None if the server says that there is nothing."""
    headers = {"User-Agent": "fedteddi"} | ({"Range": f"bytes={have}-"} if have else {})
    try:
        answer: http.client.HTTPResponse = urllib.request.urlopen(
            urllib.request.Request(url, headers=headers), timeout=SILENCE_S
        )
    except urllib.error.HTTPError as error:
        with error:
            if have and error.code == http.client.REQUESTED_RANGE_NOT_SATISFIABLE:
                return None
            raise InputError(
                f"{url} answers {error.code} ({error.reason}): try later, or name a mirror with --url"
            ) from None
    except (OSError, http.client.HTTPException, ValueError) as error:
        reason = error.reason if isinstance(error, urllib.error.URLError) else error
        why = reason.strerror if isinstance(reason, OSError) and reason.strerror else reason
        raise InputError(
            f"{url} cannot be reached ({why}): check the network, or name a mirror with --url"
        ) from None
    return answer


def _continues(answer: http.client.HTTPResponse, have: int) -> bool:
    partial = answer.status == http.client.PARTIAL_CONTENT
    return partial and answer.headers.get("Content-Range", "").startswith(f"bytes {have}-")


def _read(answer: http.client.HTTPResponse, url: str) -> bytes:
    """Read some bytes; a connection that fails is not a disk that fails."""
    try:
        return answer.read(PIECE_BYTES)
    except (OSError, http.client.HTTPException) as error:
        raise InputError(f"{url} broke off ({error}): try again, it goes on from there") from None


def _md5(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()
