"""The clients of one run: what they hold, the batches they draw, the mixes they tell, what they train."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from fedteddi.heterogeneity.mixes import class_mix
from fedteddi.learning.engine import Probe, Trained, TrainJob
from fedteddi.learning.local_training import SGD, LocalTraining, make_local_training
from fedteddi.protocol.messages import Request
from fedteddi.scenario.plan import Plan
from fedteddi.settings import Settings
from fedteddi.simulation.seed_world import Batches, SeedWorld


@dataclass(eq=False)
class Clients:
    """The clients of one run: what they hold, and what they have trained but not uploaded."""

    settings: Settings
    plan: Plan
    world: SeedWorld  # shared with the other runs of this seed
    train_everyone: bool = False  # the paper's reading; the same result, several times slower
    parked: dict[tuple[int, int, int], Trained] = field(default_factory=dict)  # by (frame, round, client)

    @property
    def loss_over_steps(self) -> bool:
        """Whether a client's loss is its mean over the local steps, not that of its first batch."""
        return self.settings.estimates.power_of_choice_loss == "local-steps"

    def batches(self, frame: int, round: int, client: int, beside: Sequence[int] = ()) -> Batches:
        """Return the samples of the client's τ steps, [τ, b], their views, and dropout's keys."""
        return self.world.batches(self.plan, frame, round, client, self.settings.training, beside)

    @cached_property
    def local_training(self) -> LocalTraining | None:
        """What the clients' steps follow; None: plain SGD, which needs no question a step."""
        training = self.settings.training
        rule = make_local_training(training.local_training, **training.local_training_options)
        return None if type(rule) is SGD else rule

    def outputs(self, frame: int) -> np.ndarray | None:
        """Return the classes that the model has outputs for in a frame, [C]; None: all (docs/paper.md D10)."""
        return self.plan.classes_seen(frame) if self.settings.training.head == "expanding" else None

    def reported_mix(self, frame: int, client: int) -> np.ndarray:
        """Return the class mix of its data that the client tells: the noisy release, if privacy is on."""
        if self.settings.privacy.epsilon > 0:
            return self.release(frame, client)
        return class_mix(self.plan.frames[frame].counts[client])

    def release(self, frame: int, client: int) -> np.ndarray:
        """Return the client's one noisy release of a frame."""
        return self.world.released_mix(self.plan, frame, client, self.settings.privacy.epsilon)

    def job(self, request: Request, client: int) -> TrainJob:
        """Return the client's local training in this round."""
        samples, views, keys = self.batches(request.frame, request.round, client, request.clients)
        return TrainJob(
            weights=request.weights,
            samples=samples,
            views=views,
            learning_rate=request.learning_rate,
            momentum=self.settings.training.momentum,
            dropout_keys=keys,
            outputs=self.outputs(request.frame),
            rule=self.local_training,
        )

    def first_batch(self, request: Request, client: int) -> Probe:
        """Return the client's first batch as a question about the model it was sent."""
        samples, views = self.world.first_batch(
            self.plan, request.frame, request.round, client, self.settings.training, request.clients
        )
        return Probe(request.weights, samples, views, self.outputs(request.frame))
