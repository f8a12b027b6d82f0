"""Measured traces as CSV: channel gains and computation times by round, arrivals by frame."""

import csv
import math
from pathlib import Path

import numpy as np

from fedteddi.errors import InputError, shown


def read_trace(path: str, clients: int) -> dict[int, np.ndarray]:
    """Read a CSV with the columns frame, round, client, value into {frame: [rounds, N]}.

    Rounds count from 1 and must be complete; a run with more rounds starts again at the trace's first.
    """
    rows: dict[int, dict[tuple[int, int], float]] = {}
    for line, row in _rows(path, ("frame", "round", "client", "value")):
        frame, number, client = (_whole(path, line, key, row[key]) for key in ("frame", "round", "client"))
        if number < 1 or client >= clients:
            raise InputError(f"{path}, line {line}: rounds count from 1, clients from 0 to {clients - 1}")
        try:
            value = float(row["value"])
        except (TypeError, ValueError):
            value = math.nan
        if not (math.isfinite(value) and value >= 0):
            raise InputError(
                f"{path}, line {line}: value={shown(row['value'])}: give a finite number, at least 0"
            )
        if (number, client) in rows.setdefault(frame, {}):
            raise InputError(
                f"{path}, line {line}: frame {frame}, round {number}, client {client} stands twice"
            )
        rows[frame][number, client] = value
    table = {}
    for frame, entries in rows.items():
        length = max(number for number, _ in entries)
        values = np.full((length, clients), np.nan)
        for (number, client), value in entries.items():
            values[number - 1, client] = value
        if np.isnan(values).any():
            gap = np.argwhere(np.isnan(values))[0]
            raise InputError(
                f"{path} has no value for frame {frame}, round {gap[0] + 1}, client {gap[1]}: add it"
            )
        table[frame] = values
    return table


def traced(table: dict[int, np.ndarray], path: str, frame: int, round: int) -> np.ndarray:
    """Return the trace's values for one round, [N]."""
    if frame not in table:
        raise InputError(f"{path} has nothing for frame {frame}: add it")
    return np.asarray(table[frame][(round - 1) % len(table[frame])])


def read_arrivals(path: str, clients: int, num_classes: int, frames: int) -> dict[int, np.ndarray]:
    """Read a CSV with the columns frame, client, class, samples into {frame: counts [N, C]}."""
    table: dict[int, np.ndarray] = {}
    for line, row in _rows(path, ("frame", "client", "class", "samples")):
        frame, client, number, samples = (
            _whole(path, line, key, row[key]) for key in ("frame", "client", "class", "samples")
        )
        if not (1 <= frame < frames and client < clients and number < num_classes):
            raise InputError(
                f"{path}, line {line}: frames go from 1 to {frames - 1}, clients from 0 to {clients - 1},"
                f" classes from 0 to {num_classes - 1}"
            )
        table.setdefault(frame, np.zeros((clients, num_classes), dtype=np.int64))[client, number] += samples
    return table


def _rows(path: str, columns: tuple[str, ...]) -> list[tuple[int, dict[str, str]]]:
    try:
        with Path(path).open(encoding="utf-8", newline="") as file:
            reader = csv.DictReader(file, strict=True)
            missing = [column for column in columns if column not in (reader.fieldnames or ())]
            if missing:
                raise InputError(
                    f"{path} has no column {missing[0]}: its first line must name {', '.join(columns)}"
                )
            rows = [(reader.line_num, row) for row in reader]
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror}): give a CSV file") from None
    except (csv.Error, UnicodeDecodeError) as error:
        raise InputError(f"{path} is not a CSV file ({error})") from None
    if not rows:
        raise InputError(f"{path} has no rows: give a CSV file with {', '.join(columns)}")
    return rows


def _whole(path: str, line: int, key: str, text: str | None) -> int:
    if text is None or not text.strip().isdecimal():
        raise InputError(f"{path}, line {line}: {key}={shown(text)}: give a whole number, at least 0")
    return int(text)
