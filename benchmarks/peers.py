"""Seconds a federated round takes on a CPU, beside a bare PyTorch loop, pfl and Flower's Simulation Engine.

    python -m venv peers && peers/bin/pip install -r benchmarks/peers-requirements.txt
    python benchmarks/peers.py --peer-python peers/bin/python [--taus 1 5 10] [--repeats 7] [--write docs/peers.md]

Each contestant is a process of its own that plays one round when asked, so that repetitions interleave: whatever else
the machine does hits all alike. pfl runs with --peer-python; Flower, the bare loop and ours with this interpreter.
The client-steps are the same for all: 30 clients, τ steps of SGD with momentum 0.5 on batches of 32 CIFAR-shaped
images of the client's own, then the mean of the models. Nothing is evaluated. A contestant has PyTorch's default
threads (or OMP_NUM_THREADS), or one thread in each of several processes. Linux only.
"""

import argparse
import contextlib
import json
import os
import platform
import select
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from typing import IO, Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional as F

HERE = Path(__file__).resolve().parent
INSTALL = {
    "pfl": "pip install -r benchmarks/peers-requirements.txt, and name its interpreter with --peer-python",
    "flwr": "pip install 'fedteddi[flower]'",
    "ray": "pip install 'fedteddi[flower]'",
}
CLIENTS, MOMENTUM, LEARNING_RATE = 30, 0.5, 0.01
PARAMETERS = {"paper-cnn": 259_282, "paper-cnn-same": 558_802}
END_S = 20.0  # for a contestant to end once it is told so


# What a contestant trains. Nothing here needs fedteddi: pfl's interpreter does not have it.


@dataclass(frozen=True)
class Work:
    """A client's local training, and into how many processes a contestant may split a round."""

    model: str
    steps: int  # τ
    batch_size: int
    processes: int

    @property
    def samples(self) -> int:
        """How many images a client holds."""
        return max(320, self.steps * self.batch_size)

    def words(self) -> list[str]:
        """Return the command line that gives this work to a contestant."""
        words = ["--model", self.model, "--taus", str(self.steps)]
        return [*words, "--batch-size", str(self.batch_size), "--processes", str(self.processes)]


def make_model(work: Work) -> nn.Sequential:
    """Make the paper's CNN, as `fedteddi.learning.models` does."""
    padding = int(work.model == "paper-cnn-same")
    side = 8 if padding else 5  # of an image after two poolings

    def convolution(channels_in: int, channels: int) -> list[nn.Module]:
        return [nn.Conv2d(channels_in, channels, 3, padding=padding), nn.GroupNorm(8, channels), nn.ReLU()]

    torch.manual_seed(0)
    model = nn.Sequential(
        *(*convolution(3, 32), *convolution(32, 32), nn.MaxPool2d(2), nn.Dropout(0.2)),
        *(*convolution(32, 64), *convolution(64, 64), nn.MaxPool2d(2), nn.Dropout(0.3)),
        *(nn.Flatten(), nn.Linear(64 * side * side, 120), nn.ReLU(), nn.Linear(120, 10)),
    )
    if sum(p.numel() for p in model.parameters()) != PARAMETERS[work.model]:
        raise RuntimeError(f"{work.model} is not the model that fedteddi trains")
    return model


@cache
def noise(images: int) -> tuple[Tensor, Tensor]:
    """Return random byte images of CIFAR's shape and their labels: what they show does not matter for time."""
    pixels = np.random.default_rng(0).integers(0, 256, size=(images, 3, 32, 32), dtype=np.uint8)
    return torch.from_numpy(pixels), torch.arange(images) % 10


def drawn(work: Work, client: int) -> tuple[Tensor, Tensor]:
    """Draw the images and labels of a client's round, [τ·b, …], without replacement."""
    pixels, labels = noise(CLIENTS * work.samples)
    chosen = client * work.samples + torch.randperm(work.samples)[: work.steps * work.batch_size]
    return pixels[chosen], labels[chosen]


