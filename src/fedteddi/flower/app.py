"""FedTeddi on Flower: the two apps that a Flower project names in its pyproject.toml (docs/deploy.md).

# client_app.py                              # server_app.py
from fedteddi.flower import client_app       from fedteddi.flower import server_app
app = client_app()                           app = server_app()
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from fedteddi.errors import InputError
from fedteddi.extras import explained

with explained("fedteddi.flower"):
    from flwr.app import Context
    from flwr.serverapp import Grid, ServerApp

from fedteddi.flower.client import client_app
from fedteddi.flower.frames import check_frames
from fedteddi.flower.records import settings_of
from fedteddi.settings import Settings, on_fleet

if TYPE_CHECKING:
    from fedteddi.experiment import Progress
    from fedteddi.protocol.record import RoundRecord
    from fedteddi.results.runs import RunRecord

__all__ = ["client_app", "play", "server_app"]

FINISHED = "all rounds are done"


def server_app() -> ServerApp:
    """Make the ServerApp: it plays the experiment of Flower's run configuration and prints every round's schedule.

    Keys of that configuration: `experiment`, `out` (a run folder, as of `fedteddi run`), `resume`, `allow-changed`,
    `data-dir`, `track` (trackers), and any setting of the experiment.
    """
    app = ServerApp()

    @app.main()
    def main(grid: Grid, context: Context) -> None:
        config = context.run_config
        play(
            grid,
            settings_of(config),
            out=str(config.get("out", "")) or None,
            resume=bool(config.get("resume", False)),
            allow_changed=bool(config.get("allow-changed", False)),
            data_dir=str(config.get("data-dir", "")) or None,
            track=str(config.get("track", "")).split(),
        )

    return app


def play(grid: Grid, settings: Settings, say: Callable[[str], None] = print, **more: Any) -> "RunRecord":
    """Play an experiment on the nodes of a Grid; `more` goes to `fedteddi.simulate` (`out`, `resume`, `data_dir`)."""
    from fedteddi.experiment import simulate
    from fedteddi.flower.server import FlowerFleet

    settings = on_fleet(settings)
    if settings.training.head == "expanding":
        raise InputError(
            "training.head='expanding' needs to know which classes all clients hold, which a fleet does not tell:"
            " use 'all'"
        )
    check_frames(settings)
    fleet = FlowerFleet(grid, settings, settings.scenario.clients, say)
    estimates, fleet_s = settings.estimates, settings.fleet
    if estimates.class_gradients == "full" and estimates.class_norm_layers == "all":
        say(
            "whole gradients travel, one for every class: fleet.class_gradients = sketch sends 509 numbers of each"
        )
    if fleet_s.pace and settings.radio.deadline_s >= fleet_s.upload_s:
        raise InputError(
            f"fleet.pace=true holds uploads back for up to radio.deadline_s={settings.radio.deadline_s:g} s, and"
            f" fleet.upload_s={fleet_s.upload_s:g} ends before: raise fleet.upload_s above it"
        )
    shown: list[int] = []

    def watch(progress: "Progress") -> None:
        records = progress.runs[0].records
        for record in records[len(shown) :]:
            shown.append(record.round)
            say(round_line(record))

    record = simulate(settings, runtime=fleet, watch=watch, **more)
    say(FINISHED if record.finished else "stopped in time; go on with resume=true")
    return record


def round_line(record: "RoundRecord") -> str:
    """Return a round in one line: who uploaded with how much bandwidth, who failed and why, accuracy."""
    if record.round == 0:
        parts = [f"frame {record.frame} begins"]
    else:
        pairs = zip(record.clients, record.bandwidth_hz, strict=True)
        chosen = ", ".join(f"{client} ({hz / 1e6:.2f} MHz)" for client, hz in pairs) or "nobody"
        parts = [f"frame {record.frame} round {record.round}: scheduled {chosen}"]
    parts += [f"client {client} failed: {why}" for client, why in record.failures.items()]
    if record.is_evaluated:
        parts.append(f"accuracy {record.balanced:.3f} balanced, {record.global_:.3f} global")
    return "; ".join(parts)
