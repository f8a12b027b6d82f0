"""What all rules share: rank, fill the band in that order, hand out bandwidth."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

import numpy as np

from fedteddi.errors import InputError, check_choice
from fedteddi.schedulers.schedule import Schedule, Trace
from fedteddi.schedulers.view import RoundView
from fedteddi.wireless.uplink import share_band_hz

SpareBand = Literal["unused", "share"]
OnNoFit = Literal["stop", "skip"]


@dataclass(frozen=True, kw_only=True)
class BandOptions:
    """The option every built-in rule has: what happens to the band that nobody needs."""

    needs: ClassVar[frozenset[str]] = frozenset()  # of ON_REQUEST, "gradient_std", "class_norm"

    spare_band: SpareBand = "unused"

    def __post_init__(self) -> None:
        check_choice("spare_band", self.spare_band, get_args(SpareBand))


@dataclass(frozen=True, kw_only=True)
class AdmissionOptions(BandOptions):
    """The options of rules that admit clients one after another: also, what happens when one does not fit (D1)."""

    on_no_fit: OnNoFit = "stop"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("on_no_fit", self.on_no_fit, get_args(OnNoFit))


def ranked(score: np.ndarray, rng: np.random.Generator, *, decimals: int | None = None) -> np.ndarray:
    """Return indices by falling score, ties in random order; scores equal to `decimals` places tie."""
    score = score if decimals is None else np.round(score, decimals)
    return np.lexsort((rng.random(len(score)), -score))


def drawn(log_weight: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Draw all indices one after another without replacement, each ∝ exp(log_weight) among those left.

    Falling weights after Gumbel noise give exactly that order. A weight of 0 (−inf) comes last, in random order.
    """
    return ranked(log_weight + rng.gumbel(size=len(log_weight)), rng)


def rounded(number: float, rng: np.random.Generator) -> int:
    """Round up or down at random, so that the mean is `number`."""
    return int(number + rng.random())


def fitting_in_order(
    order: np.ndarray, needed_hz: np.ndarray, total_hz: float, on_no_fit: OnNoFit
) -> np.ndarray:
    """Go through `order` and admit clients; the first that does not fit ends it, or is skipped (docs/paper.md D1).

    A client that no bandwidth could serve in time is skipped either way; one that needs more than the band is not.
    """
    if on_no_fit == "stop":
        order = order[np.isfinite(needed_hz[order])]
        return order[: np.searchsorted(np.cumsum(needed_hz[order]), total_hz, side="right")]
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
        ready_s, deadline_s, model_bits = timing(view, "spare_band='share'")
        hz = share_band_hz(
            hz, ready_s[clients], deadline_s=deadline_s, model_bits=model_bits, total_hz=view.total_hz
        )
    return Schedule(
        clients=tuple(clients),
        bandwidth_hz=tuple(hz),
        trace=trace,
        bound=bound,
    )


def fill_band(view: RoundView, order: np.ndarray, options: AdmissionOptions = AdmissionOptions()) -> Schedule:
    """Schedule clients in the given order until one does not fit or, with "skip", until nobody does."""
    fitting = fitting_in_order(order, view.needed_hz, view.total_hz, options.on_no_fit)
    return granted(view, fitting, options.spare_band)


def one_by_one(view: RoundView, choose: Callable[[np.ndarray], int], options: AdmissionOptions) -> Schedule:
    """Schedule whom `choose` picks of those left, one after another, where a choice depends on those before it.

    With "stop" the first who does not fit ends it; with "skip" only those who still fit are left (docs/paper.md D1).
    """
    left, left_hz, members = view.schedulable, view.total_hz, list[int]()
    while True:
        if options.on_no_fit == "skip":
            left = left[view.needed_hz[left] <= left_hz]
        if len(left) == 0:
            break
        chosen = choose(left)
        if not view.needed_hz[chosen] <= left_hz:
            break
        members.append(chosen)
        left_hz -= float(view.needed_hz[chosen])
        left = left[left != chosen]
    return granted(view, np.array(members, dtype=np.intp), options.spare_band)


def highest(score: np.ndarray, tie: float, rng: np.random.Generator) -> int:
    """Return the index of the highest score; among those within `tie` of it, a random one."""
    tied = np.flatnonzero(score >= score.max() - tie)
    return int(tied[0] if len(tied) == 1 else rng.choice(tied))


def timing(view: RoundView, who: str) -> tuple[np.ndarray, float, float]:
    """Return when clients could begin to upload [N], T_max and D_s, which are optional in general but not for this."""
    if view.ready_s is None or view.deadline_s is None or view.model_bits is None:
        raise InputError(f"{who} needs compute_s, deadline_s and model_bits: give all three")
    return view.ready_s, view.deadline_s, view.model_bits


def required(view: RoundView, name: Literal["loss", "update_norm", "update_sketch"], rule: str) -> np.ndarray:
    """Return a field that is optional in general but not for this rule."""
    values: np.ndarray | None = getattr(view, name)
    if values is None:
        raise InputError(f"{rule} ranks clients by {name}, which is missing: add {name} to the round")
    return values
