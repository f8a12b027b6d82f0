"""Playing a study, whole or in parts, and gathering what has been played: by level, from runs or from summaries."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from fedteddi.errors import InputError, nearest_hint
from fedteddi.experiment import compare, play_in_turn, run_name, shared_options, variant
from fedteddi.results.folder import differences, first_difference
from fedteddi.results.runs import RunRecord, Study
from fedteddi.schedulers.registry import named_rule
from fedteddi.settings import Settings, override
from fedteddi.studies.study import BASELINE, Level, StudyPlan, flat, known
from fedteddi.studies.summaries import VARIANT, Summaries, from_folders, merged, ordered
from fedteddi.studies.summary_files import ENDING, read_summaries, write_summaries


def reproduce(
    plan: StudyPlan,
    *,
    out: Path,
    schedulers: Iterable[str] = (),
    seeds: Iterable[int] | None = None,
    deadlines_s: Iterable[float] = (),
    factors: Iterable[str] = (),
    levels: Iterable[str] = (),
    skip: Iterable[str] = (),
    changes: Iterable[str] = (),
    **how: Any,
) -> dict[str, RunRecord]:
    """Play a study, or the part of it that is named, into a folder that may hold other parts already.

    `factors` leaves the others out, but not the baseline (which is a factor's name, too, for the baseline alone);
    `levels` plays these levels of one factor, and nothing else; `skip` leaves levels out, by their folders. `changes`
    are settings as `key=value`; `how` goes to `compare` or `play` as it is (`resume`, `data`, `device`, …).
    """
    if plan.factors:
        known("deadline", map("{:g}".format, deadlines_s), map("{:g}".format, plan.deadlines_s))
        each = grid_settings(plan, factors, levels, skip, schedulers, seeds, changes)
        return play_in_turn(each, out=out, **how)
    if named := [*factors, *levels, *skip]:
        raise InputError(f"{named[0]}: {plan.name} has no factors, so --factor, --level and --skip name none")
    rules = list(schedulers) or [*plan.schedulers, *plan.bounds]
    had = {key for own in shared_options(rules, plan.options).values() for key in own}
    study = compare(
        override(plan.settings, list(changes)),
        schedulers=rules,
        seeds=plan.seeds if seeds is None else seeds,
        deadlines_s=list(deadlines_s) or plan.deadlines_s,
        out=out,
        options={key: value for key, value in plan.options.items() if key in had},
        **how,
    )
    return {run.title: run for run in study.runs}


def grid_settings(
    plan: StudyPlan,
    factors: Iterable[str] = (),
    levels: Iterable[str] = (),
    skip: Iterable[str] = (),
    schedulers: Iterable[str] = (),
    seeds: Iterable[int] | None = None,
    changes: Iterable[str] = (),
) -> dict[str, Settings]:
    """Return the settings of every run of a study with factors, or of a part of it, by its folder: LEVEL/RUN."""
    base, rules = _base(plan, list(changes)), known("rule", schedulers, plan.schedulers)
    shared = shared_options(list(rules), plan.options)
    found: dict[str, Settings] = {}
    for key, level in _parts(plan, list(factors), list(levels), list(skip)).items():
        for rule in (rule for rule in rules if named_rule(rule).name in level.only):
            for seed in plan.seeds if seeds is None else dict.fromkeys(seeds):
                own = variant(base, rule, seed, plan.deadlines_s[0], shared[rule])
                found[f"{key}/{run_name(own)}"] = own.changed(**flat(level.changes))
    if not found:
        raise InputError(
            f"{', '.join(rules)} need no runs there, the baseline's stand for them: name another rule or level"
        )
    return found


def _base(plan: StudyPlan, changes: list[str]) -> Settings:
    """Return the settings of the baseline; what a factor varies cannot be set."""
    changed = override(plan.settings, changes)
    varied = {key.replace("__", "."): f.name for f, level in plan.varied() for key in flat(level.changes)}
    for key in differences(plan.settings, changed):
        if key in varied:
            raise InputError(f"{key} is the factor {varied[key]} here: its levels are fixed")
    return changed


def _parts(plan: StudyPlan, factors: list[str], levels: list[str], skip: list[str]) -> dict[str, Level]:
    """Return the levels to be played, by their folders."""
    names = {factor.name: factor for factor in plan.factors}
    known("factor", factors, [BASELINE, *names])
    known("level", skip, plan.level_names)
    chosen = {
        factor.key(level)
        for factor, level in plan.varied()
        if (not factors or factor.name in factors) and (not levels or level.label in levels)
    }
    if levels:
        if len(set(factors)) != 1 or factors[0] == BASELINE:
            raise InputError(f"--level {levels[0]}: name the one factor it is a level of with --factor")
        factor = names[factors[0]]
        known(f"level of {factor.name}", levels, [level.label for level in factor.levels])
        chosen |= {factor.key(level) for level in factor.levels if level.label in levels}
    else:
        chosen.add(BASELINE)
    return {key: level for key, level in plan.levels.items() if key in chosen and key not in skip}


def read_runs(plan: StudyPlan, runs: Path) -> tuple[Summaries, list[str]]:
    """Shorten the runs of a folder that came to an end; also name those that can still go on."""
    folders = {BASELINE: runs}
    if plan.factors:
        folders = {key: runs / key for key in plan.level_names if any((runs / key).glob("*/settings.toml"))}
    summaries, unfinished = from_folders(plan.name, folders, bool(plan.factors))
    if not summaries.every:
        raise InputError(f"{runs} holds no run that has come to its end: finish one with --resume")
    return check_levels(plan, summaries), unfinished


def read_kept(plan: StudyPlan, folder: Path) -> Summaries:
    """Read the summaries of a study."""
    summaries = read_summaries(folder, bool(plan.factors))
    if summaries.name != plan.name:
        raise InputError(
            f"{folder} holds summaries of {summaries.name}: 'fedteddi reproduce' with that name reads them"
        )
    for level in {one.level: None for one in summaries.every}:
        if level not in plan.level_names:
            hint = nearest_hint(level, plan.level_names)
            quick = "" if plan.is_quick else ", or give --quick if it is a quick study's"
            raise InputError(f"{folder / level}{ENDING} is no level of {plan.name}{hint}: remove it{quick}")
    return check_levels(plan, summaries)


def summarise(plan: StudyPlan, runs: Path, folder: Path) -> list[str]:
    """Add every finished run in a folder of runs to a folder of summaries; return the names of the unfinished."""
    summaries, unfinished = read_runs(plan, runs)
    if any(folder.glob(f"*{ENDING}")):
        summaries = check_levels(plan, merged(read_kept(plan, folder), summaries))
    write_summaries(summaries, folder)
    return unfinished


def check_levels(plan: StudyPlan, summaries: Summaries) -> Summaries:
    """Refuse a run that differs from the baseline in something else than its level."""
    levels, baseline = plan.levels, [one.run for one in summaries.runs if one.level == BASELINE]
    for one in summaries.every if plan.factors else ():
        run = one.run
        kin = [base for base in baseline if base.scheduler == run.scheduler]
        for base in (kin or baseline)[:1]:
            same = {name: getattr(run.settings, name) for name in (("seed",) if kin else VARIANT)}
            expected = base.settings.changed(**flat(levels[one.level].changes)).changed(**same)
            if expected != run.settings:
                raise InputError(
                    f"{one.level}/{run.scheduler} with seed {run.settings.seed} belongs to another study"
                    f" ({first_difference(expected, run.settings)}): keep it in a folder of its own"
                )
    return summaries


def study_at(plan: StudyPlan, summaries: Summaries, key: str = BASELINE) -> Study:
    """Return the runs of one level, and those of the baseline that stand for the others, in the study's order."""
    level, baseline = plan.levels[key], [one.run for one in summaries.runs if one.level == BASELINE]
    runs = baseline
    if key != BASELINE:
        own = [one.run for one in summaries.runs if one.level == key and one.run.scheduler in level.only]
        others = [run for run in baseline if run.scheduler not in level.only]
        runs = own + [begun for run in others for begun in _beginning(run, level)]
    return ordered(plan.rule_names, Study(tuple(runs)))


def _beginning(run: RunRecord, level: Level) -> list[RunRecord]:
    """Return a run's first rounds, as many as a level has; nothing if it has fewer, or a last one was not evaluated."""
    rounds = run.settings.changed(**flat(level.changes)).rounds
    if any(wanted > there for wanted, there in zip(rounds, run.settings.rounds, strict=True)):
        return []
    kept = tuple(one for one in run.stretches if one.round <= rounds[one.frame])
    ends = [(one.frame, one.round) for one in kept if one.is_evaluated]
    if any((frame, last) not in ends for frame, last in enumerate(rounds)):
        return []
    return [replace(run, settings=run.settings.changed(rounds=rounds), records=(), kept=kept)]
