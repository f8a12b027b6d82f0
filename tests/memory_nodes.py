"""Nodes of a plain Flower app in this process: a Grid that carries real messages to a real ClientApp, and faults."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import torch
from flwr.app import Array, ArrayRecord, Context, Error, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid
from torch.utils.data import DataLoader, TensorDataset

from fedteddi.flower import report_first
from fedteddi.flower.told import ASKED

# (node, phase, round of training) -> None, "silent", "gone", an error code, content in place of the answer's
Break = Callable[[int, str], Any]


class MemoryNodes(Grid):
    """Node 100 + n is client n. Every answer is made when its message is sent."""

    def __init__(self, app: ClientApp, clients: int, broken: Break = lambda *_: None) -> None:
        self.app, self.broken = app, broken
        self.contexts: dict[int, Context] = {}
        self.waiting: dict[str, Message] = {}
        self.sent: list[tuple[int, str]] = []  # node, phase or message type
        for number in range(clients):
            self.connect(100 + number, number)

    def connect(self, node: int, number: int, **config: Any) -> None:
        """Let a node come, with nothing in its state."""
        node_config = {"partition-id": number, **config}
        self.contexts[node] = Context(1, node, node_config, RecordDict(), {})

    def set_run(self, run: Any) -> None:
        """Not used."""

    @property
    def run(self) -> Any:
        """Not used."""
        raise NotImplementedError

    def create_message(self, *_args: Any, **_more: Any) -> Message:
        """Not used."""
        raise NotImplementedError

    def get_node_ids(self) -> Iterable[int]:
        return list(self.contexts)

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        return [self._push(message) for message in messages]

    def _push(self, message: Message) -> str:
        asked = message.content.config_records.get(ASKED)
        node = message.metadata.dst_node_id
        phase = message.metadata.message_type if asked is None else str(asked["phase"])
        self.sent.append((node, phase))
        number = f"m{len(self.sent)}"
        message.metadata.__dict__["_message_id"] = number
        fault = self.broken(node, phase)
        if fault == "gone":
            self.contexts.pop(node, None)
        elif isinstance(fault, int):
            self.waiting[number] = Message(Error(fault, "Traceback …\nValueError: broken"), reply_to=message)
        elif isinstance(fault, RecordDict):
            self.waiting[number] = Message(fault, reply_to=message)
        elif fault != "silent":
            self.waiting[number] = self.app(message, self.contexts[node])
        return "" if fault == "gone" else number

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        return [self.waiting.pop(number) for number in list(message_ids) if number in self.waiting]

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> Iterable[Message]:
        """As in a plain Flower app."""
        del timeout
        return self.pull_messages([number for number in self.push_messages(messages) if number])

    def asked(self, phase: str) -> list[int]:
        """Return the clients that got such a message, in order."""
        return [node - 100 for node, kind in self.sent if kind == phase]


def node_labels(held: Sequence[int]) -> torch.Tensor:
    """Return labels, ten of each class held."""
    return torch.tensor([c for c in held for _ in range(10)])


def make_app(holds: Sequence[Sequence[int]], mods: Sequence[Any] = (report_first,)) -> ClientApp:
    """Return an app whose node n holds ten samples of each class in holds[n], and adds n + 1 to the model.

    It keeps a counter of its trainings in the node's state, as apps with personal layers do.
    """
    app = ClientApp(mods=list(mods))

    @app.train()
    def train(message: Message, context: Context) -> Message:
        assert ASKED not in message.content or not mods
        number = int(context.node_config["partition-id"])
        before = context.state.metric_records.get("trained", {"times": 0})["times"]
        labels = node_labels(holds[number])
        for _inputs, _labels in DataLoader(TensorDataset(torch.zeros(len(labels), 2), labels), batch_size=4):
            pass
        with torch.no_grad():  # a validation, which must not be counted
            for _ in DataLoader(TensorDataset(torch.zeros(8, 2), torch.full((8,), 9)), batch_size=4):
                pass
        context.state["trained"] = MetricRecord({"times": int(before) + 1})  # type: ignore[arg-type]
        weights = message.content.array_records["arrays"]["w"].numpy() + np.float32(number + 1)
        metrics = {"train_loss": float(number), "num-examples": len(labels)}
        content = RecordDict({"metrics": MetricRecord(metrics), "arrays": ArrayRecord({"w": Array(weights)})})
        return Message(content, reply_to=message)

    @app.evaluate()
    def evaluate(message: Message, context: Context) -> Message:
        number = int(context.node_config["partition-id"])
        metrics = MetricRecord({"acc": float(number), "num-examples": 1})
        return Message(RecordDict({"metrics": metrics}), reply_to=message)

    return app


def first_arrays() -> ArrayRecord:
    """The model before the first round: three zeros."""
    return ArrayRecord({"w": Array(np.zeros(3, dtype=np.float32))})


def weights_of(arrays: ArrayRecord) -> np.ndarray:
    """Return the model's numbers."""
    return np.asarray(arrays["w"].numpy())
