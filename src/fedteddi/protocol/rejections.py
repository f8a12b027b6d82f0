"""Whose answers were not used in a round, and why."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
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

    @contextmanager
    def of(self, client: int, what: str) -> Iterator[None]:
        """Reject a client's answer if looking at it raises, whatever that is: it costs nobody else anything."""
        try:
            yield
        except Rejected as rejected:
            self.add(client, rejected)
        except Exception as error:
            self.add(client, Rejected(f"{what} cannot be read ({type(error).__name__})"))


@dataclass
class Failures:
    """Who failed in a round, in whatever way, and why: by client."""

    causes: dict[int, str] = field(default_factory=dict)

    def note(self, failed: Mapping[int, str], rejections: Rejections, about: str = "") -> None:
        """Add those who did not answer and those whose answers were rejected; a client can fail twice in a round."""
        self.add({client: f"{about}{why}" for client, why in failed.items()})
        self.add(rejections.causes)

    def add(self, causes: Mapping[int, str]) -> None:
        """Add causes, after what is known of the same clients."""
        for client, why in causes.items():
            self.causes[client] = f"{self.causes[client]}; {why}" if client in self.causes else why
