"""Models and gradients as vectors of any library (numpy, torch): are they fit for use, and what becomes of them?"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from fedteddi.aggregation import (
    AGGREGATIONS,
    Aggregation,
    FedAvg,
    FedAvgM,
    Received,
    State,
    TargetWeights,
    Vector,
)
from fedteddi.aggregation.rule import asked, model_fault, state_fault
from fedteddi.errors import InputError, guarded
from fedteddi.protocol.checks import number_row, whole_counts
from fedteddi.protocol.messages import ALL_CLIENTS, Answers, ClassGradients, ClassNorms
from fedteddi.protocol.rejections import Rejected, Rejections


class NotFiniteError(Exception):
    """A number that training made is infinite, or no number, and no client in particular is to blame."""

    def __init__(self, cause: str = "training diverged", try_first: str = "") -> None:
        super().__init__(cause)
        self.cause, self.try_first = cause, try_first


def finite(*vectors: Vector) -> bool:
    """Tell whether all numbers of all vectors are finite; on a GPU, one wait.

    0 times a number is 0 unless it is infinite or no number; so this works for any kind of vector.
    """
    with np.errstate(invalid="ignore"):
        zeros = [(vector * 0).sum() for vector in vectors]
        return not zeros or math.isfinite(float(sum(zeros[1:], zeros[0])))


def valid_uploads(
    answers: Answers, asked: Iterable[int], weights: Vector
) -> tuple[dict[int, Vector], Rejections]:
    """Sort out uploads that are vectors like the model's; whether their numbers are finite is not looked at."""
    found, rejections, shape = {}, Rejections(), tuple(weights.shape)
    for client in asked:
        if client in answers.given:
            upload = answers.given[client]
            with rejections.of(client, "upload"):
                _check_like("upload", upload, weights, shape)
                found[client] = upload
    return found, rejections


def drop_not_finite(uploads: dict[int, Vector], rejections: Rejections) -> None:
    """Move uploads that are not finite to `rejections`."""
    if finite(*uploads.values()):
        return
    for client in [client for client, upload in uploads.items() if not finite(upload)]:
        rejections.add(client, Rejected("upload holds numbers that are not finite", not_finite=True))
        del uploads[client]


def shows_not_finite(rule: Aggregation) -> bool:
    """Tell whether an upload that is not finite always makes a model that is not: then one look at that will do."""
    return type(rule) in (FedAvg, FedAvgM, TargetWeights)  # 0 times infinity is no number either


def aggregated(rule: Aggregation, name: str, received: Received, state: State) -> tuple[Vector, State]:
    """Return w_k and the rule's next state; whatever a foreign rule does wrong becomes one sentence."""
    label = f"server.aggregation={name}"
    with guarded(label, "aggregation"), np.errstate(invalid="ignore", over="ignore"):  # looked at afterwards
        model, after = asked(rule, received, state)
    fault, remedy = model_fault(model, received.model), "return a vector like received.model"
    if not fault and (fault := state_fault(after, received.model)):
        fault, remedy = f"{fault} in its state", "use vectors, plain numbers, text, lists and dicts"
    if fault:
        raise InputError(f"{label} returned {fault}: {remedy}; try 'fedteddi check --kind aggregation' on it")
    if not finite(model):
        if type(rule) in (FedAvg, TargetWeights):
            raise NotFiniteError
        own = type(rule) not in AGGREGATIONS.built_in().values()
        raise NotFiniteError(
            f"{label} made finite uploads into a model that is not finite",
            "try 'fedteddi check --kind aggregation' on it; if it keeps all invariants, " if own else "",
        )
    return model, after


def valid_gradients(
    answers: Answers, asked: Iterable[int], wanted: np.ndarray, weights: Vector, size: int | None
) -> tuple[dict[int, ClassGradients], Rejections]:
    """Sort out class gradients of the right form; `wanted` [N, C] are the images asked of each client.

    A gradient has `size` numbers; None: as many as most have (only runtimes know how large a model's head is). Norms
    count only as the one answer for all clients: those of parts would say nothing about the sum.
    """
    found, rejections, asked = {}, Rejections(), set(asked)
    if set(answers.given) == {ALL_CLIENTS} and isinstance(answers.given[ALL_CLIENTS], ClassNorms):
        return _valid_norms(answers.given[ALL_CLIENTS], wanted.sum(axis=0))
    for client, part in answers.given.items():
        if client != ALL_CLIENTS and client not in asked:
            continue
        with rejections.of(client, "class gradients"):
            if not isinstance(part, ClassGradients):
                raise Rejected(f"class gradients are of type {type(part).__name__}")
            counts = _drawn(part.counts, wanted.sum(axis=0) if client == ALL_CLIENTS else wanted[client])
            found[client] = ClassGradients(gradient_sum=_rows(part, counts), counts=counts)
    if size is None:
        sizes = Counter(len(row) for part in found.values() for row in part.gradient_sum.values())
        size = sizes.most_common(1)[0][0] if sizes else 0
    for client, part in found.items():
        with rejections.of(client, "class gradients"):
            for row in part.gradient_sum.values():
                _check_like("class gradient", row, weights, (size,))
    return {client: part for client, part in found.items() if client not in rejections.causes}, rejections


