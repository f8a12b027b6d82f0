"""FedCor: a Gaussian process over loss changes says whose upload lowers the total loss most."""

from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, get_args

import numpy as np

from fedteddi.errors import check_choice, check_number
from fedteddi.schedulers.admission import AdmissionOptions, fill_band, highest, one_by_one, required
from fedteddi.schedulers.references import FEDCOR, Reference
from fedteddi.schedulers.schedule import Schedule
from fedteddi.schedulers.view import RoundView

Mean = Literal["estimated", "zero"]
FEWEST = 2  # sampled loss changes that a covariance is learned from
TIE = 1e-9  # of the largest score: scores closer than this tie
LEAST_NOISE = 1e-12  # of the largest ‖x_n‖²: a σ_n² below it would be lost in rounding


@dataclass(frozen=True, kw_only=True)
class FedCor(AdmissionOptions):
    """Largest expected decrease of the total loss first, α_n Σ_i p_i K_in / √K_nn, until one does not fit.

    Loss changes over a round are taken as Gaussian, with the covariance K_in = ⟨x_i, x_n⟩ + σ_n² [i = n] learned from
    rounds with random clients; p_i = D_i / Σ D, and α_n = discount^τ, τ uploads since the last such round. After each
    choice K is conditioned on it. Rounds are random during the warm-up and at every `interval`-th round after it.

    Differs from the paper: the x_n are the maximum-likelihood ones (see `embeddings`) in place of Adam's after some
    steps; a sampling round is played, where the paper trains a random set beside the round and discards the model;
    losses are those of reports, on a client's first batch, not on all its data (with
    `estimates.power_of_choice_loss = local-steps` the mean over the steps); a new frame brings other data, so samples
    are dropped and the warm-up begins again. The defaults are those of its authors' commands for FMNIST.

    A decision takes time in proportion to N times the clients scheduled: about 1 s for 19 of a million.
    """

    name: ClassVar[str] = "fedcor"
    reference: ClassVar[Reference] = FEDCOR
    needs: ClassVar[frozenset[str]] = frozenset({"loss"})

    warm_up: int = 15  # random rounds at the start of a frame
    interval: int = 10  # Δt: rounds from one random round to the next, after the warm-up
    history: int = 100  # rounds; older samples are dropped
    forget: float = 0.95  # γ: weight of a sample that is one round older
    discount: float = 0.9  # β: of a client's score for each upload since the last random round
    dimension: int = 15  # of the embeddings x_n
    noise: float = 0.01  # σ_n, standard deviation of a loss change that has no correlation
    mean: Mean = "estimated"  # of loss changes; "zero": that of the paper's first code

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("warm_up", "interval", "history", "dimension"):
            check_number(name, getattr(self, name), at_least=0 if name == "warm_up" else 1, whole=True)
        check_number("forget", self.forget, above=0, at_most=1)
        check_number("discount", self.discount, above=0, at_most=1)
        check_number("noise", self.noise, at_least=1e-100, at_most=1e100)
        check_choice("mean", self.mean, get_args(Mean))

    def initial_state(self, num_clients: int) -> dict[str, Any]:
        """Return the state: the last round, its losses, and sampled loss changes, by client id."""
        return {
            "frame": -1,
            "sampling": 0,  # the last round, if its clients were random, else 0
            "loss": np.full(num_clients, np.nan),  # as reported in the last round
            "uploads": np.zeros(num_clients, dtype=np.int64),  # τ
            "sampled": np.zeros(0, dtype=np.int64),  # rounds, [T]
            "changes": np.zeros(
                (0, num_clients)
            ),  # of the losses over these, [T, all clients]; NaN: not reported
        }

    def select(
        self, view: RoundView, rng: np.random.Generator, state: dict[str, Any]
    ) -> tuple[Schedule, dict[str, Any]]:
        """Take in what the last round did to the losses, then choose at random or by the Gaussian process."""
        loss = required(view, "loss", self.name)
        state = self._after_the_last_round(view, loss, state)
        beyond, sampled, uploads = view.round - self.warm_up, state["sampled"], state["uploads"].copy()
        sampling = beyond <= 0 or beyond % self.interval == 0 or len(sampled) < FEWEST
        if sampling:
            schedule = fill_band(view, rng.permutation(view.num_clients), self)
            uploads[:] = 0
        else:
            weights = self.forget ** (sampled[-1] - sampled).astype(float)  # [T]; the last one's is 1
            changes = state["changes"][:, view.client_id]  # [T, N]
            x = embeddings(changes, weights, self.dimension, self.noise, self.mean)
            alpha = self.discount ** uploads[view.client_id].astype(float)  # [N]
            schedule = self._most_decrease(view, rng, x, alpha)
            uploads[view.client_id[list(schedule.clients)]] += 1
        last = np.full(len(state["loss"]), np.nan)
        last[view.client_id] = loss
        # Without uploads no loss changes.
        asked = view.round if sampling and schedule.clients else 0
        return schedule, state | {"sampling": asked, "loss": last, "uploads": uploads}

    def _most_decrease(
        self, view: RoundView, rng: np.random.Generator, x: np.ndarray, alpha: np.ndarray
    ) -> Schedule:
        """Choose one after another by α_n Σ_i p_i K_in / √K_nn, K given the loss changes of those before."""
        variance = max(self.noise**2, LEAST_NOISE * float((x**2).sum(axis=1).max()))
        losses = Losses(x, variance, view.num_samples / view.num_samples.sum())

        def choose(left: np.ndarray) -> int:
            score = alpha[left] * losses.decrease()[left]
            chosen = int(left[highest(score, TIE * float(np.abs(score).max()), rng)])
            losses.condition_on(chosen)
            return chosen

        return one_by_one(view, choose, self)

    def _after_the_last_round(
        self, view: RoundView, loss: np.ndarray, state: dict[str, Any]
    ) -> dict[str, Any]:
        """Add the change of the losses over the last round, if it was random; forget what is too old."""
        if view.frame != state["frame"]:
            return self.initial_state(len(state["loss"])) | {"frame": view.frame}
        sampled, changes = state["sampled"], state["changes"]
        change = np.full(changes.shape[1], np.nan)
        change[view.client_id] = loss - state["loss"][view.client_id]
        if state["sampling"] and np.isfinite(change).any():
            sampled, changes = np.append(sampled, state["sampling"]), np.vstack([changes, change])
        recent = view.round - sampled <= self.history
        return state | {"sampled": sampled[recent], "changes": changes[recent]}


