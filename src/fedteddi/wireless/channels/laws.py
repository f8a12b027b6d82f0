"""The invariants of every channel model, as functions: `fedteddi check` and our tests ask the same questions."""

import copy
from collections.abc import Iterator, Sequence
from itertools import chain

import numpy as np

from fedteddi.errors import InputError
from fedteddi.laws import Law, broken_laws
from fedteddi.wireless.cell import positions_of
from fedteddi.wireless.channels.channel import Channel, Draws, gain_fault

Rounds = list[tuple[np.ndarray, Draws]]  # positions [N, 2] and the key, of each round


def answers(channel: Channel, rounds: Rounds) -> Iterator[str]:
    """Every round has a gain for every client, finite and not negative."""
    for positions_m, draws in rounds:
        fault = gain_fault(channel.gains(positions_m, draws), len(positions_m))
        if fault:
            yield f"returned {fault} ({_said(draws)})"


def repeats_itself(channel: Channel, rounds: Rounds) -> Iterator[str]:
    """The same seed, frame and round give the same gains."""
    for positions_m, draws in rounds:
        first, second = channel.gains(positions_m, draws), channel.gains(positions_m, draws)
        if not np.array_equal(first, second):
            yield f"gave other gains when asked again ({_said(draws)}): draw from the given draws only"


def ignores_order(channel: Channel, rounds: Rounds) -> Iterator[str]:
    """A round's gains do not depend on which rounds were asked for before: a resumed run asks for fewer."""
    forwards, backwards = copy.deepcopy(channel), copy.deepcopy(channel)
    first = [forwards.gains(*asked) for asked in rounds]
    second = [backwards.gains(*asked) for asked in reversed(rounds)]
    for (_, draws), one, other in zip(rounds, first, reversed(second), strict=True):
        if not np.array_equal(one, other):
            yield f"gave other gains after other rounds ({_said(draws)}): keep no memory in the channel"


ANSWERS = "a gain for every client"
LAWS: dict[str, Law[Rounds]] = {
    ANSWERS: answers,
    "same key, same gains": repeats_itself,
    "no memory of other rounds": ignores_order,
}


def check_channel(
    channel: Channel, clients: Sequence[int] = (1, 2, 30), frames: Sequence[int] = (0, 1, 2)
) -> dict[str, str]:
    """Try every invariant; return the first fault, or "not tried", of each not kept, by name.

    A channel about certain clients or frames (a trace) is asked for these only.
    """
    rounds = law_rounds(clients, frames)
    return broken_laws(LAWS, [rounds], lambda law, case: law(copy.deepcopy(channel), case))


def refuse_own_memory(channel: Channel, name: str, rounds: Rounds) -> None:
    """Refuse a channel that remembers the rounds before, or has chance of its own, before anything runs."""
    for fault in chain(ignores_order(channel, rounds), repeats_itself(channel, rounds)):
        raise InputError(f"radio.channel={name} {fault}; try 'fedteddi check --kind channel' on it")


def law_rounds(clients: Sequence[int], frames: Sequence[int]) -> Rounds:
    """Return rounds of two seeds in a cell of 250 m, for each number of clients and frame."""
    return [
        (positions_of(seed, count), Draws(seed, frame, number, rounds_before=10 * frame))
        for count in clients
        for seed in (0, 1)
        for frame in frames
        for number in (1, 2, 7)
    ]


def _said(draws: Draws) -> str:
    return f"seed {draws.seed}, frame {draws.frame}, round {draws.round}"
