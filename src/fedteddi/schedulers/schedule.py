"""`Schedule`: who uploads and with how much bandwidth, and the admission trace."""

import inspect
import math
import operator
import traceback
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeGuard, cast, runtime_checkable

import numpy as np

from fedteddi.errors import InputError, reworded
from fedteddi.schedulers.memory import NotPlainError, State, copied
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


def _finite(change: float | None) -> float | None:
    if change is not None and not math.isfinite(change):
        raise ValueError(f"a change is {change}")
    return None if change is None else float(change)


@dataclass(frozen=True, kw_only=True)
class Trace:
    """The admissions in order, and why the search ended."""

    admissions: tuple[Admission, ...]
    stopped: str

    def renumbered(self, names: Sequence[int]) -> "Trace":
        """Return the trace as plain numbers, with these names in place of the clients' indices."""
        return Trace(
            admissions=tuple(
                Admission(
                    client=names[operator.index(one.client)],
                    variance_change=_finite(one.variance_change),
                    divergence_change=_finite(one.divergence_change),
                    drift_change=_finite(one.drift_change),
                    left_hz=float(one.left_hz),
                )
                for one in self.admissions
            ),
            stopped=str(self.stopped),
        )


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """S, in order of admission, and each member's bandwidth (none of a bound that has no band)."""

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
    """A rule: anything with a name and this method; `needs` says what it asks for (docs/extend.md)."""

    name: str

    def select(self, view: RoundView, rng: np.random.Generator) -> Schedule:
        """Choose who uploads, and with how much bandwidth; all chance comes from `rng`."""
        ...


@runtime_checkable
class SchedulerWithMemory(Protocol):
    """A rule that remembers: its state goes in and comes out, and is kept in the run's checkpoint."""

    name: str

    def initial_state(self, num_clients: int) -> State:
        """Return what the rule knows before the first round; clients are 0 to num_clients − 1."""
        ...

    def select(self, view: RoundView, rng: np.random.Generator, state: State) -> tuple[Schedule, State]:
        """Choose who uploads, and return what to remember: a plain value (see `fedteddi.schedulers.memory`)."""
        ...


AnyScheduler = Scheduler | SchedulerWithMemory


class WrongAnswerError(TypeError):
    """A rule answered something of the wrong type; the text says what, and what would be right."""


def remembers(rule: AnyScheduler) -> TypeGuard[SchedulerWithMemory]:
    """Tell whether a rule has a state."""
    return callable(getattr(rule, "initial_state", None))


def unlimited(rule: AnyScheduler) -> bool:
    """Tell whether a rule is a bound that schedules clients without band or deadline, such as `everyone`."""
    return bool(getattr(rule, "unlimited", False))


def first_state(rule: AnyScheduler, num_clients: int) -> State:
    """Return a rule's state before its first round; None if it has none."""
    if not remembers(rule):
        return None
    try:
        return copied(rule.initial_state(num_clients))
    except NotPlainError as error:
        raise WrongAnswerError(f"initial_state returned a value that cannot be kept: {error}") from None


def choice_of(
    rule: AnyScheduler, view: RoundView, rng: np.random.Generator, state: State = None
) -> tuple[Schedule, State]:
    """Ask a rule for a schedule and its next state; refuse an answer of the wrong type.

    The rule gets a copy of the state: whatever it does with it, the one before the round stays what it was.
    """
    if not remembers(rule):
        answered = cast(Scheduler, rule).select(view, rng)
        return _schedule(answered, "it must return a fedteddi.Schedule"), None
    answer = rule.select(view, rng, copied(state))
    remedy = "a rule with initial_state must return (Schedule, state)"
    if not isinstance(answer, tuple) or len(answer) != 2:
        raise WrongAnswerError(f"select returned {type(answer).__name__}: {remedy}")
    try:
        return _schedule(answer[0], remedy), copied(answer[1])
    except NotPlainError as error:
        raise WrongAnswerError(f"select returned a state that cannot be kept: {error}") from None


def _schedule(answer: object, remedy: str) -> Schedule:
    if not isinstance(answer, Schedule):
        raise WrongAnswerError(f"select returned {type(answer).__name__}: {remedy}")
    return answer


