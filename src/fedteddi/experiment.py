"""An experiment from settings to results: one run, schedulers × seeds × deadlines, or any settings together."""

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from fedteddi.errors import InputError, nearest_hint, shown
from fedteddi.given import PYTHON, label_in
from fedteddi.registry import option_defaults
from fedteddi.results.folder import differences
from fedteddi.results.runs import REFERENCES, RunRecord, Study
from fedteddi.schedulers.registry import find_scheduler, named_rule, own_name, rule_text
from fedteddi.settings import Settings
from fedteddi.simulation.play import THE_FOLDER_ITSELF, RunOptions, play_runs, split_keywords
from fedteddi.simulation.progress import Progress, Watch

__all__ = [
    "Experiment",
    "Progress",
    "RunOptions",
    "Watch",
    "compare",
    "play",
    "play_in_turn",
    "run_name",
    "simulate",
    "variant",
]


Experiment = Settings | str | Path  # settings, a .toml file, or a name of `fedteddi list experiments`


def simulate(
    settings: Experiment | None = None, *, run: RunOptions | None = None, **changes: Any
) -> RunRecord:
    """Run one experiment, such as `simulate("evolving")` or `simulate("my.toml")`, and return its record.

    `changes` replace settings: `simulate(scheduler="random", radio__deadline_s=1.2)`; where a part has a name, its
    class, an instance or a function will do: `simulate(scheduler=MyRule)`. What `RunOptions` has may be given as
    keywords too: `simulate(out="runs/mine", resume=True, device="auto", data=my_data)`.
    """
    how, changes = split_keywords(run, changes)
    if isinstance(changes.get("scheduler"), str) and (rule := named_rule(changes["scheduler"])).options:
        rule = rule.having(changes.pop("scheduler_options", {}))
        changes = {"name": rule.name} | changes
        changes |= {"scheduler": rule.scheduler, "scheduler_options": rule.options}
    chosen = settings_of(settings).changed(**changes)
    if chosen.scheduler in REFERENCES:
        raise InputError(f"{chosen.scheduler} is a reference bound: run it with compare")
    if "name" not in changes:
        chosen = chosen.changed(name=own_name(chosen.scheduler))
    record = play_runs({THE_FOLDER_ITSELF: chosen}, how)[THE_FOLDER_ITSELF]
    if record.failure is not None:
        raise InputError(f"{record.title}: {record.failure.cause}")
    return record


def compare(
    settings: Experiment | None = None,
    *,
    schedulers: Iterable[str | Any],
    seeds: int | Iterable[int] = range(5),
    deadlines_s: Iterable[float] | None = None,
    options: Mapping[str, Any] | None = None,
    run: RunOptions | None = None,
    **changes: Any,
) -> Study:
    """Run schedulers × seeds × deadlines together, on the same data, channels, delays and batches.

    A scheduler may also be a class, an instance or a function of yours. `seeds` names them, or says how many. `options`
    are given to every scheduler that has them, such as `{"on_no_fit": "skip"}`; what a scheduler is named with comes
    first: `fedteddi[on_no_fit=stop]`. `changes` replace settings; what `RunOptions` has may be given as keywords too:
    `compare(…, out="runs/mine")`. A run that diverges ends there (`study.failures`); the others go on. `ray` spreads
    the runs over a Ray cluster (docs/cluster.md).
    """
    how, changes = split_keywords(run, changes)
    base = settings_of(settings).changed(**changes)
    each = runs_of(base, named_schedulers(schedulers), seeds_of(seeds), deadlines_s, options or {})
    return Study(tuple(play_runs(each, how).values()))


def runs_of(
    base: Settings,
    rules: Sequence[str],
    seeds: Iterable[int],
    deadlines_s: Iterable[float] | None,
    options: Mapping[str, Any],
) -> dict[str, Settings]:
    """Return the settings of every run of a comparison, by the names of their folders."""
    numbers = list(dict.fromkeys(seeds))
    times = list(dict.fromkeys(deadlines_s)) if deadlines_s is not None else [base.radio.deadline_s]
    shared = shared_options(rules, options)
    for key in options:
        if not any(key in given for given in shared.values()):
            names = {own for rule in rules if rule not in REFERENCES for own in _options_of(rule) or ()}
            raise InputError(
                f"none of {', '.join(rules)} has an option {shown(key)}{nearest_hint(key, names)}: leave it out"
            )
    each: dict[str, Settings] = {}
    for one in (variant(base, rule, n, t, shared[rule]) for t in times for rule in rules for n in numbers):
        name = run_name(one)
        if each.setdefault(name, one) != one:
            raise InputError(f"two runs would both be called {name}: give your schedulers different names")
    return each


def seeds_of(given: int | Iterable[int]) -> list[int]:
    """Return seeds, each once: those that are given, or so many from 0 on."""
    return list(dict.fromkeys(map(int, range(given) if isinstance(given, int) else given)))


def settings_of(given: Experiment | None) -> Settings:
    """Return an experiment's settings; the defaults where none is given."""
    if given is None:
        return Settings()
    return given if isinstance(given, Settings) else Settings.load(given)


