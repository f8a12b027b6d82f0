"""All clients of many runs in one process: whatever the runs ask for in a step goes to the engine as one list.

A client that will not upload need not train: reports are made from labels and, where the rule wants them, one first
batch. Only the scheduled are trained, after selection. Because every draw is keyed, that changes no bit.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Protocol

import numpy as np
from torch import Tensor

from fedteddi.learning.datasets.dataset import Dataset
from fedteddi.learning.engine import ALL, Engine, Probe
from fedteddi.protocol.messages import ALL_CLIENTS, Answers, ClassGradients, ClassNorms, Report, Request
from fedteddi.simulation.clients import Clients

Asked = list[tuple[Clients, Request]]


class Exchange(Protocol):
    """A way to be the clients: takes one request of each run, gives back what the clients answered."""

    def exchange(self, asked: Asked) -> list[Answers]:
        """Answer one request of each run."""

    def reported_mixes(self, clients: Clients, frame: int) -> dict[int, np.ndarray]:
        """Return the class mixes that a run's clients tell of a frame without rounds, by client."""


class InProcess:
    """Answers the requests of any number of runs that share a data set and a model."""

    def __init__(self, engine: Engine, data: Dataset, *, everyone: bool = True) -> None:
        self.engine, self.num_classes = engine, data.num_classes
        self.everyone = everyone  # all clients of a run are here: of class gradients, norms do

    def exchange(self, asked: Asked) -> list[Answers]:
        """Answer one request of each run; what they have in common goes to the engine as one list."""
        self._train_ahead(asked)
        answer: dict[str, Callable[[Asked], list[Answers]]] = {
            "report": self._reports,
            "upload": self._uploads,
            "class_gradients": self._class_gradients,
        }
        found: dict[int, Answers] = {}
        for kind, work in answer.items():
            places = [place for place, (_, request) in enumerate(asked) if request.kind == kind]
            if places:
                found |= zip(places, work([asked[place] for place in places]), strict=True)
        return [found[place] for place in range(len(asked))]

    def reported_mixes(self, clients: Clients, frame: int) -> dict[int, np.ndarray]:
        """Return what every client tells of its data in a frame."""
        return {n: clients.reported_mix(frame, n) for n in range(clients.plan.num_clients)}

    def _train_ahead(self, asked: Asked) -> None:
        """Train whoever must be trained now and is not yet, over all runs."""
        for clients, request in asked:
            if request.kind == "report":  # a new round: nobody will ask for the last one's models any more
                clients.parked.clear()
        wanted = [
            (clients, request, client)
            for clients, request in asked
            if request.kind == "upload" or (request.kind == "report" and _trains_to_report(clients, request))
            for client in request.clients
            if (request.frame, request.round, client) not in clients.parked
        ]
        done = self.engine.train([clients.job(request, client) for clients, request, client in wanted])
        for (clients, request, client), trained in zip(wanted, done, strict=True):
            clients.parked[request.frame, request.round, client] = trained

    def _reports(self, asked: Asked) -> list[Answers]:
        probed = self._probed(asked)
        found = []
        for place, (clients, request) in enumerate(asked):
            given = _histograms(clients, request)
            measuring = request.clients if request.needs & {"loss", "update_norm"} else request.measuring
            for client in measuring:
                numbers = probed.get((place, client), (None, None))
                given[client] = _measured(given[client], clients, request, client, *numbers)
            found.append(Answers(given, {}))
        return found

    def _probed(self, asked: Asked) -> dict[tuple[int, int], tuple[float | None, float]]:
        """Return the gradient variance and loss of first batches that rules want, by place in the list and client."""
        found: dict[tuple[int, int], tuple[float | None, float]] = {}
        spread, only_loss = [], []
        for place, (_, request) in enumerate(asked):
            measuring = request.measuring
            spread += [(place, client) for client in measuring]
            if "loss" in request.needs:
                others = set(request.clients).difference(measuring)
                only_loss += [(place, client) for client in request.clients if client in others]

        def probes(where: list[tuple[int, int]]) -> list[Probe]:
            return [asked[place][0].first_batch(asked[place][1], client) for place, client in where]

        found |= zip(spread, self.engine.gradient_variances(probes(spread)), strict=True)
        losses: list[Any] = [(None, loss) for loss in self.engine.losses(probes(only_loss))]
        return found | dict(zip(only_loss, losses, strict=True))

    def _uploads(self, asked: Asked) -> list[Answers]:
        found = []
        for clients, request in asked:
            sent = {c: clients.parked[request.frame, request.round, c].weights for c in request.clients}
            clients.parked.clear()  # the round is decided: what was not asked for is forgotten
            found.append(Answers(sent, {}))
        return found

    def _class_gradients(self, asked: Asked) -> list[Answers]:
        """Pool the images that the server wants of each class over all clients: only their sum matters."""
        probes, places = [], []
        for place, (clients, request) in enumerate(asked):
            for c, samples in clients.world.class_samples(clients.plan, request).items():
                probes.append(Probe(request.weights, samples, outputs=clients.outputs(request.frame)))
                places.append((place, c))
        counts = np.zeros((len(asked), self.num_classes), dtype=np.int64)
        for (place, c), probe in zip(places, probes, strict=True):
            counts[place, c] = len(probe.samples)
        parts = [self._layers(asked[place][0]) for place, _ in places]
        if self.everyone:
            norms = np.zeros(counts.shape)
            for layers in (ALL, self.engine.model.head):
                own = [index for index, part in enumerate(parts) if part == layers]
                found = self.engine.gradient_norms([probes[index] for index in own], layers)
                for index, norm in zip(own, found, strict=True):
                    norms[places[index]] = norm
            given: list[Any] = [
                ClassNorms(norms=own, counts=drawn) for own, drawn in zip(norms, counts, strict=True)
            ]
        else:
            sums: list[dict[int, Tensor]] = [{} for _ in asked]
            for (place, c), probe, part, gradient in zip(
                places, probes, parts, self.engine.gradients(probes), strict=True
            ):
                sums[place][c] = gradient[part] * float(len(probe.samples))
            given = [
                ClassGradients(gradient_sum=own, counts=drawn)
                for own, drawn in zip(sums, counts, strict=True)
            ]
        return [Answers({ALL_CLIENTS: part}, {}) for part in given]

    def _layers(self, clients: Clients) -> slice:
        """Return which weights a run looks at."""
        return self.engine.model.head if clients.settings.estimates.class_norm_layers == "head" else ALL


