"""How long commands take to start, beside the imports that they cannot do without.

    python benchmarks/startup.py [--repeats 9]

`fedteddi schedule` is set beside numpy, typer and rich, and `fedteddi run` beside PyTorch. Everything is timed in turn,
so that whatever else the machine does hits all alike: medians, and the median of every turn's ratio. CPU seconds are
those of all threads. The run plays one round of the default experiment; its pre-trained model is made before, if the
cache has none. Set OMP_NUM_THREADS=1 where the cores have other work: threads that wait for each other burn them.
"""

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console
from rich.table import Table

LIGHT = "import numpy.random, typer, rich.console, rich.table"  # all that `schedule` imports, but for our own
IMPORTS = {
    "numpy, typer and rich": LIGHT,
    "import fedteddi": "import fedteddi",
    "import torch": "import torch",
}
COMMANDS = ("example", "schedule", "schedulers")
# What a run says on stderr when its first model is evaluated, and after its only round.
STAGES = {"0/1 rounds": "fedteddi run, at its first round", "1/1 rounds": "fedteddi run, first round done"}
TORCH = ("import torch", *STAGES.values())  # what is set beside PyTorch

FEDTEDDI = (sys.executable, "-m", "fedteddi")
Seconds = tuple[float, float]  # of all processors, and on the wall


def environment() -> dict[str, str]:
    """Return ours, in which Python keeps what it has compiled, as it does for an installed package."""
    return {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}


def cpu_s_of(process: int) -> float:
    """Return the CPU seconds that a living process has used."""
    stat = Path(f"/proc/{process}/stat").read_text(encoding="utf-8", errors="replace")
    user, system = stat.rpartition(")")[2].split()[11:13]  # fields 14 and 15, counted from 1 (man 5 proc)
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def timed(*words: str) -> Seconds:
    """Time one process of Python from its start to its end."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run([sys.executable, *words], env=environment(), stdout=subprocess.DEVNULL, check=True)
    wall_s, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, wall_s


def timed_run(epochs: int) -> dict[str, Seconds]:
    """Time a run from its process's start until its first round begins, and until that is done."""
    found: dict[str, Seconds] = {}
    with tempfile.TemporaryDirectory() as out:
        words = ["run", "--rounds", "1", "--set", f"training.pretrain_epochs={epochs}", "--out", out]
        start = time.perf_counter()
        with subprocess.Popen(
            [*FEDTEDDI, *words],
            env=environment(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            for line in process.stderr or ():
                stage = STAGES.get(line.partition(",")[0].strip())
                if stage is not None:
                    found[stage] = (cpu_s_of(process.pid), time.perf_counter() - start)
    if process.returncode or len(found) < len(STAGES):
        raise RuntimeError(f"fedteddi {' '.join(words)} ended with exit code {process.returncode}")
    return found


def turns(repeats: int, epochs: int) -> Iterator[dict[str, Seconds]]:
    """Time everything once a turn; the first turn, which compiles and may pre-train, does not count."""
    with tempfile.TemporaryDirectory() as folder:
        reports = Path(folder) / "round.json"
        with reports.open("wb") as file:
            subprocess.run([*FEDTEDDI, "example"], env=environment(), stdout=file, check=True)
        for turn in range(repeats + 1):
            found = {what: timed("-c", script) for what, script in IMPORTS.items()}
            for command in COMMANDS:
                given = [str(reports)] if command == "schedule" else []
                found[f"fedteddi {command}"] = timed(*FEDTEDDI[1:], command, *given)
            found |= timed_run(epochs)
            if turn:
                yield found


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--repeats", type=int, default=9, help="turns that count")
    parser.add_argument("--epochs", type=int, default=10, help="of pre-training: 10, as by default; 0: none")
    options = parser.parse_args()
    found = list(turns(options.repeats, options.epochs))
    for baseline, rows in (
        (next(iter(IMPORTS)), [what for what in found[0] if what not in TORCH]),
        (TORCH[0], TORCH),
    ):
        table = Table("process", "CPU s", "wall s", f"CPU / {baseline}")
        for column in table.columns[1:]:
            column.justify = "right"
        for what in rows:
            cpu_s, wall_s = (statistics.median(turn[what][kind] for turn in found) for kind in (0, 1))
            ratio = statistics.median(turn[what][0] / turn[baseline][0] for turn in found)
            table.add_row(what, f"{cpu_s:.2f}", f"{wall_s:.2f}", f"{ratio:.2f}×")
        Console(width=120).print(table)


if __name__ == "__main__":
    main()
