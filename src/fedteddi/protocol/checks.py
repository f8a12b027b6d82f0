"""Reports are looked at before they are used: what is broken or impossible costs its sender the round, and nobody else.

A lie that could be true (a wrong but possible histogram, a finite but made-up loss) cannot be recognised here.
"""

import math
import numbers
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedteddi.errors import shown
from fedteddi.heterogeneity.mixes import class_mix
from fedteddi.protocol.messages import UPDATE_SKETCH_SIZE, Answers, Report, ReportTable, Request, Told
from fedteddi.protocol.rejections import Rejected, Rejections
from fedteddi.schedulers.view import LARGEST, MIX_TOLERANCE
from fedteddi.settings import Settings

# Nobody holds more samples; the limit also keeps sums of counts exact.
MOST_SAMPLES = 10**9
# Thirty years.
LONGEST_S = 1e9
# What a rule needs, the part of a report that says it, and how low that may be: only σ̂² and norms are never below 0.
ASKED_FOR = {
    "gradient_std": ("gradient_variance", 0.0),
    "loss": ("loss", -LARGEST),
    "update_norm": ("update_norm", 0.0),
    "update_sketch": ("update_sketch", -LARGEST),
}
SIZES = {"update_sketch": UPDATE_SKETCH_SIZE}  # the parts that are rows of numbers
MEASURED = {part for part, _ in ASKED_FOR.values()}


@dataclass(frozen=True, kw_only=True, eq=False)
class ReceivedReports:
    """The valid reports of a round, a row for every client."""

    clients: tuple[int, ...]
    num_samples: np.ndarray  # D_n as claimed, [n]
    class_counts: np.ndarray  # samples of each class that the server believes are there, [n, C]
    data_mix: np.ndarray  # [n, C]
    batch_mix: np.ndarray  # [n, C]
    reports: Mapping[int, Report]  # of these clients at least

    def told(self, part: str, clients: Iterable[int] | None = None) -> list[Any]:
        """Return a part of every report, or of some."""
        some = self.clients if clients is None else clients
        if isinstance(self.reports, ReportTable):
            column = self.reports.numbers.get(part, {})
            return [column.get(client) for client in some]
        return [getattr(self.reports[client], part) for client in some]

    def measured(self, part: str, modelled: np.ndarray) -> np.ndarray:
        """Return a part that clients may have measured, [n]; who did not has what is modelled."""
        found = self.told(part)
        if all(given is None for given in found):
            return modelled
        return np.array(
            [m if g is None else g for g, m in zip(found, modelled, strict=True)], dtype=np.float64
        )

    def numbers(self, part: str, rows: Iterable[int] | None = None) -> np.ndarray:
        """Return a part of every report, [n] or [n, its size], or of some; it was asked of them, so it is there."""
        some = None if rows is None else [self.clients[row] for row in rows]
        return np.array(self.told(part, some), dtype=np.float64)


def received_reports(
    answers: Answers, request: Request, classes: int, settings: Settings
) -> tuple[ReceivedReports | None, Rejections]:
    """Return the reports that can be used, None if there is none, and why others were rejected."""
    private, training, rejections = settings.privacy.epsilon > 0, settings.training, Rejections()
    valid: dict[int, tuple[np.ndarray, np.ndarray]] = {}  # data and batch counts, or D_n and the mix
    given = answers.given
    if isinstance(given, ReportTable) and not private and _as_usual(given, request, classes):
        counts = given.data_counts, given.batch_counts
        if not _impossible(*counts, training.local_steps, training.batch_size):
            return _from_counts(given.clients, given, *counts), rejections
    for client in (client for client in sorted(request.clients) if client in given):
        report = given[client]
        with rejections.of(client, "report"):
            if not isinstance(report, Report):
                raise Rejected(f"report is {_kind(report)}, not a report")
            parts = (_released if private else _histograms)(report, classes)
            _check_numbers(report, request.needs_from(client))
            valid[client] = parts
    stacked = _stacked(valid) if valid else None
    if stacked is not None and not private:
        clients = list(valid)
        faults = _impossible(*stacked, training.local_steps, training.batch_size)
        for row, why in faults.items():
            rejections.add(clients[row], Rejected(why))
            del valid[clients[row]]
        if faults and valid:
            stacked = _stacked(valid)
    if not valid or stacked is None:
        return None, rejections
    combine = _from_releases if private else _from_counts
    return combine(tuple(valid), given, *stacked), rejections