def _valid_norms(part: ClassNorms, most: np.ndarray) -> tuple[dict[int, ClassGradients], Rejections]:
    """Return norms of sums as vectors of one number: a norm stands for its vector."""
    try:
        counts = _drawn(part.counts, most)
        norms = number_row("class norms", part.norms, len(most)).astype(np.float64)
    except Rejected as rejected:
        return {}, Rejections({ALL_CLIENTS: str(rejected)})
    rows = {int(c): norms[c : c + 1] for c in np.flatnonzero(counts)}
    return {ALL_CLIENTS: ClassGradients(gradient_sum=rows, counts=counts)}, Rejections()


def _drawn(counts: Any, most: np.ndarray) -> np.ndarray:
    found = whole_counts("class gradients' counts", counts, len(most))
    if (found > most).any():
        raise Rejected("class gradients are over more images than were asked for")
    return found


def pooled_norms(
    parts: dict[int, ClassGradients], classes: int, rejections: Rejections
) -> tuple[np.ndarray, np.ndarray]:
    """Return ‖g_c‖ of the mean gradient over all images drawn of each class, [C], and how many those were, [C].

    0 where there were none. Parts that are not finite go to `rejections`, and out of `parts`; if the sum of good parts
    still overflows, nothing was drawn.
    """
    drawn, norms = _norms(parts, classes)
    if np.isfinite(norms).all():
        return norms, drawn
    for client, part in list(parts.items()):
        if not all(math.isfinite(_square(row)) for row in part.gradient_sum.values()):
            rejections.add(client, Rejected("class gradients are not finite", not_finite=True))
            del parts[client]
    drawn, norms = _norms(parts, classes)
    whole = np.isfinite(norms)
    return np.where(whole, norms, 0.0), np.where(whole, drawn, 0)


def _norms(parts: Mapping[int, ClassGradients], classes: int) -> tuple[np.ndarray, np.ndarray]:
    drawn = sum((part.counts for part in parts.values()), np.zeros(classes, dtype=np.int64))
    norms = np.zeros(classes)
    with np.errstate(invalid="ignore", over="ignore"):  # looked at afterwards
        for c in np.flatnonzero(drawn):
            total = sum(part.gradient_sum[c] for part in parts.values() if part.counts[c])
            norms[c] = math.sqrt(float((total * total).sum())) / drawn[c]
    return drawn, norms


def _square(vector: Vector) -> float:
    with np.errstate(invalid="ignore", over="ignore"):
        return float((vector * vector).sum())


def _rows(part: ClassGradients, counts: np.ndarray) -> dict[int, Vector]:
    """Return the gradients of the classes that have images, by class."""
    try:
        rows = {int(c): part.gradient_sum[int(c)] for c in np.flatnonzero(counts)}
        for row in rows.values():
            len(row)
    except Exception:  # whatever it is, it is not rows of gradients
        raise Rejected("class gradients do not hold a vector for every class with images") from None
    return rows


def _check_like(name: str, vector: Any, model: Vector, shape: tuple[int, ...]) -> None:
    """Reject what cannot be added to the model's vectors: another library, device, shape, or no real numbers."""
    if not isinstance(vector, type(model)):
        raise Rejected(f"{name} is of type {type(vector).__name__}, the model of {type(model).__name__}")
    if tuple(vector.shape) != shape:
        raise Rejected(f"{name} has shape {tuple(vector.shape)}, not {shape}")
    if getattr(vector, "device", None) != getattr(model, "device", None):
        raise Rejected(f"{name} lies on {vector.device}, the model on {model.device}")
    if vector.dtype != model.dtype:
        raise Rejected(f"{name} holds {vector.dtype}, the model {model.dtype}")
