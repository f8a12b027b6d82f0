"""What a reader must know of a study's runs: what was shortened, failed, began otherwise, is missing; the machines."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pandas as pd

from fedteddi.results.folder import differences
from fedteddi.results.runs import REFERENCES
from fedteddi.results.starts import started_otherwise
from fedteddi.studies.play import study_at
from fedteddi.studies.study import BASELINE, StudyPlan
from fedteddi.studies.summaries import VARIANT, Summaries, Summarised

QUICK = "Quick: a shortened study that shows that everything works, not how good a scheduler is"
# What makes a study shorter than it was meant: fewer of any of these.
LENGTHS = ("training.local_steps", "training.pretrain_epochs", "rounds", "scenario.samples_per_client")
NO_SEEDS = "none finished"


def lines(plan: StudyPlan, summaries: Summaries, settings: bool = True) -> list[str]:
    """Return all of it, a line each; `settings` that differ from those of the study are for its page only."""
    found = []
    for key, (was, now) in _changed(plan, summaries).items() if settings else ():
        found.append(f"Set here: `{key}`: {_plain(now)} instead of {_plain(was)}.")
    for title, cause in failed(plan, summaries).items():
        found.append(f"**Failed,** and left out of all tables: {title}: {cause}.")
    if other := starts(plan, summaries):
        found.append(f"**Different starts.** {other}")
    return found + ([] if plan.factors else seeds(plan, summaries))


def failed(plan: StudyPlan, summaries: Summaries) -> dict[str, str]:
    """Return why each run diverged, by its title and level: without them a rule may look better than it is."""
    at = {one: f", at {plan.level_names[one.level]}" if plan.factors else "" for one in summaries.failed}
    return {f"{one.run.title}{where}": one.run.failure.cause for one, where in at.items() if one.run.failure}


def starts(plan: StudyPlan, summaries: Summaries) -> str:
    """Say which runs begin with another pre-trained model than the others of their seed; nothing if none does."""
    at = {level: f" at {name}" if plan.factors else "" for level, name in plan.level_names.items()}
    return started_otherwise((f"{one.run.scheduler}{at[one.level]}", one.run) for one in summaries.runs)


def seeds(plan: StudyPlan, summaries: Summaries) -> list[str]:
    """Say which seeds were run, if the study is not whole: most rules', then what others have."""
    found = plan.outcomes(study_at(plan, summaries))
    by_seeds: dict[str, list[str]] = {}
    for rule in plan.rule_names:
        for time in plan.deadlines_s:
            own = ", ".join(map(str, found.seeds([rule], time))) or NO_SEEDS
            by_seeds.setdefault(own, []).append(
                f"{rule} at {time:g} s" if len(plan.deadlines_s) > 1 else rule
            )
    whole = ", ".join(map(str, plan.seeds))
    if set(by_seeds) == {whole}:
        return []
    groups = sorted(by_seeds.items(), key=lambda group: (group[0] == NO_SEEDS, -len(group[1])))
    others = [f"; of {', '.join(rules)}: {own}" for own, rules in groups[1:]]
    compared = " Two schedulers are compared on the seeds that both have." if others else ""
    return [f"Seeds run, of {whole}: {groups[0][0]}{''.join(others)}.{compared}"]


def _changed(plan: StudyPlan, summaries: Summaries) -> dict[str, tuple[Any, Any]]:
    """Return every setting in which the baseline differs from the study as it was meant, with both values."""
    every = [one.run.settings for one in summaries.runs if one.level == BASELINE]
    own = [settings for settings in every if settings.name not in REFERENCES] or every
    found = differences(plan.whole_settings, own[0]) if own else {}
    left_out = (*VARIANT, "radio.deadline_s")
    return {key: both for key, both in found.items() if not key.startswith(left_out)}


def is_shorter(plan: StudyPlan, summaries: Summaries) -> bool:
    """Say whether a study has fewer rounds, steps, epochs, samples or test images than it was meant to have."""
    changed = _changed(plan, summaries)
    lengths = [changed[key] for key in LENGTHS if key in changed]
    totals = [[sum(value) if isinstance(value, list) else value for value in both] for both in lengths]
    return "evaluation.test_images" in changed or any(now < was for was, now in totals)


def machines(runs: Iterable[Summarised]) -> pd.DataFrame:
    """Return where the runs were made: device, versions, revision, minutes."""
    by_machine: dict[str, list[Summarised]] = {}
    for one in runs:
        by_machine.setdefault(repr(sorted(one.machine.items(), key=lambda item: item[0])), []).append(one)
    rows = []
    for own in by_machine.values():
        machine, packages = own[0].machine, own[0].machine.get("packages") or {}
        head, dash, clean = str(machine.get("git_revision") or "–").rpartition("-dirty")
        row = {"device": machine.get("device", "–")}
        row["precision"] = "float32" if row["device"] == "cpu" else own[0].run.settings.training.precision
        row |= {"runs": len(own), "minutes of rounds": f"{sum(one.minutes for one in own):.1f}"}
        row["revision"] = f"{head[:12]}{dash}" if dash else clean[:12]  # uncommitted changes stay visible
        row |= {"Python": machine.get("python", "–"), "torch": packages.get("torch", "–")}
        row |= {"numpy": packages.get("numpy", "–"), "system": machine.get("system", "–")}
        rows.append(row | {"CPUs": machine.get("cpus", "–")})
    return pd.DataFrame(rows)


def _plain(value: object) -> str:
    """Return a setting's value as the page shows it: of a data set in a file, only the file's name."""
    return Path(value).name if isinstance(value, str) and value.endswith(".npz") else str(value)
