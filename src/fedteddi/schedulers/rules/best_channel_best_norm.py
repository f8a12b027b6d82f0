"""Best Channel – Best Norm: the strongest signals first, then the largest updates among them."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedteddi.schedulers.admission import ranked, required
from fedteddi.schedulers.candidates import CandidateOptions
from fedteddi.schedulers.references import UPDATE_AWARE, Reference
from fedteddi.schedulers.schedule import Schedule
from fedteddi.schedulers.view import RoundView


@dataclass(frozen=True, kw_only=True)
class BestChannelBestNorm(CandidateOptions):
    """Largest model update first among the K_c clients with the strongest channels, until one does not fit (BC-BN2).

    Amiri et al. take the K largest updates of the K_c strongest channels, with K and K_c fixed. Here the band and the
    deadline decide how many fit. `candidates` is K_c, by default half of the schedulable clients and at least 15; where
    all K_c fit, the next strongest follow, one by one (`further=false`: nobody does). As with Best Norm every client is
    trained, although only the candidates' norms are used; updates are not compressed to what the channel carries.
    """

    name: ClassVar[str] = "best-channel-best-norm"
    reference: ClassVar[Reference] = UPDATE_AWARE
    needs: ClassVar[frozenset[str]] = frozenset({"update_norm"})

    def select(self, view: RoundView, rng: np.random.Generator) -> Schedule:
        """Take the schedulable by falling channel gain, then fill the band by falling update norm."""
        norm = required(view, "update_norm", self.name)
        able = view.schedulable
        return self.fill_from(view, able[ranked(view.channel_gain[able], rng)], norm, rng)
