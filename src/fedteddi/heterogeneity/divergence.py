"""Collective divergence: how unlike the target mix the chosen set's pooled data are (Definition 2)."""

import numpy as np


def collective_divergence(set_mix: np.ndarray, target_mix: np.ndarray, class_norm: np.ndarray) -> float:
    """Return Σ_c L^(c) |Σ_{n∈S} α_n(S) p_n^(c) − p^(c)|.

    With exact class gradient norms, no smaller than δ = ‖Σ_{n∈S} α_n(S) ∇F_{n,l}(w) − ∇F_l(w)‖.
    """
    return float(np.abs(set_mix - target_mix) @ class_norm)  # [C] @ [C]
