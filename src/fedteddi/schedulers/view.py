"""`RoundView`: everything a scheduler may know about one round, checked once, then read-only."""

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fedteddi.errors import InputError, check_number, shown

# Shares that travelled as rounded decimals or in single precision still count as summing to 1.
MIX_TOLERANCE = 1e-6
# Far beyond anything measured; the limits keep sums and products of the values representable.
LARGEST = 1e100
# Counts beyond 2^53 are no longer exact as floats, and no client has seen that many samples.
MAX_COUNT = 2**53
WHOLE: dict[str, Any] = {"at_least": 1, "at_most": MAX_COUNT, "whole": True}
SCALARS: dict[str, dict[str, Any]] = {
    "frame": WHOLE | {"at_least": 0},
    "rounds_in_frame": WHOLE,
    "round": WHOLE,
    "batch_size": WHOLE,
    "total_hz": {"at_least": 1e-6, "at_most": 1e30},
    "gradient_std": {"at_least": 0, "at_most": LARGEST},
    "deadline_s": {"above": 0, "at_most": 1e15},
    "model_bits": {"at_least": 1, "at_most": 1e30},
}
# Their usual type, and the range of it: what lies there needs no further look.
USUAL: dict[str, tuple[type[Any], float, float]] = {
    name: (
        int if "whole" in limits else float,
        limits["at_least"] if "at_least" in limits else math.nextafter(limits["above"], math.inf),
        limits["at_most"],
    )
    for name, limits in SCALARS.items()
}
OPTIONAL = ("deadline_s", "model_bits")
ON_REQUEST = ("loss", "update_norm", "update_sketch")  # there only if the rule asks


