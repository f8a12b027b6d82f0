"""The age of a process, from a made-up /proc, and where the system does not say."""

import os
import subprocess
import sys
from pathlib import Path

from fedteddi.cli.process_age import process_age_s


def made_proc(folder: Path, stat: str, uptime: str) -> Path:
    (folder / "self").mkdir(parents=True)
    (folder / "self" / "stat").write_text(stat)
    (folder / "uptime").write_text(uptime)
    return folder


def test_the_age_is_uptime_minus_the_start_in_clock_ticks(tmp_path: Path) -> None:
    """Started 70 million seconds after the machine, which is up for 100 million: 30 million seconds old."""
    ticks = 70_000_000 * os.sysconf("SC_CLK_TCK")
    fields = ["0"] * 18 + [str(ticks), "0"]  # fields 4 to 23; the start is field 22
    stat = f"4711 (a (bad) name) S {' '.join(fields)}\n"
    assert process_age_s(made_proc(tmp_path, stat, "100000000.00 5.0\n")) == 30_000_000


def test_where_the_system_does_not_say_the_import_counts(tmp_path: Path) -> None:
    absent, empty = process_age_s(tmp_path / "nowhere"), process_age_s(made_proc(tmp_path, "", ""))
    assert 0 <= absent <= empty <= process_age_s(tmp_path / "nowhere")


def test_a_young_process_knows_what_it_did_before_the_import() -> None:
    """What happens before fedteddi is imported counts too: here half a second of sleep (the clock ticks in 10 ms)."""
    source = "import time; time.sleep(0.5); from fedteddi.cli.process_age import process_age_s; print(process_age_s())"
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, check=True)
    if Path("/proc/self/stat").exists():
        assert float(done.stdout) >= 0.48
    else:
        assert float(done.stdout) >= 0
