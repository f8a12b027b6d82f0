"""Which of a study's rules a figure draws in full, in which colours, and the words that say what it shows."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fedteddi.results.drawing import colours_of
from fedteddi.results.ranking import ranked
from fedteddi.results.runs import REFERENCES, Study
from fedteddi.results.tables import groups

ALL_IN_FULL, LEADING = 6, 5  # rules up to which all lines are full; of more, how many are
PAPERS = "fedteddi"


@dataclass(frozen=True)
class Cast:
    """The rules drawn in full, in the legend's order, each with its colour; and those that are pale."""

    full: dict[str, str]
    pale: tuple[str, ...] = ()

    @property
    def note(self) -> str:
        """Say which rules are pale, and why."""
        others = "the rules of highest mean balanced accuracy"
        in_full = f"{PAPERS} and {others}" if PAPERS in self.full else others
        return f"in full: {in_full}; in grey: {', '.join(self.pale)}"

    def colour(self, scheduler: str) -> str | None:
        """Return a rule's colour; None: it is pale."""
        return self.full.get(scheduler)


def cast_of(study: Study, frames: Sequence[int]) -> Cast:
    """Choose who is drawn in full: all, or where they are more than six the five that lead, the paper's among them.

    Bounds always are: dashed, they belong to no contest.
    """
    rules = [rule for rule in study.schedulers if rule not in REFERENCES]
    bounds = [rule for rule in study.schedulers if rule in REFERENCES]
    leading = rules
    if len(rules) > ALL_IN_FULL:
        best = list(ranked(study, frames))
        leading = best[:LEADING]
        if PAPERS in best[LEADING:]:
            leading = [*best[: LEADING - 1], PAPERS]
    pale = tuple(rule for rule in rules if rule not in leading)
    in_full = [*leading, *bounds]
    chosen = colours_of(in_full)
    return Cast({rule: chosen[rule] for rule in in_full}, pale)


def setting(study: Study, shaded: bool = True) -> str:
    """Say on which data, with how many clients, which band and how many seeds a study was made."""
    first, counts = study.runs[0].settings, {len(runs) for _, _, runs in groups(study)} or {1}
    data = Path(first.dataset).name if first.dataset.endswith(".npz") else first.dataset
    most, least = max(counts), min(counts)
    seeds = "one seed" if most == 1 else f"{most} seeds" if most == least else f"{least} to {most} seeds"
    spread = ", ± standard deviation shaded" if shaded and most > 1 else ""
    return f"{data}, {first.scenario.clients} clients, {first.radio.total_hz / 1e6:g} MHz, {seeds}{spread}"
