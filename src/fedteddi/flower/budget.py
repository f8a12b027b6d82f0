"""How many may upload in a round of a plain Flower app: so many, or as many as a band carries before a deadline."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fedteddi.errors import InputError, check_number
from fedteddi.wireless.radio import Radio

# Of a client (its partition-id, or else its node's id) in a round, from 1.
Of = Callable[[int, int], float | None]


@dataclass(frozen=True, kw_only=True)
class Link:
    """What is known of a node's way to the server."""

    client: int
    compute_s: float | None = None
    channel_gain: float | None = None  # as the node says
    rate_bps: float | None = None  # measured from its uploads


@dataclass(frozen=True, kw_only=True, eq=False)
class Limits:
    """A budget in the words of a `RoundView`."""

    total_hz: float
    needed_hz: np.ndarray  # [N]
    channel_gain: np.ndarray  # [N]
    compute_s: np.ndarray | None = None  # [N]
    deadline_s: float | None = None
    model_bits: float | None = None


@dataclass(frozen=True, kw_only=True)
class Budget:
    """At most `uploads` a round (a number, or a share of those asked), or a band with a deadline."""

    uploads: float | None = None  # k ≥ 1, or a share below 1; half of them where nothing is said
    deadline_s: float | None = None  # T_max, for training and upload together
    band_hz: float | None = None  # B
    channel_gain: Of | None = None
    rate_bps: float | Of | None = None  # with the whole band to itself
    radio: Radio = field(default_factory=Radio)

    def __post_init__(self) -> None:
        if self.uploads is not None:
            check_number("uploads", self.uploads, above=0, at_most=1e6)
            if self.uploads > 1 and self.uploads != int(self.uploads):
                raise InputError(f"uploads={self.uploads:g}: give a whole number, or a share below 1")
            if self.band_hz is not None:
                raise InputError("uploads and band_hz: give one of them, how many may upload or the band")
        for name in ("deadline_s", "band_hz"):
            if getattr(self, name) is not None:
                check_number(name, getattr(self, name), above=0, at_most=1e15)
        if self.band_hz is not None and self.deadline_s is None:
            raise InputError("band_hz needs deadline_s: the time in which a round's uploads must arrive")
        if self.deadline_s is None and self.rate_bps is not None:
            raise InputError("rate_bps has no effect without deadline_s: give both, or neither")

    def limits(self, links: Sequence[Link], round: int, model_bits: float) -> Limits:
        """Return what each node needs of what there is."""
        gain = np.array([_or_nan(self._gain(link, round)) for link in links])
        rate = np.array([_or_nan(self._rate(link, round)) for link in links])
        compute_s = np.array([link.compute_s or 0.0 for link in links])
        shown_gain = np.where(np.isnan(gain), 1.0 if np.isnan(gain).all() else np.nanmedian(gain), gain)
        if self.band_hz is None:
            return Limits(
                total_hz=float(self._most(len(links))),
                needed_hz=np.where(self._in_time(rate, compute_s, model_bits), 1.0, np.inf),
                channel_gain=shown_gain,
            )
        return Limits(
            total_hz=self.band_hz,
            needed_hz=self._needed_hz(gain, rate, compute_s, model_bits),
            channel_gain=shown_gain,
            compute_s=compute_s,
            deadline_s=self.deadline_s,
            model_bits=model_bits,
        )

    def _most(self, asked: int) -> int:
        most = 0.5 if self.uploads is None else self.uploads
        return int(most) if most >= 1 else max(1, math.ceil(most * asked))

    def _in_time(self, rate: np.ndarray, compute_s: np.ndarray, model_bits: float) -> Any:
        """Tell who can make the deadline on a link of its own, [N]; who was not measured is given a try."""
        if self.deadline_s is None:
            return np.ones(len(rate), dtype=bool)
        upload_s = np.where(np.isnan(rate), 0.0, model_bits / rate)
        return compute_s + upload_s <= self.deadline_s

    def _needed_hz(
        self, gain: np.ndarray, rate: np.ndarray, compute_s: np.ndarray, model_bits: float
    ) -> np.ndarray:
        """Return B* (17) where the channel gain is known, elsewhere the share of time that the rate asks for, [N]."""
        assert self.deadline_s is not None
        assert self.band_hz is not None
        left_s = self.deadline_s - compute_s
        with np.errstate(divide="ignore", invalid="ignore"):
            share = model_bits / rate / left_s  # of the time that is left, with the whole band
        share = np.where(np.isnan(share), 1.0 / len(rate), share)  # nothing is known: an equal share
        needed_hz = np.where(left_s > 0, share * self.band_hz, np.inf)
        known = ~np.isnan(gain)
        if known.any():
            needed_hz[known] = self.radio.needed_hz(
                gain[known], compute_s[known], deadline_s=self.deadline_s, model_bits=model_bits
            )
        return needed_hz

    def _gain(self, link: Link, round: int) -> float | None:
        if self.channel_gain is None:
            return link.channel_gain
        return _checked("channel_gain", self.channel_gain(link.client, round), link.client)

    def _rate(self, link: Link, round: int) -> float | None:
        if self.rate_bps is None:
            return link.rate_bps
        given = self.rate_bps(link.client, round) if callable(self.rate_bps) else self.rate_bps
        return _checked("rate_bps", given, link.client)


def _checked(name: str, value: float | None, client: int) -> float | None:
    if value is not None:
        check_number(f"{name} of client {client}", value, above=0, at_most=1e30)
    return value


def _or_nan(value: float | None) -> float:
    return math.nan if value is None else float(value)