@dataclass(frozen=True, kw_only=True, eq=False)
class RoundView:
    """One round as the server sees it before it chooses. N clients reported, C classes exist.

    Checked, and read-only from here on; an error names the field and the client. The three mixes and the sketches,
    which can be large, are not copied: leave the arrays you pass alone.
    """

    frame: int  # l, from 0
    round: int  # k = 1..K_l
    rounds_in_frame: int  # K_l
    batch_size: int  # b
    total_hz: float  # B
    num_samples: np.ndarray  # D_n, [N]
    batch_mix: np.ndarray  # p_{n,l,k}: class shares of the round's τ·b training samples, [N, C]
    data_mix: np.ndarray  # p_{n,l}: class shares of the client's whole data, [N, C]
    previous_data_mix: np.ndarray  # p_{n,l−1}, [N, C]; equal to data_mix for a client without a past
    needed_hz: np.ndarray  # B*_n, [N]; inf = cannot meet the deadline
    channel_gain: np.ndarray  # |H_n|², [N]
    times_scheduled: np.ndarray  # in this frame, [N]
    gradient_std: float  # σ
    class_norm: np.ndarray  # L^(c), [C]
    loss: np.ndarray | None = None  # of w_{k−1} on the client's first batch, [N]; only if the rule asks
    update_norm: np.ndarray | None = None  # ‖w_n − w_{k−1}‖, [N]; only if the rule asks
    # A random projection of w_n − w_{k−1} that nearly keeps distances, [N, S]; only if the rule asks.
    update_sketch: np.ndarray | None = None
    # [C]; left out: every class with a positive share now or before.
    classes_seen: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=bool))
    compute_s: np.ndarray | None = None  # t_cp, [N]
    download_s: np.ndarray | None = (
        None  # t_dl, [N]; inf = out of reach. Left out: the broadcast takes no time
    )
    deadline_s: float | None = None  # T_max
    model_bits: float | None = None  # D_s
    # Which of all clients each one is, [N]: the same from round to round, whoever reports. Left out: 0 to N − 1.
    client_id: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))

    def __post_init__(self) -> None:
        for name, limits in SCALARS.items():
            value: Any = getattr(self, name)
            kind, least, most = USUAL[name]
            if type(value) is kind and least <= value <= most:
                continue
            if not (name in OPTIONAL and value is None):
                check_number(name, value, **limits)
        if self.round > self.rounds_in_frame:
            raise InputError(
                f"round={self.round} lies beyond rounds_in_frame={self.rounds_in_frame}: rounds count from 1"
            )
        clients = _length("num_samples", self.num_samples, "a round needs at least one client's report")
        classes = _length("class_norm", self.class_norm, "give one norm for every class")
        self._keep("num_samples", _counts("num_samples", self.num_samples, clients, at_least=1))
        self._keep("times_scheduled", _counts("times_scheduled", self.times_scheduled, clients, at_least=0))
        self._keep("class_norm", _numbers("class_norm", self.class_norm, classes))
        for name in ("batch_mix", "data_mix", "previous_data_mix"):
            self._keep(name, _mixes(name, getattr(self, name), clients, classes))
        self._keep("needed_hz", _needed_hz(self.needed_hz, clients))
        for name in ("channel_gain", "loss", "update_norm", "compute_s"):
            if getattr(self, name) is not None:
                self._keep(name, _numbers(name, getattr(self, name), clients))
        if self.update_sketch is not None:
            self._keep("update_sketch", _rows("update_sketch", self.update_sketch, clients))
        if self.download_s is not None:
            if self.compute_s is None:
                raise InputError("download_s needs compute_s, which is missing: give both, or neither")
            self._keep("download_s", _download_s(self.download_s, clients))
        self._check_deadline()
        self._keep("classes_seen", self._seen(classes))
        self._keep("client_id", self._ids(clients))
        if self.frame == 0 and not np.array_equal(self.previous_data_mix, self.data_mix):
            # docs/paper.md D4: frame 0 has no past, so nothing has drifted.
            moved = int(np.flatnonzero((self.previous_data_mix != self.data_mix).any(axis=1))[0])
            raise InputError(
                f"previous_data_mix[{moved}] differs from data_mix in frame 0: there was no earlier frame,"
                " so repeat data_mix there"
            )

    def _check_deadline(self) -> None:
        ready_s = self.ready_s
        if ready_s is None or self.deadline_s is None:
            return
        late = np.flatnonzero(np.isfinite(self.needed_hz) & (ready_s >= self.deadline_s))
        if len(late):
            first = int(late[0])
            what = "compute_s" if self.download_s is None else "download_s + compute_s"
            raise InputError(
                f"needed_hz[{first}]={shown(self.needed_hz[first])}, but {what}[{first}]="
                f"{shown(ready_s[first])} leaves no time before deadline_s={shown(self.deadline_s)}:"
                " such a client needs inf (null in JSON)"
            )

    def _keep(self, name: str, values: np.ndarray) -> None:
        locked = values.view() if values.ndim == 2 else values.copy()
        locked.flags.writeable = False
        object.__setattr__(self, name, locked)

    def _seen(self, classes: int) -> np.ndarray:
        largest = np.maximum(np.maximum(self.data_mix, self.previous_data_mix), self.batch_mix)
        held = np.asarray(largest.max(axis=0) > 0)
        given = np.asarray(self.classes_seen)
        if given.size == 0:
            return held
        if given.shape != (classes,) or given.dtype != np.bool_:
            raise InputError(f"classes_seen: give {classes} booleans, one for every class")
        if (held & ~given).any():
            hidden = int(np.flatnonzero(held & ~given)[0])
            raise InputError(
                f"classes_seen[{hidden}]=False, but a client holds class {hidden}: mark it as seen"
            )
        return given

    def _ids(self, clients: int) -> np.ndarray:
        if np.size(self.client_id) == 0:
            return np.arange(clients)
        ids = _counts("client_id", self.client_id, clients, at_least=0)
        if (ids[1:] > ids[:-1]).all():  # as they usually come
            return ids
        values, times = np.unique(ids, return_counts=True)
        if (times > 1).any():
            twice = values[times > 1][0]
            raise InputError(f"client_id has {twice} twice: give every client an id of its own")
        return ids

    @property
    def num_clients(self) -> int:
        """N: how many clients reported."""
        return len(self.num_samples)

    @property
    def num_classes(self) -> int:
        """C: how many classes the model can tell apart."""
        return len(self.class_norm)

    @property
    def ready_s(self) -> np.ndarray | None:
        """When each client could begin to upload, t_dl + t_cp, [N]; None where `compute_s` is."""
        if self.compute_s is None or self.download_s is None:
            return self.compute_s
        return np.asarray(self.download_s + self.compute_s)

    @property
    def schedulable(self) -> np.ndarray:
        """The clients that could upload if they had the whole band to themselves: B*_n ≤ B, indices."""
        return np.flatnonzero(self.needed_hz <= self.total_hz)


