"""Records of runs as a reader wants them: curves, rounds to an accuracy, what was learnt and what forgotten."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from fedteddi.errors import InputError
from fedteddi.extras import explains_missing
from fedteddi.protocol.record import Accuracy as Accuracy
from fedteddi.protocol.record import RoundRecord
from fedteddi.results.folder import Failure
from fedteddi.results.points import Point, in_words, ordered, wanted
from fedteddi.results.shown import Shown
from fedteddi.results.stretches import Stretch, stretches
from fedteddi.results.with_model import Trained, WithModel
from fedteddi.scenario.plan import Plan
from fedteddi.settings import Settings

if TYPE_CHECKING:  # figures and tables are imported when one is asked for: they use this file
    import pandas as pd
    from matplotlib.figure import Figure

    from fedteddi.results.numeric import NumericTable

ACCURACIES: tuple[Accuracy, ...] = ("balanced", "global")
# Bounds, not baselines: all clients upload without limits; all data in one place (docs/metrics.md).
REFERENCES = ("everyone", "centralised")


@explains_missing
@dataclass(frozen=True, eq=False, repr=False)
class RunRecord(Shown, WithModel):
    """One run: its settings, who held what, and a record for every round; read from a summary, of stretches only."""

    settings: Settings
    counts: np.ndarray  # samples by frame, client and class, [L, N, C]
    records: tuple[RoundRecord, ...]
    finished: bool
    failure: Failure | None = None  # why it will never be finished
    kept: tuple[Stretch, ...] = ()  # what a summary has in place of records
    point: Point = field(default_factory=dict)  # its values of what a sweep varies
    trained: Trained | None = None  # its model's weights, or the folder they are in

    @classmethod
    def of(
        cls,
        settings: Settings,
        plan: Plan,
        records: Sequence[RoundRecord],
        finished: bool,
        failure: Failure | None = None,
    ) -> "RunRecord":
        """Keep a run that has just been played."""
        counts = np.stack([frame.counts for frame in plan.frames])
        return cls(settings, counts, tuple(records), finished, failure)

    @property
    def scheduler(self) -> str:
        """The rule's name."""
        return self.settings.name

    @property
    def title(self) -> str:
        """The rule, its deadline (bounds have none) and the seed; in a sweep, its values."""
        deadline = "" if self.scheduler in REFERENCES else f" at {self.settings.radio.deadline_s:g} s"
        at = f", {in_words(self.point)}" if self.point else ""
        return f"{self.scheduler}{deadline}, seed {self.settings.seed}{at}"

    @cached_property
    def stretches(self) -> tuple[Stretch, ...]:
        """The run from evaluation to evaluation."""
        return self.kept or stretches(self.records)

    def played(self, frame: int) -> list[Stretch]:
        """Return the stretches of a frame, without the model that it begins with."""
        return [one for one in self.stretches if one.frame == frame and one.rounds]

    def evaluated(self, frame: int) -> list[Stretch]:
        """Return the rounds of a frame after which the model was evaluated, k = 0 included."""
        return [one for one in self.stretches if one.frame == frame and one.is_evaluated]

    def rounds_to(self, frame: int, target: float, accuracy: Accuracy) -> int | None:
        """Return the first evaluated round of a frame whose accuracy reaches the target; None if none does."""
        for record in self.evaluated(frame):
            if record.accuracy(accuracy) >= target:
                return record.round
        return None

    def spent_until(self, frame: int, round: int, column: str) -> float:
        """Return the sum of a column over a frame's rounds up to an evaluated one."""
        return float(sum(getattr(one, column) for one in self.played(frame) if one.round <= round))

    def new_classes(self, frame: int) -> np.ndarray:
        """Return which classes appeared in this frame, [C]."""
        seen = (self.counts.sum(axis=1) > 0).cumsum(axis=0) > 0  # [L, C]
        return np.asarray(seen[frame] & ~seen[frame - 1]) if frame else np.asarray(seen[0])

    def old_classes(self, frame: int) -> np.ndarray:
        """Return which classes were there before this frame, [C]."""
        seen = (self.counts.sum(axis=1) > 0).cumsum(axis=0) > 0
        return np.asarray(seen[frame - 1]) if frame else np.zeros(self.counts.shape[2], dtype=bool)

    def curve(self) -> "pd.DataFrame":
        """Return all evaluated rounds: frame, round, balanced, global, and accuracy on old and new classes."""
        from fedteddi.results.curves import curve

        return curve(self)

    def figure(self) -> "Figure":
        """Draw the run: its accuracies over all frames, and those on old and new classes."""
        from fedteddi.results.figures import run_curve

        return run_curve(self)

    def forgetting(self, frame: int) -> float:
        """Return best earlier minus final accuracy, averaged over the old classes of a frame; NaN without any."""
        old = self.old_classes(frame)
        evaluated = [one for one in self.stretches if one.is_evaluated and one.frame <= frame]
        if not old.any() or len(evaluated) < 2:
            return float("nan")
        accuracy = np.array([r.class_accuracy for r in evaluated], dtype=float)[:, old]  # [evaluations, old]
        return mean_over_classes(accuracy[:-1].max(axis=0) - accuracy[-1])

    def backward_transfer(self, frame: int) -> float:
        """Return final minus first accuracy of a frame, averaged over its old classes: what the frame did to them."""
        old, evaluated = self.old_classes(frame), self.evaluated(frame)
        if not old.any() or not evaluated:
            return float("nan")
        first, last = (np.array(r.class_accuracy, dtype=float)[old] for r in (evaluated[0], evaluated[-1]))
        return mean_over_classes(last - first)

    def rounds_to_recover(self, frame: int, accuracy: Accuracy) -> int | None:
        """Return the first round whose accuracy is back at the last one before the data arrived; None if none is."""
        before = self.evaluated(frame - 1) if frame else []
        return self.rounds_to(frame, before[-1].accuracy(accuracy), accuracy) if before else None


