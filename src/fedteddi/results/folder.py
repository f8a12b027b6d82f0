"""A run's folder: settings, scenario, one line a round, a checkpoint. Writes are atomic; one process at a time."""

import dataclasses
import fcntl
import json
import os
import platform
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import IO, Any

from fedteddi.errors import InputError
from fedteddi.protocol.record import RoundRecord
from fedteddi.settings import Settings, read_settings, write_settings
from fedteddi.settings.flat import flattened

PACKAGES = ("fedteddi", "numpy", "scipy", "torch")


@contextmanager
def locked(folder: Path) -> Iterator[str]:
    """Hold a folder for this process; the lock goes with the process, however it ends.

    Yields what is written into the lock: whoever reads the same there sees the same folder (`check_shared`).
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = (folder / ".lock").open("a")  # not "w": it may be another's
    except OSError as error:
        raise InputError(
            f"{folder} cannot be written ({error.strerror}): choose another with --out"
        ) from None
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InputError(
                f"{folder} is in use by another process: wait for it, or choose another --out"
            ) from None
        holder = f"{platform.node()} {os.getpid()} {uuid.uuid4()}"
        file.truncate(0)
        file.write(holder)
        file.flush()
        os.fsync(file.fileno())
        try:
            yield holder
        finally:
            file.truncate(0)  # this process may live on


def check_shared(folder: Path, holder: str) -> None:
    """Refuse to write for the holder of a lock into another folder than the one it holds."""
    try:
        found = (folder / ".lock").read_text(encoding="utf-8")
    except OSError:
        found = ""
    if found != holder:
        raise InputError(
            f"the node {platform.node()} does not share the folder {folder} with the machine of this command:"
            " choose an --out on a file system that all nodes of the cluster share"
        )


def write_atomically(path: Path, content: bytes) -> None:
    """Replace a file in one go: readers and crashes see the old or the new content, never half of it."""
    draft = path.with_name(path.name + ".new")
    try:
        with draft.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except OSError:
        draft.unlink(missing_ok=True)  # on a full disk it would take the room that is left
        raise


def check_out(folder: Path, *, resume: bool, one: bool) -> None:
    """Refuse to write where something else lies: `one` run, or a folder of runs, into an empty place or its own."""
    there = {p.name for p in folder.iterdir()} - {".lock", "report"} if folder.is_dir() else set()
    if there and not resume:
        raise InputError(f"{folder} exists already: continue it with --resume, or choose another --out")
    single, several = (folder / "settings.toml").is_file(), any(folder.glob("*/settings.toml"))
    started = any(name.endswith(".new") for name in there) or any((folder / n).is_dir() for n in there)
    if there and one and (several or not (single or started)):
        raise InputError(f"{folder} holds something else than one run: choose another --out")
    if there and not one and (single or not (several or started)):
        raise InputError(f"{folder} holds something else than the runs of a comparison: choose another --out")


@dataclass(frozen=True)
class Failure:
    """Why a run ended before its time, and where: the rounds before that one are good."""

    frame: int
    round: int
    cause: str  # with the remedy


@dataclass(eq=False)
class RunFolder:
    """Where one run writes. `rounds.jsonl` is cut back to the checkpoint when a run is taken up again."""

    path: Path
    rounds: IO[bytes] | None = None
    timing: IO[bytes] | None = None

    @property
    def checkpoint(self) -> Path:
        """The file a run is taken up from."""
        return self.path / "checkpoint.safetensors"

    def start(
        self,
        settings: Settings,
        scenario: dict[str, Any],
        device: str = "cpu",
        plugins: dict[str, str] | None = None,  # checksums of the user's own parts
        threads: int = 1,
    ) -> None:
        """Begin a new run here."""
        self.path.mkdir(parents=True, exist_ok=True)
        write_atomically(self.path / "settings.toml", write_settings(settings).encode())
        made_on = json.dumps(environment(device, plugins, threads), indent=2)
        write_atomically(self.path / "environment.json", made_on.encode())
        write_atomically(self.path / "scenario.json", json.dumps(scenario).encode())
        self._open("wb")

    def has_rounds(self) -> bool:
        """Tell whether rounds were recorded here."""
        file = self.path / "rounds.jsonl"
        return file.is_file() and file.stat().st_size > 0

    def note_machine(self, device: str, plugins: dict[str, str] | None = None, threads: int = 1) -> None:
        """Write down on what a run is continued, if it was started on something else."""
        file = self.path / "environment.json"
        kept, now = json.loads(file.read_text(encoding="utf-8")), environment(device, plugins, threads)
        last = (kept.get("resumed") or [kept])[-1]
        if any(last.get(key) != now[key] for key in now if key != "command"):
            kept.setdefault("resumed", []).append(now)
            write_atomically(file, json.dumps(kept, indent=2).encode())

    def check_plugins(self, plugins: dict[str, str]) -> None:
        """Refuse to continue a run with other code of the user's than it was last played with."""
        try:
            kept = json.loads((self.path / "environment.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return  # nothing to continue, or whoever reads the rest says what is wrong
        last = (kept.get("resumed") or [kept])[-1].get("plugins", {})
        changed = [what for what in plugins if last.get(what, plugins[what]) != plugins[what]]
        if changed:
            raise InputError(
                f"the {changed[0]} has changed since {self.path} was written: restore it, choose another --out, or go"
                " on with the new code by --allow-changed (allow_changed=True)"
            )

    def check_scenario(self, scenario: dict[str, Any]) -> None:
        """Refuse to continue a run on other data than it was started with."""
        try:
            found = json.loads((self.path / "scenario.json").read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise InputError(f"{self.path} has no readable scenario.json ({error}): start it anew") from None
        if found != scenario:
            raise InputError(
                f"{self.path} was started on other data: resume it with the same, or choose another --out"
            )

    def take_up(self, settings: Settings, rounds_bytes: int, timing_bytes: int) -> None:
        """Continue a run: what was written after its checkpoint is dropped and will be computed again."""
        found = read_settings(
            (self.path / "settings.toml").read_text(encoding="utf-8"), str(self.path / "settings.toml")
        )
        if found != settings:
            raise InputError(
                f"{self.path} was started with other settings ({first_difference(found, settings)}):"
                " resume it with the same ones, or choose another --out"
            )
        for name, size in (("rounds.jsonl", rounds_bytes), ("timing.jsonl", timing_bytes)):
            there = (self.path / name).stat().st_size
            if there < size:
                raise InputError(
                    f"{self.path / name} is shorter than its checkpoint says: start anew elsewhere"
                )
            if there > size:
                os.truncate(self.path / name, size)
        self._open("ab")

    def _open(self, mode: str) -> None:
        self.rounds = (self.path / "rounds.jsonl").open(mode)
        self.timing = (self.path / "timing.jsonl").open(mode)

    def append(self, record: RoundRecord, timing: dict[str, Any]) -> None:
        """Add one line about a round, and one about how long it took."""
        if self.rounds is None or self.timing is None:
            raise ValueError("the folder is not open")
        self.rounds.write(json.dumps(record.as_json(), allow_nan=False).encode() + b"\n")
        self.timing.write(json.dumps(timing, allow_nan=False).encode() + b"\n")
        self.rounds.flush()  # for whoever watches

    def failure(self) -> Failure | None:
        """Return how the run here failed, if it did."""
        try:
            return Failure(**json.loads((self.path / "failed.json").read_text(encoding="utf-8")))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, TypeError) as error:
            raise InputError(
                f"{self.path / 'failed.json'} cannot be read ({error}): remove {self.path} and start that run again"
            ) from None

    def fail(self, failure: Failure) -> None:
        """Record that the run ended here; it will not be taken up again."""
        write_atomically(
            self.path / "failed.json", json.dumps(dataclasses.asdict(failure), indent=2).encode()
        )

    def sizes(self) -> tuple[int, int]:
        """Flush, and return how long both files are."""
        sizes = []
        for file in (self.rounds, self.timing):
            if file is None:
                raise ValueError("the folder is not open")
            file.flush()
            os.fsync(file.fileno())
            sizes.append(os.fstat(file.fileno()).st_size)
        return sizes[0], sizes[1]

    def close(self) -> None:
        """Close both files."""
        for file in (self.rounds, self.timing):
            if file is not None:
                file.close()


def read_records(path: Path) -> list[RoundRecord]:
    """Read the rounds of a run; a last line cut short by a crash is left out."""
    lines = (path / "rounds.jsonl").read_bytes().split(b"\n")
    return [RoundRecord.from_json(json.loads(line)) for line in lines[:-1]]


def environment(device: str, plugins: dict[str, str] | None = None, threads: int = 1) -> dict[str, Any]:
    """Return what the numbers depend on besides settings: versions, machine, revision, the user's own code."""
    versions: dict[str, str | None] = dict.fromkeys(PACKAGES)
    for package in PACKAGES:
        with suppress(PackageNotFoundError):
            versions[package] = version(package)
    return {
        "device": device,
        "python": platform.python_version(),
        "packages": versions,
        "system": platform.platform(),
        "cpus": os.cpu_count(),
        "threads": threads,  # how many clients were trained at a time on a CPU; no bit depends on it
        "command": sys.argv,
        "git_revision": _git_revision(),
        "plugins": plugins or {},
    }


def _git_revision() -> str | None:
    """Return the code's revision; $FEDTEDDI_REVISION says it for code that travels without its history."""
    if "FEDTEDDI_REVISION" in os.environ:
        return os.environ["FEDTEDDI_REVISION"]
    checkout = Path(__file__).parents[3]
    if not (checkout / ".git").exists():  # installed: a repository around it would be somebody else's
        return None
    try:
        done = subprocess.run(
            ["git", "describe", "--always", "--dirty", "--abbrev=40"],
            cwd=checkout,
            capture_output=True,
            text=True,
            timeout=10,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() or None


def differences(one: Settings, other: Settings) -> dict[str, tuple[Any, Any]]:
    """Return every key in which two settings differ, with both values."""
    before, after = flattened(one), flattened(other)
    return {
        key: (before.get(key), after.get(key)) for key in before | after if before.get(key) != after.get(key)
    }


def first_difference(one: Settings, other: Settings) -> str:
    """Name the first key in which two settings differ."""
    for key, (was, now) in differences(one, other).items():
        return f"{key} was {was!r}, now {now!r}"
    return "nothing differs"
