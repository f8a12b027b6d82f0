"""The server: FedTeddi's rounds over Flower's Grid."""

from fedteddi.flower import server_app

app = server_app()
