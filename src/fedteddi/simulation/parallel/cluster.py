"""Groups spread over a Ray cluster: how it is joined, how far they are, what happens when a worker dies.

Ray is imported here and nowhere else, and only when it is asked for (docs/cluster.md).
"""

import contextlib
import os
import re
import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from fedteddi.errors import InputError, shown
from fedteddi.extras import install_command
from fedteddi.simulation.parallel.worker import Board, Home, Play, in_worker, worker_environment

LOCAL = "local"
RETRIES = 2  # of a group whose worker died
POLL_S = 1.0
CANCEL_S = 10.0  # how long workers may take to stop by themselves
CANCELLED_IN_BACKGROUND = "'Handlers' object is not callable"  # raised by Ray itself; `_answer` says when

OTHER_NODES = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"  # Ray's name for it; it means the same on Linux
LOOPBACK = ("127.0.0.1", "::1")

Look = Callable[[dict[int, Any], list[str]], None]  # groups' last reports, and what the user should know


def check_address(address: str) -> None:
    """Refuse what cannot be the address of a cluster."""
    if address in (LOCAL, "auto") or re.fullmatch(r"(ray://)?[^\s:/]+:\d{1,5}", address):
        return
    raise InputError(
        f"--ray {shown(address)}: give HOST:PORT, ray://HOST:PORT or auto; or nothing, to start Ray on this machine"
        " (an experiment's name comes before --ray)"
    )


@contextlib.contextmanager
def connected(address: str, device: str) -> "Iterator[Cluster]":
    """Join the cluster at an address, or start one on this machine (`local`) and stop it in the end.

    A Ray that this process is connected to already is used as it is, and left running.
    """
    check_address(address)
    if device not in ("cpu", "cuda", "auto"):
        raise InputError(
            f"device={device!r}: with --ray choose cpu, cuda or auto; Ray gives every group its GPU"
        )
    ray = _ray(address)
    if ray.is_initialized():
        yield Cluster(ray, device)
        return
    _check_listening(address)
    try:
        ray.init(
            address,
            runtime_env={"env_vars": worker_environment()},
            log_to_driver=False,
            logging_level="error",
            **({"include_dashboard": False} if address == LOCAL else {}),
        )
    except (OSError, RuntimeError, ValueError, ImportError, TimeoutError) as error:
        raise InputError(
            f"Ray at {address} cannot be used ({_first_line(error)}): {_remedy(address)}"
        ) from None
    try:
        yield Cluster(ray, device)
    finally:
        ray.shutdown()


