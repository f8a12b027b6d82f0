"""What the runs of one seed share, whatever their scheduler: plans, the channel, and all that clients draw."""

from collections.abc import Iterable

import numpy as np

from fedteddi.heterogeneity.privacy import noisy_mix
from fedteddi.learning.augmentation import draw_views
from fedteddi.learning.datasets.dataset import Dataset
from fedteddi.learning.dropout import draw_keys
from fedteddi.protocol.messages import Request
from fedteddi.randomness import RoundDraws, keyed_rng
from fedteddi.scenario.build import build_plan
from fedteddi.scenario.plan import Plan
from fedteddi.settings import Settings, TrainingSettings
from fedteddi.wireless.environment import Environment

# The samples of τ steps, [τ, b], the views of their images, and dropout's keys.
Batches = tuple[np.ndarray, np.ndarray | None, np.ndarray]


class SeedWorld:
    """One seed's world: every part of it is made once, and draws are kept for the rounds that are going on."""

    def __init__(self, seed: int, data: Dataset) -> None:
        self.seed, self.num_classes = seed, data.num_classes
        self.labels = data.train_labels.numpy()
        self._plans: dict[str, Plan] = {}
        self._environments: dict[tuple[str, int, int], Environment] = {}
        self._draws = RoundDraws()

    def begin(self, rounds: Iterable[tuple[int, int]]) -> None:
        """Forget the draws of all rounds but these, by (frame, round)."""
        self._draws.keep_only(rounds)

    def plan(self, settings: Settings) -> Plan:
        """Return which data arrives where and when."""
        frames = len(settings.rounds)
        key = f"{frames} {settings.scenario.model_dump_json()}"
        if key not in self._plans:
            self._plans[key] = build_plan(settings.scenario, self.labels, self.num_classes, frames, self.seed)
        return self._plans[key]

    def environment(self, settings: Settings, clients: int) -> Environment:
        """Return the channel and the clients' speed, tried out before anything runs."""
        samples = settings.training.local_steps * settings.training.batch_size
        key = (settings.radio.model_dump_json(), clients, samples)
        if key not in self._environments:
            made = Environment.make(settings.radio, self.seed, clients, samples, self._draws)
            made.try_out(np.flatnonzero(settings.rounds).tolist())
            self._environments[key] = made
        return self._environments[key]

    def batches(self, plan: Plan, frame: int, round: int, client: int, training: TrainingSettings) -> Batches:
        """Draw a client's τ batches, each without replacement."""
        steps, size, augment = training.local_steps, training.batch_size, training.augment

        def draw() -> Batches:
            held = plan.frames[frame].held[client]
            rng = keyed_rng(self.seed, "batches", frame=frame, round=round, client=client)
            samples = np.stack([rng.choice(held, size=size, replace=False) for _ in range(steps)])
            views = draw_views(rng, samples.shape, augment)
            dropout = keyed_rng(self.seed, "dropout", frame=frame, round=round, client=client)
            return samples, views, draw_keys(dropout, steps)

        return self._draws.once(frame, round, ("batches", plan, client, steps, size, augment), draw)

    def batch_counts(
        self, plan: Plan, frame: int, round: int, client: int, training: TrainingSettings
    ) -> np.ndarray:
        """Count the samples of each class in a client's batches, [C]."""

        def count() -> np.ndarray:
            samples, _, _ = self.batches(plan, frame, round, client, training)
            return np.bincount(self.labels[samples.ravel()], minlength=self.num_classes)

        key = ("batch counts", plan, client, training.local_steps, training.batch_size, training.augment)
        return self._draws.once(frame, round, key, count)

    def released_mix(self, plan: Plan, frame: int, client: int, epsilon: float) -> np.ndarray:
        """Return the one noisy class mix that a client releases in a frame (docs/privacy.md)."""

        def release() -> np.ndarray:
            rng = keyed_rng(self.seed, "privacy", frame=frame, client=client)
            return noisy_mix(plan.frames[frame].counts[client], epsilon, rng)

        return self._draws.once(frame, 0, ("released mix", plan, client, epsilon), release)

    def class_samples(self, plan: Plan, request: Request) -> dict[int, np.ndarray]:
        """Draw the images of each class that the server asks of each client; return them by class."""
        wanted, frame, number = request.samples, request.frame, request.round
        if wanted is None:
            raise ValueError("a request for class gradients must say how many samples it wants")

        def draw() -> dict[int, np.ndarray]:
            found: dict[int, list[np.ndarray]] = {}
            for client in request.clients:
                rng = keyed_rng(self.seed, "estimates", frame=frame, round=number, client=client + 1)
                held = plan.frames[frame].held[client]
                labels = self.labels[held]
                for c in np.flatnonzero(wanted[client]):
                    mine = held[labels == c]
                    # Asked by a noisy mix, a client may hold fewer: then it takes what it has.
                    most = min(int(wanted[client, c]), len(mine))
                    if most:
                        found.setdefault(int(c), []).append(rng.choice(mine, most, replace=False))
            return {c: np.concatenate(found[c]) for c in sorted(found)}

        key = ("class samples", plan, request.clients, wanted.tobytes())
        return self._draws.once(frame, number, key, draw)
