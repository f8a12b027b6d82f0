"""What the server knows of each node of a plain Flower app, and the round that a scheduler sees of it."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedteddi.flower.budget import Limits, Link
from fedteddi.flower.records import BadAnswerError
from fedteddi.flower.told import Told
from fedteddi.heterogeneity.mixes import class_mix
from fedteddi.protocol.checks import MOST_SAMPLES
from fedteddi.schedulers.view import RoundView

# A measured rate counts for so many rounds; then the node is given a try again.
MEASURED_FOR = 20
NEW_RATE = 0.5  # the weight of the latest measurement
BATCH_SIZE = 32
GRADIENT_STD = 0.3 * BATCH_SIZE**0.5  # so that σ/√(|S|b) is the size term ν/√|S| of fedteddi-plus


@dataclass(eq=False)
class Node:
    """A node, from round to round."""

    client_id: int  # in schedulers' memory: its partition-id where that is free
    told: Told | None = None
    told_round: int = 0
    num_samples: int = 1
    times_scheduled: int = 0  # in this frame
    uploaded_round: int = -(2**53)  # the last one
    earlier: Counter[int] | None = None  # its class counts in the frame before
    rate_bps: float | None = None
    rate_round: int = 0
    compute_round: int = 0  # when its computation time was measured

    def hear(self, told: Told, round: int, weight_key: str) -> None:
        """Take note of what the node says; whoever asks for labels only keeps what was measured before."""
        before = self.told
        if told.compute_s is None and before is not None:
            told = Told(**{**vars(told), "compute_s": before.compute_s})
        else:
            self.compute_round = round
        self.told, self.told_round = told, round
        examples = told.metrics.get(weight_key)
        good = isinstance(examples, int | float) and 1 <= examples <= MOST_SAMPLES
        self.num_samples = int(examples) if good else min(sum(told.counts.values()), MOST_SAMPLES)  # type: ignore[arg-type]

    def measure(self, bits: float, seconds: float, round: int) -> None:
        """Take note of an upload: bits over the time from asking to arrival, smoothed."""
        if bits > 0 and seconds > 0:
            new, old = bits / seconds, self.measured_bps(round)
            self.rate_bps = new if old is None else NEW_RATE * new + (1 - NEW_RATE) * old
            self.rate_round = round

    def measured_bps(self, round: int) -> float | None:
        """Return the measured rate, unless it is too old to count."""
        return self.rate_bps if round - self.rate_round <= MEASURED_FOR else None

    def link(self, node_id: int, round: int) -> Link:
        """Return what is known of its way to the server."""
        told = self.told
        return Link(
            client=self.name(node_id),
            compute_s=told.compute_s
            if told is not None and round - self.compute_round <= MEASURED_FOR
            else None,
            channel_gain=None if told is None else told.channel_gain,
            rate_bps=self.measured_bps(round),
        )

    def name(self, node_id: int) -> int:
        """Return what people call it: its partition-id, or else the node's id."""
        partition = None if self.told is None else self.told.partition
        return node_id if partition is None else partition


def loss_of(told: Told, key: str) -> float:
    """Return the loss that an app reports of its training."""
    value = told.metrics.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= 1e100:
        raise BadAnswerError(
            f"its metrics have no finite number {key!r}, which the scheduler needs: name it with loss_key"
        )
    return float(value)


def view_of(
    nodes: Sequence[Node],
    limits: Limits,
    *,
    frame: int,
    round: int,
    rounds_in_frame: int,
    classes: int,
    needs: frozenset[str],
    loss_key: str,
) -> RoundView:
    """Return the round as a scheduler sees it; what a plain app cannot know is assumed, as docs/flower.md says.

    L^(c) = 1 for all classes, σ such that the size of a set counts as in fedteddi-plus, and batches like the data.
    """
    told = [node.told for node in nodes if node.told is not None]
    mix = class_mix(np.array([_row(one.counts, classes) for one in told]))  # [N, C]
    earlier = [node.earlier or one.counts for node, one in zip(nodes, told, strict=True)]
    previous = mix if frame == 0 else class_mix(np.array([_row(counts, classes) for counts in earlier]))
    asked: dict[str, Any] = {}
    if "loss" in needs:
        asked["loss"] = np.array([loss_of(one, loss_key) for one in told])
    if "update_norm" in needs:
        asked["update_norm"] = np.array([one.update_norm for one in told], dtype=np.float64)
    return RoundView(
        frame=frame,
        round=round,
        rounds_in_frame=rounds_in_frame,
        batch_size=BATCH_SIZE,
        total_hz=limits.total_hz,
        num_samples=np.array([node.num_samples for node in nodes]),
        batch_mix=mix,
        data_mix=mix,
        previous_data_mix=previous,
        needed_hz=limits.needed_hz,
        channel_gain=limits.channel_gain,
        times_scheduled=np.array([node.times_scheduled for node in nodes]),
        gradient_std=GRADIENT_STD if "gradient_std" in needs else 0.0,
        class_norm=np.ones(classes),
        compute_s=limits.compute_s,
        deadline_s=limits.deadline_s,
        model_bits=limits.model_bits,
        client_id=np.array([node.client_id for node in nodes]),
        **asked,
    )


def _row(counts: Counter[int], classes: int) -> np.ndarray:
    row = np.zeros(classes)
    for c, count in counts.items():
        row[c] = count
    return row
