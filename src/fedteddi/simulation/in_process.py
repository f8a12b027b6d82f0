"""All clients of many runs in one process: whatever the runs ask for in a step goes to the engine as one list.

A client that will not upload need not train: reports are made from labels and, where the rule wants them, one first
batch. Only the scheduled are trained, after selection. Because every draw is keyed, that changes no bit.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor

from fedteddi.learning.datasets.dataset import Dataset
from fedteddi.learning.engine import ALL, Engine, Probe
from fedteddi.learning.sketch import sketch
from fedteddi.protocol.messages import (
    ALL_CLIENTS,
    UPDATE_SKETCH_SIZE,
    Answers,
    ClassGradients,
    ClassNorms,
    Report,
    ReportTable,
    Request,
    Told,
)
from fedteddi.protocol.state import ServerState
from fedteddi.results.trained import Inputs
from fedteddi.simulation.clients import Clients

Asked = list[tuple[Clients, Request]]
OF_UPDATES = frozenset({"update_norm", "update_sketch"})  # whoever is asked for these must be trained
GRADIENTS_AT_ONCE = 64  # whole ones, held until they are sketched


class Exchange(Protocol):
    """A way to be the clients: takes one request of each run, gives back what the clients answered."""

    def exchange(self, asked: Asked) -> list[Answers]:
        """Answer one request of each run."""

    def reported_mixes(self, clients: Clients, frame: int) -> dict[int, np.ndarray]:
        """Return the class mixes that a run's clients tell of a frame without rounds, by client."""


@runtime_checkable
class Live(Exchange, Protocol):
    """Clients whose data nobody knows but they: a fleet's."""

    def begin(self, inputs: Inputs) -> None:
        """Take what the model takes: clients scale their own images likewise."""

    def reported_data(self, clients: Clients, frame: int) -> dict[int, tuple[int, np.ndarray]]:
        """Return how many samples a run's clients say they hold in a frame, and their class mixes [C], by client."""

    def frame_over(self, state: ServerState) -> bool:
        """Tell whether a frame has ended, after one of its rounds."""


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
            measuring = request.clients if request.needs & {"loss", "update_norm"} else request.measuring
            numbers: dict[str, dict[int, Told]] = {}
            for client in measuring:
                variance, loss = probed.get((place, client), (None, None))
                trained = clients.parked.get((request.frame, request.round, client))
                if clients.loss_over_steps and trained is not None:
                    loss = trained.mean_loss
                numbers.setdefault("gradient_variance", {})[client] = variance
                if "loss" in request.needs:
                    numbers.setdefault("loss", {})[client] = loss
                if trained and "update_norm" in request.needs:
                    numbers.setdefault("update_norm", {})[client] = trained.update_norm
            if "update_sketch" in request.needs:
                numbers["update_sketch"] = self._update_sketches(clients, request)
            found.append(Answers(_told(clients, request, numbers), {}))
        return found

    def _update_sketches(self, clients: Clients, request: Request) -> dict[int, Told]:
        """Return a sketch of w_n − w_{k−1} of every client."""
        start, seed = self.engine.place(request.weights), clients.settings.seed
        ends = [clients.parked[request.frame, request.round, n].weights for n in request.clients]
        # One by one: few differences are held at a time, and no bit depends on who else is asked.
        rows = torch.stack([sketch(end - start, seed, UPDATE_SKETCH_SIZE) for end in ends])
        return dict(zip(request.clients, rows.double().cpu().numpy(), strict=True))

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
        given: list[Any]
        if self.everyone:
            norms = self._norms(asked, probes, places)
            given = [ClassNorms(norms=own, counts=drawn) for own, drawn in zip(norms, counts, strict=True)]
        else:
            sums: list[dict[int, Tensor]] = [{} for _ in asked]
            for (place, c), row in zip(places, self._sums(asked, probes, places), strict=True):
                sums[place][c] = row
            given = [
                ClassGradients(gradient_sum=own, counts=drawn)
                for own, drawn in zip(sums, counts, strict=True)
            ]
        return [Answers({ALL_CLIENTS: part}, {}) for part in given]

    def _norms(self, asked: Asked, probes: list[Probe], places: list[tuple[int, int]]) -> np.ndarray:
        """Return the norm of every class's gradient sum, or of its sketch, [runs, C]."""
        norms = np.zeros((len(asked), self.num_classes))
        in_full: dict[str, list[int]] = {}
        sketched: list[int] = []
        for index, (place, _) in enumerate(places):
            estimates = asked[place][0].settings.estimates
            own = in_full.setdefault(estimates.class_norm_layers, [])
            (sketched if estimates.class_gradients == "sketch" else own).append(index)
        for layers, own in in_full.items():
            part = self._part(layers)
            for index, norm in zip(
                own, self.engine.gradient_norms([probes[i] for i in own], part), strict=True
            ):
                norms[places[index]] = norm
        rows = self._sums(asked, [probes[i] for i in sketched], [places[i] for i in sketched])
        squares = [(row * row).sum() for row in rows]
        for index, square in zip(sketched, torch.stack(squares).tolist() if squares else (), strict=True):
            norms[places[index]] = math.sqrt(square)
        return norms

    def _sums(self, asked: Asked, probes: list[Probe], places: list[tuple[int, int]]) -> Iterator[Tensor]:
        """Yield every class's gradient sum, or its sketch; few whole gradients are held at a time."""
        for start in range(0, len(probes), GRADIENTS_AT_ONCE):
            some = slice(start, start + GRADIENTS_AT_ONCE)
            found = self.engine.gradients(probes[some])
            for (place, _), probe, gradient in zip(places[some], probes[some], found, strict=True):
                settings = asked[place][0].settings
                row = gradient[self._part(settings.estimates.class_norm_layers)] * float(len(probe.samples))
                yield sketch(row, settings.seed) if settings.estimates.class_gradients == "sketch" else row

    def _part(self, layers: str) -> slice:
        """Return which weights a run looks at."""
        return self.engine.model.head if layers == "head" else ALL


def _told(
    clients: Clients, request: Request, numbers: Mapping[str, Mapping[int, Told]]
) -> Mapping[int, Report]:
    """Return the clients' reports: what they hold and train on, and the numbers that the rule needs."""
    counts = clients.plan.frames[request.frame].counts
    if clients.settings.privacy.epsilon > 0:  # no true histogram leaves the client
        given = {}
        for n in request.clients:
            own: dict[str, Any] = {part: found[n] for part, found in numbers.items() if n in found}
            mix = clients.reported_mix(request.frame, n)
            given[n] = Report(num_samples=int(counts[n].sum()), released_mix=mix, **own)
        return given
    training = clients.settings.training
    drawn = clients.world.batch_counts(clients.plan, request.frame, request.round, request.clients, training)
    rows = counts[list(request.clients)]
    return ReportTable(clients=request.clients, data_counts=rows, batch_counts=drawn, numbers=numbers)


def _trains_to_report(clients: Clients, request: Request) -> bool:
    steps = clients.loss_over_steps and "loss" in request.needs
    return clients.train_everyone or steps or bool(request.needs & OF_UPDATES)
