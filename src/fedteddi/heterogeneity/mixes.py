"""Class mixes: the shares p^(c) of the classes in a client's data, in a set's, and in everyone's."""

import numpy as np

from fedteddi.errors import InputError


def class_mix(counts: np.ndarray) -> np.ndarray:
    """Turn class counts into shares, [..., C]: p^(c) = count_c / Σ count."""
    total = np.asarray(counts).sum(axis=-1, keepdims=True)
    if (total <= 0).any():
        raise InputError("a client without samples has no class mix: leave it out")
    return np.asarray(counts / total)


def sample_shares(num_samples: np.ndarray) -> np.ndarray:
    """Return each member's share of the set's samples: α_n(S) = D_n / Σ_{m∈S} D_m, [n]."""
    return np.asarray(num_samples / num_samples.sum())


def pooled_mix(num_samples: np.ndarray, mix: np.ndarray) -> np.ndarray:
    """Return the mix of a set's pooled data: Σ_n α_n p_n^(c), [C]; over all clients it is p^(c)."""
    return np.asarray(sample_shares(num_samples) @ mix)  # [n] @ [n, C] -> [C]


def uniform_mix(classes_seen: np.ndarray) -> np.ndarray:
    """Return equal shares for the classes seen so far and none for the others, [C]."""
    return np.asarray(classes_seen / classes_seen.sum())
