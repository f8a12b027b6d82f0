"""FedTeddi on a fleet of Flower nodes, and its schedulers in anybody's Flower app (docs/flower.md)."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from fedteddi.extras import explained

with explained("fedteddi.flower"):
    import flwr as _flwr  # noqa: F401  # so that a missing extra is said here

# A node starts a process for every message: each name is imported when it is first used.
_FOUND_IN = {
    "Scheduled": "fedteddi.flower.scheduled",
    "client_app": "fedteddi.flower.client",
    "play": "fedteddi.flower.app",
    "report_first": "fedteddi.flower.mod",
    "server_app": "fedteddi.flower.app",
}

if TYPE_CHECKING:
    from fedteddi.flower.app import play, server_app
    from fedteddi.flower.client import client_app
    from fedteddi.flower.mod import report_first
    from fedteddi.flower.scheduled import Scheduled

__all__ = ["Scheduled", "client_app", "play", "report_first", "server_app"]


def __getattr__(name: str) -> Any:
    if name in _FOUND_IN:
        with explained(f"fedteddi.flower.{name}"):
            return getattr(import_module(_FOUND_IN[name]), name)
    raise AttributeError(f"module 'fedteddi.flower' has no attribute {name!r}")
