"""Records of runs as a reader wants them: curves, rounds to an accuracy, what was learnt and what forgotten."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd

from fedteddi.errors import InputError
from fedteddi.results.folder import first_difference, read_records
from fedteddi.scenario.plan import Plan
from fedteddi.settings import Settings, read_settings

Accuracy = Literal["balanced", "global"]
CURVE = ["scheduler", "deadline_s", "seed", "frame", "round", "balanced", "global", "old", "new"]
ACCURACIES: tuple[Accuracy, ...] = ("balanced", "global")


@dataclass(frozen=True, eq=False)
class RunRecord:
    """One run: its settings, who held what, and a record for every round."""

    settings: Settings
    counts: np.ndarray  # samples by frame, client and class, [L, N, C]
    records: tuple[dict[str, Any], ...]
    finished: bool

    @classmethod
    def of(
        cls, settings: Settings, plan: Plan, records: Sequence[dict[str, Any]], finished: bool
    ) -> "RunRecord":
        """Keep a run that has just been played."""
        return cls(settings, np.stack([frame.counts for frame in plan.frames]), tuple(records), finished)

    @property
    def scheduler(self) -> str:
        """The rule's name."""
        return self.settings.name

    def evaluated(self, frame: int) -> list[dict[str, Any]]:
        """Return the rounds of a frame at which the model was judged, k = 0 included."""
        return [r for r in self.records if r["frame"] == frame and "balanced" in r]

    def rounds_to(self, frame: int, target: float, accuracy: Accuracy) -> int | None:
        """Return the first evaluated round of a frame whose accuracy reaches the target; None if none does."""
        for record in self.evaluated(frame):
            if record[accuracy] >= target:
                return int(record["round"])
        return None

    def spent_until(self, frame: int, round: int, column: str) -> float:
        """Return the sum of a column over the rounds 1..`round` of a frame."""
        own = (r for r in self.records if r["frame"] == frame and 1 <= r["round"] <= round)
        return float(sum(r[column] for r in own))

    def new_classes(self, frame: int) -> np.ndarray:
        """Return which classes appeared in this frame, [C]."""
        seen = (self.counts.sum(axis=1) > 0).cumsum(axis=0) > 0  # [L, C]
        return np.asarray(seen[frame] & ~seen[frame - 1]) if frame else np.asarray(seen[0])

    def old_classes(self, frame: int) -> np.ndarray:
        """Return which classes were there before this frame, [C]."""
        seen = (self.counts.sum(axis=1) > 0).cumsum(axis=0) > 0
        return np.asarray(seen[frame - 1]) if frame else np.zeros(self.counts.shape[2], dtype=bool)

    def curve(self) -> pd.DataFrame:
        """Return all evaluated rounds: frame, round, balanced, global, and accuracy on old and new classes."""
        rows = []
        for frame in range(len(self.counts)):
            old, new = self.old_classes(frame), self.new_classes(frame)
            for record in self.evaluated(frame):
                accuracy = np.array(record["class_accuracy"], dtype=float)
                rows.append(
                    {
                        "scheduler": self.scheduler,
                        "deadline_s": self.settings.radio.deadline_s,
                        "seed": self.settings.seed,
                        "frame": frame,
                        "round": record["round"],
                        "balanced": record["balanced"],
                        "global": record["global"],
                        "old": _mean(accuracy[old]),
                        "new": _mean(accuracy[new]),
                    }
                )
        return pd.DataFrame(rows, columns=CURVE)

    def forgetting(self, frame: int) -> float:
        """Return best earlier minus final accuracy, averaged over the old classes of a frame; NaN without any."""
        old = self.old_classes(frame)
        judged = [r for r in self.records if "class_accuracy" in r and r["frame"] <= frame]
        if not old.any() or len(judged) < 2:
            return float("nan")
        accuracy = np.array([r["class_accuracy"] for r in judged], dtype=float)[:, old]  # [evaluations, old]
        return _mean(accuracy[:-1].max(axis=0) - accuracy[-1])

    def backward_transfer(self, frame: int) -> float:
        """Return final minus first accuracy of a frame, averaged over its old classes: what the frame did to them."""
        old, judged = self.old_classes(frame), self.evaluated(frame)
        if not old.any() or not judged:
            return float("nan")
        first, last = (np.array(r["class_accuracy"], dtype=float)[old] for r in (judged[0], judged[-1]))
        return _mean(last - first)

    def rounds_to_recover(self, frame: int, accuracy: Accuracy) -> int | None:
        """Return the first round whose accuracy is back at the last one before the data arrived; None if none is."""
        before = self.evaluated(frame - 1) if frame else []
        return self.rounds_to(frame, before[-1][accuracy], accuracy) if before else None


