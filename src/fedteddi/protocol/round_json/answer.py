"""The server's answer to one round, as facts to print or to send: who, how much, why, and who could not."""

import dataclasses
import math
from typing import Any

import numpy as np

from fedteddi.heterogeneity.objective import ObjectiveTerms
from fedteddi.protocol.round_json.reports import Round
from fedteddi.schedulers.objectives import HasObjective, checked_terms, has_objective
from fedteddi.schedulers.rules.fedteddi import FedTeddi
from fedteddi.schedulers.schedule import AnyScheduler, Schedule
from fedteddi.schedulers.view import RoundView
from fedteddi.wireless.uplink import rate_from_signal, signal_hz


@dataclasses.dataclass(frozen=True, kw_only=True)
class Answer:
    """A schedule with what a reader wants to know about it."""

    scheduler: str
    options: dict[str, Any]
    seed: int
    schedule: Schedule
    finish_s: tuple[float, ...] | None  # None where compute_s, deadline_s or model_bits were not given
    terms: ObjectiveTerms | None  # None for an empty schedule
    terms_called: tuple[str, str, str]  # the objective and its first two terms, in words
    infeasible: dict[int, str]  # client: reason
    warnings: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        """Return the answer as plain data; the format is `schedule.schema.json`."""
        trace = self.schedule.trace
        return {
            "scheduler": self.scheduler,
            "options": self.options,
            "seed": self.seed,
            "clients": list(self.schedule.clients),
            "bandwidth_hz": list(self.schedule.bandwidth_hz),
            "finish_s": None if self.finish_s is None else list(self.finish_s),
            "objective": None
            if self.terms is None
            else dataclasses.asdict(self.terms) | {"total": self.terms.total},
            "bound": self.schedule.bound,
            "trace": None if trace is None else dataclasses.asdict(trace),
            "infeasible": [{"client": n, "reason": why} for n, why in self.infeasible.items()],
            "warnings": list(self.warnings),
        }


def answer_round(round: Round, rule: AnyScheduler, schedule: Schedule, seed: int) -> Answer:
    """Put together the facts about a schedule. Rules without an objective are evaluated by FedTeddi's."""
    view = round.view
    evaluating: HasObjective = rule if has_objective(rule) else FedTeddi()
    return Answer(
        scheduler=rule.name,
        options=dataclasses.asdict(rule) if dataclasses.is_dataclass(rule) else {},
        seed=seed,
        schedule=schedule,
        finish_s=finish_s(view, schedule),
        terms=checked_terms(evaluating, view, schedule.clients) if schedule.clients else None,
        terms_called=getattr(evaluating, "called", FedTeddi.called),
        infeasible=infeasible_reasons(view),
        warnings=warnings_about(round),
    )


def finish_s(view: RoundView, schedule: Schedule) -> tuple[float, ...] | None:
    """Return when each scheduled client is done: t_dl + t_cp + t_cm, on the round's clock."""
    every_ready_s = view.ready_s
    if every_ready_s is None or view.deadline_s is None or view.model_bits is None:
        return None
    members = np.array(schedule.clients, dtype=np.intp)
    ready_s = every_ready_s[members]
    if not schedule.bandwidth_hz:  # of a bound without a band: uploads cost nothing
        return tuple(ready_s.tolist())
    signal = signal_hz(view.model_bits, view.deadline_s - ready_s, view.needed_hz[members])
    upload_s = view.model_bits / rate_from_signal(np.array(schedule.bandwidth_hz), signal)
    return tuple((ready_s + upload_s).tolist())


