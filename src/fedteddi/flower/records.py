"""What travels through Flower: requests and answers as its records. Numpy only: clients read settings before torch."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, MetricRecord, RecordDict

from fedteddi.errors import InputError
from fedteddi.protocol.messages import ClassGradients, Report, Request
from fedteddi.settings import Settings, load_experiment, on_fleet, override

# The messages; Flower wants to know which of them train.
HELLO, MIX, FORGET, REPORT = "query.hello", "query.mix", "query.forget", "train.report"
MESSAGES = {"report": REPORT, "upload": "query.upload", "class_gradients": "query.class_gradients"}
# Keys of the run's configuration that are not settings of the experiment.
NOT_SETTINGS = ("experiment", "out", "resume", "allow-changed", "data-dir", "track")
ROWS = ("data_counts", "batch_counts", "released_mix", "update_sketch")
NUMBERS = tuple(field.name for field in fields(Report) if field.name not in ROWS)


def content_bytes(content: RecordDict) -> int:
    """Return the bytes of a message's arrays and numbers as they are sent; Flower's envelope is not counted."""
    arrays, numbers = content.array_records.values(), content.metric_records.values()
    return sum(part.count_bytes() for part in arrays) + sum(part.count_bytes() for part in numbers)


class BadAnswerError(Exception):
    """An answer that cannot even be read."""


def settings_of(run_config: Mapping[str, Any]) -> Settings:
    """Return the settings of a run: its `experiment`, changed by every other key of Flower's run configuration.

    Flower's values are plain; a list is written as text: `rounds = "[0, 5]"`.
    """
    settings = load_experiment(str(run_config.get("experiment", "fashion")))
    words = []
    for key, value in run_config.items():
        if key not in NOT_SETTINGS:
            text = str(value).lower() if isinstance(value, bool) else str(value)
            words.append(f"{key.replace('-', '_')}={text}")
    try:
        return on_fleet(override(settings, words))
    except InputError as error:
        raise InputError(f"Flower's run configuration: {error}") from None


def vector_record(vector: np.ndarray) -> ArrayRecord:
    """Pack a vector."""
    return ArrayRecord({"vector": Array(np.ascontiguousarray(vector))})


def read_vector(content: RecordDict, name: str) -> np.ndarray:
    """Unpack a vector; nothing in it is unpickled."""
    try:
        return np.asarray(content.array_records[name]["vector"].numpy())
    except Exception as error:
        raise BadAnswerError(f"its {name} cannot be read ({type(error).__name__})") from None


def request_records(
    request: Request, client: int, tag: str, scale: Mapping[str, Any] | None = None
) -> RecordDict:
    """Pack what one client must know of a request; `scale`: what the model takes, and how images are scaled."""
    asked: dict[str, Any] = {
        "tag": tag,
        "frame": request.frame,
        "round": request.round,
        "learning_rate": request.learning_rate,
        "needs": sorted(request.needs_from(client)),
    }
    if request.samples is not None:
        asked["samples"] = [int(count) for count in request.samples[client]]
        # A frame's first estimate, before any upload, is of round 0.
        asked["uploads_over"] = request.round > 0
    if request.upload_s:
        asked["hold_s"] = max(0.0, float(request.upload_s[request.clients.index(client)]))
    content = RecordDict({"asked": ConfigRecord(asked)})
    if request.kind != "upload":  # who uploads has the model already
        if scale is not None:
            content["scale"] = ConfigRecord(dict(scale))
        content["model"] = vector_record(request.weights.cpu().numpy())
    return content


def report_records(report: Report) -> RecordDict:
    """Pack a report."""
    reported: dict[str, Any] = {}
    for name in ROWS:
        values = getattr(report, name)
        if values is not None:
            reported[name] = np.asarray(values).tolist()
    for name in NUMBERS:
        value = getattr(report, name)
        if value is not None:
            reported[name] = int(value) if name == "num_samples" else float(value)
    return RecordDict({"report": MetricRecord(reported)})


def read_report(content: RecordDict) -> Report:
    """Unpack a report; whether it makes sense is for the server's checks."""
    try:
        reported = content.metric_records["report"]
        parts: dict[str, Any] = {name: np.array(reported[name]) for name in ROWS if name in reported}
        return Report(**parts | {name: reported[name] for name in NUMBERS if name in reported})
    except Exception as error:
        raise BadAnswerError(f"its report cannot be read ({type(error).__name__})") from None


def gradient_records(gradients: ClassGradients) -> RecordDict:
    """Pack class gradients: a vector for every class with images."""
    rows = {
        str(c): Array(np.ascontiguousarray(gradients.gradient_sum[int(c)].cpu().numpy()))
        for c in np.flatnonzero(gradients.counts)
    }
    return RecordDict(
        {
            "gradients": ArrayRecord(rows),
            "counts": MetricRecord({"counts": [int(n) for n in gradients.counts]}),
        }
    )


def read_gradients(content: RecordDict) -> tuple[dict[int, np.ndarray], np.ndarray]:
    """Unpack class gradients."""
    try:
        rows = {int(c): np.asarray(row.numpy()) for c, row in content.array_records["gradients"].items()}
        return rows, np.array(content.metric_records["counts"]["counts"])
    except Exception as error:
        raise BadAnswerError(f"its class gradients cannot be read ({type(error).__name__})") from None


def refusal(why: str) -> RecordDict:
    """Pack the reason for not answering."""
    return RecordDict({"refused": ConfigRecord({"why": why})})


def refused(content: RecordDict) -> str | None:
    """Return the reason why a client did not answer, if it gave one."""
    if "refused" not in content:
        return None
    try:
        return str(content.config_records["refused"]["why"])[:200]
    except Exception:
        return "no reason that can be read"
