"""Greedy search for the set that finishes first: Shi et al.'s scheduling, for millions of clients.

T(S) is the earliest time at which all of S can have uploaded: Σ_{n∈S} B*_n(T) = B, where B*_n(T) is what client n needs
to finish by T. Each step adds argmin_n T(S ∪ n). Two observations make that fast:

- A client that computes no longer than another, over a channel that is no weaker, needs no more band for any T. So only
  the front, those whom nobody beats in both, can be next: about ln N of N clients whose speed and channel are
  independent, found in one pass and kept up to date. (If slower clients always had stronger channels, all N would be
  on it: 0.4 s a step for a million.)
- Client n finishes with S by T if and only if B*_n(T) ≤ B − Σ_{m∈S} B*_m(T). So one bisection over T finds who is
  first, without T(S ∪ n) of every n: it ends as soon as a single candidate is left.
"""

from dataclasses import dataclass

import numpy as np

from fedteddi.wireless.uplink import BISECTION_STEPS, finishing_band_hz, signal_hz


@dataclass(frozen=True)
class Clients:
    """What decides when clients finish, [n] each, and the numbers that are the same for all."""

    needed_hz: np.ndarray  # B*
    ready_s: np.ndarray  # t_dl + t_cp
    signal_hz: np.ndarray  # P|H|²/N0
    deadline_s: float
    model_bits: float
    total_hz: float

    def band_hz(self, finish_s: float, who: np.ndarray) -> np.ndarray:
        """Return B*_n(T) of some of them."""
        needed_hz, ready_s, signal = (a[who] for a in (self.needed_hz, self.ready_s, self.signal_hz))
        return finishing_band_hz(finish_s, needed_hz, ready_s, signal, model_bits=self.model_bits)


def earliest_first(
    needed_hz: np.ndarray,
    ready_s: np.ndarray,
    rng: np.random.Generator,
    *,
    deadline_s: float,
    model_bits: float,
    total_hz: float,
    most: int,
) -> np.ndarray:
    """Admit clients one by one, at most `most`, while T(S) ≤ T_max; return their indices in that order.

    All must be able to make the deadline; equal ones are admitted in random order. The radio's power and noise are read
    off `needed_hz`. Takes O(n log n) once, and O(|S|) a step.
    """
    strength = signal_hz(model_bits, deadline_s - ready_s, needed_hz)
    clients = Clients(needed_hz, ready_s, strength, deadline_s, model_bits, total_hz)
    order = np.lexsort((rng.random(len(needed_hz)), needed_hz, ready_s))
    signal = clients.signal_hz[order]  # of those not admitted yet, by rising ready_s
    front = records(signal, -np.inf)
    members, used_hz, after_s = np.empty(0, dtype=np.intp), 0.0, 0.0
    while len(members) < most:
        left_hz = clients.total_hz - used_hz
        fitting = np.flatnonzero(clients.needed_hz[order[front]] <= left_hz)
        if len(fitting) == 0:
            break
        first, after_s = first_to_finish(clients, members, order[front[fitting]], after_s)
        place = int(fitting[first])
        members = np.append(members, order[front[place]])
        used_hz += float(clients.needed_hz[members[-1]])
        front = front_without(front, place, signal)
    return members


def first_to_finish(
    clients: Clients, members: np.ndarray, candidates: np.ndarray, after_s: float
) -> tuple[int, float]:
    """Return the position of the candidate that T(S ∪ n) is least for, and a time before that T, but ≥ `after_s`.

    All candidates must fit at the deadline, and none before `after_s`.
    """
    alive, by_s = np.arange(len(candidates)), clients.deadline_s
    for _ in range(BISECTION_STEPS):
        middle_s = 0.5 * (after_s + by_s)
        if len(alive) == 1 or not after_s < middle_s < by_s:
            break
        band_hz = clients.band_hz(middle_s, np.concatenate([members, candidates[alive]]))
        in_time = band_hz[len(members) :] <= clients.total_hz - band_hz[: len(members)].sum()
        if in_time.any():
            alive, by_s = alive[in_time], middle_s
        else:
            after_s = middle_s
    return int(alive[0]), after_s


def records(values: np.ndarray, above: float) -> np.ndarray:
    """Return the indices of values that exceed `above` and all values before them."""
    highest = np.maximum.accumulate(np.concatenate([[above], values]))
    return np.flatnonzero(values > highest[:-1])


def front_without(front: np.ndarray, place: int, signal: np.ndarray) -> np.ndarray:
    """Take one client off the front, and out of `signal` (changed in place); return the front that is then.

    Only those between it and the next of the front can come up, if they are stronger than the front before it.
    """
    gone = int(front[place])
    signal[gone] = -np.inf
    end = int(front[place + 1]) if place + 1 < len(front) else len(signal)
    above = float(signal[front[place - 1]]) if place else -np.inf
    new = gone + 1 + records(signal[gone + 1 : end], above)
    return np.concatenate([front[:place], new, front[place + 1 :]])
