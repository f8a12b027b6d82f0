"""Seconds a round takes on the CPU: the paper's CNN on CIFAR-shaped images, 30 clients, τ = 10, b = 32.

    python benchmarks/round.py [--repeats 7] [--neighbour]

Timed in turn, so that whatever else the machine does hits all alike: a bare PyTorch loop over all clients (model,
optimiser, nothing else; PyTorch's own threads), our trainer on the same client-steps, with PyTorch's own threads and
with clients side by side on one thread each, our round with everyone trained, and our round with only the scheduled
trained. --neighbour keeps one core busy beside all of it. Then the peak memory of one round for 30, 300 and 3,000
clients, each in its own process.
"""

import argparse
import multiprocessing
import resource
import statistics
import time

import numpy as np
import torch
from torch.nn import functional as F

from fedteddi.learning.cpu import SideBySide, usable_threads
from fedteddi.learning.datasets.dataset import Dataset
from fedteddi.learning.engine import Engine
from fedteddi.learning.models import make_model
from fedteddi.protocol.messages import Request
from fedteddi.settings import Settings, parse_settings
from fedteddi.simulation.laboratory import Laboratory
from fedteddi.simulation.run import Run


def images(count: int = 10_000) -> Dataset:
    """Random images of CIFAR's shape: what they show does not matter for time."""
    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 256, size=(count, 3, 32, 32), dtype=np.uint8)
    labels = np.arange(count) % 10
    return Dataset.from_arrays("noise", pixels, labels, pixels[:200], labels[:200])


def settings(clients: int = 30) -> Settings:
    """Return the paper's round with rules that need no probes: Random at T_max = 1.2 s."""
    return parse_settings(
        {
            "scheduler": "random",
            "rounds": [1000],
            "scenario": {
                "layout": "dirichlet",
                "clients": clients,
                "samples_per_client": 200,
                "class_weights": [1] * 10,
            },
            "training": {"model": "paper-cnn", "pretrain_epochs": 0},
            "radio": {"total_hz": 20e6, "deadline_s": 1.2},
            "evaluation": {"every": 1000},
        }
    )


def bare_loop(run: Run, data: Dataset, number: int) -> None:
    """Train every client as one would without a framework."""
    model = make_model("paper-cnn", data.image_shape, 10, 0).train()
    start = {name: value.clone() for name, value in model.state_dict().items()}
    for client in range(run.plan.num_clients):
        samples, _, _ = run.clients.batches(0, number, client)
        model.load_state_dict(start)
        optimiser = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.5)
        for step in samples:
            chosen = torch.from_numpy(step)
            batch = (data.train_images[chosen].float() - data.mean) / data.std
            optimiser.zero_grad()
            F.cross_entropy(model(batch), data.train_labels[chosen]).backward()  # type: ignore[no-untyped-call]
            optimiser.step()


def timed(repeats: int) -> dict[str, list[float]]:
    """Time the three, interleaved; "jobs" is our trainer alone on everyone's jobs, for the overhead."""
    data = images()
    laboratory = Laboratory(settings(), data, threads=usable_threads())
    engines: dict[str, Engine] = {
        "split": SideBySide(laboratory.model, data, None),
        "jobs": laboratory.engine,
    }
    names = ("bare", "split", "jobs", "everyone", "scheduled", "steps")
    found: dict[str, list[float]] = {name: [] for name in names}
    runs = {name: laboratory.new_run(settings()) for name in ("everyone", "scheduled")}
    runs["everyone"].clients.train_everyone = True
    for run in runs.values():
        laboratory.advance([run])  # enters the frame
    for number in range(1, repeats + 1):
        start = time.perf_counter()
        bare_loop(runs["everyone"], data, number)
        found["bare"].append(time.perf_counter() - start)
        asked = Request(
            kind="upload",
            frame=0,
            round=number,
            weights=runs["everyone"].state.weights,
            clients=tuple(range(30)),
            learning_rate=0.01,
        )
        for name, engine in engines.items():
            start = time.perf_counter()
            engine.train([runs["everyone"].clients.job(asked, n) for n in asked.clients])
            found[name].append(time.perf_counter() - start)
        for name, run in runs.items():
            start = time.perf_counter()
            laboratory.advance([run])
            found[name].append(time.perf_counter() - start)
        found["steps"].append(10.0 * len(runs["scheduled"].records[-1].clients))
    return found


def peak_mib(clients: int) -> float:
    """Return the peak memory of a process that plays one round with this many clients."""
    laboratory = Laboratory(settings(clients), images())
    run = laboratory.new_run(settings(clients))
    for _ in range(2):
        laboratory.advance([run])
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _spin() -> None:
    """Keep a core busy; ended from outside, after an hour at the latest."""
    end = time.monotonic() + 3600
    while time.monotonic() < end:
        pass


def main() -> None:
    """Print seconds, ratios and memory."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument(
        "--clients", type=int, nargs="*", default=[30, 300, 3000], help="sizes for the memory test"
    )
    parser.add_argument("--neighbour", action="store_true", help="keep one core busy meanwhile")
    options = parser.parse_args()
    neighbour = multiprocessing.get_context("spawn").Process(target=_spin, daemon=True)
    if options.neighbour:
        neighbour.start()
    found = timed(options.repeats)
    if options.neighbour:
        neighbour.kill()
    print(
        f"{usable_threads()} cores{', one of them busy' if options.neighbour else ''}; medians, ratios paired"
    )
    lines = {
        "bare": "bare loop over all 30 clients, PyTorch's threads",
        "split": "our trainer on the same 300 steps, PyTorch's threads",
        "jobs": "our trainer on them, clients side by side",
        "everyone": "a round, everyone trained",
        "scheduled": "a round, only the scheduled trained",
    }
    for name, text in lines.items():
        ratio = statistics.median(one / bare for one, bare in zip(found[name], found["bare"], strict=True))
        print(f"{text:54}{statistics.median(found[name]):7.2f} s   {ratio:.2f} of bare")
    print(f"{'client-steps trained then':54}{statistics.median(found['steps']):7.0f}     of 300")
    for clients in options.clients:
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            print(f"peak memory with {clients:5,} clients      {pool.apply(peak_mib, (clients,)):7.0f} MiB")


if __name__ == "__main__":
    main()
