"""The whole algorithm a second time: a plain, slow reading of the specification, for one run after another.

It shares no code with `fedteddi`, only data, settings and the definition of the random draws (`whole_run_draws.py`).
`whole_run_rules.py` is who uploads, `whole_run_learning.py` the model and its training: autograd in double precision,
image by image where gradients are compared. What it covers: the Dirichlet layout, arrivals by class, random replay,
redrawn shadowing, the rules FedTeddi, Random and Fed-CBS with `on_no_fit` stop or skip, the default estimates (D5-D7).
"""

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fedteddi.learning.datasets.dataset import Dataset
from fedteddi.settings import Settings
from paper import whole_run_draws as drawn
from paper.whole_run_learning import Learner, Weights, scores
from paper.whole_run_rules import P3, Choice, needed_hz, share, watts


@dataclass
class Reading:
    """What one run comes to."""

    held: list[list[list[int]]]  # images by frame and client
    records: list[dict[str, Any]] = field(default_factory=list)
    models: list[Weights] = field(default_factory=list)  # after each round; after a frame's last one, w̃_l
    needed_hz: dict[tuple[int, int], list[float]] = field(default_factory=dict)  # B*_n, by (l, k)
    stops: list[str] = field(default_factory=list)  # why FedTeddi's search ended, round by round


