"""Whose answers were not used in a round, and why."""

from collections.abc import Mapping
from dataclasses import dataclass, field


class Rejected(Exception):
    """An answer that cannot be used, and why; `not_finite` if training itself may have made it so."""

    def __init__(self, why: str, *, not_finite: bool = False) -> None:
        super().__init__(why)
        self.not_finite = not_finite


@dataclass
class Rejections:
    """Whose answers were not used, and why."""

    causes: dict[int, str] = field(default_factory=dict)
    not_finite: set[int] = field(default_factory=set)  # those whose numbers left the finite ones

    def add(self, client: int, rejected: Rejected) -> None:
        """Reject a client's answer."""
        self.causes[client] = str(rejected)
        if rejected.not_finite:
            self.not_finite.add(client)


@dataclass
class Failures:
    """Who failed in a round, in whatever way, and why: by client."""

    causes: dict[int, str] = field(default_factory=dict)

    def note(self, failed: Mapping[int, str], rejections: Rejections, about: str = "") -> None:
        """Add those who did not answer and those whose answers were rejected; a client can fail twice in a round."""
        for client, why in [*failed.items(), *rejections.causes.items()]:
            before = f"{self.causes[client]}; " if client in self.causes else ""
            self.causes[client] = f"{before}{about if client in failed else ''}{why}"
