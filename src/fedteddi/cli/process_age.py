"""How long this process has been running: a time limit on the command line includes the seconds its imports took."""

import os
import time
from pathlib import Path

_IMPORTED = time.monotonic()
START_TIME_FIELD = 22  # of /proc/self/stat, counted from 1: clock ticks from the machine's start (man 5 proc)


def process_age_s(proc: Path = Path("/proc")) -> float:
    """Return the seconds since the process started; where the system does not say, since this file was imported."""
    since_import = time.monotonic() - _IMPORTED
    try:
        stat = (proc / "self" / "stat").read_text(encoding="utf-8", errors="replace")
        after_name = stat.rpartition(")")[
            2
        ].split()  # field 2 is the program's name, which may contain anything
        started_s = int(after_name[START_TIME_FIELD - 3]) / os.sysconf("SC_CLK_TCK")
        age_s = float((proc / "uptime").read_text(encoding="utf-8").split()[0]) - started_s
    except (OSError, ValueError, IndexError):
        return since_import
    return max(age_s, since_import)
