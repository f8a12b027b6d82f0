"""One round's reports as JSON: read, checked, and written. The format is `reports.schema.json`."""

import dataclasses
import json
import math
from importlib.resources import files
from typing import Any

import numpy as np

from fedteddi.errors import InputError, check_number, nearest_hint, shown
from fedteddi.schedulers.view import RoundView
from fedteddi.wireless.radio import Radio

FIELDS = {f.name: f for f in dataclasses.fields(RoundView)}
OPTIONAL = {
    name
    for name, f in FIELDS.items()
    if f.default is not dataclasses.MISSING or f.default_factory is not dataclasses.MISSING
}
TABLES = ("batch_mix", "data_mix", "previous_data_mix", "update_sketch")
LISTS = (
    "num_samples",
    "needed_hz",
    "channel_gain",
    "times_scheduled",
    "class_norm",
    "loss",
    "update_norm",
    "compute_s",
    "download_s",
    "client_id",
)
NULL_IS_INF = ("needed_hz", "download_s")
WHOLE = ("frame", "round", "rounds_in_frame", "batch_size")
FOR_NEEDED_HZ = ("compute_s", "deadline_s", "model_bits")


@dataclasses.dataclass(frozen=True)
class Round:
    """What a file of reports says: the round, and the radio it took place on."""

    view: RoundView
    radio: Radio
    needed_hz_given: bool  # by the file; otherwise it was computed


def reports_schema() -> str:
    """Return the JSON Schema of the reports."""
    return files("fedteddi.protocol.round_json").joinpath("reports.schema.json").read_text(encoding="utf-8")


def read_round(text: str) -> Round:
    """Read one round from JSON text; `needed_hz` is computed where it is left out."""
    given = _parse(text)
    radio = _radio(given.pop("radio", {}))
    for key in given:
        if key not in FIELDS:
            raise InputError(
                f"unknown field {shown(key)}{nearest_hint(key, [*FIELDS, 'radio'])}: the fields are listed by"
                " 'fedteddi schedule --schema'"
            )
    given = {key: value for key, value in given.items() if not (value is None and key in OPTIONAL)}
    for key in FIELDS:
        if key not in given and key not in OPTIONAL and key != "needed_hz":
            raise InputError(f"{key} is missing: add it to the round")
    for key in (*LISTS, *TABLES):
        if key in given:
            given[key] = _numbers(key, given[key], depth=2 if key in TABLES else 1)
    if "classes_seen" in given:
        given["classes_seen"] = _booleans("classes_seen", given["classes_seen"])
    for key in WHOLE:
        if isinstance(given.get(key), float) and given[key].is_integer():
            given[key] = int(given[key])  # JSON does not tell 1.0 from 1
    needed_hz_given = "needed_hz" in given
    if not needed_hz_given:
        given["needed_hz"] = _needed_hz(given, radio)
    return Round(RoundView(**given), radio, needed_hz_given)


def write_round(view: RoundView, radio: Radio | None = None, *, with_needed_hz: bool = True) -> str:
    """Write a round as JSON, one field a line; what is infinite becomes null."""
    lines = []
    for name in FIELDS:
        value = getattr(view, name)
        if value is None or (name == "needed_hz" and not with_needed_hz):
            continue
        if isinstance(value, np.ndarray):
            value = value.tolist()
        if name in NULL_IS_INF:
            value = [entry if math.isfinite(entry) else None for entry in value]
        lines.append(f"  {json.dumps(name)}: {json.dumps(value, allow_nan=False)}")
    if radio is not None:
        lines.append(f'  "radio": {json.dumps(dataclasses.asdict(radio))}')
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _parse(text: str) -> dict[str, Any]:
    if not text.strip():
        raise InputError("the text is empty: give one JSON object with the fields of a round")
    try:
        given = json.loads(text, object_pairs_hook=_no_duplicates)
    except InputError:
        raise
    except RecursionError:
        raise InputError(
            "the JSON is nested too deeply: a round is one object of numbers and lists"
        ) from None
    except json.JSONDecodeError as error:
        raise InputError(f"the text is not valid JSON ({error}): give one JSON object") from None
    except ValueError:  # Python refuses to read integers of thousands of digits
        raise InputError("the JSON holds a number of absurd length: give numbers of a few digits") from None
    if not isinstance(given, dict):
        raise InputError(f"the JSON is a {_kind(given)}: give one object with the fields of a round")
    return given


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise InputError(f"the field {shown(key)} appears twice: keep one")
        found[key] = value
    return found


