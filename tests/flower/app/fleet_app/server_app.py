"""The server of the tests: plays the rules named in OUT/rules.txt one after the other, and can be held at a step."""

import time
from pathlib import Path

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from fedteddi import simulate
from fedteddi.flower.app import FINISHED, round_line
from fedteddi.flower.records import settings_of
from fedteddi.flower.server import FlowerFleet
from fedteddi.protocol.messages import Answers, Request

app = ServerApp()
HOLD_S = 400.0


class Held(FlowerFleet):
    """Before a step for which STAGE/<kind>-<round>.hold exists, waits until that file is gone; says where it is."""

    stage: Path

    def _exchange(self, request: Request) -> Answers:
        hold = self.stage / f"{request.kind}-{request.round}.hold"
        if hold.exists():
            hold.with_suffix(".here").touch()
            until = time.monotonic() + HOLD_S
            while hold.exists() and time.monotonic() < until:
                time.sleep(0.1)
        return super()._exchange(request)


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Play."""
    settings, out = settings_of(context.run_config), Path(str(context.run_config["out"]))
    for rule in (out / "rules.txt").read_text().split():
        fleet = Held(grid, settings, settings.scenario.clients)
        fleet.stage = out / "stage"
        record = simulate(settings, scheduler=rule, runtime=fleet, out=out / rule)
        for line in record.records:
            print(round_line(line), flush=True)
    print(FINISHED, flush=True)
