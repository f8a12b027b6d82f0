"""How the rounds of a plain Flower app are played, and what is kept of each."""

from dataclasses import dataclass

from fedteddi.errors import InputError
from fedteddi.flower.budget import Budget
from fedteddi.protocol.server import needs_of
from fedteddi.schedulers.schedule import AnyScheduler

OBTAINABLE = frozenset({"gradient_std", "class_norm", "loss", "update_norm"})


@dataclass(frozen=True, kw_only=True)
class ScheduledRound:
    """What happened in a round; nodes by their Flower ids."""

    round: int
    reported: tuple[int, ...]  # nodes the scheduler could choose from
    scheduled: tuple[int, ...]
    uploaded: tuple[int, ...]
    failures: dict[int, str]
    report_bytes: int  # of all answers before the choice
    upload_bytes: int


@dataclass(frozen=True, kw_only=True)
class Options:
    """How rounds are played."""

    rule: AnyScheduler
    budget: Budget
    select_first: bool
    rest: int
    num_classes: int | None
    frame_rounds: int | None
    labels_every: int | None
    loss_key: str
    weight_key: str
    report_s: float | None
    upload_s: float | None
    seed: int

    @property
    def needs(self) -> frozenset[str]:
        """What the rule wants to know."""
        return needs_of(self.rule)


def obtainable(rule: AnyScheduler, select_first: bool) -> None:
    """Refuse a rule that wants to know what an app cannot tell."""
    needs = needs_of(rule)
    if missing := needs - OBTAINABLE:
        raise InputError(f"{rule.name} needs {', '.join(sorted(missing))}, which a Flower app does not give")
    if select_first and (after := needs & {"loss", "update_norm"}):
        raise InputError(
            f"{rule.name} needs {', '.join(sorted(after))}, known only after training: select_first=False, or another"
            " scheduler"
        )
