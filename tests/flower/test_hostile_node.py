"""A hostile node among real messages: the four attacks of issue 24, and claims that the server's clock contradicts."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.supercore.task_identity import TaskIdentity

from fedteddi.flower import play
from fedteddi.registry import load_object
from small_world import tiny_data

HERE = Path(__file__).parent
MemoryGrid = load_object(f"{HERE / 'test_flower.py'}:MemoryGrid")
patient = load_object(f"{HERE / 'test_flower.py'}:patient")
HOSTILE = 102
Twist = Callable[[RecordDict, RecordDict], RecordDict]  # what was asked, the honest answer


@pytest.fixture(autouse=True)
def _in_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_run_id", "_task_id", "_node_id"):
        monkeypatch.setattr(TaskIdentity, name, 1)


class HostileGrid(MemoryGrid):  # type: ignore[misc, valid-type]
    """Client 2's node answers something else than the truth."""

    def __init__(self, settings: Any, folder: Path, twists: dict[str, Twist]) -> None:
        super().__init__(settings, folder)
        self.twists, self.model = twists, np.zeros(0)

    def _push(self, message: Message) -> str:
        number: str = super()._push(message)
        twist = self.twists.get(message.metadata.message_type)
        if message.metadata.dst_node_id == HOSTILE:
            if "model" in message.content:
                self.model = vector(message.content, "model")
            if twist is not None:
                honest = self.waiting[number].content
                own = RecordDict({"model": records(self.model)}) if len(self.model) else RecordDict()
                self.waiting[number] = Message(twist(own, honest), reply_to=message)
        return number


def vector(content: RecordDict, name: str) -> np.ndarray:
    return np.asarray(content.array_records[name]["vector"].numpy())


def records(values: np.ndarray) -> ArrayRecord:
    return ArrayRecord({"vector": Array(values)})


def huge(_asked: RecordDict, honest: RecordDict) -> RecordDict:
    return RecordDict({"upload": records(np.full_like(vector(honest, "upload"), 1e37))})


def flipped(asked: RecordDict, honest: RecordDict) -> RecordDict:
    model = vector(asked, "model")
    return RecordDict({"upload": records(model - 10 * (vector(honest, "upload") - model))})


def in_float64(_asked: RecordDict, honest: RecordDict) -> RecordDict:
    rows = {c: Array(np.full(row.shape, 1e101)) for c, row in honest.array_records["gradients"].items()}
    return RecordDict({"gradients": ArrayRecord(rows), "counts": honest["counts"]})


def claiming(**parts: Any) -> Twist:
    def twist(_asked: RecordDict, honest: RecordDict) -> RecordDict:
        return RecordDict({"report": MetricRecord(dict(honest.metric_records["report"]) | parts)})

    return twist


CLAIM = claiming(data_counts=[5 * 10**8, 0, 0, 0, 0], batch_counts=[16, 0, 0, 0, 0])
ATTACKS: dict[str, tuple[dict[str, Twist], str]] = {
    "finite weights of 1e37": ({"query.upload": huge}, ""),
    "class gradients of float64": ({"query.class_gradients": in_float64}, "holds torch.float64, the model"),
    "sign flip × 10": ({"query.upload": flipped}, ""),
    "5·10⁸ samples": ({"train.report": CLAIM, "query.upload": flipped}, ""),
    "a gain of 10": ({"train.report": claiming(channel_gain=10.0)}, "channel_gain=10 lies outside 0 to 1"),
    "no records": ({"query.upload": lambda *_: RecordDict({"x": ConfigRecord()})}, "its upload cannot be read"),
}  # fmt: skip


@pytest.mark.parametrize("name", ATTACKS)
def test_a_hostile_node_changes_nothing_that_matters(name: str, tmp_path: Path) -> None:
    """Ten rounds of FedTeddi, resumed from its folder as any run: 1.00 without an attack."""
    twists, why = ATTACKS[name]
    settings = patient(rounds=[10], radio__total_hz=1e9, evaluation__every=10)
    grid = HostileGrid(settings, tmp_path, twists)
    found = play(grid, settings, say=lambda _: None, data=tiny_data(), out=tmp_path / "run")
    assert found.finished
    assert found.records[-1].balanced >= 0.95
    assert all(set(record.failures) <= {"2"} for record in found.records)
    assert why in str([record.failures for record in found.records])
    again = play(grid, settings, say=lambda _: None, data=tiny_data(), out=tmp_path / "run", resume=True)
    assert again.records == found.records


def test_a_time_that_is_longer_than_it_took_is_cut(tmp_path: Path) -> None:
    """Client 2 says a million seconds, of a step that takes less than the test's deadlines."""
    changes = {
        "rounds": [1],
        "radio__total_hz": 1e12,
        "radio__deadline_s": 1e7,
        "fleet__compute_s": "measured",
    }
    settings = patient(**changes, scheduler="random")
    grid = HostileGrid(settings, tmp_path, {"train.report": claiming(compute_s=1e6)})
    record = play(grid, settings, say=lambda _: None, data=tiny_data()).records[-1]
    assert len(record.clients) == 6
    assert max(record.compute_s) < 600
