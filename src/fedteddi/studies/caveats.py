"""What a reader must know of a study's runs: what was shortened, failed, began otherwise, is missing; the machines."""

from collections.abc import Iterable
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


def lines(plan: StudyPlan, summaries: Summaries) -> list[str]:
    """Return what became of the runs: which failed, began otherwise or are missing, a line each."""
    causes, other = failed(plan, summaries), starts(plan, summaries)
    found = [f"**Failed,** and left out of all tables: {title}: {cause}." for title, cause in causes.items()]
    found += [f"**Different starts.** {other}"] if other else []
    found += costs(summaries)
    return found + ([] if plan.factors else seeds(plan, summaries))


def failed(plan: StudyPlan, summaries: Summaries) -> dict[str, str]:
    """Return why each run diverged, by its title and level: without them a rule may look better than it is."""
    at = {level: f", at {name}" if plan.factors else "" for level, name in plan.level_names.items()}
    gone = [(one, one.run.failure) for one in summaries.failed]
    return {f"{one.run.title}{at[one.level]}": failure.cause for one, failure in gone if failure}


def starts(plan: StudyPlan, summaries: Summaries) -> str:
    """Say which runs begin with another pre-trained model than the others of their seed; nothing if none does."""
    at = {level: f" at {name}" if plan.factors else "" for level, name in plan.level_names.items()}
    return started_otherwise((f"{one.run.scheduler}{at[one.level]}", one.run) for one in summaries.runs)


def costs(summaries: Summaries) -> list[str]:
    """Say which runs counted other costs than most: before all messages were counted, uploads alone were."""
    counted = {True: list[str](), False: list[str]()}
    for one in summaries.runs:
        played = [stretch for stretch in one.run.stretches if stretch.rounds]
        if played:
            counted[played[0].class_gradient_bits is not None].append(one.called)
    if not all(counted.values()):
        return []
    return [
        f"**Different costs.** The bits and joules of {', '.join(counted[False])} are those of uploads alone; all"
        " others count every message."
    ]


def seeds(plan: StudyPlan, summaries: Summaries) -> list[str]:
    """Say which seeds were run, if the study is not whole: most rules', then what others and the bounds have."""
    found = plan.outcomes(study_at(plan, summaries))
    several = len(plan.deadlines_s) > 1
    none_at = [time for time in plan.deadlines_s if not any(found.seeds([r], time) for r in plan.rule_names)]
    times = [time for time in plan.deadlines_s if time not in none_at]
    each = [(rule, time, several) for rule in plan.rule_names for time in times]
    each += [(bound, plan.deadlines_s[0], False) for bound in plan.bounds]
    by_seeds: dict[str, list[str]] = {}
    for rule, time, timed in each:
        own = ", ".join(map(str, found.seeds([rule], time))) or NO_SEEDS
        by_seeds.setdefault(own, []).append(f"{rule} at {time:g} s" if timed else rule)
    whole = ", ".join(map(str, plan.seeds))
    if set(by_seeds) == {whole}:
        return []
    groups = sorted(by_seeds.items(), key=lambda group: (group[0] == NO_SEEDS, -len(group[1])))
    others = [f"; of {', '.join(rules)}: {own}" for own, rules in groups[1:]]
    others += [f"; at {time:g} s: {NO_SEEDS}" for time in none_at]
    compared = " Two schedulers are compared on the seeds that both have." if others else ""
    return [f"Seeds run, of {whole}: {groups[0][0]}{''.join(others)}.{compared}"]


def changed(plan: StudyPlan, summaries: Summaries) -> dict[str, tuple[Any, Any]]:
    """Return every setting in which the baseline differs from the study as it was meant, with both values."""
    every = [one.run.settings for one in summaries.runs if one.level == BASELINE]
    own = [settings for settings in every if settings.name not in REFERENCES] or every
    found = differences(plan.whole_settings, own[0]) if own else {}
    left_out = (*VARIANT, "radio.deadline_s")
    return {key: both for key, both in found.items() if not key.startswith(left_out)}


def is_shorter(changes: dict[str, tuple[Any, Any]]) -> bool:
    """Say whether a study has fewer rounds, steps, epochs, samples or test images than it was meant to have."""
    lengths = [changes[key] for key in LENGTHS if key in changes]
    totals = [[sum(value) if isinstance(value, list) else value for value in both] for both in lengths]
    return "evaluation.test_images" in changes or any(now < was for was, now in totals)


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
