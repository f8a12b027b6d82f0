"""What a round's messages cost beside the uploads: reports, and class gradients for L̂ (docs/metrics.md)."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedteddi.protocol.checks import LONGEST_S, MEASURED, SIZES, ReceivedReports
from fedteddi.protocol.messages import ALL_CLIENTS, ClassGradients
from fedteddi.settings import RadioSettings
from fedteddi.wireless.radio import Radio, watts_from_dbm

NUMBER_BITS = 32  # as of a model's parameter
TOLD = (*sorted(MEASURED), "compute_s", "channel_gain")  # parts of a report, where they are in it


@dataclass(frozen=True)
class Cost:
    """Bits that were sent, and the energy that sending them took."""

    bits: float = 0.0
    joules: float = 0.0

    def __add__(self, other: "Cost") -> "Cost":
        return Cost(self.bits + other.bits, self.joules + other.joules)


NOTHING = Cost()


def sending(numbers: np.ndarray, channel_gain: np.ndarray, radio: Radio, settings: RadioSettings) -> Cost:
    """Return the cost of messages of so many numbers, [n], sent at once, each client on an equal share of the band.

    The paper gives them no band and no time: they are counted, and the round's clock does not wait for them. A client
    without a channel, or with one that would take decades, costs no energy: a gain may be what a device claims.
    """
    bits = numbers * float(NUMBER_BITS)
    each_s = radio.message_s(bits, channel_gain, total_hz=settings.total_hz)  # [n]
    sending_s = float(each_s[each_s <= LONGEST_S].sum())
    return Cost(float(bits.sum()), watts_from_dbm(settings.power_dbm) * sending_s)


def upload_times_s(
    finish_s: Sequence[float], compute_s: Sequence[float], download_s: Sequence[float] | None
) -> list[float]:
    """Return t_cm = t_done − t_cp − t_dl of the scheduled, [|S|], as their bandwidth has it."""
    down_s = [0.0] * len(finish_s) if download_s is None else download_s
    times = zip(finish_s, compute_s, down_s, strict=True)
    return [done - compute - down for done, compute, down in times]


def report_numbers(received: ReceivedReports, private: bool) -> np.ndarray:
    """Return how many numbers each report holds, [n]: two histograms, or D_n and a mix, and what was measured."""
    classes = received.data_mix.shape[1]
    numbers = np.full(len(received.clients), classes + 1 if private else 2 * classes)
    for part in TOLD:
        numbers += [SIZES.get(part, 1) * (value is not None) for value in received.told(part)]
    return numbers


def gradient_numbers(
    parts: dict[int, ClassGradients], wanted: np.ndarray, clients: tuple[int, ...], size: int
) -> np.ndarray:
    """Return how many numbers each client's class gradients hold, [n]: a vector a class, and how many images each had.

    A runtime that answers for all clients says nothing of each: then it is what `wanted` [N, C] asks them for.
    """
    classes = wanted.shape[1]
    if ALL_CLIENTS in parts:
        vectors = np.count_nonzero(wanted[list(clients)], axis=1)  # [n]
        return np.asarray(vectors * size + classes)
    sent = {client: sum(map(len, part.gradient_sum.values())) + classes for client, part in parts.items()}
    return np.array([sent.get(client, 0) for client in clients])