def batch_loss(model: nn.Module, images: Tensor, labels: Tensor) -> Tensor:
    """Return the mean loss on a batch of byte images, normalised here as ours are."""
    return F.cross_entropy(model((images.float() - 127.5) / 73.9), labels)


def train(model: nn.Module, work: Work, client: int) -> None:
    """Train a client as one would without a framework."""
    images, labels = drawn(work, client)
    optimiser = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE, momentum=MOMENTUM)
    for start in range(0, len(labels), work.batch_size):
        batch = slice(start, start + work.batch_size)
        optimiser.zero_grad()
        batch_loss(model, images[batch], labels[batch]).backward()  # type: ignore[no-untyped-call]
        optimiser.step()


# The contestants: each plays a round whenever `turns` says so, until there are no more.


class Turns:
    """A contestant's side of the line: a round for every line of input, JSON back.

    Whatever libraries print goes to the errors; other processes of the same contestant follow this one.
    """

    def __init__(self, packages: Iterable[str]) -> None:
        self.trained = CLIENTS  # clients, in the round that was played
        self.packages = packages
        self._asked = os.fdopen(os.dup(0), "rb", buffering=0)
        self._answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
        with open(os.devnull, "rb") as nothing:
            os.dup2(nothing.fileno(), 0)
        os.dup2(2, 1)
        self._followers: list[IO[bytes]] = []
        self._started: float | None = None

    def follow(self, words: list[str], environment: dict[str, str]) -> None:
        """Start another process of this contestant, which plays whenever this one does."""
        made = subprocess.Popen(
            words, env=os.environ | environment, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL
        )
        assert made.stdin is not None
        self._followers.append(made.stdin)

    def next(self) -> bool:
        """Report the round that was played, if any, then wait for the next one; False: there is none."""
        if self._started is not None:
            self.answer(
                seconds=time.perf_counter() - self._started,
                trained=self.trained,
                versions={name: import_module(name).__version__ for name in self.packages},
            )
        line = self._asked.readline()
        for follower in self._followers:
            if line:
                follower.write(line)
                follower.flush()
            else:
                follower.close()
        self._started = time.perf_counter()
        return bool(line)

    def answer(self, **facts: object) -> None:
        """Write a line of JSON."""
        print(json.dumps(facts), file=self._answers, flush=True)


def bare(work: Work, turns: Turns) -> None:
    """Train all clients in a loop, and add up their models; of several processes, each its share."""
    rank, world = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    if world > 1:
        dist.init_process_group("gloo")
    model = make_model(work).train()
    weights = [p.detach().clone() for p in model.parameters()]
    while turns.next():
        total = torch.zeros(PARAMETERS[work.model])
        for client in range(rank, CLIENTS, world):
            for p, start in zip(model.parameters(), weights, strict=True):
                p.data.copy_(start)
            train(model, work, client)
            total += nn.utils.parameters_to_vector(model.parameters()).detach()
        if world > 1:
            dist.all_reduce(total)
        nn.utils.vector_to_parameters(total / CLIENTS, weights)


