"""Single decisions: in which order clients were admitted, what each changed, why it ended, how far from the optimum."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fedteddi.protocol.record import RoundRecord
from fedteddi.results.page.detail import spaced
from fedteddi.results.page.own_code import refuse_own_code
from fedteddi.results.page.schedule import shown_rounds
from fedteddi.results.runs import REFERENCES, RunRecord
from fedteddi.schedulers.registry import make_scheduler

CHANGES = ("variance_change", "divergence_change", "drift_change")
PLAIN = ("objective", "variance", "divergence")  # what a rule without words of its own calls its terms


@dataclass(frozen=True, kw_only=True)
class Retold:
    """A decision computed again from seed and record, which agrees with the record."""

    trace: Mapping[str, Any] | None  # as in a record: admissions, stopped
    total: float  # the objective of the set that was chosen
    best: float | None  # the lowest that was found; None: no other search than the rule's own was made
    proven: bool  # whether no set has a lower one


# Of a run and a round, and whether the optimum is to be proven; or, in words, why it cannot be told again.
Retell = Callable[[RunRecord, RoundRecord, bool], Retold | str]
MOST_ADMISSIONS = 60  # that are told of one decision


def told_decisions(
    run: RunRecord, rounds: Sequence[tuple[int, int]], retell: Retell | None, proofs: int
) -> dict[str, Any]:
    """Return the decisions of these rounds: positions of the rounds, admissions, terms, and the gap where computed."""
    found: dict[str, Any] = {"called": list(called(run)), "rounds": []}
    if run.scheduler in REFERENCES:
        return found
    later = [key for key in rounds if key[1] > 1]  # before a frame's first round too little is on record
    prove = {later[index] for index in spaced(len(later), proofs)} if proofs else set()
    of_round = {(one.frame, one.round): one for one in run.records if one.round}
    for frame, number in rounds:
        record = of_round.get((frame, number))
        if record is None:
            continue
        retold = None if retell is None else retell(run, record, (frame, number) in prove)
        found["rounds"].append({"frame": frame, "round": number} | _told(run, record, retold))
    return found


def called(run: RunRecord) -> tuple[str, str, str]:
    """Return what the rule calls its objective and its first two terms."""
    try:
        refuse_own_code(run.settings, "scheduler")
        rule = make_scheduler(run.settings.scheduler, **run.settings.scheduler_options)
        objective, first, second = map(str, getattr(rule, "called", PLAIN))
    except Exception:  # a part of the user's, or of a package, that is not here any more or has changed
        return PLAIN
    return objective, first, second


def _told(run: RunRecord, record: RoundRecord, retold: Retold | str | None) -> dict[str, Any]:
    one: dict[str, Any] = {}
    trace, source = record.trace, "recorded"
    if isinstance(retold, Retold):
        if retold.best is not None:
            one["gap"] = {
                "best": _digits(retold.best),
                "proven": retold.proven,
                "total": _digits(retold.total),
            }
        if trace is None:
            trace, source = retold.trace, "computed again"
    elif retold:
        one["why"] = retold
    clients = list(record.clients)[:MOST_ADMISSIONS]
    one["clients"] = clients
    if len(record.clients) > len(clients):
        one["more"] = len(record.clients) - len(clients)
    shown = shown_rounds(run, [(record.frame, record.round)], clients)
    one["hz"] = shown["hz"][0]
    if record.objective is not None:
        one["terms"] = {name: _short(value) for name, value in record.objective.items()}
    if trace is not None:
        steps = trace["admissions"][:MOST_ADMISSIONS]
        one |= {"source": source, "stopped": trace["stopped"]}
        one["changes"] = [[_short(step[name]) for name in CHANGES] for step in steps]
        one["order"] = [step["client"] for step in steps]
        one["left"] = [_short(step["left_hz"] / 1e6) for step in steps]
    if record.failures:
        one["failures"] = dict(record.failures)
    return one


def _digits(value: float) -> float:
    return float(f"{value:.7g}")


def _short(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.4g}")
