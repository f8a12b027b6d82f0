"""What clients say that nobody can check is bounded by what the others say: `server.claim_factor`, c."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from fedteddi.aggregation.norm_clipping import lower_median, vector_norm
from fedteddi.protocol.checks import ReceivedReports
from fedteddi.protocol.messages import ALL_CLIENTS, ClassGradients

# Numbers of a report that pay who exaggerates them; of `compute_s`, who plays it down.
ABOVE = ("gradient_variance", "loss", "update_norm")
HELD_BY = 3  # clients: of fewer, the median may be the one that is to be bounded


def bounded_reports(received: ReceivedReports, factor: float) -> ReceivedReports:
    """Cut numbers above c times the lower median of all who said one, and raise times below a c-th of theirs."""
    if factor == 0.0:
        return received
    changed: dict[int, dict[str, Any]] = {}
    for part in (*ABOVE, "compute_s"):
        said = dict(zip(received.clients, received.told(part), strict=True))
        given = {client: float(value) for client, value in said.items() if value is not None}
        typical = lower_median(list(given.values())) if given else 0.0
        for client, value in given.items():
            bound = max(value, typical / factor) if part == "compute_s" else min(value, factor * typical)
            if bound != value and typical > 0.0:
                changed.setdefault(client, {})[part] = bound
    if not changed:
        return received
    reports = {client: received.reports[client] for client in received.clients}
    reports |= {client: dataclasses.replace(reports[client], **parts) for client, parts in changed.items()}
    return dataclasses.replace(received, reports=reports)


def bounded_gradients(parts: Mapping[int, ClassGradients], factor: float) -> dict[int, ClassGradients]:
    """Shorten gradients of more than c times the lower median, an image, of the clients that sent one of that class.

    Of a class that fewer than three clients hold, the largest of the medians of other classes counts, or else the lower
    median of all. Gradients that are not finite are left to those who look for them.
    """
    if factor == 0.0 or ALL_CLIENTS in parts:
        return dict(parts)
    lengths = {
        (client, c): vector_norm(row) / int(part.counts[c])
        for client, part in parts.items()
        for c, row in part.gradient_sum.items()
    }
    lengths = {key: length for key, length in lengths.items() if np.isfinite(length)}
    of_class: dict[int, list[float]] = {}
    for (_, c), length in lengths.items():
        of_class.setdefault(c, []).append(length)
    medians = {c: lower_median(own) for c, own in of_class.items() if len(own) >= HELD_BY}
    common = max(medians.values(), default=lower_median(list(lengths.values())) if lengths else 0.0)
    found = {}
    for client, part in parts.items():
        rows = {}
        for c, row in part.gradient_sum.items():
            most, length = factor * medians.get(c, common), lengths.get((client, c), 0.0)
            rows[c] = row * (most / length) if length > most > 0.0 else row
        found[client] = dataclasses.replace(part, gradient_sum=rows)
    return found