def infeasible_reasons(view: RoundView) -> dict[int, str]:
    """Say for every client that cannot be scheduled why not."""
    reasons = {}
    every_ready_s = view.ready_s
    for n in np.flatnonzero(~(view.needed_hz <= view.total_hz)):
        needed, ready_s = view.needed_hz[n], math.nan if every_ready_s is None else every_ready_s[n]
        if math.isinf(ready_s):
            why = "out of reach: the model never arrives"
        elif view.deadline_s is not None and ready_s >= view.deadline_s:
            does = "computes for" if view.download_s is None else "downloads and computes for"
            why = f"{does} {ready_s:.3g} s, the deadline is {view.deadline_s:.3g} s"
        elif math.isinf(needed) and view.compute_s is None:
            why = "cannot meet the deadline with any bandwidth"
        elif math.isinf(needed):
            why = "channel too weak: no bandwidth meets the deadline"
        else:
            why = f"needs {needed / 1e6:.3g} MHz, the band has {view.total_hz / 1e6:.3g} MHz"
        reasons[int(n)] = why
    return reasons


def warnings_about(round: Round) -> tuple[str, ...]:
    """Say what a reader should know before relying on the schedule."""
    found = [] if len(round.view.schedulable) else [nobody_can(round)]
    if round.needed_hz_given and (doubt := contradiction(round)):
        found.append(doubt)
    return tuple(found)


def contradiction(round: Round) -> str | None:
    """Say if a given `needed_hz` is not what the file's channel, deadline, model and radio would need."""
    view, ready_s = round.view, round.view.ready_s
    if ready_s is None or view.deadline_s is None or view.model_bits is None:
        return None
    computed = round.radio.needed_hz(
        view.channel_gain, ready_s, deadline_s=view.deadline_s, model_bits=view.model_bits
    )
    with np.errstate(invalid="ignore"):
        differ = np.flatnonzero(
            (view.needed_hz != computed) & ~(np.abs(view.needed_hz / computed - 1) < 1e-3)
        )
    if len(differ) == 0:
        return None
    n = int(differ[0])
    return (
        f"needed_hz[{n}]={view.needed_hz[n]:.6g}, but the channel, deadline, model and radio in the same file need"
        f" {computed[n]:.6g} ({len(differ)} such client(s)): the given value is used; leave needed_hz out to have"
        " it computed"
    )


def nobody_can(round: Round) -> str:
    """Say that the schedule is empty because nobody can, and from which deadline or band on somebody could."""
    view = round.view
    least_hz = float(view.needed_hz.min())
    wider = f", or a band of {least_hz / 1e6:.4g} MHz" if math.isfinite(least_hz) else ""
    smallest_s = smallest_deadline_s(round)
    if smallest_s is not None and view.deadline_s is not None and math.isfinite(smallest_s):
        # Rounded up: the printed number must itself be feasible.
        digits = 10.0 ** (math.floor(math.log10(smallest_s)) - 3)
        shown = f"{math.ceil(smallest_s / digits) * digits:.4g}"
        return f"deadline_s={view.deadline_s:g}: no client can finish in time; the smallest feasible is {shown}{wider}"
    if math.isfinite(least_hz):
        return f"total_hz={view.total_hz:g}: no client fits; the smallest needed_hz is {least_hz:.4g}"
    if round.needed_hz_given:
        return (
            "no client can meet the deadline: every needed_hz is null; relax the deadline or shrink the model"
        )
    return f"deadline_s={view.deadline_s:g}: no client has a channel at all; check channel_gain"


def smallest_deadline_s(round: Round) -> float | None:
    """Return the smallest deadline that some client could meet with the whole band; None if that cannot be known.

    Where `needed_hz` was given, the channel is read off it, and a client that has none tells nothing.
    """
    view, ready_s = round.view, round.view.ready_s
    if ready_s is None or view.model_bits is None or view.deadline_s is None:
        return None
    if not round.needed_hz_given:
        finish = round.radio.fastest_finish_s(
            view.channel_gain, ready_s, model_bits=view.model_bits, total_hz=view.total_hz
        )
        return float(finish.min())
    known = np.isfinite(view.needed_hz)
    if not known.any():
        return None
    ready_s = ready_s[known]
    signal = signal_hz(view.model_bits, view.deadline_s - ready_s, view.needed_hz[known])
    return float((ready_s + view.model_bits / rate_from_signal(view.total_hz, signal)).min())
