"""Temporal drift: how far a client's data have moved since the last frame (Definition 1, Lemma 1)."""

import numpy as np


def temporal_drift(data_mix: np.ndarray, previous_data_mix: np.ndarray, class_norm: np.ndarray) -> np.ndarray:
    """Return drift_n = Σ_c L^(c) |p_{n,l}^(c) − p_{n,l−1}^(c)|, [N]: an earth mover's distance.

    Lemma 1: no smaller than ‖∇F_{n,l}(w) − ∇F_{n,l−1}(w)‖ when L^(c) are the exact class gradient norms.
    A class unseen before has share 0. docs/paper.md D4: data-set mixes, not batch histograms.
    """
    return np.asarray(np.abs(data_mix - previous_data_mix) @ class_norm)  # [N, C] @ [C] -> [N]


def unweighted_drift(data_mix: np.ndarray, previous_data_mix: np.ndarray) -> np.ndarray:
    """Return ‖p_{n,l} − p_{n,l−1}‖₁, [N], which Pure Drift ranks by."""
    return np.asarray(np.abs(data_mix - previous_data_mix).sum(axis=1))  # [N, C] -> [N]
