"""What the runs of one seed share, whatever their scheduler: plans, the channel, and all that clients draw."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from fedteddi.heterogeneity.privacy import noisy_mix
from fedteddi.learning.augmentation import draw_views
from fedteddi.learning.datasets.dataset import Dataset
from fedteddi.learning.dropout import draw_keys
from fedteddi.protocol.messages import Request
from fedteddi.randomness import RoundDraws, Seeded, keyed_rng, keyed_rngs, keyed_seeds, seeded_rng
from fedteddi.scenario.build import build_plan
from fedteddi.scenario.plan import Plan
from fedteddi.settings import Settings, TrainingSettings
from fedteddi.wireless.environment import Environment

COUNTED_AT_ONCE = 1024  # clients whose batches are held while their classes are counted
# The samples of τ steps, [τ, b], the views of their images, and dropout's keys.
Batches = tuple[np.ndarray, np.ndarray | None, np.ndarray]


class SeedWorld:
    """One seed's world: every part of it is made once, and draws are kept for the rounds that are going on."""

    def __init__(self, seed: int, data: Dataset) -> None:
        self.seed, self.num_classes = seed, data.num_classes
        self.labels = data.train_labels.numpy()
        self._plans: dict[str, Plan] = {}
        self._environments: dict[tuple[str, int, int, tuple[int, ...]], Environment] = {}
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
        key = (settings.radio.model_dump_json(), clients, samples, tuple(settings.rounds))
        if key not in self._environments:
            made = Environment.make(settings.radio, self.seed, clients, samples, self._draws, settings.rounds)
            made.try_out(np.flatnonzero(settings.rounds).tolist())
            self._environments[key] = made
        return self._environments[key]

    def batches(
        self,
        plan: Plan,
        frame: int,
        round: int,
        client: int,
        training: TrainingSettings,
        beside: Sequence[int] = (),
    ) -> Batches:
        """Draw a client's τ batches, each without replacement; with few `beside` it, theirs are begun in the same go.

        Nobody else's: the plan of a device says nothing of what other clients hold.
        """
        drawn = self._drawn(plan, frame, round, training)
        found = drawn.batches.get(client)
        if found is None:
            if client not in drawn.begun:
                some = {client, *beside} if len(beside) <= COUNTED_AT_ONCE else {client}
                self._begin(drawn, plan, frame, round, sorted(some), training)
            rng, samples, dropout = drawn.begun.pop(client)
            views = draw_views(rng, samples.shape, training.augment)
            keys = draw_keys(seeded_rng(dropout), training.local_steps)
            found = drawn.batches[client] = samples, views, keys
        return found

    def first_batch(
        self,
        plan: Plan,
        frame: int,
        round: int,
        client: int,
        training: TrainingSettings,
        beside: Sequence[int] = (),
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """Return the samples and views of a client's first step, [b]; without views, no others are drawn."""
        if training.augment != "none":
            samples, views, _ = self.batches(plan, frame, round, client, training, beside)
            return samples[0], None if views is None else views[0]

        def draw() -> np.ndarray:
            rng = keyed_rng(self.seed, "batches", frame=frame, round=round, client=client)
            (first,) = _steps(rng, plan.frames[frame].held[client], 1, training.batch_size)
            return np.asarray(first)

        key = ("first batch", plan, client, training.batch_size)
        return self._draws.once(frame, round, key, draw), None

    def batch_counts(
        self, plan: Plan, frame: int, round: int, clients: tuple[int, ...], training: TrainingSettings
    ) -> np.ndarray:
        """Count the samples of each class in the clients' batches, [n, C]; only few clients' samples are kept.

        Everybody reports these, few train: drawing theirs a second time is cheaper than holding everybody's.
        """
        steps, size, classes = training.local_steps, training.batch_size, self.num_classes
        few = len(clients) <= COUNTED_AT_ONCE

        def count() -> np.ndarray:
            counts = np.zeros((len(clients), classes), dtype=np.int64)
            for start in range(0, len(clients), COUNTED_AT_ONCE):
                some = clients[start : start + COUNTED_AT_ONCE]
                drawn = self._drawn(plan, frame, round, training) if few else _Drawn()
                self._begin(drawn, plan, frame, round, some, training)
                samples = [drawn.samples(n).ravel() for n in some]
                cell = np.arange(len(some))[:, None] * classes + self.labels[np.array(samples)]  # [n, τb]
                found = np.bincount(cell.ravel(), minlength=len(some) * classes)
                counts[start : start + len(some)] = found.reshape(len(some), classes)
            return counts

        return self._draws.once(frame, round, ("batch counts", plan, clients, steps, size), count)

    def _begin(
        self,
        drawn: "_Drawn",
        plan: Plan,
        frame: int,
        round: int,
        clients: Sequence[int],
        training: TrainingSettings,
    ) -> None:
        """Draw the samples of those clients who have none yet."""
        held, steps, size = plan.frames[frame].held, training.local_steps, training.batch_size
        missing = [n for n in clients if n not in drawn.batches and n not in drawn.begun]
        batches, dropout = keyed_seeds(self.seed, ["batches", "dropout"], missing, frame=frame, round=round)
        for n, of_batches, of_dropout in zip(missing, batches, dropout, strict=True):
            rng = seeded_rng(of_batches)
            drawn.begun[n] = rng, _steps(rng, held[n], steps, size), of_dropout

    def _of_class(self, plan: Plan, frame: int) -> dict[tuple[int, int], np.ndarray]:
        """Return the samples that clients hold of a class in a frame, by client and class, as far as asked for."""
        return self._draws.once(frame, 0, ("of class", plan), dict)

    def _drawn(self, plan: Plan, frame: int, round: int, training: TrainingSettings) -> "_Drawn":
        key = ("batches", plan, training.local_steps, training.batch_size, training.augment)
        return self._draws.once(frame, round, key, _Drawn)

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
            some = set(np.flatnonzero(wanted.any(axis=1)).tolist())  # few: the others need no generator
            asked, of_class = [n for n in request.clients if n in some], self._of_class(plan, frame)
            keys = [n + 1 for n in asked]
            rngs = keyed_rngs(self.seed, "estimates", keys, frame=frame, round=number)
            for client, rng in zip(asked, rngs, strict=True):
                for c in np.flatnonzero(wanted[client]).tolist():
                    if (client, c) not in of_class:
                        held = plan.frames[frame].held[client]
                        of_class[client, c] = held[self.labels[held] == c]
                    mine = of_class[client, c]
                    # Asked by a noisy mix, a client may hold fewer: then it takes what it has.
                    most = min(int(wanted[client, c]), len(mine))
                    if most:
                        found.setdefault(c, []).append(rng.choice(mine, most, replace=False))
            return {c: np.concatenate(found[c]) for c in sorted(found)}

        key = ("class samples", plan, request.clients, wanted.tobytes())
        return self._draws.once(frame, number, key, draw)


@dataclass(eq=False)
class _Drawn:
    """What clients have drawn for their local steps in a round."""

    batches: dict[int, Batches] = field(default_factory=dict)
    # Samples whose views are yet to be drawn, the generator that will draw them, and dropout's.
    begun: dict[int, tuple[np.random.Generator, np.ndarray, Seeded]] = field(default_factory=dict)

    def samples(self, client: int) -> np.ndarray:
        """Return a client's samples, [τ, b]."""
        return self.batches[client][0] if client in self.batches else self.begun[client][1]


def _steps(rng: np.random.Generator, held: np.ndarray, steps: int, size: int) -> np.ndarray:
    """Draw the samples of some steps, each without replacement, [τ, b]."""
    return np.asarray(held[[rng.choice(len(held), size, replace=False) for _ in range(steps)]])
