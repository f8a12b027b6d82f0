"""FedTeddi on a fleet of Flower nodes: the two apps of a Flower project, and `play` on a Grid."""

from fedteddi.flower.app import client_app, play, server_app

__all__ = ["client_app", "play", "server_app"]
