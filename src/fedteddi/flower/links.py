"""Measured links: how fast each device's uploads come, and the channel gain at which the radio model agrees."""

import math
from dataclasses import dataclass, field, replace

from fedteddi.protocol.messages import Report
from fedteddi.settings import RadioSettings
from fedteddi.wireless.radio import watts_from_dbm

NEWEST = 0.3  # weight of the newest upload
SHORTEST_S = 0.1  # answers are looked for this often: shorter times are not seen
# Reports after an upload for which its rate counts: whom it keeps from being scheduled is tried again after that.
REMEMBERED = 10
MOST_BITS_PER_HZ = 100.0  # a faster link needs next to no band


def gain_of_rate(bps: float, settings: RadioSettings) -> float:
    """Return |H|² at which the whole band carries R = `bps`: R = B log2(1 + P|H|²/(B N0)), solved for |H|²."""
    band_hz = settings.total_hz
    snr = math.expm1(min(bps / band_hz, MOST_BITS_PER_HZ) * math.log(2.0))
    return snr * band_hz * watts_from_dbm(settings.noise_dbm_per_hz) / watts_from_dbm(settings.power_dbm)


@dataclass
class Links:
    """The uplink rates of one run's devices, as their uploads showed them."""

    radio: RadioSettings
    # Seconds a bit, smoothed by 0.7 old + 0.3 new: the time that the next upload takes, not its rate, is what counts.
    s_per_bit: dict[int, float] = field(default_factory=dict)
    reports: dict[int, int] = field(default_factory=dict)  # since the last upload

    def note(self, client: int, num_bytes: int, seconds: float) -> None:
        """Take down an upload: from the question to the whole answer, without the time that it was held back."""
        if num_bytes:
            self.reports[client] = 0
            new = max(seconds, SHORTEST_S) / (8.0 * num_bytes)
            self.s_per_bit[client] = NEWEST * new + (1.0 - NEWEST) * self.s_per_bit.get(client, new)

    def bps(self, client: int) -> float:
        """Return a client's rate in bits a second; 0 before its first upload."""
        return 1.0 / self.s_per_bit[client] if client in self.s_per_bit else 0.0

    def completed(self, client: int, report: Report) -> Report:
        """Add the gain that follows from a client's rate to a report that states none."""
        self.reports[client] = self.reports.get(client, 0) + 1
        if self.reports[client] > REMEMBERED:
            self.s_per_bit.pop(client, None)
        if report.channel_gain is not None or client not in self.s_per_bit:
            return report
        return replace(report, channel_gain=gain_of_rate(self.bps(client), self.radio))
