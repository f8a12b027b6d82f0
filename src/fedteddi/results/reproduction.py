"""A study as a plan: which runs it consists of, and what is claimed about them. The plans are in studies.py."""

from dataclasses import dataclass

from fedteddi.results.claims import OURS, Claim, Judged
from fedteddi.results.runs import Study
from fedteddi.results.tables import Targets
from fedteddi.schedulers.registry import named_rule


@dataclass(frozen=True)
class Reproduction:
    """A study of a paper: which experiment, which runs, and what is claimed about them."""

    name: str  # the command's argument, the folders and the page
    title: str
    schedulers: tuple[str, ...]
    deadlines_s: tuple[float, ...]
    seeds: tuple[int, ...]
    targets: Targets
    claims: tuple[Claim, ...]
    quick: dict[str, object]  # settings that `--quick` changes
    notes: str = ""  # what a reader must know to understand the claims of this study
    of_experiment: str = ""  # the experiment, where it is not called as the study
    ours: str = OURS  # the rule that the others are compared with
    heading: str = "The paper's claims"

    @property
    def experiment(self) -> str:
        """The experiment whose settings these runs have."""
        return self.of_experiment or self.name

    @property
    def rule_names(self) -> tuple[str, ...]:
        """The rules as their runs are called."""
        return tuple(named_rule(rule).name for rule in self.schedulers)

    def judged(self, study: Study) -> list[Judged]:
        """Hold every claim against a study."""
        return [row for claim in self.claims for row in claim.judge(study, self.deadlines_s)]