def pfl(work: Work, turns: Turns) -> None:
    """Play FedAvg on pfl's simulated backend; of several processes, pfl gives each its share of the users."""
    from pfl.aggregate.simulate import SimulatedBackend
    from pfl.algorithm.base import NNAlgorithmParams
    from pfl.algorithm.federated_averaging import FederatedAveraging
    from pfl.data.federated_dataset import FederatedDataset
    from pfl.data.pytorch import PyTorchTensorDataset
    from pfl.data.sampling import MinimizeReuseUserSampler
    from pfl.hyperparam import NNEvalHyperParams, NNTrainHyperParams
    from pfl.model.pytorch import PyTorchModel

    class Network(nn.Module):
        """The model as pfl wants it."""

        def __init__(self) -> None:
            super().__init__()
            self.layers = make_model(work)

        def loss(self, images: Tensor, labels: Tensor) -> Tensor:
            """Return the loss of a batch."""
            return batch_loss(self.layers, images, labels)

        def metrics(self, *_: Tensor) -> dict[str, Any]:
            """Measure nothing: no round evaluates."""
            return {}

    class WithoutEvaluation(FederatedAveraging):  # type: ignore[misc]
        """FedAvg that does not evaluate in its iteration 0, as pfl else always does."""

        def get_next_central_contexts(self, model: Any, iteration: int, *more: Any) -> Any:
            """Begin with iteration 1."""
            return super().get_next_central_contexts(model, iteration + 1, *more)

    np.random.seed(0)  # noqa: NPY002 - pfl draws its users from it, alike in every process
    network = Network().train()
    model = PyTorchModel(
        network,
        partial(torch.optim.SGD, momentum=MOMENTUM),
        torch.optim.SGD(network.parameters(), lr=1.0),
    )
    users = FederatedDataset(
        lambda user: PyTorchTensorDataset(drawn(work, user)), MinimizeReuseUserSampler(list(range(CLIENTS)))
    )
    backend, algorithm = SimulatedBackend(users, users), WithoutEvaluation()
    how = NNTrainHyperParams(
        local_batch_size=work.batch_size, local_num_epochs=1, local_learning_rate=LEARNING_RATE
    )
    played = 0
    while turns.next():
        played += 1
        until = NNAlgorithmParams(
            central_num_iterations=played + 1,
            evaluation_frequency=2**31,
            train_cohort_size=CLIENTS,
            val_cohort_size=None,
        )
        algorithm.run(
            until, backend, model, how, NNEvalHyperParams(work.batch_size), send_metrics_to_platform=False
        )


def flower(work: Work, turns: Turns) -> None:
    """Play FedAvg on Flower's Simulation Engine: as many nodes at a time as there are processes."""
    import logging

    from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MetricRecord
    from flwr.serverapp import Grid, ServerApp
    from flwr.serverapp.strategy import FedAvg
    from flwr.simulation import run_simulation

    class Counting(FedAvg):
        """FedAvg that counts the clients that have trained: the engine goes on without those that fail."""

        def aggregate_train(
            self, server_round: int, replies: Iterable[Message]
        ) -> tuple[ArrayRecord | None, MetricRecord | None]:
            """Count, then average."""
            replies = list(replies)
            turns.trained = sum(not reply.has_error() for reply in replies)
            return super().aggregate_train(server_round, replies)

    logging.getLogger("flwr").setLevel(logging.WARNING)
    server = ServerApp()

    @server.main()
    def main(grid: Grid, context: Context) -> None:  # noqa: ARG001 - Flower gives it
        strategy = Counting(fraction_evaluate=0.0, min_train_nodes=CLIENTS, min_available_nodes=CLIENTS)
        arrays = ArrayRecord(make_model(work).state_dict())
        config = ConfigRecord({"work": work.words()})
        while turns.next():
            arrays = strategy.start(grid, arrays, num_rounds=1, train_config=config).arrays

    run_simulation(
        server,
        flower_clients(),
        CLIENTS,
        backend_config={
            "client_resources": {"num_cpus": 1, "num_gpus": 0.0},
            "init_args": {"num_cpus": work.processes, "num_gpus": 0, "logging_level": logging.WARNING},
        },
    )


def flower_clients() -> Any:
    """Make Flower's ClientApp. What it calls is imported once by each of Flower's processes, with data and model."""
    from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
    from flwr.clientapp import ClientApp

    app = ClientApp()

    @app.train()
    def fit(message: Message, context: Context) -> Message:
        words = message.content.config_records["config"]["work"]
        assert isinstance(words, list)
        work, model = flower_model(tuple(map(str, words)))
        model.load_state_dict(message.content.array_records["arrays"].to_torch_state_dict())
        train(model, work, int(context.node_config["partition-id"]))
        metrics = MetricRecord({"num-examples": work.samples})
        content = RecordDict({"arrays": ArrayRecord(model.state_dict()), "metrics": metrics})
        return Message(content=content, reply_to=message)

    return app


