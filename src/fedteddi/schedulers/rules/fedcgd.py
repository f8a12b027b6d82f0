"""FedCGD: FedTeddi without the drift term."""

from dataclasses import dataclass
from typing import ClassVar

from fedteddi.schedulers.references import FEDCGD, Reference
from fedteddi.schedulers.rules.fedteddi import FedTeddi


@dataclass(frozen=True, kw_only=True)
class FedCGD(FedTeddi):
    """Lowest sampling variance + collective divergence, within the band (FedTeddi with λ0 = 0).

    The estimators of FedCGD's own paper could not be read; it shares FedTeddi's σ, L and rule (19).
    """

    name: ClassVar[str] = "fedcgd"
    reference: ClassVar[Reference] = FEDCGD

    lambda0: float = 0.0