def _as_usual(table: ReportTable, request: Request, classes: int) -> bool:
    """Tell whether a table holds all that was asked, in the usual form: then no report needs a look of its own."""
    shape = (len(request.clients), classes)
    if table.clients != tuple(sorted(request.clients)) or not table.numbers.keys() <= MEASURED:
        return False
    for counts in (table.data_counts, table.batch_counts):
        if type(counts) is not np.ndarray or counts.dtype != np.int64 or counts.shape != shape:
            return False
    for need, (part, least) in ASKED_FOR.items():
        if need in request.needs:
            column = table.numbers.get(part, {})
            some = request.measuring if need == "gradient_std" else request.clients
            values = [column.get(client) for client in some]
            if not all(_usual(value, part, least) for value in values):
                return False
    return True


def _usual(value: Told, part: str, least: float) -> bool:
    """Tell whether this is what a part of a report usually is."""
    if part in SIZES:
        if type(value) is not np.ndarray or value.dtype != np.float64 or value.shape != (SIZES[part],):
            return False
        return bool(least <= value.min() and value.max() <= LARGEST)  # nor NaN
    return type(value) is float and least <= value <= LARGEST


def _stacked(parts: Mapping[int, tuple[np.ndarray, np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
    return _rows([one for one, _ in parts.values()]), _rows([two for _, two in parts.values()])


def _rows(parts: Sequence[np.ndarray]) -> np.ndarray:
    """Stack rows [C], or numbers: for many small arrays several times as fast as `np.array`."""
    return np.concatenate(parts).reshape(len(parts), -1) if parts[0].ndim else np.array(parts)


def _from_counts(
    clients: tuple[int, ...], reports: Mapping[int, Report], held: np.ndarray, trained: np.ndarray
) -> ReceivedReports:
    return ReceivedReports(
        clients=clients,
        num_samples=held.sum(axis=1),
        class_counts=held,
        data_mix=class_mix(held),
        batch_mix=class_mix(trained),
        reports=reports,
    )


def _from_releases(
    clients: tuple[int, ...], reports: Mapping[int, Report], held: np.ndarray, mix: np.ndarray
) -> ReceivedReports:
    return ReceivedReports(
        clients=clients,
        num_samples=held,
        class_counts=np.rint(held[:, None] * mix).astype(np.int64),
        data_mix=mix,
        batch_mix=mix,
        reports=reports,
    )


def _histograms(report: Report, classes: int) -> tuple[np.ndarray, np.ndarray]:
    held = _counts("data_counts", report.data_counts, classes)
    return held, _counts("batch_counts", report.batch_counts, classes)


def _counts(name: str, values: Any, classes: int) -> np.ndarray:
    """Return counts; those in the usual form are checked together with everybody's, in `_impossible`."""
    if type(values) is np.ndarray and values.dtype == np.int64 and values.shape == (classes,):
        return values
    return whole_counts(name, values, classes)


def _released(report: Report, classes: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the sample count and the noisy mix; true counts, if somebody sends them, are not looked at."""
    if report.num_samples is None:
        raise Rejected("num_samples is missing")
    held = whole_counts("num_samples", [report.num_samples], 1)[0]
    if held == 0:
        raise Rejected("num_samples=0: there is nothing to learn from")
    mix = number_row("released_mix", report.released_mix, classes).astype(np.float64)
    if not is_distribution(mix):
        raise Rejected("released_mix is not a distribution")
    return held, mix


def is_distribution(mix: np.ndarray) -> bool:
    """Tell whether shares are finite, not negative, and add up to 1."""
    return bool(np.isfinite(mix).all() and mix.min() >= 0 and abs(mix.sum() - 1) <= MIX_TOLERANCE)


def whole_counts(name: str, values: Any, classes: int) -> np.ndarray:
    """Return counts [C] as int64, or say what is wrong with them."""
    row = number_row(name, values, classes)
    if row.dtype.kind == "f" and not (np.isfinite(row).all() and (row == np.floor(row)).all()):
        raise Rejected(f"{name} holds something other than whole numbers")
    for bad, why in _out_of_range(name, row):
        if bad:
            raise Rejected(why)
    return row.astype(np.int64, copy=False)


def _out_of_range(name: str, counts: np.ndarray) -> list[tuple[np.ndarray, str]]:
    """Say where counts [..., C] are no possible numbers of samples, [...], and why."""
    return [
        (counts.min(axis=-1) < 0, f"{name} holds a negative number"),
        (counts.max(axis=-1) > MOST_SAMPLES, f"{name} holds more than {MOST_SAMPLES:g} samples"),
    ]


def number_row(name: str, values: Any, length: int) -> np.ndarray:
    """Return numbers [length] as an array, or say what is wrong with them."""
    if values is None:
        raise Rejected(f"{name} is missing")
    try:
        row = np.asarray(values)
    except Exception:  # whatever it is: ragged lists, an array of another library that cannot be converted
        raise Rejected(f"{name} is {_kind(values)}, not an array") from None
    if row.dtype.kind not in "iuf":
        raise Rejected(f"{name} holds something other than numbers")
    if row.shape != (length,):
        raise Rejected(f"{name} has shape {shown(row.shape)}, not ({length},)")
    return row


def _impossible(held: np.ndarray, trained: np.ndarray, steps: int, batch_size: int) -> dict[int, str]:
    """Say which rows of counts [n, C] contradict themselves or the round: τ batches of b, each without replacement."""
    total, drawn = held.sum(axis=1), trained.sum(axis=1)
    beyond = trained > steps * np.minimum(held, batch_size)
    if (  # the usual case
        held.min() >= 0 < total.min()
        and max(total.max(), held.max(), trained.max()) <= MOST_SAMPLES
        and trained.min() >= 0
        and (drawn == steps * batch_size).all()
        and not beyond.any()
    ):
        return {}
    rules = [
        *_out_of_range("data_counts", held),
        *_out_of_range("batch_counts", trained),
        (total == 0, "data_counts are all 0: there is nothing to learn from"),
        (total > MOST_SAMPLES, f"data_counts add up to more than {MOST_SAMPLES:g} samples"),
        (drawn != steps * batch_size, f"batch_counts do not add up to {steps * batch_size} (τ·b)"),
        (beyond.any(axis=1), "batch_counts hold more of a class than data_counts allow"),
    ]
    return {
        row: next(why for bad, why in rules if bad[row])
        for row in range(len(held))
        if any(bad[row] for bad, _ in rules)
    }


def _check_numbers(report: Report, needs: frozenset[str]) -> None:
    """Reject what was asked for and is missing or no possible number, and impossible measurements."""
    for need, (part, least) in ASKED_FOR.items():
        if need not in needs:
            continue
        value = getattr(report, part)
        if value is None:
            raise Rejected(f"{part} is missing")
        check = _check_row if part in SIZES else _check_number
        check(part, value, least, LARGEST, trained=True)
    if report.compute_s is not None:
        _check_number("compute_s", report.compute_s, 0.0, LONGEST_S)
    if report.channel_gain is not None:
        _check_number("channel_gain", report.channel_gain, 0.0, 1.0)  # no link gives back more than it takes


def _check_row(name: str, values: Any, least: float, most: float, *, trained: bool = False) -> None:
    row = number_row(name, values, SIZES[name])
    for worst in (row.min(), row.max()):  # NaN is both
        _check_number(name, worst.item(), least, most, trained=trained)


def _check_number(name: str, value: Any, least: float, most: float, *, trained: bool = False) -> None:
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise Rejected(f"{name} is {_kind(value)}, not a number")
    try:
        number = float(value)
    except OverflowError:  # an integer beyond all floats
        raise Rejected(f"{name} is above {most:g}") from None
    if not math.isfinite(number):
        raise Rejected(f"{name}={number:g} is not finite", not_finite=trained)
    if not least <= number <= most:
        raise Rejected(f"{name}={number:g} lies outside {least:g} to {most:g}")


def _kind(value: Any) -> str:
    return f"of type {type(value).__name__}"
