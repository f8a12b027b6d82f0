"""All clients of many runs in one process: whatever the runs ask for in a step goes to the trainer as one list.

A client that will not upload need not train: reports are made from labels and, where the rule wants them, one first
batch. Only the scheduled are trained, after selection. Because every draw is keyed, that changes no bit.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from fedteddi.learning.data import Dataset
from fedteddi.learning.flat import FlatModel
from fedteddi.learning.statistics import class_gradient, gradient_variance, mean_loss
from fedteddi.learning.training import TrainJob, train
from fedteddi.protocol.messages import Answers, ClassGradients, Report, Request
from fedteddi.randomness import keyed_rng
from fedteddi.scenario.plan import Plan
from fedteddi.settings import Settings


@dataclass(eq=False)
class Clients:
    """The clients of one run: what they hold, and what they have trained but not uploaded."""

    settings: Settings
    plan: Plan
    train_everyone: bool = False  # the paper's reading; the same result, several times slower
    parked: dict[tuple[int, int, int], Tensor] = field(default_factory=dict)  # by (frame, round, client)
    mean_loss: dict[tuple[int, int, int], float] = field(default_factory=dict)

    @property
    def loss_over_steps(self) -> bool:
        """Whether a client's loss is its mean over the local steps, not that of its first batch."""
        return self.settings.estimates.power_of_choice_loss == "local-steps"

    def batches(self, frame: int, round: int, client: int) -> tuple[np.ndarray, np.ndarray | None]:
        """Draw the samples of the client's τ steps, [τ, b], and which are mirrored: without replacement per step."""
        training = self.settings.training
        held = self.plan.frames[frame].held[client]
        rng = keyed_rng(self.settings.seed, "batches", frame=frame, round=round, client=client)
        samples = np.stack(
            [rng.choice(held, size=training.batch_size, replace=False) for _ in range(training.local_steps)]
        )
        return samples, rng.random(samples.shape) < 0.5 if training.augment == "flip" else None

    def job(self, request: Request, client: int) -> TrainJob:
        """Return the client's local training in this round."""
        samples, flips = self.batches(request.frame, request.round, client)
        seed = self.settings.seed
        dropout = keyed_rng(seed, "dropout", frame=request.frame, round=request.round, client=client)
        return TrainJob(
            weights=request.weights,
            samples=samples,
            flips=flips,
            learning_rate=request.learning_rate,
            momentum=self.settings.training.momentum,
            dropout_seed=int(dropout.integers(2**62)),
        )


class InProcess:
    """Answers the requests of any number of runs that share a data set and a model."""

    def __init__(self, model: FlatModel, data: Dataset) -> None:
        self.model, self.data = model, data
        self.labels = data.train_labels.numpy()

    def exchange(self, asked: list[tuple[Clients, Request]]) -> list[Answers]:
        """Answer one request of each run; all local training goes to the trainer as one list of jobs."""
        self._train_ahead(asked)
        answer: Mapping[str, Callable[[Clients, Request], Answers]] = {
            "report": self._report,
            "upload": self._upload,
            "class_gradients": self._class_gradients,
        }
        return [answer[request.kind](clients, request) for clients, request in asked]

    def _train_ahead(self, asked: list[tuple[Clients, Request]]) -> None:
        """Train whoever must be trained now and is not yet, over all runs."""
        for clients, request in asked:
            if request.kind == "report":  # a new round: nobody will ask for the last one's models any more
                clients.parked.clear()
                clients.mean_loss.clear()
        wanted = [
            (clients, request, client)
            for clients, request in asked
            if request.kind == "upload" or (request.kind == "report" and _trains_to_report(clients, request))
            for client in request.clients
            if (request.frame, request.round, client) not in clients.parked
        ]
        done = train(
            [clients.job(request, client) for clients, request, client in wanted], self.model, self.data
        )
        for (clients, request, client), trained in zip(wanted, done, strict=True):
            clients.parked[request.frame, request.round, client] = trained.weights
            clients.mean_loss[request.frame, request.round, client] = trained.mean_loss

    def _report(self, clients: Clients, request: Request) -> Answers:
        return Answers(
            {client: self._client_report(clients, request, client) for client in request.clients}, {}
        )

    def _client_report(self, clients: Clients, request: Request, client: int) -> Report:
        samples, flips = clients.batches(request.frame, request.round, client)
        classes = self.data.num_classes
        place = (request.frame, request.round, client)
        variance = loss = moved = None
        if request.needs & {"gradient_std", "loss"}:
            self.model.load(request.weights)
            first = self.data.training_batch(samples[0], None if flips is None else flips[0])
            if "gradient_std" in request.needs:
                variance, loss = gradient_variance(self.model, *first)
            else:
                loss = mean_loss(self.model, *first)
        if clients.loss_over_steps and "loss" in request.needs:
            loss = clients.mean_loss[place]
        if "update_norm" in request.needs:
            moved = float(torch.linalg.vector_norm((clients.parked[place] - request.weights).double()))
        return Report(
            data_counts=clients.plan.frames[request.frame].counts[client],
            batch_counts=np.bincount(self.labels[samples.ravel()], minlength=classes),
            gradient_variance=variance,
            loss=loss if "loss" in request.needs else None,
            update_norm=moved,
        )

    def _upload(self, clients: Clients, request: Request) -> Answers:
        uploads = {c: clients.parked[request.frame, request.round, c] for c in request.clients}
        clients.parked.clear()  # the round is decided: what was not asked for is forgotten
        clients.mean_loss.clear()
        return Answers(uploads, {})

    def _class_gradients(self, clients: Clients, request: Request) -> Answers:
        """Pool the images that the server wants of each class over all clients: only their sum matters."""
        if request.samples is None:
            raise ValueError("a request for class gradients must say how many samples it wants")
        self.model.load(request.weights)
        held = clients.plan.frames[request.frame].held
        head = self.model.head if clients.settings.estimates.class_norm_layers == "head" else slice(None)
        sums: dict[int, Tensor] = {}
        drawn = request.samples.sum(axis=0)  # [C]
        rngs = {
            client: keyed_rng(
                clients.settings.seed,
                "estimates",
                frame=request.frame,
                round=request.round,
                client=client + 1,
            )
            for client in request.clients
        }
        for c in np.flatnonzero(drawn):
            own = []
            for client in request.clients:
                mine = held[client][self.labels[held[client]] == c]
                own.append(rngs[client].choice(mine, request.samples[client, c], replace=False))
            images, labels = self.data.training_batch(np.concatenate(own))
            sums[int(c)] = class_gradient(self.model, images, labels)[head] * float(drawn[c])
        return Answers({-1: ClassGradients(gradient_sum=sums, counts=drawn)}, {})


def _trains_to_report(clients: Clients, request: Request) -> bool:
    steps = clients.loss_over_steps and "loss" in request.needs
    return clients.train_everyone or steps or "update_norm" in request.needs