def embeddings(
    changes: np.ndarray, weights: np.ndarray, dimension: int, noise: float, mean: Mean
) -> np.ndarray:
    """Return x_n [N, d] for which loss changes [T, N] are likeliest under covariance ⟨x_i, x_n⟩ + noise² [i = n].

    It maximises Σ_t γ_t log N(Δ_t; μ, X Xᵀ + noise² I), with weights γ [T], as the paper does by gradient steps. The
    solution is that of probabilistic principal components (Tipping, Bishop 1999): the eigenvectors of the weighted
    covariance with the d largest eigenvalues λ above noise², each √(λ − noise²) long. A change not reported (NaN)
    counts as the mean.
    """
    told = np.isfinite(changes)
    changes = np.where(told, changes, 0.0)
    if mean == "estimated":
        total = weights @ told  # [N]
        middle = np.divide(weights @ changes, total, out=np.zeros_like(total), where=total > 0)
        changes = np.where(told, changes - middle, 0.0)
    rows = np.sqrt(weights / weights.sum())[:, None] * changes  # their Gram matrix [N, N] is the covariance
    value, vector = np.linalg.eigh(rows @ rows.T)  # of [T, T], which has the same eigenvalues, rising
    kept = np.flatnonzero(value > noise**2)[-dimension:]
    shrink = np.sqrt(1 - noise**2 / value[kept])
    return np.asarray(rows.T @ vector[:, kept] * shrink)  # [N, d]


@dataclass(eq=False)
class Losses:
    """Loss changes of all clients, given those of the chosen: covariance X A Xᵀ + noise² I among the others."""

    x: np.ndarray  # [N, d]
    variance: float  # noise²
    shares: np.ndarray  # p, [N]
    latent: np.ndarray = field(init=False)  # A, [d, d]: I before anyone is chosen
    total: np.ndarray = field(init=False)  # Σ_i p_i x_i over those not chosen, [d]
    spread: np.ndarray = field(init=False)  # K_nn, [N]

    def __post_init__(self) -> None:
        self.latent = np.eye(self.x.shape[1])
        self.total = self.shares @ self.x
        self.spread = (self.x**2).sum(axis=1) + self.variance

    def decrease(self) -> np.ndarray:
        """Return Σ_i p_i K_in / √K_nn, by which the total loss falls if n's falls by its standard deviation, [N].

        It means nothing for those who were chosen.
        """
        return np.asarray(
            (self.x @ (self.latent @ self.total) + self.variance * self.shares) / np.sqrt(self.spread)
        )

    def condition_on(self, client: int) -> None:
        """Take a client's loss change as known: K ← K − K_:n K_n: / K_nn."""
        known = self.latent @ self.x[client] / np.sqrt(self.spread[client])  # [d]
        self.latent = self.latent - np.outer(known, known)
        self.spread = np.maximum(self.spread - (self.x @ known) ** 2, self.variance)
        self.total = self.total - self.shares[client] * self.x[client]