class WholeRun(Learner):
    """One run of one rule, from its settings to its records."""

    def __init__(self, settings: Settings, data: Dataset) -> None:
        super().__init__(data, settings.seed)
        self.settings, self.teddi = settings, settings.scheduler == "fedteddi"
        held = drawn.held_images(settings, self.labels, self.classes)
        self.found, self.clients = Reading(held), range(len(held[0]))
        self.bits = 32 * sum(p.numel() for p in self.weights)
        self.class_norm = [1.0] * self.classes
        self.rounds_done = 0
        self.weights = self.pretrained()

    # ---- frames ----------------------------------------------------------------------------------------------------

    def play(self) -> Reading:
        """All frames: rounds, then the model of lowest F_l starts the next frame."""
        for frame, rounds in enumerate(self.settings.rounds):
            self.times_scheduled = [0 for _ in self.clients]
            self.best: tuple[float, Weights] = (math.inf, self.weights)  # of this frame only
            self.found.records.append(self.evaluated(frame, {"frame": frame, "round": 0}))
            for k in range(1, rounds + 1):
                record = self.round(frame, k)
                if k == rounds or k % self.settings.evaluation.every == 0:
                    self.evaluated(frame, record)
                self.found.records.append(record)
                self.found.models.append(self.weights)
            if frame < len(self.settings.rounds) - 1:
                self.weights = self.best[1]
                if rounds:
                    self.found.models[-1] = self.weights
        return self.found

    def evaluated(self, frame: int, record: dict[str, Any]) -> dict[str, Any]:
        """Add test accuracy over the classes seen so far and, where the next frame needs it, F_l (D11)."""
        guesses = scores(self.weights, self.test_images).argmax(dim=1).numpy()
        accuracy = [
            float((guesses[self.test_labels == c] == c).mean()) if (self.test_labels == c).any() else None
            for c in range(self.classes)
        ]
        pooled = [self.labels[image] for own in self.found.held[frame] for image in own]
        mix = [pooled.count(c) / len(pooled) for c in range(self.classes)]
        seen = [c for c in self.seen(frame) if accuracy[c] is not None]
        record["class_accuracy"] = accuracy
        record["balanced"] = sum(accuracy[c] for c in seen) / len(seen)
        record["global"] = sum(mix[c] * accuracy[c] for c in seen) / sum(mix[c] for c in seen)
        if frame < len(self.settings.rounds) - 1 or self.settings.evaluation.loss_in_last_frame:
            images = drawn.loss_images(self.settings, self.found.held[frame], frame)
            record["loss"] = float(self.loss(self.weights, images))
            if record["loss"] < self.best[0]:
                self.best = (record["loss"], self.weights)
        return record

    def seen(self, frame: int) -> list[int]:
        """C_l: the classes that anybody has held up to this frame, even if nobody holds them any more."""
        appeared = {int(self.labels[i]) for f in self.found.held[: frame + 1] for own in f for i in own}
        return sorted(appeared)

    def holds_new(self, frame: int, client: int) -> bool:
        """Whether a client holds a class that nobody held before this frame."""
        before = self.seen(frame - 1) if frame else self.seen(0)
        return any(self.labels[image] not in before for image in self.found.held[frame][client])

    def pretrained(self) -> Weights:
        """Centralised training that stands for frame 0: every image once an epoch, cosine learning rate."""
        training = self.settings.training
        images = sorted({image for own in self.found.held[0] for image in own})
        if training.pretrain_data == "classes":
            images = [i for i in range(len(self.labels)) if self.labels[i] in self.seen(0)]
        steps = drawn.pretraining_batches(self.settings, images)
        rates = [
            training.pretrain_learning_rate * (1 + math.cos(math.pi * t / len(steps))) / 2
            for t in range(len(steps))
        ]
        return self.sgd(
            self.weights, steps, rates, training.pretrain_momentum, training.pretrain_weight_decay
        )

    # ---- one round, Algorithm 1 ------------------------------------------------------------------------------------

    def round(self, frame: int, k: int) -> dict[str, Any]:
        """Reports, the choice of S, uploads, aggregation, class norms; return the record."""
        held, training = self.found.held[frame], self.settings.training
        rate = training.learning_rate * training.decay**self.rounds_done
        steps = [drawn.batches(self.settings, held[n], frame, k, n) for n in self.clients]
        batch_mix = np.array([self.mix(np.concatenate([images for images, _, _ in own])) for own in steps])
        sigma, p3 = None, None
        self.gradient_bits = [0.0 for _ in self.clients]
        if self.teddi:
            if k == 1:  # D6: at the frame's start over all clients
                self.update_class_norm(frame, 0, batch_mix, list(self.clients))
            samples = [len(own) for own in held]
            sigma = math.sqrt(share(samples) @ [self.variance(own[0]) for own in steps])
            p3 = self.objective(frame, k, batch_mix, sigma)
        delay_s = drawn.compute_s(self.settings, len(held), frame, k)
        chosen = self.choose(frame, k, delay_s, p3)
        if chosen:
            trained = [
                self.sgd(self.weights, steps[n], [rate] * len(steps[n]), training.momentum) for n in chosen
            ]
            alpha = share([len(held[n]) for n in chosen])
            layers = zip(*trained, strict=True)
            self.weights = [sum(a * p for a, p in zip(alpha, layer, strict=True)) for layer in layers]
            for n in chosen:
                self.times_scheduled[n] += 1
            if self.teddi:  # D7: at w_k over S
                self.update_class_norm(frame, k, batch_mix, chosen)
        self.rounds_done += 1
        return self.record(frame, k, chosen, delay_s) | {
            "gradient_std": sigma,
            "class_norm": [*self.class_norm] if self.teddi else None,
            "objective": p3.terms(chosen) if p3 and chosen else None,
        }

    def objective(self, frame: int, k: int, batch_mix: np.ndarray, sigma: float) -> P3:
        """P3 of this round: divergence over the batches' mixes, drift over the data's (D4)."""
        now, before = self.found.held[frame], self.found.held[max(frame - 1, 0)]
        return P3(
            sigma=sigma,
            b=self.settings.training.batch_size,
            drift_weight=2 * (1 - k / self.settings.rounds[frame]),
            class_norm=np.array(self.class_norm),
            samples=[len(own) for own in now],
            batch_mix=batch_mix,
            data_mix=np.array([self.mix(own) for own in now]),
            mix_before=np.array([self.mix(own) for own in before]),
        )

    def choose(self, frame: int, k: int, delay_s: list[float], p3: P3 | None) -> list[int]:
        """Pick S with the rule of the settings."""
        radio, held = self.settings.radio, self.found.held[frame]
        gain = drawn.channel_gain(self.settings, len(held), frame, k)
        needed = [needed_hz(radio, self.bits, g, t) for g, t in zip(gain, delay_s, strict=True)]
        self.found.needed_hz[frame, k] = needed
        rng = drawn.draws(self.settings.seed, "scheduler", frame, k)
        choice = Choice(needed, radio.total_hz, self.settings.scheduler_options["on_no_fit"], rng)
        if p3 is not None:
            chosen, why = choice.greedy(p3)
            self.found.stops.append(why)
            return chosen
        if self.settings.scheduler == "random":
            return choice.random()
        counts = np.array([self.mix(own) * len(own) for own in held])
        return choice.fed_cbs(counts, self.seen(frame), k, self.times_scheduled)

    def record(self, frame: int, k: int, chosen: list[int], delay_s: list[float]) -> dict[str, Any]:
        """Return what is recorded of who was scheduled; at B* everyone finishes exactly at T_max."""
        radio, needed = self.settings.radio, self.found.needed_hz[frame, k]
        upload_s = [radio.deadline_s - delay_s[n] for n in chosen]
        # Reports hold two histograms, and with FedTeddi a variance. What is no upload goes over an equal share of the
        # band: b bits take b / (B/N log2(1 + P|H|² N / (B N0))) seconds.
        report_bits, share_hz = 32 * (2 * self.classes + self.teddi), radio.total_hz / len(delay_s)
        gain = drawn.channel_gain(self.settings, len(delay_s), frame, k)
        rate = [
            share_hz * math.log2(1 + watts(radio.power_dbm) * g / (share_hz * watts(radio.noise_dbm_per_hz)))
            for g in gain
        ]
        report_s = sum(report_bits / r for r in rate)
        gradient_s = sum(bits / r for bits, r in zip(self.gradient_bits, rate, strict=True))
        return {
            "frame": frame,
            "round": k,
            "clients": chosen,
            "scheduled_new": sum(self.holds_new(frame, n) for n in chosen),
            "bandwidth_hz": [needed[n] for n in chosen],
            "compute_s": [delay_s[n] for n in chosen],
            "finish_s": [radio.deadline_s for _ in chosen],
            "round_s": radio.deadline_s,
            "uplink_bits": self.bits * len(chosen) + report_bits * len(delay_s) + sum(self.gradient_bits),
            "energy_j": watts(radio.power_dbm) * (sum(upload_s) + report_s + gradient_s)
            + radio.compute_power_w * sum(delay_s),
            "class_gradient_bits": sum(self.gradient_bits),
            "class_gradient_j": watts(radio.power_dbm) * gradient_s,
            "failures": {},
        }

    def mix(self, images: Any) -> np.ndarray:
        """Return the class shares of some images, [C]."""
        return np.array([np.mean(self.labels[images] == c) for c in range(self.classes)])

    def update_class_norm(self, frame: int, k: int, batch_mix: np.ndarray, members: list[int]) -> None:
        """L̂^(c) = ‖g_c‖ · max_n |p_n^(c) − p^(c)| / ‖p_n − p‖₁ over `members` (20, D7); p is over all, by D_n."""
        held = self.found.held[frame]
        everyone = share([len(own) for own in held]) @ batch_mix
        away = [np.abs(batch_mix[n] - everyone) for n in members]
        of_class, vectors = drawn.class_images(self.settings, held, self.labels, self.classes, frame, k)
        # A gradient of P numbers for each class that a client was asked for, and how many images each class had.
        for client, asked in enumerate(vectors):
            self.gradient_bits[client] += self.bits * asked + 32 * self.classes
        for c, images in of_class.items():
            shares = [a[c] / a.sum() for a in away if a.sum() > 1e-9]
            if images and shares:
                norm = math.sqrt(sum(float((g**2).sum()) for g in self.gradient(self.weights, images)))
                self.class_norm[c] = norm * max(shares)
