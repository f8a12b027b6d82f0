"""examples/flower-template on Flower's engines: two messages a training round, through real processes."""

import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from fedteddi.registry import load_object

EXAMPLES = Path(__file__).parents[2] / "examples"
LIMIT_S = 240.0  # a machine with two busy cores is slow at starting processes
ROUND = re.compile(
    r"^round (\d+): (\d+) of (\d+) uploaded; (\d+) bytes of reports, (\d+) of uploads; failures: (.*)$", re.M
)
NODES = 4


def started_in(folder: Path, *, simulate: bool) -> Any:
    """Return the other example's launcher, for the template: that starts and stops all processes."""
    path = EXAMPLES / "flower-fashion" / "fleet.py"
    launcher: ModuleType = sys.modules[load_object(f"{path}:Fleet").__module__]

    class Template(launcher.Fleet):  # type: ignore[name-defined, misc]
        def start_run(self, run_config: str, clients: int) -> "subprocess.Popen[bytes]":
            words = ["flwr", "run", str(self.app), "fleet", "--stream", "--run-config", run_config]
            if self.simulate:
                resources = "client-resources-num-cpus=1 init-args-num-cpus=2"
                words += ["--federation-config", f"num-supernodes={clients} {resources}"]
            started: subprocess.Popen[bytes] = self._start(words, "run", group=self.others)
            return started

    return Template(folder, simulate=simulate, app=EXAMPLES / "flower-template")


def check_rounds(text: str, rounds: int, *, select_first: bool) -> None:
    """Two of four upload in each round; reports are small and, if selection comes first, asked once."""
    found = ROUND.findall(text)
    assert [int(one[0]) for one in found] == list(range(1, rounds + 1)), text[-3000:]
    for number, uploaded, reported, report_bytes, upload_bytes, failures in found:
        assert (int(uploaded), int(reported), failures) == (2, NODES, "none"), text[-3000:]
        assert int(upload_bytes) > 100_000
        assert int(report_bytes) < 1000
        assert (int(report_bytes) == 0) == (select_first and int(number) > 1)
    assert "Traceback" not in text


def test_the_template_runs_on_the_simulation_engine(tmp_path: Path) -> None:
    with started_in(tmp_path, simulate=True) as fleet:
        fleet.start_superlink()
        status, text = fleet.run("num-server-rounds=2 uploads=2 local-epochs=1", NODES, LIMIT_S, show=False)
    assert status == 0, text[-3000:]
    check_rounds(text, 2, select_first=False)


@pytest.mark.slow
def test_the_template_runs_on_supernodes(tmp_path: Path) -> None:
    """Every message is a process of its own there: what is kept between two lies in the SuperNode."""
    with started_in(tmp_path, simulate=False) as fleet:
        fleet.start_superlink()
        for number in range(NODES):
            fleet.start_node(number)
        for number in range(NODES):
            fleet.wait_for_node(number)
        for select_first in (False, True):
            before = len(fleet.log("run")) if select_first else 0
            config = f"num-server-rounds=2 uploads=2 local-epochs=1 select-first={str(select_first).lower()}"
            status, text = fleet.run(config, NODES, LIMIT_S, show=False)
            assert status == 0, text[-3000:]
            check_rounds(text[before:], 2, select_first=select_first)