def mean_over_classes(values: np.ndarray) -> float:
    """Return the mean over classes; those without test images do not count, and without any it is NaN."""
    known = values[np.isfinite(values)]
    return float(known.mean()) if len(known) else float("nan")


@explains_missing
@dataclass(frozen=True, eq=False, repr=False)
class Study(Shown):
    """A set of runs that belong together: they differ in rule, seed and deadline, in a sweep also in its keys."""

    runs: tuple[RunRecord, ...]

    @property
    def schedulers(self) -> list[str]:
        """The rules in it, in the order of the runs; the reference bounds last."""
        return sorted(dict.fromkeys(run.scheduler for run in self.runs), key=lambda name: name in REFERENCES)

    @property
    def deadlines_s(self) -> list[float]:
        """The deadlines in it; those of reference bounds only where there is nothing else."""
        limited = [run for run in self.runs if run.scheduler not in REFERENCES]
        return sorted({run.settings.radio.deadline_s for run in limited or self.runs})

    @property
    def frames(self) -> list[int]:
        """The frames that have rounds, which all its runs share."""
        return [frame for run in self.runs[:1] for frame, rounds in enumerate(run.settings.rounds) if rounds]

    @property
    def swept(self) -> tuple[str, ...]:
        """The keys of a sweep, such as scenario.alpha."""
        return tuple(self.runs[0].point) if self.runs else ()

    @property
    def points(self) -> "list[tuple[Point, Study]]":
        """The runs at each combination of a sweep's values; of other studies, all of them."""
        every = ordered(run.point for run in self.runs)
        return [(one, Study(tuple(_without(r, one) for r in self.runs if r.point == one))) for one in every]

    def at(self, **values: Any) -> "Study":
        """Return the runs of a sweep at these values: `study.at(scenario__alpha=0.1)`."""
        at = wanted(values, [run.point for run in self.runs])
        return Study(tuple(_without(run, at) for run in self.runs if at.items() <= run.point.items()))

    @property
    def finished(self) -> bool:
        """Whether every run came to its end."""
        return all(run.finished for run in self.runs)

    @property
    def failures(self) -> dict[str, Failure]:
        """What became of the runs that diverged, by title: no table or figure counts them."""
        return {run.title: run.failure for run in self.runs if run.failure is not None}

    @property
    def unfinished(self) -> list[RunRecord]:
        """The runs that can still go on."""
        return [run for run in self.runs if not run.finished and run.failure is None]

    def of(self, scheduler: str, deadline_s: float | None = None) -> list[RunRecord]:
        """Return the runs of one rule (at one deadline), by seed."""
        own = [
            run
            for run in self.runs
            if run.scheduler == scheduler
            and (deadline_s is None or scheduler in REFERENCES or run.settings.radio.deadline_s == deadline_s)
        ]
        return sorted(own, key=lambda run: run.settings.seed)

    def curves(self) -> "pd.DataFrame":
        """Return the evaluated rounds of all runs in one table."""
        import pandas as pd

        return pd.concat([run.curve() for run in self.runs], ignore_index=True)

    def accuracy_figure(self, frame: int | None = None) -> "Figure":
        """Draw figure 3: accuracy over the rounds of a frame (the last with rounds, unless you name another)."""
        from fedteddi.results.figures import accuracy_over_rounds

        return accuracy_over_rounds(self, self._played(frame))

    def scheduled_figure(self, frame: int | None = None) -> "Figure":
        """Draw figure 4: how many clients each rule schedules, with new classes and with only old ones."""
        from fedteddi.results.figures import scheduled_clients

        return scheduled_clients(self, self._played(frame))

    def rounds_figure(self, frame: int | None = None) -> "Figure":
        """Draw figure 5: the rounds each rule needs for each accuracy."""
        from fedteddi.results.figures import rounds_to_levels

        return rounds_to_levels(self, self._played(frame))

    def frames_figure(self) -> "Figure":
        """Draw figure 6: accuracy over the rounds of all frames."""
        from fedteddi.results.figures import accuracy_over_frames

        self._played(None)
        return accuracy_over_frames(self)

    def rounds_by_frame_figure(self) -> "Figure":
        """Draw figure 7: the rounds each rule needs for each accuracy, a panel per frame."""
        from fedteddi.results.figures import rounds_to_levels_by_frame

        self._played(None)
        return rounds_to_levels_by_frame(self)

    def sweep_figure(
        self, metrics: Sequence[str] = ("mean_balanced", "mean_global"), frame: int | None = None
    ) -> "Figure":
        """Draw measures (those of `table`) over the first key of a sweep, a panel for each value of the others."""
        from fedteddi.results.sweep_figure import over_key

        return over_key(self, metrics, frame)

    def table(
        self,
        *metrics: str,
        frame: int | None = None,
        targets: Sequence[float] = (),
        against: str | None = None,
    ) -> "NumericTable":
        """Return measures as numbers, a row for each rule, deadline (point of a sweep) and measure (docs/metrics.md).

        Columns: n seeds, their mean, sd, the 95 % interval low to high, and how many were censored, because they never
        reached the `target`. Without names, all measures; without a frame, the last with rounds; without targets,
        levels that the best runs just reach. `against` names a rule whose number is subtracted, seed by seed.
        `table(…).display()` and `table(…).to_latex()` make text of it.
        """
        from fedteddi.results.numeric import numeric_table

        self.check_reportable()
        return numeric_table(self, metrics, frame, targets, against)

    def check_reportable(self) -> None:
        """Refuse a study about which there is nothing to say yet."""
        if not self.frames:
            raise InputError("these runs have no rounds: there is nothing to report")
        if not any(run.finished for run in self.runs):
            if not self.unfinished:
                cause = next(iter(self.failures.values())).cause
                raise InputError(f"all runs failed; first error: {cause}")
            raise InputError("no run has come to its end yet: finish one with --resume")

    def chosen_frame(self, frame: int | None) -> int:
        """Return a frame there is something to say about: the last with rounds, unless one is named."""
        self.check_reportable()
        if frame is not None and frame not in self.frames:
            raise InputError(f"frame {frame} has no rounds: choose from {', '.join(map(str, self.frames))}")
        return self.frames[-1] if frame is None else frame

    def _played(self, frame: int | None) -> int:
        """Return the frame of a figure about runs that differ in rule, deadline and seed only."""
        if self.swept:
            key, value = next(iter(self.runs[0].point.items()))
            one = f"study.at({key.replace('.', '__')}={value!r})"
            raise InputError(f"these runs sweep {', '.join(self.swept)}: choose a value first, such as {one}")
        return self.chosen_frame(frame)


def _without(run: RunRecord, keys: Mapping[str, Any]) -> RunRecord:
    """Return a run of a sweep in which these keys are not varied."""
    return replace(run, point={key: value for key, value in run.point.items() if key not in keys})
