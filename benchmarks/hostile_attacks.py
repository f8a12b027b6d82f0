"""Attacks of one client: what it answers in place of the truth, by the kind of the question."""

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from fedteddi.protocol.messages import ClassGradients, Request


@dataclass(eq=False)
class Turn:
    """A question to the hostile client: its honest answer, everyone's, and what it remembers."""

    request: Request
    own: Any
    everyone: Mapping[int, Any]  # the honest answers: the attacker knows all
    flipped: Callable[[], Any]  # what it would upload if it had trained on wrong labels
    memory: dict[str, Any] = field(default_factory=dict)

    @property
    def model(self) -> Any:
        """The model that was sent out."""
        return self.request.weights

    @property
    def update(self) -> Any:
        """Its honest update."""
        return self.own - self.model

    def noise(self) -> Any:
        """A direction at random, as long as its honest update."""
        drawn = torch.randn(len(self.own), generator=torch.Generator().manual_seed(self.request.round))
        return drawn * (self.update.norm() / drawn.norm())

    def updates(self) -> Any:
        """The others' updates, [n, P]; its own where nobody else uploads."""
        others = [w - self.model for w in self.everyone.values() if w is not self.own]
        return torch.stack(others or [self.update])


Twist = Callable[[Turn], Any]
SILENT = object()  # no answer


def reporting(**parts: Any) -> Twist:
    """Change parts of the report."""
    return lambda turn: dataclasses.replace(turn.own, **parts)


def claiming_samples(many: int) -> Twist:
    """Claim this many samples, half of each of two classes."""

    def twist(turn: Turn) -> Any:
        held = turn.own.data_counts
        return dataclasses.replace(
            turn.own, data_counts=np.where(held > 0, many // max(1, int((held > 0).sum())), 0)
        )

    return twist


def claiming_the_rarest(turn: Turn) -> Any:
    """Claim to hold and train on nothing but the class that the others have least of."""
    total = sum(report.data_counts for report in turn.everyone.values())
    rarest = int(np.argmin(np.where(total > 0, total, total.max() + 1)))
    own, here = turn.own, np.arange(len(total)) == rarest
    held = np.where(here, own.data_counts.sum(), 0)
    return dataclasses.replace(own, data_counts=held, batch_counts=np.where(here, own.batch_counts.sum(), 0))


def sending(value: Callable[[Turn], Any]) -> Twist:
    """Upload this."""
    return value


def flip(factor: float) -> Twist:
    """Go the other way, this many times as far."""
    return lambda turn: turn.model - turn.update * factor


def gradients(value: float, dtype: torch.dtype = torch.float32) -> Twist:
    """Send class gradients that hold one number only."""

    def twist(turn: Turn) -> ClassGradients:
        rows = {
            c: torch.full(tuple(row.shape), value, dtype=dtype) for c, row in turn.own.gradient_sum.items()
        }
        return ClassGradients(gradient_sum=rows, counts=turn.own.counts)

    return twist


def a_little(turn: Turn) -> Any:
    """A little is enough (Baruch, Baruch, Goldberg, NeurIPS 2019): the others' mean, 1.5 standard deviations off."""
    return turn.model + turn.updates().mean(dim=0) - 1.5 * turn.updates().std(dim=0, correction=0)


def inner_product(turn: Turn) -> Any:
    """Inner product manipulation (Xie, Koyejo, Gupta, UAI 2019): the others' mean, turned round, twice as long."""
    return turn.model - 2.0 * turn.updates().mean(dim=0)


def spike(turn: Turn) -> Any:
    """One weight is a million off."""
    return turn.own + torch.nn.functional.one_hot(torch.tensor(7), len(turn.own)).float() * 1e6


def always_the_first(turn: Turn) -> Any:
    """Send the model of its first round, again and again."""
    return turn.memory.setdefault("first", turn.own.clone())


def now_and_then(turn: Turn) -> Any:
    """Be honest for three rounds, then go ten times the other way."""
    return flip(10.0)(turn) if turn.request.round % 4 == 0 else turn.own


class Trap:
    """Raises at whatever is done to it."""

    def __getattribute__(self, name: str) -> Any:
        raise RuntimeError(f"boom: {name}")

    def __len__(self) -> int:
        raise RuntimeError("boom")


FLIP: dict[str, Twist] = {"upload": flip(10.0)}
# The four of issue 24, then others; by the kind of the question. What is not twisted is answered honestly.
NAMED: dict[str, dict[str, Twist]] = {
    "finite weights of 1e37": {"upload": sending(lambda t: torch.full_like(t.own, 1e37))},
    "class gradients, float64 of 1e101": {"class_gradients": gradients(1e101, torch.float64)},
    "sign flip × 10": FLIP,
    "claims 5·10⁸ samples, sign flip × 10": {"report": claiming_samples(5 * 10**8), **FLIP},
}
ATTACKS: dict[str, dict[str, Twist]] = NAMED | {
    "claims 5·10⁸ samples, trains on wrong labels": {
        "report": claiming_samples(5 * 10**8),
        "upload": lambda t: t.flipped(),
    },
    "sign flip": {"upload": flip(1.0)},
    "update × 100": {"upload": sending(lambda t: t.model + t.update * 100.0)},
    "trains on wrong labels": {"upload": lambda t: t.flipped()},
    "wrong labels, update × 10": {"upload": lambda t: t.model + (t.flipped() - t.model) * 10.0},
    "noise as long as its update": {"upload": sending(lambda t: t.model + t.noise())},
    "noise × 100": {"upload": sending(lambda t: t.model + t.noise() * 100.0)},
    "weights of 0": {"upload": sending(lambda t: t.own * 0.0)},
    "one weight off by 10⁶": {"upload": spike},
    "a little is enough": {"upload": a_little},
    "inner product × 2": {"upload": inner_product},
    "its first model for ever": {"upload": always_the_first},
    "honest, but every fourth round": {"upload": now_and_then},
    "weights at float32's end": {"upload": sending(lambda t: torch.full_like(t.own, 3.4e38) * t.own.sign())},
    "NaN in every upload": {"upload": sending(lambda t: t.own * float("nan"))},
    "uploads of float64": {"upload": sending(lambda t: t.own.double() * 1e100)},
    "uploads of another size": {"upload": sending(lambda t: t.own[:-1])},
    "never uploads": {"upload": lambda _: SILENT},
    "answers that raise when looked at": dict.fromkeys(
        ("report", "upload", "class_gradients"), lambda _: Trap()
    ),
    "class gradients of 1e18": {"class_gradients": gradients(1e18)},
    "class gradients of NaN": {"class_gradients": gradients(float("nan"))},
    "σ̂² of 1e99, sign flip × 10": {"report": reporting(gradient_variance=1e99), **FLIP},
    "says it trained in no time, sign flip × 10": {"report": reporting(compute_s=0.0), **FLIP},
    "says its link gains 10⁸⁰, sign flip × 10": {"report": reporting(channel_gain=1e80), **FLIP},
    "says its link is perfect, sign flip × 10": {"report": reporting(channel_gain=1.0), **FLIP},
    "claims the rarest class, sign flip × 10": {"report": claiming_the_rarest, **FLIP},
}