def _histograms(clients: Clients, request: Request) -> dict[int, Report]:
    """Return the part of the clients' reports that says what they hold and train on."""
    counts = clients.plan.frames[request.frame].counts
    if clients.settings.privacy.epsilon > 0:  # no true histogram leaves the client
        mixes = {n: clients.reported_mix(request.frame, n) for n in request.clients}
        return {n: Report(num_samples=int(counts[n].sum()), released_mix=mix) for n, mix in mixes.items()}
    training = clients.settings.training
    drawn = clients.world.batch_counts(clients.plan, request.frame, request.round, request.clients, training)
    return {
        n: Report(data_counts=counts[n], batch_counts=trained_on)
        for n, trained_on in zip(request.clients, drawn, strict=True)
    }


def _measured(
    report: Report,
    clients: Clients,
    request: Request,
    client: int,
    variance: float | None,
    loss: float | None,
) -> Report:
    """Add to a client's histograms the numbers that the rule needs."""
    trained = clients.parked.get((request.frame, request.round, client))
    if clients.loss_over_steps and trained is not None:
        loss = trained.mean_loss
    return replace(
        report,
        gradient_variance=variance,
        loss=loss if "loss" in request.needs else None,
        update_norm=trained.update_norm if trained and "update_norm" in request.needs else None,
    )


def _trains_to_report(clients: Clients, request: Request) -> bool:
    steps = clients.loss_over_steps and "loss" in request.needs
    return clients.train_everyone or steps or "update_norm" in request.needs
