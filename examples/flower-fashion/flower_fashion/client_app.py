"""A device: its part of the experiment's scenario. Your own data: `client_app(holding=…)`, see docs/deploy.md."""

from fedteddi.flower import client_app

app = client_app()
