"""Collective divergence: how unlike the target mix the chosen set's pooled data are (Definition 2)."""

from typing import Literal

import numpy as np

Distance = Literal["absolute", "euclidean"]


def collective_divergence(set_mix: np.ndarray, target_mix: np.ndarray, class_norm: np.ndarray) -> float:
    """Return Σ_c L^(c) |Σ_{n∈S} α_n(S) p_n^(c) − p^(c)|.

    With exact class gradient norms, no smaller than δ = ‖Σ_{n∈S} α_n(S) ∇F_{n,l}(w) − ∇F_l(w)‖.
    """
    return float(np.abs(set_mix - target_mix) @ class_norm)  # [C] @ [C]


def euclidean_divergence(set_mix: np.ndarray, target_mix: np.ndarray, class_norm: np.ndarray) -> float:
    """Return √Σ_c (L^(c) (Σ_{n∈S} α_n(S) p_n^(c) − p^(c)))².

    With exact class gradient norms this is δ itself where the classes' gradients are orthogonal. Beside the sum of
    absolute values it minds one class that is missing more than ten that fall a little short.
    """
    return float(np.linalg.norm((set_mix - target_mix) * class_norm))