@cache
def flower_model(words: tuple[str, ...]) -> tuple[Work, nn.Module]:
    """Make a process's model, once, and let it have one thread."""
    torch.set_num_threads(1)
    work = works(options_of(words))[0]
    return work, make_model(work).train()


def ours(scheduler: str, work: Work, turns: Turns) -> None:
    """Play the paper's CIFAR-10 round, frame 1, at T_max = 1.2 s."""
    from fedteddi.learning.cpu import usable_threads
    from fedteddi.learning.datasets.dataset import Dataset
    from fedteddi.settings import load_experiment
    from fedteddi.simulation.laboratory import Laboratory

    pixels, labels = (part.numpy() for part in noise(10_000))
    data = Dataset.from_arrays("noise", pixels, labels, pixels[:200], labels[:200])
    settings = load_experiment("cifar10").changed(
        scheduler=scheduler,
        radio__deadline_s=1.2,
        training__model=work.model,
        training__local_steps=work.steps,
        training__batch_size=work.batch_size,
        training__augment="none",
        training__pretrain_epochs=0,
        evaluation__every=10**6,
    )
    laboratory = Laboratory(settings, data, threads=usable_threads())
    run = laboratory.new_run(settings)
    while not run.records or run.records[-1].frame == 0:
        laboratory.advance([run])  # into frame 1
    while turns.next():
        laboratory.advance([run])
        turns.trained = len(run.records[-1].clients)


@dataclass(frozen=True)
class Contestant:
    """One row of the table."""

    title: str
    play: Callable[[Work, Turns], None]
    packages: tuple[str, ...] = ()  # besides torch, those whose versions the page names
    parallel: bool = False  # one process of one thread a core
    peer: bool = True


CONTESTANTS = {
    "bare": Contestant("bare PyTorch loop", bare),
    "bare-parallel": Contestant("bare PyTorch loop", bare, parallel=True),
    "pfl": Contestant("pfl", pfl, ("pfl",)),
    "pfl-parallel": Contestant("pfl", pfl, ("pfl",), parallel=True),
    "flower": Contestant("Flower, Simulation Engine", flower, ("flwr", "ray")),
    "ours": Contestant("fedteddi, everyone trained", partial(ours, "everyone"), ("fedteddi",), peer=False),
    "ours-fedteddi": Contestant(
        "fedteddi, a FedTeddi round", partial(ours, "fedteddi"), ("fedteddi",), peer=False
    ),
}


def serve(name: str, work: Work) -> None:
    """Be a contestant; of several processes, the first one starts the others."""
    contestant = CONTESTANTS[name]
    turns = Turns(("torch", *contestant.packages))
    if contestant.parallel:
        torch.set_num_threads(1)
        if "RANK" not in os.environ:
            with socket.socket() as free:
                free.bind(("127.0.0.1", 0))
                group = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free.getsockname()[1])}
            # As torchrun names itself: pfl sees by that that it is one of several.
            group |= {"WORLD_SIZE": str(work.processes), "TORCHELASTIC_RUN_ID": "peers"}
            for rank in range(1, work.processes):
                turns.follow([*command(sys.executable, name, work)], group | {"RANK": str(rank)})
            os.environ.update(group | {"RANK": "0"})
        os.environ["LOCAL_RANK"] = os.environ["RANK"]
    try:
        contestant.play(work, turns)
    except ModuleNotFoundError as error:
        if error.name not in INSTALL:
            raise
        turns.answer(missing=error.name)


def command(python: str, name: str, work: Work) -> list[str]:
    """Return what starts a contestant. As a module of that name Flower's processes can import what it sends them."""
    return [python, "-c", "import peers; peers.main()", "--worker", name, *work.words()]


# The other side: starting contestants, asking them in turn, and what came of it.


