"""Playing the leaderboard: into one folder, seed by seed, resumable."""

import shutil
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from fedteddi.errors import InputError
from fedteddi.experiment import play
from fedteddi.registry import source_checksums
from fedteddi.results.folder import RunFolder, first_difference, locked
from fedteddi.results.reading import without_variant
from fedteddi.results.runs import RunRecord
from fedteddi.schedulers.registry import SCHEDULERS
from fedteddi.settings import Settings, read_settings
from fedteddi.simulation.session import Progress, Watch
from fedteddi.studies.benchmark.plan import SEEDS, Benchmark

BESIDE = {".lock", "report"}  # what lies beside the scenarios' folders


def play_benchmark(
    plan: Benchmark,
    rules: Sequence[str],
    *,
    out: Path,
    seeds: Iterable[int] = SEEDS,
    resume: bool = True,
    replay_changed: bool = False,
    time_limit_s: float | None = None,
    watch: Watch | None = None,
    ray: str | None = None,
    **how: Any,
) -> dict[str, RunRecord]:
    """Play rules on every scenario into a folder that may hold other rules and seeds already.

    Seeds are played one after another, so that what an interruption leaves is whole for the first of them; runs of
    different seeds share no draws anyway. A cluster gets all runs at once. A rule that raises or answers something
    impossible ends that run, and no other. `replay_changed` removes the runs of rules whose code has changed since, and
    plays them anew. `how` goes to `play` as it is.
    """
    each = plan.runs(rules, seeds)
    _check_folder(plan, out)
    _discard_changed(each, out, replay_changed)
    stop_at = None if time_limit_s is None else time.monotonic() + time_limit_s
    show, found = _Shown(watch, sum(sum(own.rounds) for own in each.values())), {}
    for group in [each] if ray else _by_seed(each):
        left_s = None if stop_at is None else max(0.0, stop_at - time.monotonic())
        own = {"out": out, "resume": resume or bool(found), "time_limit_s": left_s, "watch": show.during}
        found |= play(group, keep_going=True, ray=ray, **own, **how)
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
    before: Counter[str] = field(default_factory=Counter)
    now: Counter[str] = field(default_factory=Counter)

    def during(self, state: Progress) -> None:
        """Hear how far a group is, and tell how far all are."""
        self.now = Counter(state.seconds)
        if self.watch is not None:
            done, seconds = self.rounds_done + state.rounds_done, dict(self.before + self.now)
            self.watch(replace(state, rounds_done=done, rounds_in_all=self.rounds_in_all, seconds=seconds))

    def after(self, group: Mapping[str, Settings]) -> None:
        """Count a group that came to its end."""
        self.rounds_done += sum(sum(settings.rounds) for settings in group.values())
        self.before, self.now = self.before + self.now, Counter()


def _check_folder(plan: Benchmark, out: Path) -> None:
    """Refuse a folder that holds something else than runs of this benchmark."""
    names = {scenario.name for scenario in plan.scenarios} | BESIDE
    others = sorted({path.name for path in out.iterdir()} - names) if out.is_dir() else []
    if others:
        raise InputError(f"{out} holds {others[0]}, which is no part of a benchmark: choose another --out")
    for scenario in plan.scenarios:
        base = plan.settings(scenario)
        expected = without_variant(base, base)
        for file in sorted((out / scenario.name).glob("*/settings.toml")):
            own = without_variant(read_settings(file.read_text(encoding="utf-8"), str(file)), base)
            if own != expected:
                what = first_difference(own, expected)
                raise InputError(f"{out} holds another benchmark ({what}): choose another --out")


def _discard_changed(each: Mapping[str, Settings], out: Path, wanted: bool) -> None:
    """Remove the runs of rules whose code has changed since, or say how to have them played anew."""
    rules = dict.fromkeys(settings.scheduler for settings in each.values())
    code = {rule: source_checksums([(SCHEDULERS, rule)]) for rule in rules}
    changed = [name for name, own in each.items() if _has_changed(out / name, code[own.scheduler])]
    if changed and not wanted:
        raise InputError(
            f"the code of {each[changed[0]].scheduler} has changed since {out / changed[0]} was written: restore it, or"
            f" play its runs anew with --replay-changed"
        )
    with locked(out) if changed else nullcontext():
        for name in changed:
            shutil.rmtree(out / name)


def _has_changed(path: Path, code: dict[str, str]) -> bool:
    try:
        RunFolder(path).check_plugins(code)
    except InputError:
        return True
    return False