def _radio(given: Any) -> Radio:
    known = [f.name for f in dataclasses.fields(Radio)]
    if not isinstance(given, dict):
        raise InputError(f"radio is a {_kind(given)}: give an object with {' and '.join(known)}")
    for key in given:
        if key not in known:
            raise InputError(
                f"unknown field radio.{key}{nearest_hint(key, known)}: known are {', '.join(known)}"
            )
    return Radio(**given)


def _numbers(name: str, value: Any, depth: int) -> np.ndarray:
    if not isinstance(value, list):
        raise InputError(f"{name} is a {_kind(value)}: give a list, an entry for every client or class")
    if depth == 1:
        return np.array(
            [_number(f"{name}[{i}]", entry, null_ok=name in NULL_IS_INF) for i, entry in enumerate(value)]
        )
    rows = []
    for i, row in enumerate(value):
        if not isinstance(row, list):
            raise InputError(f"{name}[{i}] is a {_kind(row)}: give a list of numbers")
        if len(row) != len(value[0]):
            raise InputError(
                f"{name}[{i}] has {len(row)} entries, {name}[0] has {len(value[0])}: give as many"
            )
        rows.append([_number(f"{name}[{i}][{c}]", entry) for c, entry in enumerate(row)])
    return np.array(rows, dtype=np.float64) if rows else np.zeros((0, 0))


def _number(where: str, value: Any, *, null_ok: bool = False) -> float | int:
    if value is None and null_ok:
        return math.inf
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InputError(f"{where} is a {_kind(value)}: give a number")
    if not math.isfinite(value) if isinstance(value, float) else abs(value) > 2**63 - 1:
        null = ", or null for a client that cannot meet the deadline" if null_ok else ""
        raise InputError(f"{where}={shown(value)}: give a finite number{null}")
    return value


def _booleans(name: str, value: Any) -> np.ndarray:
    if not isinstance(value, list) or not all(isinstance(entry, bool) for entry in value):
        raise InputError(f"{name}: give a list of true and false, one for every class")
    return np.array(value, dtype=bool)


def _needed_hz(given: dict[str, Any], radio: Radio) -> np.ndarray:
    for key in FOR_NEEDED_HZ:
        if key not in given:
            raise InputError(
                f"needed_hz is missing, and so is {key}, from which it would be computed: give needed_hz,"
                f" or all of channel_gain, {', '.join(FOR_NEEDED_HZ)}"
            )
    # Half a round is enough to work with here; RoundView checks the rest.
    check_number("deadline_s", given["deadline_s"], above=0)
    check_number("model_bits", given["model_bits"], at_least=1)
    gain, compute_s = given["channel_gain"], given["compute_s"]
    download_s = given.get("download_s", np.zeros_like(compute_s))
    for name, values in (("channel_gain", gain), ("compute_s", compute_s), ("download_s", download_s)):
        for client in np.flatnonzero(values < 0)[:1]:
            raise InputError(f"{name}[{client}]={shown(values[client])}: give a finite number, at least 0")
        if values.shape != gain.shape:
            raise InputError(f"{name} has {len(values)} entries: give {len(gain)}, as channel_gain has")
    ready_s = download_s + compute_s
    return radio.needed_hz(gain, ready_s, deadline_s=given["deadline_s"], model_bits=given["model_bits"])


def _kind(value: Any) -> str:
    names = {dict: "object", list: "list", str: "text", bool: "true or false", type(None): "null"}
    return names.get(type(value), "number")
