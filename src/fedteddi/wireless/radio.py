"""The constants of the uplink, and what they mean for each client and deadline."""

from dataclasses import dataclass

import numpy as np

from fedteddi.errors import check_number
from fedteddi.wireless.uplink import minimum_bandwidth_hz, rate_bps


def watts_from_dbm(power_dbm: float) -> float:
    """Turn dBm into watts: 0 dBm is a milliwatt."""
    return float(10.0 ** (power_dbm / 10.0) * 1e-3)


@dataclass(frozen=True, kw_only=True)
class Radio:
    """Transmit power P and noise density N0, the same for every client."""

    power_dbm: float = 23.0
    noise_dbm_per_hz: float = -174.0

    def __post_init__(self) -> None:
        # Far beyond any radio, and close enough to keep watts representable.
        check_number("radio.power_dbm", self.power_dbm, at_least=-300, at_most=300)
        check_number("radio.noise_dbm_per_hz", self.noise_dbm_per_hz, at_least=-300, at_most=300)

    def needed_hz(
        self, channel_gain: np.ndarray, ready_s: np.ndarray, *, deadline_s: float, model_bits: float
    ) -> np.ndarray:
        """Return B* of every client: what it needs to finish exactly at the deadline, [N]; inf = cannot.

        `ready_s` is when each could begin to upload; inf = never.
        """
        power_w, noise_w_per_hz = watts_from_dbm(self.power_dbm), watts_from_dbm(self.noise_dbm_per_hz)
        left_s = np.maximum(deadline_s - ready_s, 0.0)  # [N]
        return minimum_bandwidth_hz(model_bits, left_s, power_w, channel_gain, noise_w_per_hz)

    def broadcast_s(
        self, channel_gain: np.ndarray, *, model_bits: float, downlink_hz: float, downlink_power_dbm: float
    ) -> np.ndarray:
        """Return t_dl, when each client has the model: D_s / (B_dl log2(1 + P_dl |H|²/(B_dl N0))), [N]; inf = never.

        Everyone hears the same broadcast over the same band, and is done when its own channel has carried D_s bits.
        """
        power_w, noise_w_per_hz = watts_from_dbm(downlink_power_dbm), watts_from_dbm(self.noise_dbm_per_hz)
        rate = rate_bps(downlink_hz, power_w, channel_gain, noise_w_per_hz)  # [N]
        return np.asarray(np.divide(model_bits, rate, out=np.full(len(rate), np.inf), where=rate > 0))

    def message_s(self, bits: np.ndarray, channel_gain: np.ndarray, *, total_hz: float) -> np.ndarray:
        """Return how long messages take, [n], if all n senders have equal shares of the band; inf without a channel."""
        power_w, noise_w_per_hz = watts_from_dbm(self.power_dbm), watts_from_dbm(self.noise_dbm_per_hz)
        rate = rate_bps(total_hz / max(1, len(bits)), power_w, channel_gain, noise_w_per_hz)  # [n]
        with np.errstate(over="ignore"):
            each_s = np.divide(bits, rate, out=np.full(len(bits), np.inf), where=rate > 0)
        return np.where(bits > 0, each_s, 0.0)

    def fastest_finish_s(
        self, channel_gain: np.ndarray, ready_s: np.ndarray, *, model_bits: float, total_hz: float
    ) -> np.ndarray:
        """Return when each client would finish with the whole band to itself, [N]: its smallest deadline."""
        power_w, noise_w_per_hz = watts_from_dbm(self.power_dbm), watts_from_dbm(self.noise_dbm_per_hz)
        with np.errstate(divide="ignore"):
            return np.asarray(
                ready_s + model_bits / rate_bps(total_hz, power_w, channel_gain, noise_w_per_hz)
            )
