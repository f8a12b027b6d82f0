"""A fleet in this process: real apps and messages, carried by a Grid in memory that can be broken."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from flwr.app import Context, Error, Message, RecordDict

from fedteddi import Settings
from fedteddi.flower import client_app
from fedteddi.flower.device import Holding
from fedteddi.scenario.build import build_plan
from fedteddi.settings import write_settings
from small_world import tiny_data, tiny_settings

Break = Callable[[int, str], Any]


class MemoryGrid:
    """Nodes in this process. `broken(node, message type)` may name a fault: silent, gone, a code, other content."""

    def __init__(self, settings: Settings, folder: Path, broken: Break = lambda *_: None) -> None:
        folder.mkdir(exist_ok=True)
        (folder / "tiny.toml").write_text(write_settings(settings))
        self.broken, self.run_config = broken, {"experiment": str(folder / "tiny.toml")}
        self.app = client_app(lambda s, _number: Holding(tiny_data(), scenario_plan(s)))
        self.contexts: dict[int, Context] = {}
        self.waiting: dict[str, Message] = {}
        self.sent: list[Message] = []
        for number in range(settings.scenario.clients):
            self.connect(100 + number, number)

    def connect(self, node: int, number: Any, **config: Any) -> None:
        node_config = {"partition-id": number, **config}
        self.contexts[node] = Context(1, node, node_config, RecordDict(), self.run_config)

    def get_node_ids(self) -> Iterable[int]:
        return list(self.contexts)

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        return [self._push(message) for message in messages]

    def _push(self, message: Message) -> str:
        self.sent.append(message)
        number = f"m{len(self.sent)}"
        message.metadata.__dict__["_message_id"] = number
        node, kind = message.metadata.dst_node_id, message.metadata.message_type
        context = self.contexts[node]
        fault = self.broken(node, kind)
        if fault == "gone":
            del self.contexts[node]
            return ""
        if isinstance(fault, int):
            self.waiting[number] = Message(Error(fault, "Traceback …\nValueError: broken"), reply_to=message)
        elif isinstance(fault, RecordDict):
            self.waiting[number] = Message(fault, reply_to=message)
        elif fault != "silent":
            self.waiting[number] = self.app(message, context)
        return number

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        return [self.waiting.pop(number) for number in list(message_ids) if number in self.waiting]


def scenario_plan(settings: Settings) -> Any:
    data = tiny_data()
    return build_plan(
        settings.scenario, data.train_labels.numpy(), data.num_classes, len(settings.rounds), settings.seed
    )


def head_settings(**changes: Any) -> Settings:
    fixed: dict[str, Any] = {
        "estimates__class_norm_layers": "head",
        "fleet__compute_s": "modelled",
        "fleet__class_gradients": "full",
        "fleet__data": "scenario",
        "evaluation__every": 1,
    }
    waits = {f"fleet__{name}": 0.3 for name in ("report_s", "upload_s", "class_gradients_s", "wait_s")}
    arrival = {"frame": 1, "clients": 3, "classes": [3], "samples": 12}
    fixed["scenario__arrivals"] = [arrival] if len(changes["rounds"]) > 1 else []
    return tiny_settings(**fixed | waits | changes)


def patient(**changes: Any) -> Settings:
    """Deadlines that only a fault can miss."""
    waits = {f"fleet__{name}": 60.0 for name in ("report_s", "upload_s", "class_gradients_s", "wait_s")}
    return head_settings(**waits | changes)


class Clock:
    """Time that passes only while somebody sleeps: what a busy machine takes for its work does not count."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
