"""What tests of the fleet share."""

import pytest
from flwr.supercore.task_identity import TaskIdentity

from fedteddi.flower import client, frames, server, transport
from memory_fleet import Clock


@pytest.fixture(autouse=True)
def _in_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Messages can be made only inside a run; Flower's engines say which one it is."""
    monkeypatch.setattr(TaskIdentity, "_run_id", 1)
    monkeypatch.setattr(TaskIdentity, "_task_id", 1)
    monkeypatch.setattr(TaskIdentity, "_node_id", 1)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Put a clock that stands still in place of the fleet's."""
    found = Clock()
    for module in (transport, server, client, frames):
        monkeypatch.setattr(module, "time", found)
    return found