class LeftOut(Exception):
    """A contestant cannot take part; the text says why."""


class Process:
    """A contestant in a process of its own, with whatever processes it starts."""

    def __init__(self, name: str, work: Work, python: str, limit_s: float) -> None:
        self.name, self.limit_s = name, limit_s
        self.errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed in end()
        self.home = tempfile.TemporaryDirectory()
        self.line = subprocess.Popen(
            command(python, name, work),
            env=environment(self.home.name, one_thread=CONTESTANTS[name].parallel),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            bufsize=0,
        )
        self.own = {self.line.pid: snapshot()[self.line.pid][1]}  # its processes, with when they began

    def play(self) -> dict[str, Any]:
        """Have a round played; return what the contestant says of it."""
        assert self.line.stdin is not None
        assert self.line.stdout is not None
        try:
            self.line.stdin.write(b"round\n")
        except BrokenPipeError:
            raise LeftOut(f"it ended: {self.said()}") from None
        if not select.select([self.line.stdout], [], [], self.limit_s)[0]:
            raise LeftOut(f"no answer within {self.limit_s:g} s: {self.said()}")
        answer = self.line.stdout.readline()
        self.own = descendants(self.own)
        if not answer:
            raise LeftOut(f"it ended: {self.said()}")
        found: dict[str, Any] = json.loads(answer)
        if "missing" in found:
            raise LeftOut(f"{found['missing']} is not installed: {INSTALL[found['missing']]}")
        if CONTESTANTS[self.name].peer and found["trained"] != CLIENTS:
            raise LeftOut(f"only {found['trained']} of {CLIENTS} clients have trained: {self.said()}")
        return found

    def said(self) -> str:
        """Return the last line that it wrote to its errors."""
        written = os.pread(self.errors.fileno(), 10**6, 0)  # reading would move where it writes next
        lines = written.decode(errors="replace").split("\n")
        return next((line.strip() for line in reversed(lines) if line.strip()), "it said nothing")

    def peak_mib(self) -> tuple[float, int]:
        """Return the peak resident memory of its processes, added up, and how many they are."""
        peaks = [peak for pid in self.own if (peak := peak_resident_kib(pid)) is not None]
        return sum(peaks) / 1024, len(peaks)

    def end(self) -> None:
        """Let it end by itself, or else kill its processes, each by its id."""
        assert self.line.stdin is not None
        assert self.line.stdout is not None
        self.line.stdin.close()
        until = time.monotonic() + END_S
        left = descendants(self.own)
        while left:
            if time.monotonic() > until:
                for pid in left:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
            self.line.poll()
            time.sleep(0.05)
            left = descendants(left)
        self.line.wait()
        self.line.stdout.close()
        self.errors.close()
        self.home.cleanup()


def environment(home: str, *, one_thread: bool) -> dict[str, str]:
    """Return a contestant's environment: no telemetry, nothing that listens beyond this machine."""
    paths = [str(HERE), *filter(None, [os.environ.get("PYTHONPATH")])]
    launchers = (
        "RANK",
        "WORLD_SIZE",
        "TORCHELASTIC_RUN_ID",
    )  # a contestant of several processes sets its own
    return {name: value for name, value in os.environ.items() if name not in launchers} | {
        "PYTHONPATH": os.pathsep.join(paths),
        "GLOO_SOCKET_IFNAME": "lo",
        "FLWR_HOME": home,
        "FLWR_TELEMETRY_ENABLED": "0",
        "FLWR_DISABLE_UPDATE_CHECK": "1",
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # else Ray listens on all interfaces
        "RAY_ADDRESS": "local",
        **({"OMP_NUM_THREADS": "1"} if one_thread else {}),
    }


def snapshot() -> dict[int, tuple[int, int]]:
    """Return every process's parent and when it began."""
    found = {}
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # gone since
            text = (entry / "stat").read_text(encoding="utf-8", errors="replace")
            state, parent, *more = text.rpartition(")")[2].split()
            if state != "Z":
                found[int(entry.name)] = int(parent), int(more[17])
    return found


