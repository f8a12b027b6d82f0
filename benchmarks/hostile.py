"""What one hostile client of six does to the final accuracy, with and without a fleet's defences.

    python benchmarks/hostile.py [--write docs/hostile.md]

Every attack is played with a fleet's defaults (`fedteddi.settings.on_fleet`) and as a simulation plays it (`fedavg`,
nothing bounded), beside the honest run of the same settings.
"""

import argparse
import dataclasses
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch

from fedteddi import InputError, Settings, simulate
from fedteddi.learning.datasets.dataset import Dataset, load_dataset
from fedteddi.protocol.messages import ALL_CLIENTS, Answers, Request
from fedteddi.results.runs import RunRecord
from fedteddi.settings import on_fleet, parse_settings
from fedteddi.simulation.clients import Clients
from fedteddi.simulation.in_process import Asked, InProcess
from fedteddi.simulation.laboratory import Laboratory
from hostile_attacks import ATTACKS, NAMED, SILENT, Turn, Twist

BEGINS, ENDS = "<!-- benchmarks/hostile.py begins -->\n", "<!-- benchmarks/hostile.py ends -->\n"
HOSTILE = 2  # which client it is


class OneHostile(InProcess):
    """Six clients that each answer for themselves, one of them as its attack says."""

    def __init__(self, settings: Settings, data: Dataset, attack: Mapping[str, Twist]) -> None:
        super().__init__(Laboratory(settings, data).engine, data, everyone="class_gradients" not in attack)
        self.settings, self.data, self.attack, self.memory = settings, data, attack, dict[str, Any]()

    @cached_property
    def wrong(self) -> InProcess:
        """Clients whose labels are one too high."""
        labels = (self.data.train_labels + 1) % self.data.num_classes
        shifted = dataclasses.replace(self.data, train_labels=labels)
        return InProcess(Laboratory(self.settings, shifted).engine, shifted)

    def exchange(self, asked: Asked) -> list[Answers]:
        """Answer one request of each run."""
        return [self._answers(clients, request) for clients, request in asked]

    def _answers(self, clients: Clients, request: Request) -> Answers:
        twist = self.attack.get(request.kind) if HOSTILE in request.clients else None
        if twist is None and (
            request.samples is None or self.everyone
        ):  # who does not lie may answer together
            return super().exchange([(clients, request)])[0]
        honest = self._one_by_one(clients, request)

        def flipped() -> Any:
            alone = dataclasses.replace(request, clients=(HOSTILE,))
            return self.wrong.exchange([(clients, alone)])[0].given[HOSTILE]

        if twist is not None:
            turn = Turn(request, honest[HOSTILE], dict(honest), flipped, self.memory)
            honest[HOSTILE] = twist(turn)
        given = {client: answer for client, answer in honest.items() if answer is not SILENT}
        return Answers(given, dict.fromkeys(set(honest) - set(given), "no answer"))

    def _one_by_one(self, clients: Clients, request: Request) -> dict[int, Any]:
        """Return what every client answers honestly; class gradients are asked of one after the other."""
        if request.samples is None:
            return dict(super().exchange([(clients, request)])[0].given)
        found = {}
        for client in request.clients:
            mine = np.arange(len(request.samples)) == client
            alone = dataclasses.replace(request, samples=request.samples * mine[:, None])
            found[client] = super().exchange([(clients, alone)])[0].given[ALL_CLIENTS]
        return found


def attacked(settings: Settings, data: Dataset, attack: Mapping[str, Twist]) -> RunRecord | str:
    """Play a run in which one client attacks; return its record, or why it ended."""
    try:
        return simulate(settings, data=data, runtime=OneHostile(settings, data, attack))
    except InputError as error:
        return str(error)


def fashion_world(rounds: int) -> Settings:
    """Return six clients of Fashion-MNIST with unequal mixes, and a band that lets all of them upload."""
    return parse_settings(
        {
            "rounds": [rounds],
            "scenario": {
                "layout": "dirichlet",
                "clients": 6,
                "samples_per_client": 300,
                "alpha": 1.0,
                "class_weights": [1.0] * 10,
            },
            "training": {"model": "mlp", "local_steps": 5, "learning_rate": 0.05, "pretrain_epochs": 0},
            "evaluation": {"every": rounds, "test_images": 1000},
        }
    )


def final(run: RunRecord | str) -> float | None:
    """Return the balanced accuracy of the model after the last round; None: the run ended before."""
    return None if isinstance(run, str) else run.records[-1].accuracy("balanced")


def shown(run: RunRecord | str) -> str:
    """Write what became of a run."""
    reached = final(run)
    return "the run ended" if reached is None else f"{reached:.3f}"


def table(settings: Settings, data: Dataset, columns: Mapping[str, dict[str, Any]], names: list[str]) -> str:
    """Play attacks under different settings; return accuracies as Markdown, the honest run's first."""
    chosen = {name: settings.changed(**changes) for name, changes in columns.items()}
    lines = [f"| attack | {' | '.join(chosen)} |", "|---|" + "---|" * len(chosen)]
    for name in ["none", *names]:
        cells = [shown(attacked(one, data, ATTACKS.get(name, {}))) for one in chosen.values()]
        lines.append(f"| {name} | {' | '.join(cells)} |")
        print(lines[-1], flush=True)
    return "\n".join(lines) + "\n"


def main() -> None:
    """Play all attacks, and write the page."""
    parser = argparse.ArgumentParser(description="What one hostile client of six does to the final accuracy.")
    parser.add_argument("--write", type=Path, help="the page to put the tables into, such as docs/hostile.md")
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--attacks", type=int, default=len(ATTACKS), help="only so many")
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    settings, data = fashion_world(chosen.rounds), load_dataset("fashion-mnist")
    fleet = {f"server__{part}": value for part, value in on_fleet(settings).server.model_dump().items()}
    names = list(ATTACKS)[: chosen.attacks]
    columns = {"simulation's defaults": {}, "fleet's defaults": fleet}
    first = table(settings, data, columns, names)
    others = {
        f"`{name}`": fleet | {"server__aggregation": name} for name in ("fedavg", "median", "trimmed-mean")
    }
    second = table(settings, data, others, [name for name in NAMED if name in names])
    if chosen.write:
        page = chosen.write.read_text(encoding="utf-8")
        before, _, rest = page.partition(BEGINS)
        after = rest.partition(ENDS)[2]
        middle = f"{first}\nThe fleet's other defaults with another aggregation:\n\n{second}"
        chosen.write.write_text(f"{before}{BEGINS}{middle}{ENDS}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
