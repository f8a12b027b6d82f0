"""The coordinate-wise median (Yin, Chen, Ramchandran, Bartlett, ICML 2018, arXiv:1803.01498)."""

from dataclasses import dataclass

from fedteddi.aggregation.coordinates import in_order, mean_of
from fedteddi.aggregation.rule import Received, Vector


@dataclass(frozen=True, kw_only=True)
class Median:
    """Every coordinate's median over the uploads, which all count the same; of an even number, the middle two's mean.

    Fewer than half of the uploads cannot move a coordinate beyond what the others sent. Of two uploads it is the mean.
    """

    def aggregate(self, received: Received) -> Vector:
        """Return the median, [P]."""
        ordered, count = in_order(received.uploads), len(received.uploads)
        return mean_of(ordered[(count - 1) // 2 : count // 2 + 1])