def descendants(roots: dict[int, int]) -> dict[int, int]:
    """Return which of these processes, given with when they began, are still there, and all that descend from them."""
    there = snapshot()
    found = {pid: began for pid, began in roots.items() if pid in there and there[pid][1] == began}
    new = set(found)
    while new:
        new = {pid for pid, (parent, _) in there.items() if parent in new and pid not in found}
        found |= {pid: there[pid][1] for pid in new}
    return found


def peak_resident_kib(pid: int) -> int | None:
    """Return a process's peak resident memory; None: it is gone."""
    try:
        status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    return next((int(line.split()[1]) for line in status.split("\n") if line.startswith("VmHWM:")), None)


@dataclass
class Row:
    """What was measured of one contestant."""

    seconds: dict[int, list[float]] = field(default_factory=dict)  # by τ, one for each repetition
    trained: dict[int, list[int]] = field(default_factory=dict)
    startup_s: dict[int, float] = field(default_factory=dict)
    peak_mib: list[float] = field(default_factory=list)
    processes: int = 0
    versions: dict[str, str] = field(default_factory=dict)


@dataclass
class Results:
    """What was measured, and who was left out and why."""

    work: list[Work]
    repeats: int
    load: float = field(default_factory=lambda: os.getloadavg()[0])  # of the machine, before
    rows: dict[str, Row] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)

    def best_peer(self, steps: int) -> str | None:
        """Return the peer with the lowest median at τ; None: no peer took part."""
        peers = [n for n, row in self.rows.items() if CONTESTANTS[n].peer and steps in row.seconds]
        return min(peers, key=lambda n: statistics.median(self.rows[n].seconds[steps]), default=None)

    def ratio(self, name: str, steps: int) -> float | None:
        """Return the median over repetitions of a contestant's time by the best peer's in the same repetition."""
        best = self.best_peer(steps)
        if best is None or steps not in self.rows[name].seconds:
            return None
        pairs = zip(self.rows[name].seconds[steps], self.rows[best].seconds[steps], strict=True)
        return statistics.median(own / other for own, other in pairs)


def measure(results: Results, work: Work, names: list[str], options: argparse.Namespace) -> None:
    """Start all contestants, one after the other, then ask them in turn, each time beginning with another one."""
    there: dict[str, Process] = {}
    first: dict[str, tuple[float, dict[str, Any]]] = {}
    answers: dict[str, list[dict[str, Any]]] = {}

    def ask(name: str) -> dict[str, Any] | None:
        try:
            return there[name].play()
        except LeftOut as error:
            results.left_out[name] = f"τ = {work.steps}: {error}"
            there.pop(name).end()
            return None

    try:
        for name in names:
            tell(f"τ = {work.steps}: {name} starts")
            python = options.peer_python if "pfl" in CONTESTANTS[name].packages else sys.executable
            started = time.perf_counter()
            there[name] = Process(name, work, python, options.limit)
            answer = ask(name)
            if answer is not None:
                first[name], answers[name] = (time.perf_counter() - started, answer), []
        for repetition in range(options.repeats):
            tell(f"τ = {work.steps}: repetition {repetition + 1} of {options.repeats}")
            order = list(there)
            begin = repetition % max(1, len(order))
            for name in order[begin:] + order[:begin]:
                answer = ask(name)
                if answer is not None:
                    answers[name].append(answer)
        for name, process in there.items():
            row = results.rows.setdefault(name, Row())
            row.seconds[work.steps] = [answer["seconds"] for answer in answers[name]]
            row.trained[work.steps] = [answer["trained"] for answer in answers[name]]
            row.startup_s[work.steps] = first[name][0]
            peak, row.processes = process.peak_mib()
            row.peak_mib.append(peak)
            row.versions = first[name][1]["versions"]
    finally:
        for process in there.values():
            process.end()