def checked_first_state(rule: AnyScheduler, num_clients: int) -> State:
    """Ask a rule for its first state; whatever goes wrong becomes one sentence."""
    with _in_words(rule):
        return first_state(rule, num_clients)


def checked_choice(
    rule: AnyScheduler, view: RoundView, rng: np.random.Generator, state: State = None
) -> tuple[Schedule, State]:
    """Ask a rule; a foreign one may raise or answer something invalid, and either becomes one sentence."""
    with _in_words(rule):
        chosen, after = choice_of(rule, view, rng, state)
        faults = schedule_faults(view, chosen, limited=not unlimited(rule))
    if faults:
        raise InputError(
            f"{rule.name}{_file(rule)} gave an impossible schedule: {faults[0]}; try 'fedteddi check' on it"
        )
    return chosen, after


def _in_words(rule: AnyScheduler) -> AbstractContextManager[None]:
    return reworded(lambda error: f"{rule.name} {fault_in_words(rule, error)}; try 'fedteddi check' on it")


def fault_in_words(rule: object, error: BaseException) -> str:
    """Say what a rule did wrong by raising this, and where: in its own file if the error passed through it."""
    if isinstance(error, WrongAnswerError):
        return f"gave a wrong answer{_file(rule)}: {error}"
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if frame.filename == source_of(rule)]
    if not own and type(rule).__module__.startswith("fedteddi."):  # in what one of ours calls
        own = list(frames)
    where = f" ({Path(own[-1].filename).name}, line {own[-1].lineno})" if own else _file(rule)
    if isinstance(error, SystemExit):
        return f"called sys.exit({error.code}){where}: let it return a Schedule, empty if nobody is to upload"
    return f"raised {type(error).__name__}: {error}{where}"


def source_of(rule: object) -> str | None:
    """Return the file a rule is written in, if there is one."""
    try:
        return inspect.getsourcefile(getattr(rule, "function", type(rule)))
    except TypeError:
        return None


def _file(rule: object) -> str:
    file = source_of(rule)
    return f" ({Path(file).name})" if file else ""


def schedule_faults(view: RoundView, schedule: Schedule, *, limited: bool = True) -> list[str]:
    """Return what makes this schedule impossible, in words; nothing if it can be carried out."""
    clients, granted = schedule.clients, schedule.bandwidth_hz
    if not limited and granted:
        return [f"{len(granted)} bandwidths, though it has no band to give"]
    if limited and len(clients) != len(granted):
        return [f"{len(clients)} clients but {len(granted)} bandwidths"]
    faults = []
    unknown = [n for n in clients if not 0 <= n < view.num_clients]
    if unknown:
        return [f"client {unknown[0]} does not exist: there are {view.num_clients}, counted from 0"]
    if len(set(clients)) < len(clients):
        twice = next(n for n in clients if clients.count(n) > 1)
        faults.append(f"client {twice} is scheduled more than once")
    if not limited:
        return faults
    for n, hz, needed_hz in zip(clients, granted, view.needed_hz[list(clients)].tolist(), strict=True):
        if not math.isfinite(needed_hz):
            faults.append(f"client {n} is scheduled but cannot meet the deadline")
        elif not hz >= needed_hz * (1 - BAND_TOLERANCE):
            faults.append(f"client {n} got {hz:.6g} Hz but needs {needed_hz:.6g}")
    spent = float(np.array(granted, dtype=np.float64).sum())
    if not spent <= view.total_hz * (1 + BAND_TOLERANCE):
        faults.append(f"{spent:.6g} Hz are given away, but the band has {view.total_hz:.6g}")
    if schedule.bound is not None and not np.isfinite(schedule.bound):
        faults.append(f"its bound is {schedule.bound}, which bounds nothing")
    return faults


def recorded_trace(rule: AnyScheduler, chosen: Schedule, reported: tuple[int, ...]) -> Trace | None:
    """Return how the set came about, by the clients' own numbers; a foreign trace may be anything."""
    if chosen.trace is None:
        return None
    try:
        return chosen.trace.renumbered(reported)
    except (AttributeError, TypeError, ValueError, IndexError) as error:
        raise InputError(
            f"{rule.name} gave a trace that cannot be recorded ({error}): correct it, or evaluation.trace = false"
        ) from None
