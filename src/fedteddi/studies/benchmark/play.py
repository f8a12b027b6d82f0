"""Playing the leaderboard: into one folder, seed by seed, resumable."""

import shutil
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from fedteddi.errors import InputError
from fedteddi.experiment import play
from fedteddi.registry import source_checksums
from fedteddi.results.folder import RunFolder, locked
from fedteddi.results.runs import RunRecord
from fedteddi.schedulers.registry import SCHEDULERS
from fedteddi.settings import Settings, read_settings
from fedteddi.simulation.play import RunOptions
from fedteddi.simulation.progress import Progress, Watch
from fedteddi.studies.benchmark.plan import SEEDS, Benchmark

NOBODY = np.zeros((0, 0, 0), dtype=np.int64)  # who held what in a run that has not begun
BESIDE = {".lock", "report"}  # what lies beside the scenarios' folders


def play_benchmark(
    plan: Benchmark,
    rules: Sequence[str],
    *,
    out: Path,
    seeds: Iterable[int] = SEEDS,
    resume: bool = True,
    replay: bool = False,
    time_limit_s: float | None = None,
    watch: Watch | None = None,
    ray: str | None = None,
    **how: Any,
) -> dict[str, RunRecord]:
    """Play rules on every scenario into a folder that may hold other rules and seeds already.

    Seeds are played one after another, so that what an interruption leaves is whole for the first of them; runs of
    different seeds share no draws anyway. A cluster gets all runs at once. A rule that raises or answers something
    impossible ends that run, and no other. `replay` plays anew what failed, and the runs of rules whose code has
    changed since. `how` goes to `play` as it is.
    """
    each = plan.runs(rules, seeds)
    _check_folder(plan, out)
    _discard(each, out, replay)
    stop_at = None if time_limit_s is None else time.monotonic() + time_limit_s
    show = _Shown(watch, sum(sum(own.rounds) for own in each.values()))
    found: dict[str, RunRecord] = {}
    for group in [each] if ray else _by_seed(each):
        left_s = None if stop_at is None else max(0.0, stop_at - time.monotonic())
        if found and left_s == 0:
            found |= {name: RunRecord(settings, NOBODY, (), False) for name, settings in group.items()}
            continue
        run = RunOptions(
            out=out,
            resume=resume or bool(found),
            keep_going=True,
            time_limit_s=left_s,
            watch=show.during,
            ray=ray,
        )
        found |= play(group, run=run, **how)
        show.after(group)
    return found


def _by_seed(each: Mapping[str, Settings]) -> list[dict[str, Settings]]:
    groups: dict[int, dict[str, Settings]] = {}
    for name, settings in each.items():
        groups.setdefault(settings.seed, {})[name] = settings
    return list(groups.values())


@dataclass
class _Shown:
    """Shows groups of runs that are played one after another as one."""

    watch: Watch | None
    rounds_in_all: int
    rounds_done: int = 0
    before: dict[str, float] = field(default_factory=dict)  # seconds, by what they went into
    so_far: dict[str, float] = field(default_factory=dict)

    def during(self, state: Progress) -> None:
        """Hear how far a group is, and tell how far all are."""
        purposes = self.before | state.seconds
        self.so_far = {key: self.before.get(key, 0.0) + state.seconds.get(key, 0.0) for key in purposes}
        if self.watch is not None:
            done = self.rounds_done + state.rounds_done
            self.watch(
                replace(state, rounds_done=done, rounds_in_all=self.rounds_in_all, seconds=self.so_far)
            )

    def after(self, group: Mapping[str, Settings]) -> None:
        """Count a group that came to its end."""
        self.rounds_done += sum(sum(settings.rounds) for settings in group.values())
        self.before = self.so_far


def _check_folder(plan: Benchmark, out: Path) -> None:
    """Refuse a folder that holds something else than runs of this benchmark."""
    names = {scenario.name for scenario in plan.scenarios} | BESIDE
    others = sorted({path.name for path in out.iterdir()} - names) if out.is_dir() else []
    if others:
        raise InputError(f"{out} holds {others[0]}, which is no part of a benchmark: choose another --out")
    for scenario in plan.scenarios:
        for file in sorted((out / scenario.name).glob("*/settings.toml")):
            plan.check(scenario.name, read_settings(file.read_text(encoding="utf-8"), str(file)), out)


def _discard(each: Mapping[str, Settings], out: Path, wanted: bool) -> None:
    """Remove runs that failed and those of rules whose code has changed since, or say how to have them played anew."""
    rules = dict.fromkeys(settings.scheduler for settings in each.values())
    code = {rule: source_checksums([(SCHEDULERS, rule)]) for rule in rules}
    changed = [name for name, own in each.items() if _has_changed(out / name, code[own.scheduler])]
    if changed and not wanted:
        raise InputError(
            f"the code of {each[changed[0]].scheduler} has changed since {out / changed[0]} was written: restore it, or"
            f" play its runs anew with --replay"
        )
    failed = [name for name in each if wanted and RunFolder(out / name).failure() is not None]
    with locked(out) if changed or failed else nullcontext():
        for name in {*changed, *failed}:
            shutil.rmtree(out / name)


def _has_changed(path: Path, code: dict[str, str]) -> bool:
    try:
        RunFolder(path).check_plugins(code)
    except InputError:
        return True
    return False
