"""A model that diverges is put back to the last good one, and who spoilt it is not asked for some rounds.

Only with `server.quarantine_rounds`; else such a run ends. A model is good once others than those who made it have sent
finite models that they trained from it.
"""

import dataclasses
from collections.abc import Mapping

from fedteddi.aggregation import Vector
from fedteddi.aggregation.norm_clipping import lower_median, vector_norm
from fedteddi.errors import DivergedError
from fedteddi.protocol.rejections import Failures
from fedteddi.protocol.state import ServerState
from fedteddi.protocol.vectors import NotFiniteError
from fedteddi.settings import Settings

STANDS_OUT = 10.0  # an update of this many times the lower median spoilt the model, and shorter ones did not
ALONE = 3  # rounds in a row


def asked_clients(state: ServerState, failures: Failures) -> tuple[int, ...]:
    """Return who is not in quarantine, and note who is."""
    away = {
        n: until - state.rounds_done for n, until in state.quarantine.items() if until > state.rounds_done
    }
    failures.causes |= {n: f"in quarantine, {left} rounds to go" for n, left in away.items()}
    return tuple(n for n in range(len(state.times_scheduled)) if n not in away)


def make_room(state: ServerState, settings: Settings, heard: tuple[int, ...], failures: Failures) -> None:
    """Note who is scheduled alone, whether or not it uploads, or uploads alone; after `ALONE` rounds it makes room.

    Who makes the scheduler want nobody else owns the model, or keeps it from moving.
    """
    rounds, done = settings.server.quarantine_rounds, state.rounds_done
    if rounds == 0:
        return
    sole: tuple[int, ...] = heard if len(heard) == 1 else ()
    state.alone = state.alone + sole if sole and set(sole) == set(state.alone) else sole
    if len(state.alone) >= ALONE and 2 * (len(_away(state)) + 1) <= len(state.times_scheduled):
        state.quarantine, state.alone = state.quarantine | {sole[0]: done + 1 + rounds}, ()
        failures.add(
            {sole[0]: f"it was scheduled alone in {ALONE} rounds: it is in quarantine for {rounds} rounds"}
        )


def suspect(state: ServerState, settings: Settings, uploads: Mapping[int, Vector]) -> None:
    """Note what the model is made from now, and by whom; the one before is good if others could train it."""
    if settings.server.quarantine_rounds == 0:
        return
    if len(uploads) > 1 or not uploads.keys() <= state.suspects.keys() or state.good is None:
        state.good, state.good_aggregation, state.suspects = state.weights, state.aggregation, {}
    norms = {client: vector_norm(upload - state.weights) for client, upload in uploads.items()}
    state.suspects = state.suspects | {n: max(norm, state.suspects.get(n, 0.0)) for n, norm in norms.items()}


def put_back(state: ServerState, settings: Settings) -> dict[int, str]:
    """Put the last good model back; return who is in quarantine for it, and why, or nobody if training itself diverged.

    That is so where nobody has uploaded since, or where more than half of all clients would be in quarantine.
    """
    rounds, everyone = settings.server.quarantine_rounds, len(state.times_scheduled)
    spoilers = _spoilers(state.suspects) if rounds and state.good is not None else []
    quarantine = _away(state) | dict.fromkeys(spoilers, state.rounds_done + rounds)
    if not spoilers or 2 * len(quarantine) > everyone:
        return {}
    state.weights, state.aggregation = state.good, state.good_aggregation
    state.quarantine, state.suspects, state.not_finite = quarantine, {}, frozenset()
    why = f"its upload made the model diverge: that is put back, and it is in quarantine for {rounds} rounds"
    return dict.fromkeys(spoilers, why)


def recover(
    state: ServerState, before: ServerState, error: BaseException, settings: Settings, failures: Failures
) -> None:
    """Bring the state back to before a round that failed; raise why, unless the round can be counted as lost."""
    frame, number = state.frame, state.round
    since = {part: getattr(state, part) for part in ("good", "good_aggregation", "suspects")}
    for part in dataclasses.fields(state):
        setattr(state, part.name, getattr(before, part.name))
    if not isinstance(error, NotFiniteError):
        raise error
    lost = dataclasses.replace(state, **since, rounds_done=state.rounds_done + 1)
    named = put_back(lost, settings)
    if not named:
        raise DivergedError(
            f"{error.cause} in frame {frame}, round {number}:"
            f" {error.try_first}lower training.learning_rate={settings.training.learning_rate:g}",
            frame,
            number,
        ) from None
    for part in dataclasses.fields(state):
        setattr(state, part.name, getattr(lost, part.name))
    state.round = number
    failures.add(named)


def _away(state: ServerState) -> dict[int, int]:
    return {n: until for n, until in state.quarantine.items() if until > state.rounds_done}


def _spoilers(suspects: Mapping[int, float]) -> list[int]:
    typical = lower_median(list(suspects.values())) if suspects else 0.0
    return [n for n, norm in suspects.items() if norm > STANDS_OUT * typical] or [*suspects]
