"""The coordinate-wise trimmed mean (Yin, Chen, Ramchandran, Bartlett, ICML 2018, arXiv:1803.01498)."""

import math
from dataclasses import dataclass

from fedteddi.aggregation.coordinates import in_order, mean_of
from fedteddi.aggregation.rule import Received, Vector
from fedteddi.errors import check_number


@dataclass(frozen=True, kw_only=True)
class TrimmedMean:
    """Every coordinate's mean over the uploads without the ⌈β n⌉ lowest and highest; the rest count the same.

    Something is always left: with n uploads no more than (n − 1) // 2 are cut at each end, none of two.
    """

    trim: float = 0.1  # β, the share that is cut at each end

    def __post_init__(self) -> None:
        check_number("trim", self.trim, at_least=0.0, below=0.5)

    def aggregate(self, received: Received) -> Vector:
        """Return the trimmed mean, [P]."""
        count = len(received.uploads)
        cut = min(math.ceil(self.trim * count - 1e-9), (count - 1) // 2)  # 0.2 · 15 is 3, and no more
        return mean_of(in_order(received.uploads)[cut : count - cut])