def tell(line: str) -> None:
    """Say how far it is, apart from the results."""
    print(line, file=sys.stderr, flush=True)


# The page.


def title(name: str, processes: int) -> str:
    """Return a contestant's row head: what it is, and in how many processes."""
    contestant = CONTESTANTS[name]
    if contestant.parallel:
        return f"{contestant.title}, {processes} processes of one thread"
    return f"{contestant.title}, {processes} clients at a time" if name == "flower" else contestant.title


def table(results: Results) -> list[str]:
    """Return the table's lines: a row for each contestant, two columns for each τ."""
    taus = [work.steps for work in results.work]
    heads = [f"τ = {tau}: s | of the best peer" for tau in taus]
    lines = [
        f"| | {' | '.join(heads)} | start-up s | peak MiB | processes |",
        "|---" * (2 * len(taus) + 4) + "|",
    ]
    for name, row in results.rows.items():
        cells = []
        for tau in taus:
            own, ratio = row.seconds.get(tau), results.ratio(name, tau)
            cells.append(
                f"{statistics.median(own):.2f} [{min(own):.2f}, {max(own):.2f}]" if own else "left out"
            )
            cells.append("–" if ratio is None else f"{ratio:.2f}")
        cells += [f"{row.startup_s[min(row.startup_s)]:.1f}", f"{max(row.peak_mib):,.0f}", str(row.processes)]
        lines.append(f"| {title(name, results.work[0].processes)} | {' | '.join(cells)} |")
    return lines


def verdicts(results: Results) -> list[str]:
    """Return a sentence for each of ours, and who the best peer was."""
    found = []
    for name, row in results.rows.items():
        ratios = [(tau, results.ratio(name, tau)) for tau in row.seconds]
        if not CONTESTANTS[name].peer and all(ratio is not None for _, ratio in ratios):
            times = ", ".join(f"{ratio:.2f} at τ = {tau}" for tau, ratio in ratios)
            found.append(f"{title(name, 1)}, takes this part of the best peer's time: {times}.")
    best = [(work.steps, results.best_peer(work.steps)) for work in results.work]
    processes = results.work[0].processes
    named = "; ".join(f"τ = {tau}: {title(name, processes)}" for tau, name in best if name is not None)
    return [*found, *([f"The best peer: {named}."] if named else [])]


def notes(results: Results) -> list[str]:
    """Return how many clients a FedTeddi round trains, the versions, and who was left out."""
    lines = []
    if "ours-fedteddi" in results.rows:
        trained = results.rows["ours-fedteddi"].trained.items()
        counts = ", ".join(f"{statistics.median(some):g} at τ = {tau}" for tau, some in trained)
        lines.append(
            f"- A FedTeddi round trains only the scheduled, of {CLIENTS} clients (median): {counts}."
        )
    versions: dict[str, set[str]] = {"Python": {platform.python_version()}}
    for row in results.rows.values():
        for package, version in row.versions.items():
            versions.setdefault(package, set()).add(version)
    named = ", ".join(f"{package} {' and '.join(sorted(own))}" for package, own in versions.items())
    lines.append(f"- Versions: {named}.")
    lines.append(
        f"- Load average of the machine (1 minute) before the first contestant started: {results.load:.1f}."
    )
    if threads := os.environ.get("OMP_NUM_THREADS"):
        lines.append(
            f"- OMP_NUM_THREADS was {threads}: those of one process had not PyTorch's default threads."
        )
    return lines + [f"- Left out: {name}. {why}" for name, why in results.left_out.items()]