def _array(name: str, values: ArrayLike, dimensions: int) -> np.ndarray:
    try:
        array = np.asarray(values)
    except ValueError:
        raise InputError(f"{name}: rows of different lengths; give {dimensions} dimension(s)") from None
    if array.ndim != dimensions:
        raise InputError(f"{name} has {array.ndim} dimension(s): it needs {dimensions}")
    if array.dtype.kind not in "iuf" and array.size:
        raise InputError(
            f"{name} holds something other than numbers (numpy type {array.dtype}): give numbers"
        )
    return array


def _length(name: str, values: ArrayLike, remedy: str) -> int:
    length = len(_array(name, values, 1))
    if length == 0:
        raise InputError(f"{name} is empty: {remedy}")
    return length


def _per_client(name: str, values: ArrayLike, length: int) -> np.ndarray:
    array = _array(name, values, 1)
    if len(array) != length:
        raise InputError(f"{name} has {len(array)} entries: give {length}, as num_samples has")
    return array


def _counts(name: str, values: ArrayLike, length: int, *, at_least: int) -> np.ndarray:
    array = _per_client(name, values, length)
    if array.dtype == np.int64 and at_least <= array.min() and array.max() <= MAX_COUNT:
        return array.astype(np.int64, copy=False)
    good = (array >= at_least) & (array <= MAX_COUNT)
    if array.dtype.kind == "f":
        good &= array == np.floor(array)
    _refuse_first(name, array, good, f"give a whole number, at least {at_least} and at most 2^53")
    return array.astype(np.int64, copy=False)


def _numbers(name: str, values: ArrayLike, length: int) -> np.ndarray:
    array = _per_client(name, values, length).astype(np.float64, copy=False)
    lowest, limits = (
        (-LARGEST, "at most 1e100 in size") if name == "loss" else (0.0, "at least 0 and at most 1e100")
    )
    if not (lowest <= array.min() and array.max() <= LARGEST):  # nor is NaN within these
        good = (array >= lowest) & (array <= LARGEST)
        _refuse_first(name, array, good, f"give a finite number, {limits}")
    return array


def _rows(name: str, values: ArrayLike, clients: int) -> np.ndarray:
    array = _array(name, values, 2).astype(np.float64, copy=False)
    if len(array) != clients or not array.size:
        raise InputError(
            f"{name} has shape {array.shape}: give {clients} rows, as num_samples has entries, and a number in each"
        )
    if not np.abs(array).max() <= LARGEST:  # nor is NaN
        row, column = (int(i) for i in np.argwhere(~(np.abs(array) <= LARGEST))[0])
        raise InputError(
            f"{name}[{row}][{column}]={shown(array[row, column])}: give a finite number, at most 1e100 in size"
        )
    return array


def _needed_hz(values: ArrayLike, length: int) -> np.ndarray:
    array = _per_client("needed_hz", values, length).astype(np.float64, copy=False)
    remedy = "give a positive number, or inf (null in JSON) for a client that cannot"
    _refuse_first("needed_hz", array, array > 0, remedy)
    return array


def _download_s(values: ArrayLike, length: int) -> np.ndarray:
    array = _per_client("download_s", values, length).astype(np.float64, copy=False)
    _refuse_first(
        "download_s",
        array,
        array >= 0,
        "give a number, at least 0, or inf (null in JSON) for a client out of reach",
    )
    return array


def _mixes(name: str, values: ArrayLike, clients: int, classes: int) -> np.ndarray:
    array = _array(name, values, 2).astype(np.float64, copy=False)
    if array.shape != (clients, classes):
        raise InputError(
            f"{name} has shape {array.shape}: it needs ({clients}, {classes}), a row for every client"
            " (as in num_samples) and a share for every class (as in class_norm)"
        )
    # Two cheap passes settle the usual case; NaN fails both comparisons.
    total = array @ np.ones(classes)  # [N, C] @ [C] -> [N]
    fair = np.abs(total - 1.0) <= MIX_TOLERANCE
    if array.min() >= 0 and fair.all():
        return array
    good = np.isfinite(array) & (array >= 0)
    if not good.all():
        row, column = (int(i) for i in np.argwhere(~good)[0])
        raise InputError(
            f"{name}[{row}][{column}]={shown(array[row, column])}: a class share lies between 0 and 1"
        )
    row = int(np.flatnonzero(~fair)[0])
    raise InputError(f"{name}[{row}] sums to {total[row]:.6g}: the class shares of a client must sum to 1")


def _refuse_first(name: str, array: np.ndarray, good: np.ndarray, remedy: str) -> None:
    if not good.all():
        first = int(np.flatnonzero(~good)[0])
        raise InputError(f"{name}[{first}]={shown(array[first])}: {remedy}")
