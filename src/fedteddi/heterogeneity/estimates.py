"""σ̂ and L̂^(c): what the server must know about gradients, from gradients it is given."""

import math
from typing import Literal, get_args

import numpy as np

from fedteddi.errors import check_choice
from fedteddi.heterogeneity.mixes import sample_shares

# Mixes closer than this differ by rounding only.
EQUAL_WITHIN = 1e-9

PoolVariance = Literal["variance", "std"]
ClassNorm = Literal["paper", "exact"]


def pooled_gradient_std(
    variance: np.ndarray, num_samples: np.ndarray, *, pool: PoolVariance = "variance"
) -> float:
    """Return σ from the clients' gradient variances [N] and sample counts [N].

    docs/paper.md D5: √(Σ α_n(N) var_n); with pool="std" the linear mean Σ α_n(N) √var_n.
    """
    check_choice("pool", pool, get_args(PoolVariance))
    share = sample_shares(num_samples)  # [N]
    if pool == "std":
        return float(share @ np.sqrt(variance))
    return math.sqrt(float(share @ variance))


def exact_class_norm(class_gradients: np.ndarray) -> np.ndarray:
    """Return ‖g_c‖₂ for pooled class gradients [C, P], [C]."""
    return np.asarray(np.linalg.norm(class_gradients, axis=1))


def paper_class_norm(
    class_gradients: np.ndarray, batch_mix: np.ndarray, num_samples: np.ndarray, scheduled: np.ndarray
) -> np.ndarray:
    """Return L̂^(c) of (20), [C]; NaN where it has no answer (nobody scheduled, or nobody differs).

    L̂^(c) = ‖g_c‖ · max_{n∈S} |p_n^(c) − p^(c)| / ‖p_n − p‖₁ (docs/paper.md D7). Never above ‖g_c‖/2,
    because positive and negative deviations of two mixes each add up to half their distance: not the
    upper bound the paper claims. A client whose mix equals the global one is skipped (0/0).
    """
    everyone = sample_shares(num_samples) @ batch_mix  # p, [C]
    deviation = np.abs(batch_mix[scheduled] - everyone)  # [S, C]
    distance = deviation.sum(axis=1)  # [S]
    differs = distance > EQUAL_WITHIN
    if not differs.any():
        return np.full(len(class_gradients), np.nan)
    largest_share = (deviation[differs] / distance[differs, None]).max(axis=0)  # [C]
    return np.asarray(exact_class_norm(class_gradients) * largest_share)


def estimate_class_norm(
    class_gradients: np.ndarray,
    has_data: np.ndarray,
    previous: np.ndarray,
    *,
    batch_mix: np.ndarray,
    num_samples: np.ndarray,
    scheduled: np.ndarray,
    kind: ClassNorm = "paper",
) -> np.ndarray:
    """Return the new L̂^(c), [C], keeping the previous value where there is nothing to learn from.

    That is: a class without data (`has_data` [C] false), and an empty schedule (docs/paper.md D7).
    """
    check_choice("kind", kind, get_args(ClassNorm))
    if len(scheduled) == 0:
        return np.array(previous)
    if kind == "exact":
        fresh = exact_class_norm(class_gradients)
    else:
        fresh = paper_class_norm(class_gradients, batch_mix, num_samples, scheduled)
    return np.where(has_data & np.isfinite(fresh), fresh, previous)
