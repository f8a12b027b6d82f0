"""Theorem 1: how far one federated round strays from a centralised one, and what that costs in the end."""

import math

from fedteddi.errors import check_number


def deviation_bound(
    *,
    learning_rate: float,
    local_steps: int,
    smoothness: float,
    gradient_bound: float,
    gradient_std: float,
    set_size: float,
    batch_size: int,
    divergence: float,
    as_printed: bool = False,
) -> float:
    """Bound E‖w_k − v_k‖, the distance to the centralised step v_k = w_{k−1} − ητ∇F_l(w_{k−1}).

    η is the learning rate, τ the local steps, β the smoothness, g the gradient bound, σ the gradient std, b the batch
    size. ½τ(τ−1)η²βg [iteration error] + ητσ/√(|S|b) [sampling variance] + ητ·divergence. The paper prints η
    instead of η² in the first term, which cannot be right by dimension (docs/paper.md, errata);
    `as_printed` gives that reading. For unequal D_n the bound wants the effective size 1/Σα_n² for `set_size`:
    averaging with unequal weights cancels less noise.
    """
    check_number("set_size", set_size, at_least=1)
    check_number("batch_size", batch_size, at_least=1)
    eta, tau = learning_rate, local_steps
    step = eta if as_printed else eta**2
    iteration_error = 0.5 * tau * (tau - 1) * step * smoothness * gradient_bound
    sampling = eta * tau * gradient_std / math.sqrt(set_size * batch_size)
    return iteration_error + sampling + eta * tau * divergence


def convergence_bound(
    *,
    deviations: list[float],
    learning_rate: float,
    local_steps: int,
    smoothness: float,
    lipschitz: float,
    omega: float,
    epsilon: float,
) -> float:
    """Bound F_l(w_K) − F_l(w*) after K = len(deviations) rounds with expected deviations E[V_k].

    η is the learning rate, τ the local steps, β the smoothness, ρ the Lipschitz constant, ω and ε the theorem's own.
    1 / (K ω η τ (1 − βη/2) − Σ_k ρ E[V_k] / ε²); `inf` when the denominator is not positive: the theorem
    then says nothing, and so it does for η > 1/β.
    """
    check_number("epsilon", epsilon, above=0)
    if learning_rate * smoothness > 1:
        return math.inf
    progress = len(deviations) * omega * learning_rate * local_steps * (1 - smoothness * learning_rate / 2)
    denominator = progress - lipschitz * sum(deviations) / epsilon**2
    return 1.0 / denominator if denominator > 0 else math.inf
