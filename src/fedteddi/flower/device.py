"""One device of a fleet: what it holds, and its answers to the server's requests. The work is the simulator's own."""

import hmac
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from fedteddi.errors import InputError
from fedteddi.heterogeneity.privacy import noisy_mix
from fedteddi.learning.datasets.dataset import Dataset, load_dataset
from fedteddi.learning.devices import make_engine
from fedteddi.learning.engine import Trained
from fedteddi.learning.flat import FlatModel
from fedteddi.learning.models import make_model
from fedteddi.learning.timed import Timed
from fedteddi.protocol.messages import ALL_CLIENTS, ClassGradients, Report, Request
from fedteddi.results.trained import Inputs
from fedteddi.scenario.build import build_plan
from fedteddi.scenario.plan import Frame, Plan
from fedteddi.settings import Settings
from fedteddi.simulation.clients import Clients
from fedteddi.simulation.in_process import InProcess
from fedteddi.simulation.seed_world import SeedWorld


@dataclass(frozen=True, eq=False)
class Holding:
    """What a device has: images, which of them it holds in each frame, and, if it can tell, how good its link is."""

    data: Dataset
    plan: Plan  # only this device's part is looked at
    # Measures the link now, as a power gain. Without it, or where it answers None, the server's model counts.
    channel_gain: Callable[[], float | None] | None = None
    live: bool = False  # what it holds changes by itself: it is asked anew in every round


def scenario_holding(settings: Settings, data_dir: str | Path | None = None) -> Holding:
    """Return what the experiment's scenario gives to its clients; a device looks at its own part only."""
    data = load_dataset(settings.dataset, data_dir)
    labels = data.train_labels.numpy()
    plan = build_plan(settings.scenario, labels, data.num_classes, len(settings.rounds), settings.seed)
    return Holding(data, plan)


def own_holding(
    number: int,
    data: Dataset,
    held: Sequence[np.ndarray],
    channel_gain: Callable[[], float | None] | None = None,
) -> Holding:
    """Return what a device with data of its own has: `held[l]` are the indices of its training images in frame l."""
    labels, nothing = data.train_labels.numpy(), np.zeros(0, dtype=np.int64)
    frames = []
    for mine in held:
        counts = np.zeros((number + 1, data.num_classes), dtype=np.int64)
        counts[number] = np.bincount(labels[mine], minlength=data.num_classes)
        frames.append(Frame((*[nothing] * number, np.asarray(mine)), counts))
    return Holding(data, Plan(tuple(frames)), channel_gain)


def live_holding(
    number: int, data: Dataset, channel_gain: Callable[[], float | None] | None = None
) -> Holding:
    """Return what a device holds now: all training images of `data`. It is asked anew in every round.

    Frames begin when the server says so (`fleet.frames`), so these images count for whichever frame it is.
    """
    everything = np.arange(len(data.train_labels))
    return replace(own_holding(number, data, [everything], channel_gain), live=True)


@dataclass(eq=False)
class OwnData(Clients):
    """A device's own data. Its noise does not come from the run's seed: who knows that could take it off.

    With a secret, the same data in the same frame always have the same noise, in every run and after a restart. Without
    one it comes from the operating system: every restart and every run is a release more, and ε adds up.
    """

    releases: dict[int, np.ndarray] = field(default_factory=dict)  # of this run, by frame
    secret: bytes | None = None

    def release(self, frame: int, client: int) -> np.ndarray:
        """Return the device's noisy release of a frame: the same whenever it is asked in a run."""
        if frame not in self.releases:
            counts, epsilon = self.plan.frames[frame].counts[client], self.settings.privacy.epsilon
            self.releases[frame] = noisy_mix(counts, epsilon, self._noise(frame, epsilon, counts))
        return self.releases[frame]

    def _noise(self, frame: int, epsilon: float, counts: np.ndarray) -> np.random.Generator:
        if self.secret is None:
            return np.random.default_rng()
        about = f"{frame} {epsilon!r} {counts.tolist()}".encode()
        return np.random.default_rng(int.from_bytes(hmac.digest(self.secret, about, "sha256")))


