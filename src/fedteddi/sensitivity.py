"""How much the paper's claims depend on what it leaves open: one factor at a time, played, kept and written up."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from fedteddi.errors import InputError, nearest_hint, shown
from fedteddi.experiment import Watch, play, run_name, variant
from fedteddi.reproduce import find_reproduction, paper_settings
from fedteddi.results.folder import differences
from fedteddi.results.page_parts import Page
from fedteddi.results.runs import RunRecord
from fedteddi.results.sensitivity_grid import BASELINE, Level, Played, Sensitivity
from fedteddi.results.sensitivity_page import write_page
from fedteddi.results.summary import Summaries, from_folder, merged
from fedteddi.results.summary_files import read_summary, write_summary
from fedteddi.sensitivity_factors import SENSITIVITIES
from fedteddi.settings import Settings, override


def find_sensitivity(name: str, quick: bool = False) -> Sensitivity:
    """Return the sensitivity study of an experiment, or its quick version."""
    if name not in SENSITIVITIES:
        raise InputError(
            f"no sensitivity study is called {shown(name)}{nearest_hint(name, SENSITIVITIES)}: known are"
            f" {', '.join(SENSITIVITIES)}"
        )
    return SENSITIVITIES[name][quick]


def baseline_settings(grid: Sensitivity, changes: Iterable[str] = ()) -> Settings:
    """Return the complete settings of the baseline; `changes` are others as `key=value`."""
    plain = _paper(grid).changed(**grid.changes)
    changed = override(plain, list(changes))
    varied = {key.replace("__", "."): factor for factor, level in grid.varied() for key in level.changes}
    for key in differences(plain, changed):
        if key in varied:
            raise InputError(f"{key} is the factor {varied[key].name} here: its levels are fixed")
    return changed


def grid_settings(
    grid: Sensitivity,
    *,
    factors: Iterable[str] = (),
    levels: Iterable[str] = (),
    skip: Iterable[str] = (),
    schedulers: Iterable[str] = (),
    seeds: Iterable[int] | None = None,
    changes: Iterable[str] = (),
) -> dict[str, Settings]:
    """Return the settings of every run, by its folder: LEVEL/RUN.

    `factors` leaves the others out, but not the baseline (which is a factor's name, too, for the baseline alone);
    `levels` plays these levels of one factor, and nothing else; `skip` leaves levels out, by their folders.
    """
    base = baseline_settings(grid, changes)
    rules = _known("rule", schedulers, grid.schedulers)
    numbers = list(range(grid.seeds)) if seeds is None else list(dict.fromkeys(seeds))
    found: dict[str, Settings] = {}
    left_out = list(skip)
    _known("level", left_out, tuple(grid.keys))
    chosen = _chosen(grid, list(factors), list(levels))
    for key, level, concerned in (one for one in chosen if one[0] not in left_out):
        for rule in (rule for rule in rules if rule in concerned):
            for seed in numbers:
                own = variant(base, rule, seed, base.radio.deadline_s).changed(**level.changes)
                found[f"{key}/{run_name(own)}"] = own
    if not found:
        raise InputError(
            f"{', '.join(rules)} need no runs there, the baseline's stand for them: name another rule or level"
        )
    return found


def _chosen(
    grid: Sensitivity, factors: list[str], levels: list[str]
) -> list[tuple[str, Level, tuple[str, ...]]]:
    """Return the levels to be played: their folders, what they change, and the rules that are run."""
    names = {factor.name: factor for factor in grid.factors}
    _known("factor", factors, (BASELINE, *names))
    baseline = (BASELINE, Level(BASELINE), grid.schedulers)
    varied = [
        (factor.key(level), level, factor.run_at(level))
        for factor, level in grid.varied()
        if (not factors or factor.name in factors) and (not levels or level.label in levels)
    ]
    if not levels:
        return [baseline, *varied]
    if len(set(factors)) != 1 or factors[0] == BASELINE:
        raise InputError(f"--level {levels[0]}: name the one factor it is a level of with --factor")
    own = {level.label: level for level in names[factors[0]].levels}
    wanted = _known(f"level of {factors[0]}", levels, tuple(own))
    return [baseline, *varied] if any(own[label].is_baseline for label in wanted) else varied


def _known(what: str, names: Iterable[str], known: tuple[str, ...]) -> list[str]:
    """Return the names, all of them if none is given; refuse one that is not known."""
    given = list(dict.fromkeys(names))
    for name in given:
        if name not in known:
            raise InputError(
                f"no {what} is called {shown(name)}{nearest_hint(name, known)}: known are {', '.join(known)}"
            )
    return given or list(known)


def sensitivity(
    grid: Sensitivity,
    *,
    out: Path,
    factors: Iterable[str] = (),
    levels: Iterable[str] = (),
    skip: Iterable[str] = (),
    schedulers: Iterable[str] = (),
    seeds: Iterable[int] | None = None,
    changes: Iterable[str] = (),
    resume: bool = False,
    time_limit_s: float | None = None,
    watch: Watch | None = None,
    **where: Any,
) -> dict[str, RunRecord]:
    """Play a sensitivity study, or a part of it, all runs in lock-step; return them by their folders in `out`.

    `changes` are settings as `key=value`, for all runs; `where` goes to `play` as it is (`data`, `device`, `data_dir`).
    """
    each = grid_settings(
        grid,
        factors=factors,
        levels=levels,
        skip=skip,
        schedulers=schedulers,
        seeds=seeds,
        changes=changes,
    )
    return play(each, out=out, resume=resume, time_limit_s=time_limit_s, watch=watch, **where)


def read_runs(grid: Sensitivity, runs: Path) -> tuple[Played, list[str]]:
    """Read the finished runs of a folder, by level; also name the unfinished ones."""
    found, unfinished = {}, []
    for key in grid.keys:
        if any((runs / key).glob("*/settings.toml")):
            found[key], names = from_folder(grid.name, runs / key)
            unfinished += [f"{key}/{name}" for name in names]
    if not any(summaries.runs or summaries.failed for summaries in found.values()):
        raise InputError(f"{runs} holds no run that has come to its end: finish one with --resume")
    return Played(grid, {key: own for key, own in found.items() if own.runs or own.failed}), unfinished


def page_of_runs(grid: Sensitivity, runs: Path) -> tuple[Page, list[str]]:
    """Write the page about every finished run in a folder into RUNS/report; also name the unfinished runs."""
    played, unfinished = read_runs(grid, runs)
    source = f"`{grid.command}` from the runs in its folder"
    return write_page(played, _paper(grid), runs / "report", "sensitivity", source), unfinished


def summarise(grid: Sensitivity, runs: Path, folder: Path) -> list[str]:
    """Add every finished run in a folder of runs to a folder of summaries; return the names of the unfinished."""
    played, unfinished = read_runs(grid, runs)
    known = read_levels(grid, folder).by_level if any(folder.glob("*.jsonl.gz")) else {}
    joined = {
        key: merged(known[key], own, f"{key}.jsonl.gz") if key in known else own
        for key, own in played.by_level.items()
    }
    every = Played(grid, {**known, **joined})
    for key, own in every.by_level.items():
        write_summary(own, folder / f"{key}.jsonl.gz")
    return unfinished


def read_levels(grid: Sensitivity, folder: Path) -> Played:
    """Read a folder of summaries: one file per level."""
    found: dict[str, Summaries] = {}
    for file in sorted(folder.glob("*.jsonl.gz")):
        key, own = file.name.removesuffix(".jsonl.gz"), read_summary(file)
        if own.name != grid.name:
            quick = ", with --quick if it is one" if own.name.startswith("sensitivity-") else ""
            raise InputError(f"{file} is a summary of {own.name}: name that study{quick}")
        if key not in grid.keys:
            raise InputError(
                f"{file} is no level of {grid.name}{nearest_hint(key, grid.keys)}: keep it in a folder of its own"
            )
        found[key] = own
    if not found:
        raise InputError(f"{folder} holds no summaries: '{grid.command} --summarise {folder}' makes them")
    return Played(grid, found)


def _paper(grid: Sensitivity) -> Settings:
    return paper_settings(find_reproduction(grid.experiment))


def page_of_summaries(grid: Sensitivity, folder: Path, into: Path | None = None) -> Page:
    """Write the page about a folder of summaries beside it, or elsewhere."""
    played = read_levels(grid, folder)
    name = folder.resolve().name
    # The folder as it is called in the repository, so that the page is the same wherever it is made.
    source = f"`{grid.command} --from-summaries docs/results/{name}` from the summaries in that folder"
    return write_page(played, _paper(grid), into or folder.parent, name, source)