def _mean(values: np.ndarray) -> float:
    """Return the mean over classes; those without test images do not count, and without any it is NaN."""
    known = values[np.isfinite(values)]
    return float(known.mean()) if len(known) else float("nan")


@dataclass(frozen=True, eq=False)
class Study:
    """A set of runs that belong together."""

    runs: tuple[RunRecord, ...]

    @property
    def schedulers(self) -> list[str]:
        """The rules in it, in the order of the runs."""
        return list(dict.fromkeys(run.scheduler for run in self.runs))

    @property
    def deadlines_s(self) -> list[float]:
        """The deadlines in it; those of the reference bound aside."""
        return sorted({run.settings.radio.deadline_s for run in self.runs if run.scheduler != "everyone"})

    @property
    def finished(self) -> bool:
        """Whether every run came to its end."""
        return all(run.finished for run in self.runs)

    def of(self, scheduler: str, deadline_s: float | None = None) -> list[RunRecord]:
        """Return the runs of one rule (at one deadline), by seed."""
        own = [
            run
            for run in self.runs
            if run.scheduler == scheduler
            and (deadline_s is None or scheduler == "everyone" or run.settings.radio.deadline_s == deadline_s)
        ]
        return sorted(own, key=lambda run: run.settings.seed)

    def curves(self) -> pd.DataFrame:
        """Return the evaluated rounds of all runs in one table."""
        return pd.concat([run.curve() for run in self.runs], ignore_index=True)


def read_run(path: Path) -> RunRecord:
    """Read one run's folder."""
    try:
        settings = read_settings(
            (path / "settings.toml").read_text(encoding="utf-8"), str(path / "settings.toml")
        )
        counts = np.array(json.loads((path / "scenario.json").read_text(encoding="utf-8"))["counts"])
        records = tuple(read_records(path))
    except (OSError, ValueError, KeyError) as error:
        raise InputError(f"{path} is not a complete run folder ({error}): run it again") from None
    rounds = [record for record in records if record["round"] > 0]
    return RunRecord(settings, counts, records, len(rounds) == sum(settings.rounds))


def read_study(path: Path) -> Study:
    """Read a run's folder, or a folder of runs."""
    if not path.is_dir():
        raise InputError(f"there is no folder {path}: give a run's folder, or one that holds runs")
    if (path / "settings.toml").is_file():
        return Study((read_run(path),))
    found = sorted(file.parent for file in path.glob("*/settings.toml"))
    if not found:
        raise InputError(f"{path} holds no runs: 'fedteddi compare --out {path}' would make some")
    runs = [read_run(folder) for folder in found]
    first = next((run.settings for run in runs if run.scheduler != "everyone"), runs[0].settings)
    for run, folder in zip(runs, found, strict=True):
        if _without_variant(run.settings, first) != _without_variant(first, first):
            different = first_difference(
                _without_variant(first, first), _without_variant(run.settings, first)
            )
            raise InputError(f"{folder} belongs to another experiment ({different}): report it apart")
    names = [(run.scheduler, run.settings.radio.deadline_s, run.settings.seed) for run in runs]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise InputError(
            f"{path} holds {twice[0]} at deadline {twice[1]:g} s with seed {twice[2]} twice: keep one"
        )
    return Study(tuple(runs))


def _without_variant(settings: Settings, first: Settings) -> Settings:
    """Return settings without what may differ between the runs of one study."""
    total_hz = first.radio.total_hz if settings.name == "everyone" else settings.radio.total_hz
    return settings.changed(
        name="", scheduler="", scheduler_options={}, seed=0, radio__deadline_s=1.0, radio__total_hz=total_hz
    )
