"""How far an experiment is, for whoever shows it: the command line, Python's bar, a function of the user's."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from fedteddi.results.rows import Row, accuracy_lines, rows_of
from fedteddi.simulation.pretrained import Pretraining
from fedteddi.simulation.run import Run


@dataclass(frozen=True)
class Progress:
    """How far an experiment is."""

    rounds_done: int  # over all runs
    rounds_in_all: int
    named: Mapping[str, Run]  # by the names of their folders
    seconds: dict[str, float]  # what they went into so far: training, estimates, evaluation, the rest
    news: tuple[str, ...] = ()  # all that the user should know by now, such as that a worker died
    pretraining: Pretraining | None = None  # while a model is pre-trained

    @classmethod
    def of(
        cls,
        named: Mapping[str, Run],
        seconds: dict[str, float],
        news: Sequence[str] = (),
        pretraining: Pretraining | None = None,
    ) -> "Progress":
        """Say how far runs are by what they hold now."""
        done = sum(run.rounds_done for run in named.values())
        in_all = sum(sum(run.settings.rounds) for run in named.values())
        return cls(done, in_all, named, seconds, tuple(news), pretraining)

    @property
    def runs(self) -> tuple[Run, ...]:
        """The runs."""
        return tuple(self.named.values())

    @property
    def rows(self) -> list[Row]:
        """How far each rule is."""
        return rows_of(self.named)

    @property
    def counted(self) -> tuple[int, int]:
        """How many rounds are done and how many there are; while a model is pre-trained, of its steps."""
        if self.pretraining is not None:
            return self.pretraining.step, self.pretraining.steps
        return self.rounds_done, self.rounds_in_all

    def lines(self, width: int, left: str = "") -> list[str]:
        """Say in a few lines how far all rules are; `left` is how long the rest takes."""
        if (found := self.pretraining) is not None:
            return [f"pre-training, seed {found.seed}: epoch {found.epoch} of {found.epochs}{left}"]
        told = [f"  {line}" for line in accuracy_lines(self.rows, width - 2)]
        return [f"{self.rounds_done}/{self.rounds_in_all} rounds{left}", *told]


Watch = Callable[[Progress], None]
