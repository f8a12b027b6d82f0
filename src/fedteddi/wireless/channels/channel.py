"""The channel seam: what a channel model is given, and what it must return."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

import numpy as np

from fedteddi.errors import InputError, guarded
from fedteddi.randomness import keyed_rng

ChannelCause = Literal["channel", "fading", "movement"]


@dataclass(frozen=True)
class Draws:
    """The random numbers of one round's channel, keyed by seed, frame and round.

    Every call returns a new generator at its beginning. "channel" is what `shadowing` draws from: a model that adds
    something to it draws from "fading" or "movement", and the shadowing stays what it was.
    """

    seed: int
    frame: int
    round: int  # from 1 in every frame
    rounds_before: int = 0  # of all frames before this one

    @property
    def elapsed_rounds(self) -> int:
        """Rounds since the run began, this one included: the time of a process that goes on over frames."""
        return self.rounds_before + self.round

    def redrawn(self, cause: ChannelCause = "channel") -> np.random.Generator:
        """Return the generator of this round: other numbers in every round."""
        return keyed_rng(self.seed, cause, frame=self.frame, round=self.round)

    def static(self, cause: ChannelCause = "channel", part: int = 0) -> np.random.Generator:
        """Return a generator of this seed, one for every part: the same numbers in every round.

        A process over time is made of parts, such as a leg of a walk, that any round can draw again.
        """
        return keyed_rng(self.seed, cause, step=part)


@runtime_checkable
class Channel(Protocol):
    """A channel model: any class with this method; its parameters are `radio.channel_options`."""

    def gains(self, positions_m: np.ndarray, draws: Draws) -> np.ndarray:
        """Return the power gain |H_n|² of every client in one round, [N]: linear, not in dB; 0 is out of reach.

        `positions_m` [N, 2] is read-only, in metres around the server. The result depends on the arguments alone.
        """
        ...


@dataclass(frozen=True)
class FunctionChannel:
    """A function (positions_m, draws) as a channel model."""

    function: Callable[[np.ndarray, Draws], np.ndarray]

    def gains(self, positions_m: np.ndarray, draws: Draws) -> np.ndarray:
        """Ask the function."""
        return self.function(positions_m, draws)


def checked_gains(channel: Channel, name: str, positions_m: np.ndarray, draws: Draws) -> np.ndarray:
    """Return the gains of a round, [N], read-only; whatever a model does wrong becomes one sentence."""
    with guarded(f"radio.channel={name}", "channel"):
        found = channel.gains(positions_m, draws)
    fault = gain_fault(found, len(positions_m))
    if fault:
        raise InputError(
            f"radio.channel={name} returned {fault} in frame {draws.frame}, round {draws.round}:"
            " return |H|² of every client, finite and at least 0; try 'fedteddi check --kind channel' on it"
        )
    view = np.asarray(found, dtype=np.float64).view()
    view.flags.writeable = False  # many runs look at the same values
    return view


def gain_fault(found: object, clients: int) -> str:
    """Return what is wrong with gains, in words, or nothing."""
    if not isinstance(found, np.ndarray):
        return f"{type(found).__name__}, not an array"
    if found.shape != (clients,):
        return f"shape {found.shape}, not ({clients},)"
    if found.dtype.kind not in "fiu":
        return f"an array of {found.dtype}"
    bad = np.flatnonzero(~(np.isfinite(found) & (found >= 0)))
    return f"{found[bad[0]]:g} for client {bad[0]}" if len(bad) else ""
