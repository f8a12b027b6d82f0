"""What a study costs all in: milliseconds a client-step of many runs in lock-step, what they go into, and the start.

    python benchmarks/study.py [--experiment cifar10] [--seeds 2] [--rounds 60] [--device cuda] [--data-dir …]

The paper's eight rules play the experiment at three deadlines with every seed (48 runs with two seeds; at the one
deadline of cifar100 16), on random images of CIFAR's shape unless --data-dir says where the real ones are: what they
show does not matter for time. The first rounds are left out of the cost, because programs are compiled in them; they
count as start, from the beginning of the process to the end of round 1. A client-step is one SGD step of a scheduled
client; estimates, evaluation, decisions and bookkeeping are part of its price.
"""

import argparse
import time
from dataclasses import dataclass, field

import numpy as np

from fedteddi.cli.process_age import process_age_s
from fedteddi.experiment import RunOptions, compare
from fedteddi.learning.datasets.dataset import Dataset
from fedteddi.settings import Settings, load_experiment, override
from fedteddi.simulation.progress import Progress

PAPERS = (
    "fedteddi",
    "fedcgd",
    "fed-cbs",
    "pure-drift",
    "power-of-choice",
    "random",
    "best-norm",
    "best-channel",
)
DEADLINES_S = {"cifar10": [0.8, 1.0, 1.2], "cifar100": [30.0]}
IMAGES = {
    "cifar10": (10, 5000, 1000),
    "cifar100": (50, 500, 100),
}  # classes, of each for training and for tests


def noise(name: str) -> Dataset:
    """Random images of CIFAR's shape and number."""
    rng = np.random.default_rng(0)
    classes, train, test = IMAGES[name]

    def images(number: int) -> tuple[np.ndarray, np.ndarray]:
        labels = np.arange(classes * number) % classes
        return rng.integers(0, 256, size=(len(labels), 3, 32, 32), dtype=np.uint8), labels

    return Dataset.from_arrays("noise", *images(train), *images(test))


@dataclass
class Account:
    """What had been spent when a round was over."""

    at_s: float
    seconds: dict[str, float]
    run_rounds: int
    client_steps: int


@dataclass
class Watcher:
    """Notes when the first rounds are over, and what has been spent by then and in all."""

    warm_up: int  # rounds of every run that are no part of the cost
    pretraining_s: list[float] = field(default_factory=list)  # its first and its last step
    first_round_s: float | None = None
    accounts: list[Account] = field(default_factory=list)

    def __call__(self, progress: Progress) -> None:
        """Hear how far the runs are."""
        runs = progress.runs
        rounds = [run.state.rounds_done for run in runs]
        if progress.pretraining is not None:
            self.pretraining_s = [*self.pretraining_s[:1], process_age_s()]
        if progress.pretraining is not None or min(rounds) == 0:
            return
        if self.first_round_s is None:
            self.first_round_s = process_age_s()
        if min(rounds) < self.warm_up:
            return
        steps = sum(
            len(record.clients) * run.settings.training.local_steps for run in runs for record in run.records
        )
        account = Account(time.perf_counter(), dict(progress.seconds), sum(rounds), steps)
        self.accounts = [*self.accounts[:1], account]


def measured(
    settings: Settings, rules: list[str], seeds: int, device: str, data: Dataset | None, data_dir: str | None
) -> Watcher:
    """Play all runs; return what was noted."""
    watcher = Watcher(warm_up=max(1, max(settings.rounds) // 4))
    options = RunOptions(device=device, data=data, data_dir=data_dir, watch=watcher)
    compare(
        settings,
        schedulers=rules,
        seeds=range(seeds),
        deadlines_s=DEADLINES_S[settings.name],
        run=options,
    )
    return watcher


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--experiment", choices=list(DEADLINES_S), default="cifar10")
    parser.add_argument("--scheduler", nargs="*", default=PAPERS, help="in place of the paper's eight")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=60, help="rounds of the first frame that has any")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--data-dir", help="real images in place of random ones")
    parser.add_argument("--set", nargs="*", default=[], metavar="KEY=VALUE", help="other settings")
    options = parser.parse_args()
    settings = load_experiment(options.experiment).changed(rounds=[0, options.rounds])
    settings = override(settings, options.set)
    data = None if options.data_dir else noise(options.experiment)
    watcher = measured(
        settings, list(options.scheduler), options.seeds, options.device, data, options.data_dir
    )
    first, last = watcher.accounts
    steps, rounds = last.client_steps - first.client_steps, last.run_rounds - first.run_rounds
    seconds = last.at_s - first.at_s
    print(f"{options.experiment}, {settings.training.model}, τ = {settings.training.local_steps}")
    print(f"start to the end of round 1   {watcher.first_round_s:9.1f} s")
    if watcher.pretraining_s:
        begun, ended = watcher.pretraining_s[0], watcher.pretraining_s[-1]
        print(f"    models pre-trained from {begun:9.1f} to {ended:.1f} s")
    print(f"then {rounds:7,} run-rounds       {seconds:9.1f} s   {1e3 * seconds / rounds:.2f} ms each")
    print(f"{steps:12,} client-steps     {1e3 * seconds / steps:9.4f} ms each, all in")
    for purpose, spent in last.seconds.items():
        share = (spent - first.seconds[purpose]) / seconds
        print(f"    {purpose:26}{1e3 * seconds * share / steps:9.4f} ms   {share:.0%}")


if __name__ == "__main__":
    main()
