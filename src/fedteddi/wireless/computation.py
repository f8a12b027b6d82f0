"""How long the τ local steps take: a fixed part and a random one, both per sample."""

import numpy as np


def computation_delay_s(
    num_clients: int,
    samples: int,
    rng: np.random.Generator,
    *,
    seconds_per_sample: float = 0.5e-3,
    samples_per_second: float = 2000.0,
) -> np.ndarray:
    """Draw t_cp = a·τb + Exp(mean τb/μ) for every client, [N]; `samples` is τ·b.

    a = `seconds_per_sample` (0.5 ms), μ = `samples_per_second` (2 per ms).
    """
    shortest = seconds_per_sample * samples
    return np.asarray(shortest + rng.exponential(samples / samples_per_second, size=num_clients))
