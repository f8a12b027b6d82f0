"""A round as one line of rounds.jsonl (docs/metrics.md); what evaluation adds is not the protocol's."""

from typing import Any

import numpy as np

from fedteddi.protocol.server import RoundFacts
from fedteddi.settings import RadioSettings
from fedteddi.wireless.radio import watts_from_dbm


def round_record(
    facts: RoundFacts, new_classes: np.ndarray, radio: RadioSettings, model_bits: float
) -> dict[str, Any]:
    """Return what happened in a round as plain data; `new_classes` [N] says who holds a class new in this frame."""
    clients, terms = facts.schedule.clients, facts.terms
    upload_s = [done - compute for done, compute in zip(facts.finish_s, facts.compute_s, strict=True)]
    privacy = {} if facts.epsilon_spent is None else {"epsilon_spent": facts.epsilon_spent}
    return {
        "frame": facts.frame,
        "round": facts.round,
        "clients": list(clients),
        "scheduled_new": int(sum(new_classes[n] for n in clients)),
        "bandwidth_hz": list(facts.schedule.bandwidth_hz),
        "compute_s": list(facts.compute_s),
        "finish_s": list(facts.finish_s),
        "round_s": facts.round_s,
        "uplink_bits": model_bits * len(clients),
        "energy_j": watts_from_dbm(radio.power_dbm) * sum(upload_s)
        + radio.compute_power_w * facts.all_compute_s,
        "gradient_std": facts.gradient_std,
        "class_norm": None if facts.class_norm is None else list(facts.class_norm),
        "objective": None
        if terms is None
        else {"variance": terms.variance, "divergence": terms.divergence, "drift": terms.drift}
        | {"drift_weight": terms.drift_weight, "total": terms.total},
        "failures": {str(n): why for n, why in facts.failures.items()},
    } | privacy
