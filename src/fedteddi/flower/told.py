"""What `Scheduled` asks of a node beside its app's own message, and what `report_first` tells it: small records."""

import contextlib
import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Message, RecordDict

from fedteddi.flower.labels import LARGEST_CLASS
from fedteddi.flower.records import BadAnswerError
from fedteddi.protocol.checks import LONGEST_S, MOST_SAMPLES
from fedteddi.schedulers.view import LARGEST

# Names of records that the app never sees. ConfigRecords: Flower's strategies expect exactly one MetricRecord.
ASKED, TOLD = "fedteddi.asked", "fedteddi.told"
# report: train, keep the arrays. upload: send them. labels: count, do not train. train: train, send all.
Phase = Literal["report", "upload", "labels", "train"]


@dataclass(frozen=True, kw_only=True)
class Told:
    """What a node says of itself."""

    counts: Counter[int]  # samples by class: held, or trained on in this round
    compute_s: float | None = None  # measured around the app's own training
    update_norm: float | None = None  # ‖w_n − w_{k−1}‖, if it was asked for
    channel_gain: float | None = None  # from the node's configuration
    partition: int | None = None  # likewise
    metrics: Mapping[str, Any] = field(default_factory=dict)  # what its app reported


def asking(content: RecordDict, phase: Phase, tag: str, needs: frozenset[str]) -> RecordDict:
    """Return a message's content with our question beside it; the records themselves are shared."""
    asked = ConfigRecord({"phase": phase, "tag": tag, "needs": sorted(needs)})
    return RecordDict({**content, ASKED: asked})


def told_record(told: Told) -> ConfigRecord:
    """Pack what a node says."""
    classes = sorted(told.counts)
    packed: dict[str, Any] = {"classes": classes, "counts": [told.counts[c] for c in classes]}
    for name in ("compute_s", "update_norm", "channel_gain", "partition"):
        if getattr(told, name) is not None:
            packed[name] = getattr(told, name)
    return ConfigRecord(packed)


def read_told(content: RecordDict) -> Told:
    """Unpack what a node says; raise `BadAnswerError` if it cannot be true."""
    packed = content.config_records.get(TOLD)
    if packed is None:
        raise BadAnswerError("its app has no report_first: add ClientApp(mods=[report_first])")
    classes, counts = packed.get("classes"), packed.get("counts")
    if not _whole_numbers(classes, LARGEST_CLASS) or not _whole_numbers(counts, MOST_SAMPLES):
        raise BadAnswerError("its class counts are not whole numbers in range")
    if len(classes) != len(counts) or len(set(classes)) != len(classes) or not sum(counts):  # type: ignore[arg-type]
        raise BadAnswerError("its class counts do not belong together, or are all 0")
    metrics = {k: v for one in content.metric_records.values() for k, v in one.items()}
    partition = packed.get("partition")
    return Told(
        counts=Counter(dict(zip(classes, counts, strict=True))),  # type: ignore[arg-type]
        compute_s=_number(packed, "compute_s", LONGEST_S),
        update_norm=_number(packed, "update_norm", LARGEST),
        channel_gain=_number(packed, "channel_gain", LARGEST),
        partition=partition if type(partition) is int and partition >= 0 else None,
        metrics=metrics,
    )


def plain_content(content: RecordDict) -> RecordDict:
    """Return what the app itself put into a message."""
    return RecordDict({name: record for name, record in content.items() if name not in (ASKED, TOLD)})


def bytes_of(content: RecordDict) -> int:
    """Return the bytes of a message's records; Flower cannot count empty text and lists, which have next to none."""
    total = 0
    for record in content.values():
        with contextlib.suppress(ValueError, IndexError):
            total += record.count_bytes()
    return total


def array_bits(message: Message) -> float:
    """Return the size of a message's arrays in bits: D_s, as the server sends it and wants it back."""
    records = message.content.array_records.values() if message.has_content() else []
    return 8.0 * sum(len(array.data) for record in records for array in record.values())


def update_norm(before: RecordDict, after: RecordDict) -> float | None:
    """Return ‖w_n − w_{k−1}‖₂ over all arrays of real numbers; None where the two do not match."""
    old, new = ([*content.array_records.values()][:1] for content in (before, after))
    if not old or not new or set(old[0]) != set(new[0]):
        return None
    return math.sqrt(sum(_squared_distance(old[0], new[0], name) for name in old[0]))


def _squared_distance(old: ArrayRecord, new: ArrayRecord, name: str) -> float:
    one, other = old[name].numpy(), new[name].numpy()
    if one.dtype.kind != "f" or one.shape != other.shape:
        return 0.0
    return float(np.sum((one.astype(np.float64) - other) ** 2))


def _whole_numbers(values: Any, most: int) -> bool:
    return isinstance(values, list) and all(type(v) is int and 0 <= v <= most for v in values)


def _number(packed: Mapping[str, Any], name: str, most: float) -> float | None:
    value = packed.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= most:
        raise BadAnswerError(f"its {name} is no number from 0 to {most:g}")
    return float(value)
