"""`Schedule`: who uploads and with how much bandwidth, and the story of how it came about."""

import math
import operator
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

import numpy as np

from fedteddi.errors import InputError
from fedteddi.schedulers.view import RoundView

# The band may be overspent by rounding only.
BAND_TOLERANCE = 1e-9


@dataclass(frozen=True, kw_only=True)
class Admission:
    """What one admitted client changed in P3. The first has nothing to compare with: None."""

    client: int
    variance_change: float | None
    divergence_change: float | None
    drift_change: float | None
    left_hz: float


@dataclass(frozen=True, kw_only=True)
class Trace:
    """The admissions in order, and why the search ended."""

    admissions: tuple[Admission, ...]
    stopped: str


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """S, in order of admission, and each member's bandwidth."""

    clients: tuple[int, ...]
    bandwidth_hz: tuple[float, ...]
    trace: Trace | None = None
    bound: float | None = None  # no set within the band has a lower P3; from the exact search

    def __post_init__(self) -> None:
        # Arrays are what a rule naturally has at hand; a schedule is plain numbers, so that two can be compared.
        object.__setattr__(self, "clients", tuple(operator.index(n) for n in self.clients))
        object.__setattr__(self, "bandwidth_hz", tuple(float(hz) for hz in self.bandwidth_hz))


@runtime_checkable
class Scheduler(Protocol):
    """A rule: anything with a name and this method. `needs` may name "loss" and "update_norm"."""

    name: str

    def select(self, view: RoundView, rng: np.random.Generator) -> Schedule:
        """Choose who uploads, and with how much bandwidth; all chance comes from `rng`."""
        ...


def chosen_by(rule: Scheduler, view: RoundView, rng: np.random.Generator) -> Schedule:
    """Ask a rule, and refuse an answer that is no schedule at all."""
    answer = rule.select(view, rng)
    if not isinstance(answer, Schedule):
        raise TypeError(f"select returned {type(answer).__name__}: it must return a fedteddi.Schedule")
    return answer


def checked_choice(rule: Scheduler, view: RoundView, rng: np.random.Generator) -> Schedule:
    """Ask a rule; a foreign one may raise or answer nonsense, and either becomes one sentence."""
    try:
        chosen = chosen_by(rule, view, rng)
        faults = schedule_faults(view, chosen)
    except InputError:
        raise
    except (Exception, SystemExit) as error:
        raise InputError(
            f"{rule.name} raised {type(error).__name__}: {error}{fault_place(error)}; try 'fedteddi check' on it"
        ) from error
    if faults:
        raise InputError(f"{rule.name} gave an impossible schedule: {faults[0]}; try 'fedteddi check' on it")
    return chosen


def fault_place(error: BaseException) -> str:
    """Return " (file, line n)" where an error was raised, for messages."""
    frames = traceback.extract_tb(error.__traceback__)
    return f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""


def schedule_faults(view: RoundView, schedule: Schedule) -> list[str]:
    """Return what makes this schedule impossible, in words; nothing if it can be carried out."""
    clients, granted = schedule.clients, schedule.bandwidth_hz
    if len(clients) != len(granted):
        return [f"{len(clients)} clients but {len(granted)} bandwidths"]
    faults = []
    unknown = [n for n in clients if not 0 <= n < view.num_clients]
    if unknown:
        return [f"client {unknown[0]} does not exist: there are {view.num_clients}, counted from 0"]
    if len(set(clients)) < len(clients):
        twice = next(n for n in clients if clients.count(n) > 1)
        faults.append(f"client {twice} is scheduled more than once")
    for n, hz, needed_hz in zip(clients, granted, view.needed_hz[list(clients)].tolist(), strict=True):
        if not math.isfinite(needed_hz):
            faults.append(f"client {n} is scheduled but cannot meet the deadline")
        elif not hz >= needed_hz * (1 - BAND_TOLERANCE):
            faults.append(f"client {n} got {hz:.6g} Hz but needs {needed_hz:.6g}")
    spent = float(np.sum(granted))
    if not spent <= view.total_hz * (1 + BAND_TOLERANCE):
        faults.append(f"{spent:.6g} Hz are given away, but the band has {view.total_hz:.6g}")
    if schedule.bound is not None and not np.isfinite(schedule.bound):
        faults.append(f"its bound is {schedule.bound}, which bounds nothing")
    return faults
