"""Who was scheduled when: rounds one by one, timelines of clients, participation and how fair it is."""

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from fedteddi.results.page.cell import PER_MILLE
from fedteddi.results.page.detail import spaced
from fedteddi.results.runs import RunRecord

RANKS = 60  # clients of the curve of participation
LEVELS = "0123456789abcdefghijklmnopqrstuvwxyz"  # shares of a bin's rounds, from none to all


def shown_rounds(run: RunRecord, rounds: Sequence[tuple[int, int]], clients: Sequence[int]) -> dict[str, Any]:
    """Return, for the rounds that are shown one by one, the scheduled among these clients and their bandwidth.

    `who` holds positions among the clients, in order of admission, `hz` thousandths of the band (none of a bound that
    has no band), `all` how many were scheduled, those without a place in the cell included; None: not played yet.
    """
    of_round = {(one.frame, one.round): one for one in run.records if one.round}
    position = {client: index for index, client in enumerate(clients)}
    total_hz = run.settings.radio.total_hz
    who: list[list[int] | None] = []
    hz: list[list[int]] = []
    number: list[int] = []
    for key in rounds:
        one = of_round.get(key)
        if one is None:
            who.append(None)
            hz.append([])
            number.append(0)
            continue
        inside = [index for index, client in enumerate(one.clients) if client in position]
        who.append([position[one.clients[index]] for index in inside])
        granted = (
            len(one.bandwidth_hz) == len(one.clients) and max(one.bandwidth_hz, default=0) <= total_hz * 1.01
        )
        hz.append(
            [round(one.bandwidth_hz[index] / total_hz * PER_MILLE) for index in inside] if granted else []
        )
        number.append(len(one.clients))
    return {"who": who, "hz": hz, "all": number}


def timeline(run: RunRecord, clients: Sequence[int], bins: Sequence[tuple[int, int]]) -> list[str]:
    """Return a row per client: for every bin of rounds how often it was scheduled in it, 0 to z; - not played yet."""
    happened, played = _scheduled(run)  # [rounds, N], [rounds]
    shares = np.zeros((len(bins), len(clients)))
    for index, (start, stop) in enumerate(bins):
        part = happened[start:stop][played[start:stop]]
        if len(part):
            shares[index] = part[:, clients].mean(axis=0)
    levels = np.ceil(shares * (len(LEVELS) - 1)).astype(int)  # a client that was scheduled at all is never 0
    known = [bool(played[start:stop].any()) for start, stop in bins]
    return [
        "".join(LEVELS[level] if there else "-" for level, there in zip(row, known, strict=True))
        for row in levels.T
    ]


def bins_of(rounds: Sequence[int], most: int) -> list[tuple[int, int]]:
    """Part all rounds of a run into at most about so many bins; none reaches over a frame's end."""
    total, start = sum(rounds), 0
    found: list[tuple[int, int]] = []
    width = max(1, -(-total // most))
    for length in rounds:
        edges = [*range(0, length, width), length]
        found += [(start + one, start + other) for one, other in itertools.pairwise(edges) if other > one]
        start += length
    return found


def participation(run: RunRecord, frames: Sequence[int]) -> list[dict[str, Any] | None]:
    """Return for each frame how often clients were scheduled: what a fairness table and its curve show.

    Jain's index (Σ x)² / (N Σ x²) of the clients' numbers of rounds x: 1 if all are equal, 1/N if one has everything.
    """
    found: list[dict[str, Any] | None] = []
    for frame in frames:
        played = [one for one in run.records if one.frame == frame and one.round]
        if not played:
            found.append(None)
            continue
        times = np.zeros(run.counts.shape[1])
        for one in played:
            times[list(one.clients)] += 1
        total = float(times.sum())
        ranked = np.sort(times)[::-1] / len(played)
        found.append(
            {
                "clients": round(total / len(played), 2),
                "new": round(sum(one.scheduled_new for one in played) / len(played), 2),
                "never": int(np.count_nonzero(times == 0)),
                "jain": round(jain(times), 4),
                "empty": sum(not one.clients for one in played),
                "shares": [round(float(share), 3) for share in ranked[spaced(len(ranked), RANKS)]],
            }
        )
    return found


def jain(times: np.ndarray) -> float:
    """Return Jain's index of fairness; NaN-free: without any participation it is 1, nobody is preferred."""
    squares = float((times**2).sum())
    return float(times.sum()) ** 2 / (len(times) * squares) if squares else 1.0


def _scheduled(run: RunRecord) -> tuple[np.ndarray, np.ndarray]:
    """Return who was scheduled in every round of the run, [rounds, N], and which rounds were played, [rounds]."""
    lengths = run.settings.rounds
    starts = np.concatenate([[0], np.cumsum(lengths)])
    happened = np.zeros((sum(lengths), run.counts.shape[1]), dtype=bool)
    played = np.zeros(sum(lengths), dtype=bool)
    for one in run.records:
        if one.round:
            at = starts[one.frame] + one.round - 1
            happened[at, list(one.clients)], played[at] = True, True
    return happened, played