def named_schedulers(schedulers: Iterable[str | Any]) -> list[str]:
    """Return the schedulers' names, each once; objects without a name of their own must be called differently."""
    found: dict[str, Any] = {}
    for given in [schedulers] if isinstance(schedulers, str) else schedulers:
        name = called = given if isinstance(given, str) else rule_text(given)
        if not isinstance(given, str) and name.startswith(PYTHON):
            called = f"{PYTHON}{label_in(name)}"
        if found.setdefault(called, name) != name:
            raise InputError(f"two different schedulers are called {called}: give them different names")
    return list(found.values())


def play(
    each: Mapping[str, Settings],
    *,
    run: RunOptions | None = None,
    name_unused: bool = False,
    **keywords: Any,
) -> dict[str, RunRecord]:
    """Run any settings together, in lock-step; return their records by the same names.

    They may differ in everything but what the device shares: data set, test images, model, precision and batch size. A
    name is the run's folder inside `out`, and may lead through others: `tau-5/random-d1.2-s0`. `name_unused` warns of
    settings that none of them uses, as `simulate` and `compare` do.
    """
    how, unknown = split_keywords(run, keywords)
    if unknown:
        raise TypeError(f"play() takes no {next(iter(unknown))}: give what RunOptions has")
    first = next(iter(each.values()), None)
    for name, settings in each.items():
        if first is not None and (different := differences(on_device(first), on_device(settings))):
            key, (was, now) = next(iter(different.items()))
            raise InputError(
                f"{name}: {key}={now!r} cannot run together with {was!r}: all runs must share the data, the model,"
                " the precision and the batch size"
            )
    return play_runs(each, how, name_unused=name_unused)


def play_in_turn(
    each: Mapping[str, Settings], *, run: RunOptions | None = None, **keywords: Any
) -> dict[str, RunRecord]:
    """Play any settings: those that cannot share a device, such as other models, one group after the other."""
    how, unknown = split_keywords(run, keywords)
    stop_at = None if how.time_limit_s is None else time.monotonic() + how.time_limit_s
    groups: dict[str, dict[str, Settings]] = {}
    for name, settings in each.items():
        groups.setdefault(repr(on_device(settings)), {})[name] = settings
    found: dict[str, RunRecord] = {}
    for group in groups.values():
        left_s = None if stop_at is None else max(0.0, stop_at - time.monotonic())
        own = replace(how, resume=how.resume or bool(found), time_limit_s=left_s)
        found |= play(group, run=own, name_unused=True, **unknown)
    return found


def on_device(settings: Settings) -> Settings:
    """Return settings in which only that is left which all runs that are played together share."""
    training = settings.training
    return Settings().changed(
        dataset=settings.dataset,
        training__model=training.model,
        training__precision=training.precision,
        training__batch_size=training.batch_size,
        evaluation__test_images=settings.evaluation.test_images,
    )


def shared_options(schedulers: Sequence[str], options: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return which of the options each scheduler has."""
    shared: dict[str, dict[str, Any]] = {}
    for scheduler in schedulers:
        known = {} if scheduler in REFERENCES or not options else _options_of(scheduler)
        shared[scheduler] = {key: value for key, value in options.items() if known is None or key in known}
    return shared


def _options_of(scheduler: str) -> dict[str, object] | None:
    """Return a scheduler's options; None if it takes anything."""
    rule = find_scheduler(named_rule(scheduler).scheduler)
    return option_defaults(rule) if isinstance(rule, type) else {}


def variant(
    base: Settings,
    scheduler: str,
    seed: int,
    deadline_s: float,
    options: Mapping[str, Any] | None = None,
) -> Settings:
    """Return the settings of one run of a comparison; a rule may have options: `fedteddi[search=refined]`."""
    if scheduler in REFERENCES:
        return _reference(base, scheduler, seed)
    rule = named_rule(scheduler)
    if rule.name in REFERENCES:
        raise InputError(
            f"{scheduler}: {rule.name} is the name of a reference bound: give your class another"
        )
    common = base.scheduler_options if rule.scheduler == base.scheduler else {}
    return base.changed(
        name=rule.name,
        scheduler=rule.scheduler,
        scheduler_options=common | dict(options or {}) | rule.options,
        seed=seed,
        radio__deadline_s=deadline_s,
    )


def _reference(base: Settings, name: str, seed: int) -> Settings:
    """Return the settings of a reference bound: `everyone` uploads, or `centralised`, all data in one place.

    Neither has a band or a deadline. The one client that stands for all N trains on batches of N·b images: as many a
    round as all of them together.
    """
    bound = base.changed(name=name, seed=seed, scheduler="everyone", scheduler_options={})
    if name != "centralised":
        return bound
    return bound.changed(
        scenario__pooled=True,
        training__batch_size=base.training.batch_size * base.scenario.clients,
        training__local_training="sgd",  # there are no other clients to stay near
        training__local_training_options={},
        radio__channel="shadowing",  # nothing is sent, and a channel of one's own may be about N clients
        radio__channel_options={},
        radio__gain_trace="",
        radio__compute_trace="",
        server__aggregation="fedavg",  # there is one upload, and it is the model
        server__aggregation_options={},
    )


def run_name(settings: Settings) -> str:
    """Return the folder of one run of a comparison."""
    deadline = "" if settings.name in REFERENCES else f"-d{settings.radio.deadline_s:.12g}"
    return f"{settings.name}{deadline}-s{settings.seed}"
