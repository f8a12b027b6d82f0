"""Lemma 1, the divergence bound and Theorem 1's deviation bound, on real gradients of small models."""

import math

import numpy as np
import pytest
import torch

from fedteddi import InputError, collective_divergence, convergence_bound, deviation_bound, temporal_drift
from fedteddi.heterogeneity.mixes import pooled_mix, sample_shares

CLASSES = 4


class SmallWorld:
    """A small network and fixed images of four classes: ∇E_{x|y=c} f by autograd, one class at a time."""

    def __init__(self, seed: int) -> None:
        torch.manual_seed(seed)
        self.model = torch.nn.Sequential(
            torch.nn.Conv2d(1, 4, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(64, CLASSES)
        ).double()
        self.images = (
            torch.randn(CLASSES, 20, 1, 6, 6, dtype=torch.float64)
            + torch.arange(CLASSES)[:, None, None, None, None]
        )
        self.class_gradients = np.stack([self.gradient(np.eye(CLASSES)[c]) for c in range(CLASSES)])
        self.class_norm = np.linalg.norm(self.class_gradients, axis=1)

    def gradient(self, mix: np.ndarray) -> np.ndarray:
        """∇F for a client with these class shares: one backward pass through the weighted loss."""
        losses = [
            torch.nn.functional.cross_entropy(self.model(self.images[c]), torch.full((20,), c))
            for c in range(CLASSES)
        ]
        loss = sum(float(share) * part for share, part in zip(mix, losses, strict=True))
        return torch.cat(
            [g.flatten() for g in torch.autograd.grad(loss, list(self.model.parameters()))]
        ).numpy()


@pytest.mark.parametrize("seed", range(5))
def test_lemma_1_on_real_gradients(seed: int) -> None:
    """‖∇F_l − ∇F_{l−1}‖ ≤ drift, and not by much: within a factor of the classes' number."""
    world, rng = SmallWorld(seed), np.random.default_rng(seed)
    for _ in range(5):
        now, before = rng.dirichlet(np.full(CLASSES, 0.3), size=2)
        moved = np.linalg.norm(world.gradient(now) - world.gradient(before))
        bound = temporal_drift(now[None], before[None], world.class_norm)[0]
        assert moved <= bound * (1 + 1e-12)
        assert bound <= 2 * CLASSES * max(moved, 0.05 * bound)


@pytest.mark.parametrize("seed", range(5))
def test_divergence_bound_on_real_gradients(seed: int) -> None:
    """‖Σ_{n∈S} α_n ∇F_n − ∇F‖ ≤ Σ_c L^(c) |mix of S − global mix|."""
    world, rng = SmallWorld(seed), np.random.default_rng(100 + seed)
    mix, held = rng.dirichlet(np.full(CLASSES, 0.3), size=6), rng.integers(1, 50, size=6)
    gradients = np.stack([world.gradient(row) for row in mix])
    everyone = sample_shares(held) @ gradients
    for size in (1, 3, 6):
        chosen = rng.permutation(6)[:size]
        apart = np.linalg.norm(sample_shares(held[chosen]) @ gradients[chosen] - everyone)
        set_mix, global_mix = pooled_mix(held[chosen], mix[chosen]), pooled_mix(held, mix)
        assert apart <= collective_divergence(set_mix, global_mix, world.class_norm) + 1e-12


def test_bounds_fail_without_the_class_norms() -> None:
    """The checks above can fail: with norms a tenth of the true ones, Lemma 1 is violated."""
    world = SmallWorld(0)
    now, before = np.eye(CLASSES)[0], np.eye(CLASSES)[3]
    moved = np.linalg.norm(world.gradient(now) - world.gradient(before))
    assert moved > temporal_drift(now[None], before[None], world.class_norm / 10)[0]


def test_deviation_bound_by_hand() -> None:
    """η = 0.1, τ = 3, β = 2, g = 5, σ = 4, |S| b = 2·8 = 16, divergence 6.

    ½·3·2·0.01·2·5 = 0.3; 0.1·3·4/4 = 0.3; 0.1·3·6 = 1.8; in all 2.4. As printed, the first term is 3.
    """
    numbers = {
        "learning_rate": 0.1,
        "local_steps": 3,
        "smoothness": 2.0,
        "gradient_bound": 5.0,
        "gradient_std": 4.0,
        "set_size": 2,
        "batch_size": 8,
        "divergence": 6.0,
    }
    assert deviation_bound(**numbers) == pytest.approx(2.4)
    assert deviation_bound(**numbers, as_printed=True) == pytest.approx(5.1)


def test_deviation_bound_on_a_real_federated_round() -> None:
    """Softmax regression (convex): E‖w_k − v_k‖ over 300 rounds' draws stays below the bound, and near it.

    The constants are measured over the same trajectories: g the largest stochastic gradient, σ the largest
    per-sample standard deviation, β the largest eigenvalue of the feature covariance (softmax: at most ½ of it).
    """
    rng = np.random.default_rng(0)
    features = rng.normal(size=(CLASSES, 50, 5)) + rng.normal(size=(CLASSES, 1, 5)) * 2
    mix, held = np.array([[1, 0, 0, 0], [0, 0.5, 0.5, 0], [0, 0, 0, 1.0]]), np.array([40, 40, 80])
    eta, tau, batch, scheduled = 0.05, 4, 8, np.array([0, 2])

    def sample_gradients(weights: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        scores = np.exp(x @ weights)
        error = scores / scores.sum(axis=1, keepdims=True) - np.eye(CLASSES)[y]
        return x[:, :, None] * error[:, None, :]  # [b, features, classes]

    def class_gradient(weights: np.ndarray, c: int) -> np.ndarray:
        return sample_gradients(weights, features[c], np.full(50, c)).mean(axis=0)

    start = rng.normal(size=(5, CLASSES)) * 0.1
    class_gradients = np.stack([class_gradient(start, c) for c in range(CLASSES)])
    global_mix = pooled_mix(held, mix)
    centralised = start - eta * tau * np.tensordot(global_mix, class_gradients, 1)
    distances, largest, largest_std = [], 0.0, 0.0
    for _ in range(300):
        ends = []
        for client in scheduled:
            weights = start.copy()
            for _ in range(tau):
                labels = rng.choice(CLASSES, size=batch, p=mix[client])
                grads = sample_gradients(weights, features[labels, rng.integers(0, 50, size=batch)], labels)
                largest = max(largest, float(np.linalg.norm(grads.mean(axis=0))))
                largest_std = max(
                    largest_std, math.sqrt(((grads - grads.mean(axis=0)) ** 2).sum() / (batch - 1))
                )
                weights = weights - eta * grads.mean(axis=0)
            ends.append(weights)
        distances.append(
            np.linalg.norm(np.tensordot(sample_shares(held[scheduled]), np.stack(ends), 1) - centralised)
        )
    pooled = features.reshape(-1, 5)
    set_mix = pooled_mix(held[scheduled], mix[scheduled])
    bound = deviation_bound(
        learning_rate=eta,
        local_steps=tau,
        smoothness=float(np.linalg.eigvalsh(pooled.T @ pooled / len(pooled)).max()),
        gradient_bound=largest,
        gradient_std=largest_std,
        set_size=len(scheduled),
        batch_size=batch,
        divergence=collective_divergence(
            set_mix, global_mix, np.linalg.norm(class_gradients.reshape(CLASSES, -1), axis=1)
        ),
    )
    assert np.mean(distances) <= bound <= 10 * np.mean(distances)


def test_convergence_bound_by_hand() -> None:
    """K = 2, ω = 1, η = 0.1, τ = 5, β = 2: progress 2·0.1·5·0.9 = 0.9; ρ Σ V/ε² = 1·(0.1 + 0.2)/0.5² = 1.2.

    So ε = 0.5 says nothing (inf); ε = 1 gives 1/(0.9 − 0.3) = 1/0.6.
    """
    numbers = {"learning_rate": 0.1, "local_steps": 5, "smoothness": 2.0, "lipschitz": 1.0, "omega": 1.0}
    assert convergence_bound(deviations=[0.1, 0.2], epsilon=1.0, **numbers) == pytest.approx(1 / 0.6)
    assert convergence_bound(deviations=[0.1, 0.2], epsilon=0.5, **numbers) == math.inf
    assert convergence_bound(deviations=[0.45, 0.45], epsilon=1.0, **numbers) == math.inf


def test_small_divergence_brings_federated_closer_to_centralised() -> None:
    """The direction that the paper's remark on the theorem has reversed."""
    numbers = {
        "learning_rate": 0.1,
        "local_steps": 5,
        "smoothness": 2.0,
        "lipschitz": 1.0,
        "omega": 1.0,
        "epsilon": 1.0,
    }
    bounds = [convergence_bound(deviations=[v, v], **numbers) for v in (0.0, 0.1, 0.4)]
    assert bounds == sorted(bounds)
    assert bounds[0] < bounds[-1] < math.inf


def test_deviation_bound_wants_the_effective_size_for_unequal_data() -> None:
    """Two clients with α = (0.98, 0.02), τ = 1, unit noise in one dimension: E|Σ α_n e_n| = √(2/π) √(Σα²).

    With |S| = 2 the "bound" ησ/√2 lies below that; with 1/Σα² = 1.04 it holds.
    """
    numbers = {"learning_rate": 0.1, "local_steps": 1, "smoothness": 0.0, "gradient_bound": 0.0}
    numbers |= {"gradient_std": 1.0, "batch_size": 1, "divergence": 0.0}
    squares = 0.98**2 + 0.02**2
    expected = 0.1 * math.sqrt(2 / math.pi) * math.sqrt(squares)
    assert deviation_bound(set_size=2, **numbers) < expected
    assert deviation_bound(set_size=1 / squares, **numbers) > expected


def test_theorems_conditions_are_kept() -> None:
    numbers = {"learning_rate": 0.6, "local_steps": 1, "smoothness": 2.0, "lipschitz": 1.0, "omega": 1.0}
    assert convergence_bound(deviations=[0.0], epsilon=1.0, **numbers) == math.inf  # η > 1/β
    with pytest.raises(InputError, match="epsilon"):
        convergence_bound(deviations=[0.0], epsilon=0.0, **numbers)
    with pytest.raises(InputError, match="set_size"):
        deviation_bound(
            learning_rate=0.1,
            local_steps=1,
            smoothness=1.0,
            gradient_bound=1.0,
            gradient_std=1.0,
            set_size=0,
            batch_size=1,
            divergence=0.0,
        )
