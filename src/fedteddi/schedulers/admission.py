"""What all rules share: rank, fill the band in that order, hand out bandwidth."""

from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

import numpy as np

from fedteddi.errors import InputError, check_choice
from fedteddi.schedulers.schedule import Schedule, Trace
from fedteddi.schedulers.view import RoundView
from fedteddi.wireless.bandwidth import share_band_hz

SpareBand = Literal["unused", "share"]


@dataclass(frozen=True, kw_only=True)
class BandOptions:
    """The option every built-in rule has: what happens to the band that nobody needs."""

    needs: ClassVar[frozenset[str]] = frozenset()  # "loss", "update_norm", "gradient_std", "class_norm"

    spare_band: SpareBand = "unused"

    def __post_init__(self) -> None:
        check_choice("spare_band", self.spare_band, get_args(SpareBand))


def ranked(score: np.ndarray, rng: np.random.Generator, *, decimals: int | None = None) -> np.ndarray:
    """Return indices by falling score, ties in random order; scores equal to `decimals` places tie."""
    score = score if decimals is None else np.round(score, decimals)
    return np.lexsort((rng.random(len(score)), -score))


def fitting_in_order(order: np.ndarray, needed_hz: np.ndarray, total_hz: float) -> np.ndarray:
    """Go through `order` and admit everyone who still fits; who does not is skipped (docs/paper.md D1)."""
    admitted: list[np.ndarray] = []
    left_hz = total_hz
    while True:
        order = order[needed_hz[order] <= left_hz]
        if len(order) == 0:
            return np.concatenate(admitted) if admitted else order
        # As many as fit one after another; the next one does not, and the loop drops it.
        used_hz = np.cumsum(needed_hz[order])
        count = int(np.searchsorted(used_hz, left_hz, side="right"))
        admitted.append(order[:count])
        left_hz -= float(used_hz[count - 1])
        order = order[count:]


def granted(
    view: RoundView,
    clients: np.ndarray,
    spare_band: SpareBand,
    *,
    trace: Trace | None = None,
    bound: float | None = None,
) -> Schedule:
    """Give every chosen client its B*, or share the whole band among them, and make the schedule."""
    hz = view.needed_hz[clients]
    if spare_band == "share" and len(clients):
        if view.compute_s is None or view.deadline_s is None or view.model_bits is None:
            raise InputError("spare_band='share' needs compute_s, deadline_s and model_bits: give all three")
        hz = share_band_hz(
            hz,
            view.compute_s[clients],
            deadline_s=view.deadline_s,
            model_bits=view.model_bits,
            total_hz=view.total_hz,
        )
    return Schedule(
        clients=tuple(clients),
        bandwidth_hz=tuple(hz),
        trace=trace,
        bound=bound,
    )


def fill_band(view: RoundView, order: np.ndarray, spare_band: SpareBand = "unused") -> Schedule:
    """Schedule clients in the given order until nothing more fits."""
    return granted(view, fitting_in_order(order, view.needed_hz, view.total_hz), spare_band)


def required(view: RoundView, name: Literal["loss", "update_norm"], rule: str) -> np.ndarray:
    """Return a field that is optional in general but not for this rule."""
    values: np.ndarray | None = getattr(view, name)
    if values is None:
        raise InputError(f"{rule} ranks clients by {name}, which is missing: add {name} to the round")
    return values