def page(results: Results) -> str:
    """Return the page."""
    work, cores = results.work[0], len(os.sched_getaffinity(0))
    return "\n".join(
        [
            "# Beside pfl and Flower",
            "",
            *verdicts(results),
            "",
            f"Seconds a round: median [lowest, highest] of {results.repeats} repetitions; the ratio is the median"
            " over repetitions of the time divided",
            "by the best peer's in the same repetition, where the best peer is the one with the lowest median"
            " (below 1: faster).",
            "",
            *table(results),
            "",
            *notes(results),
            "",
            "## How it was measured",
            "",
            f"`python benchmarks/peers.py` with `{work.model}`, {CLIENTS} clients, batches of {work.batch_size},"
            f" on {cores} cores ({processor()}).",
            METHOD,
            "",
            "## What it does not show",
            "",
            CAVEATS,
            "",
        ]
    )


METHOD = """\
Every contestant is a process of its own that plays one round when asked; repetitions go round all of them, each time
beginning with another one, so that what else the machine does hits all alike. The first round of each is not counted.

- **The work**: each client takes τ steps of SGD with momentum 0.5 from the same weights, on byte images of its own
  that are normalised batch by batch; the models are averaged. The images are noise. Nothing is evaluated.
- **FedTeddi**: the paper's CIFAR-10 scenario in frame 1 at T_max = 1.2 s, without pre-training and flips. A round
  includes the reports, σ̂ of all clients, the schedule, the training of the scheduled and the class gradients.
- **pfl**: FederatedAveraging on SimulatedBackend, all users in the cohort. It always evaluates in iteration 0; here
  it begins with iteration 1.
- **Flower**: FedAvg of the message API on the Simulation Engine (`run_simulation`), a node for each client, one CPU
  for each. A process makes its model once, and keeps the images.
- **Start-up**: from the start of the process to the end of its first round, at the lowest τ; once.
- **Peak memory**: the peak resident memory of a contestant's processes, added up, the most over τ. Pages that
  processes share, such as PyTorch's code, count in each."""
CAVEATS = """\
- Times on other machines: with more cores, the contestants that split clients over processes gain.
- Accuracy: a FedTeddi round trains fewer clients than the others, so it is not the same learning per round.
- GPUs ([gpu.md](gpu.md)), several machines, or clients of unequal size.
- What peers could do with more tuning: they run as their documentation shows, with PyTorch's default SGD.
- A busy machine: several threads wait for the slowest of them at every layer, so other work slows contestants of
  one process more than those of one-thread processes.
- A machine without the others: contestants that wait stay in memory, and those of Flower and Ray poll meanwhile, at
  about 4 % of one core."""


def processor() -> str:
    """Return the processor's name."""
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").split("\n")
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def works(options: argparse.Namespace) -> list[Work]:
    """Return the work at every τ."""
    return [Work(options.model, tau, options.batch_size, options.processes) for tau in options.taus]


def options_of(words: Iterable[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--taus", type=int, nargs="+", default=[1, 5, 10], help="local steps τ")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--model", choices=tuple(PARAMETERS), default="paper-cnn")
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument(
        "--processes",
        type=int,
        default=len(os.sched_getaffinity(0)),
        help="of the contestants that split a round, one thread each; by default one a core",
    )
    parser.add_argument("--only", choices=tuple(CONTESTANTS), action="append", help="these contestants")
    parser.add_argument("--peer-python", default=sys.executable, help="the interpreter that has pfl")
    parser.add_argument("--limit", type=float, default=180.0, help="seconds that a round may take")
    parser.add_argument("--write", type=Path, help="write the page here")
    parser.add_argument("--worker", choices=tuple(CONTESTANTS), help=argparse.SUPPRESS)
    return parser.parse_args(None if words is None else list(words))


def main() -> None:
    """Measure, and print the table or write the page."""
    options = options_of(None)
    if options.worker:
        serve(options.worker, works(options)[0])
        return
    results = Results(works(options), options.repeats)
    for work in results.work:
        names = [name for name in options.only or CONTESTANTS if name not in results.left_out]
        measure(results, work, names, options)
    print("\n".join([*table(results), "", *verdicts(results), *notes(results)]))
    if options.write:
        options.write.write_text(page(results), encoding="utf-8")


if __name__ == "__main__":
    main()