class Cluster:
    """A Ray cluster as a comparison sees it: so many slots, each a GPU or a core."""

    def __init__(self, ray: Any, device: str) -> None:
        self._ray = ray
        there = ray.cluster_resources()
        gpus, cores = int(there.get("GPU", 0)), int(there.get("CPU", 0))
        if device == "cuda" and not gpus:
            raise InputError("the Ray cluster has no GPU: use --device cpu, or add a node with one")
        self.device = "cuda" if gpus and device != "cpu" else "cpu"
        self.slots = gpus if self.device == "cuda" else cores
        if not self.slots:
            raise InputError("the Ray cluster has no CPU cores to give: start a node with some (--num-cpus)")
        self._asks = {"num_gpus": 1, "num_cpus": 0} if self.device == "cuda" else {"num_cpus": 1}

    def spread(
        self,
        play: Play,
        shared: Any,
        groups: dict[str, Any],  # what is played, by the name it has in messages
        look: Look,
        stop_at: float | None = None,  # of time.time(): groups that wait for a slot then are not begun
    ) -> list[Any]:
        """Play every group on a slot of its own; return their answers, None for those that were not begun.

        A group whose worker dies is played again, at most twice. Whatever ends this early ends the workers too.
        """
        ray, names = self._ray, list(groups)
        # Restarted where its node dies: workers then report anew.
        board = self._remote(Board, num_cpus=0, max_restarts=-1).remote()
        worker = self._remote(in_worker, **self._asks, max_calls=1, max_retries=0)
        begin = partial(worker.remote, play, Home.of_this_process(), ray.put(shared), board)
        answers: list[Any] = [None] * len(names)
        deaths: list[list[str]] = [[] for _ in names]  # their causes
        news: list[str] = []
        reported: dict[int, Any] = {}
        pending = {begin(number, groups[name]): number for number, name in enumerate(names)}
        try:
            while pending:
                for reference in ray.wait(list(pending), timeout=POLL_S)[0]:
                    number = pending.pop(reference)
                    answers[number] = answer = self._answer(reference, names[number])
                    # Not by Ray's max_retries, which says nothing of it and knows no end where memory runs out.
                    if isinstance(answer, Died):
                        deaths[number].append(answer.cause)
                        news.append(_played_again(names[number], deaths[number]))
                        pending[begin(number, groups[names[number]])] = number
                reported |= self._read(board)
                look({number: last for number, last in reported.items() if last is not None}, news)
                if stop_at is not None and time.time() > stop_at:
                    for reference in [r for r, number in pending.items() if number not in reported]:
                        ray.cancel(reference)
        except BaseException:  # such as Ctrl-C
            self._cancel(list(pending))
            raise
        finally:
            ray.kill(board)
        return answers

    def _remote(self, what: Any, **asks: Any) -> Any:
        # The environment is given here too, for a Ray that was there before us.
        return self._ray.remote(**asks, runtime_env={"env_vars": worker_environment()})(what)

    def _answer(self, reference: Any, name: str) -> Any:
        """Return what a group answered, None if it was cancelled in time; raise what it refused."""
        errors = self._ray.exceptions
        lost = (
            errors.WorkerCrashedError,
            errors.NodeDiedError,
            errors.OutOfMemoryError,
            errors.ObjectLostError,
        )
        try:
            return self._ray.get(reference)
        except errors.TaskCancelledError:
            return None
        except lost as error:
            return Died(_first_line(error))
        except errors.RuntimeEnvSetupError as error:
            raise InputError(f"Ray could not prepare a worker ({_first_line(error)})") from None
        except errors.RayTaskError as error:
            cause = error.cause
            if isinstance(cause, InputError):
                raise InputError(str(cause)) from None
            # Where Ctrl-C is ignored, as in a shell's background, Ray stumbles over cancelling a worker that still
            # reads what it was sent: it calls the handler of the signal, and there is none.
            if isinstance(cause, TypeError) and str(cause) == CANCELLED_IN_BACKGROUND:
                return None
            if "failed to import" in str(error) or isinstance(cause, ImportError):
                raise InputError(
                    f"a worker of the Ray cluster could not import what {name} needs"
                    f" ({str(error).strip().splitlines()[-1]}): install the same fedteddi on every node"
                ) from None
            raise

    def _read(self, board: Any) -> dict[int, Any]:
        try:
            reported: dict[int, Any] = self._ray.get(board.read.remote(), timeout=5 * POLL_S)
        except self._ray.exceptions.RayError:  # it only shows how far things are
            return {}
        return reported

    def _cancel(self, references: list[Any]) -> None:
        """Stop workers as Ctrl-C would, so that they close their files; then the hard way."""
        ray = self._ray
        for reference in references:
            ray.cancel(reference)
        if references:
            _, left = ray.wait(references, num_returns=len(references), timeout=CANCEL_S)
            for reference in left:
                ray.cancel(reference, force=True)


@dataclass(frozen=True)
class Died:
    """A worker that is no more."""

    cause: str


def _ray(address: str) -> Any:
    """Import Ray, quietly, and without the usage reports it would send.

    One that is to be started on this machine listens on 127.0.0.1 only: it has no authentication unless it is given
    some. Ray reads the variable that says so when it is imported.
    """
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # or it warns of what it will do one day
    if address == LOCAL:
        os.environ.setdefault(OTHER_NODES, "0")
    try:
        import ray
        import ray.exceptions
    except ImportError as error:
        raise InputError(f"Ray is not installed ({error}): {install_command('ray')}") from None
    if address == LOCAL and not ray.is_initialized() and ray.util.get_node_ip_address() not in LOOPBACK:
        raise InputError(
            "Ray was imported before and would listen on all interfaces, without authentication: set"
            f" {OTHER_NODES}=0 before importing it, or start it yourself with ray.init()"
        )
    return ray


def _check_listening(address: str) -> None:
    """Say at once that nobody answers: Ray itself would try for a minute."""
    if address in (LOCAL, "auto"):
        return
    host, _, port = address.removeprefix("ray://").rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=5).close()
    except (OSError, OverflowError) as error:
        raise InputError(
            f"no Ray answers at {address} ({_first_line(error)}): start it with 'ray start --head' on that machine"
        ) from None


def _played_again(name: str, deaths: list[str]) -> str:
    """Return the news that a group is played again; refuse to go on with one that dies time after time."""
    if len(deaths) > RETRIES:
        raise InputError(
            f"the worker of {name} died {len(deaths)} times ({deaths[-1]}): see whether its node has enough memory;"
            " what was written is kept, repeat with --resume"
        )
    return f"the worker of {name} died ({deaths[-1]}); it is played again"


def _remedy(address: str) -> str:
    if address == LOCAL:
        return "leave --ray out, or start Ray yourself and name its address"
    if address == "auto":
        return "start Ray on this machine with 'ray start --head', or name an address"
    if address.startswith("ray://"):
        return "is that the port of Ray's client (10001 unless chosen), with the same versions of Ray and Python?"
    return "is this machine a node of it, with the same versions of Ray and Python? If not a node, use ray://HOST:10001"


def _first_line(error: BaseException) -> str:
    return next(
        (line.strip().rstrip(".:") for line in str(error).splitlines() if line.strip()), type(error).__name__
    )
