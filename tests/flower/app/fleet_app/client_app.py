"""A device of the tests: measuring its link sleeps or raises where a file in OUT/stage says so."""

import os
import time
from pathlib import Path

from fedteddi.flower import client_app
from fedteddi.flower.device import Holding, scenario_holding
from fedteddi.settings import Settings


def holding(settings: Settings, number: int) -> Holding:
    """Return the device's part of the scenario, with an instrument that can be broken."""
    stage = Path(os.environ["FLEET_STAGE"])
    part = scenario_holding(settings)

    def measure() -> float | None:
        if (stage / f"late-{number}").exists():
            time.sleep(float((stage / f"late-{number}").read_text()))
        if (stage / f"raise-{number}").exists():
            raise RuntimeError("the instrument is broken")
        return None  # the server's model is used

    return Holding(part.data, part.plan, measure)


app = client_app(holding)