def read_secret(file: Path) -> bytes:
    """Return a device's secret, made on first use and readable by its owner only."""
    try:
        if not file.exists():
            with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as new:
                new.write(os.urandom(32))
        found = file.read_bytes()
    except OSError as error:
        raise InputError(f"--node-config secret-file: {file} cannot be used ({error.strerror})") from None
    if len(found) < 16:
        raise InputError(f"--node-config secret-file: {file} holds less than 16 bytes: remove it")
    return found


class Device:
    """Answers requests for one client of a fleet."""

    def __init__(
        self,
        settings: Settings,
        number: int,
        holding: Holding,
        device: str = "cpu",
        secret: bytes | None = None,
    ) -> None:
        self.settings, self.number, self.device, self.secret = settings, number, device, secret
        self._take(holding, None)

    def hold(self, holding: Holding | None, scale: Mapping[str, Any] | None = None) -> None:
        """Take what the device holds now, and how the server scales images, if either is given and new."""
        holding = self.holding if holding is None else holding
        scale = self._scale if scale is None else dict(scale)
        if holding is not self.holding or scale != self._scale:
            self._take(holding, scale)

    def num_samples(self, frame: int) -> int:
        """Return D_n."""
        return len(self.clients.plan.frames[frame].held[self.number])

    def _take(self, holding: Holding, scale: Mapping[str, Any] | None) -> None:
        settings, training, number = self.settings, self.settings.training, self.number
        if number >= holding.plan.num_clients:
            raise InputError(f"client {number} is not one of the {holding.plan.num_clients}, counted from 0")
        for frame, own in enumerate(holding.plan.frames):
            if len(own.held[number]) < training.batch_size:
                raise InputError(
                    f"client {number} holds {len(own.held[number])} samples in frame {frame}, less than"
                    f" training.batch_size={training.batch_size}: use smaller batches"
                )
        plan = Plan(holding.plan.frames * len(settings.rounds)) if holding.live else holding.plan
        data = _scaled(holding.data, scale)
        model = FlatModel(make_model(training.model, data.image_shape, data.num_classes, settings.seed))
        self.holding, self._scale = holding, scale
        self.engine = Timed(make_engine(model, data, self.device, training.precision, threads=None))
        self.runtime = InProcess(self.engine, data, everyone=False)
        # On a fleet everyone trains before it reports, as in the paper.
        world = SeedWorld(settings.seed, data)
        self.clients = OwnData(settings, plan, world, train_everyone=True, secret=self.secret)

    def report(self, request: Request) -> tuple[Report, Trained]:
        """Train; return what is reported, and the model that waits to be asked for."""
        self.clients.world.begin([(request.frame, request.round)])
        before_s = self.engine.seconds["training"]
        (answers,) = self.runtime.exchange([(self.clients, request)])
        trained_s = self.engine.seconds["training"] - before_s
        reported: Report = answers.given[self.number]
        measured_s = trained_s if self.settings.fleet.compute_s == "measured" else None
        gain = self.holding.channel_gain
        full = replace(reported, compute_s=measured_s, channel_gain=None if gain is None else gain())
        return full, self.clients.parked.pop((request.frame, request.round, self.number))

    def class_gradients(self, request: Request) -> ClassGradients:
        """Return sums of loss gradients over images of each class that the server asked for."""
        (answers,) = self.runtime.exchange([(self.clients, request)])
        found: ClassGradients = answers.given[ALL_CLIENTS]
        return found


def _scaled(data: Dataset, scale: Mapping[str, Any] | None) -> Dataset:
    """Return a device's data, scaled as the server scales its own: models see the same numbers everywhere."""
    if scale is None:
        return data
    inputs = Inputs.from_json(dict(scale))
    if inputs.shape != data.image_shape:
        raise InputError(
            f"this device's images have the shape {data.image_shape}, the server's {inputs.shape}: make them alike"
        )
    return replace(data, mean=inputs.mean, std=inputs.std)
