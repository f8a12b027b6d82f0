"""An experiment from settings to results: one run, schedulers × seeds × deadlines, or any settings together."""

import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from fedteddi.errors import InputError, shown
from fedteddi.learning.datasets.dataset import Dataset, load_dataset
from fedteddi.registry import name_of, option_defaults
from fedteddi.results.folder import RunFolder, check_out, differences, locked
from fedteddi.results.runs import REFERENCES, RunRecord, Study
from fedteddi.schedulers.registry import SCHEDULERS, find_scheduler, named_rule
from fedteddi.settings import Settings
from fedteddi.simulation.in_process import Exchange
from fedteddi.simulation.laboratory import Laboratory
from fedteddi.simulation.parallel.cluster import Cluster, connected
from fedteddi.simulation.parallel.groups import play_in_groups
from fedteddi.simulation.session import Progress, Watch, play_together, writing_into

__all__ = ["Progress", "Watch", "compare", "play", "reference", "run_name", "simulate", "variant"]

THE_FOLDER_ITSELF = ""  # the name of a run that lies in no folder of runs
# What the reference bounds share: no limit of band or time.
NO_LIMITS: dict[str, Any] = {
    "scheduler": "random",
    "scheduler_options": {},
    "radio__total_hz": 1e18,
    "radio__deadline_s": 1e6,
}


def simulate(
    settings: Settings | None = None,
    *,
    data: Dataset | None = None,
    device: str = "cpu",
    out: str | Path | None = None,
    resume: bool = False,
    allow_changed: bool = False,
    time_limit_s: float | None = None,
    watch: Watch | None = None,
    data_dir: str | Path | None = None,
    runtime: Exchange | None = None,
    **changes: Any,
) -> RunRecord:
    """Run one experiment and return its record.

    `changes` replace settings: `simulate(scheduler="random", radio__deadline_s=1.2)`; where a part has a name, its
    class, an instance or a function will do: `simulate(scheduler=MyRule)`. `data_dir` is where CIFAR lies, `runtime`
    are the clients, if they are not to be simulated in this process. `allow_changed` resumes a run although the code
    of your own parts has changed.
    """
    if "scheduler" in changes:
        changes["scheduler"] = name_of(changes["scheduler"], SCHEDULERS)
    chosen = (settings or Settings()).changed(**changes)
    if chosen.scheduler in REFERENCES:
        raise InputError(f"{chosen.scheduler} is a reference bound: run it with compare")
    if "name" not in changes:
        chosen = chosen.changed(name=chosen.scheduler.rpartition(":")[2])
    record = _play(
        {THE_FOLDER_ITSELF: chosen},
        data=data,
        device=device,
        out=out,
        resume=resume,
        allow_changed=allow_changed,
        time_limit_s=time_limit_s,
        watch=watch,
        data_dir=data_dir,
        one=True,
        runtime=runtime,
    )[THE_FOLDER_ITSELF]
    if record.failure is not None:
        raise InputError(f"{record.title}: {record.failure.cause}")
    return record


def compare(
    settings: Settings | None = None,
    *,
    schedulers: Iterable[str | Any],
    seeds: Iterable[int] = range(5),
    deadlines_s: Iterable[float] | None = None,
    data: Dataset | None = None,
    device: str = "cpu",
    out: str | Path | None = None,
    resume: bool = False,
    allow_changed: bool = False,
    time_limit_s: float | None = None,
    watch: Watch | None = None,
    data_dir: str | Path | None = None,
    ray: str | None = None,
    options: Mapping[str, Any] | None = None,
    **changes: Any,
) -> Study:
    """Run schedulers × seeds × deadlines together, on the same data, channels, delays and batches.

    `options` are given to every scheduler that has them, such as `{"on_no_fit": "skip"}`; what a scheduler is named
    with comes first: `fedteddi[on_no_fit=stop]`.
    A run that diverges ends there (`study.failures`); the others go on. `ray` spreads the runs over a Ray cluster
    (docs/cluster.md): its address, or "local" to start one on this machine. A scheduler may also be a class, an
    instance or a function of yours.
    """
    base = (settings or Settings()).changed(**changes)
    rules = _named(schedulers)
    numbers = list(dict.fromkeys(seeds))
    times = list(dict.fromkeys(deadlines_s)) if deadlines_s is not None else [base.radio.deadline_s]
    shared = shared_options(rules, options or {})
    for key in options or {}:
        if not any(key in given for given in shared.values()):
            raise InputError(f"none of {', '.join(rules)} has an option {shown(key)}: leave it out")
    each: dict[str, Settings] = {}
    for settings_ in (
        variant(base, rule, n, t, shared[rule]) for t in times for rule in rules for n in numbers
    ):
        name = run_name(settings_)
        if each.setdefault(name, settings_) != settings_:
            raise InputError(
                f"two runs would both be called {name}: give your schedulers different class names"
            )
    with connected(ray, device) if ray is not None else nullcontext() as cluster:
        found = _play(
            each,
            data=data,
            device=device,
            out=out,
            resume=resume,
            allow_changed=allow_changed,
            time_limit_s=time_limit_s,
            watch=watch,
            data_dir=data_dir,
            cluster=cluster,
        )
    return Study(tuple(found.values()))


def _named(schedulers: Iterable[str | Any]) -> list[str]:
    """Return the schedulers' names, each once; different objects must have different ones."""
    found: dict[str, Any] = {}
    for given in schedulers:
        name = name_of(given, SCHEDULERS)
        if found.setdefault(name, given) is not given and not isinstance(given, str):
            raise InputError(f"two different schedulers are called {name}: give them different names")
    return list(found)


def play(
    each: Mapping[str, Settings],
    *,
    data: Dataset | None = None,
    device: str = "cpu",
    out: str | Path | None = None,
    resume: bool = False,
    time_limit_s: float | None = None,
    watch: Watch | None = None,
    data_dir: str | Path | None = None,
) -> dict[str, RunRecord]:
    """Run any settings together, in lock-step; return their records by the same names.

    They may differ in everything but what the device shares: data set, test images, model, precision and batch size. A
    name is the run's folder inside `out`, and may lead through others: `tau-5/random-d1.2-s0`.
    """
    first = next(iter(each.values()), None)
    for name, settings in each.items():
        if first is not None and (different := differences(_on_device(first), _on_device(settings))):
            key, (was, now) = next(iter(different.items()))
            raise InputError(
                f"{name}: {key}={now!r} cannot run together with {was!r}: all runs must share the data, the model,"
                " the precision and the batch size"
            )
    return _play(
        each,
        data=data,
        device=device,
        out=out,
        resume=resume,
        time_limit_s=time_limit_s,
        watch=watch,
        data_dir=data_dir,
    )


def _on_device(settings: Settings) -> Settings:
    """Return settings in which only that is left which all runs on a device share."""
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
        bound = scheduler in REFERENCES or not options
        rule = None if bound else find_scheduler(named_rule(scheduler).scheduler)
        known = option_defaults(rule) if isinstance(rule, type) else {}
        shared[scheduler] = {key: value for key, value in options.items() if known is None or key in known}
    return shared


def variant(
    base: Settings,
    scheduler: str,
    seed: int,
    deadline_s: float,
    options: Mapping[str, Any] | None = None,
) -> Settings:
    """Return the settings of one run of a comparison; a rule may have options: `fedteddi[search=refined]`."""
    if scheduler in REFERENCES:
        return reference(base.changed(name=scheduler, seed=seed, **NO_LIMITS))
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


def reference(unlimited: Settings) -> Settings:
    """Return the settings of a reference bound: `everyone` as it is, `centralised` on all data in one place.

    The one client that stands for all N trains on batches of N·b images: as many a round as all of them together.
    """
    if unlimited.name != "centralised":
        return unlimited
    return unlimited.changed(
        scenario__pooled=True,
        training__batch_size=unlimited.training.batch_size * unlimited.scenario.clients,
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


def _play(
    each: Mapping[str, Settings],  # by the names of their folders inside `out`
    *,
    data: Dataset | None,
    device: str,
    out: str | Path | None,
    resume: bool,
    allow_changed: bool = False,
    time_limit_s: float | None,
    watch: Watch | None,
    data_dir: str | Path | None,
    one: bool = False,
    runtime: Exchange | None = None,
    cluster: Cluster | None = None,
) -> dict[str, RunRecord]:
    if not each:
        raise InputError("there is nothing to run: name at least one scheduler, seed and deadline")
    stop_at = None if time_limit_s is None else time.monotonic() + time_limit_s
    folder = None if out is None else Path(out)
    if folder is not None:
        if folder.exists() and not folder.is_dir():
            raise InputError(f"{folder} is a file: choose a folder with --out")
        check_out(folder, resume=resume, one=one)
    first = next(iter(each.values()))
    if data is None:
        data = load_dataset(first.dataset, data_dir)
    else:  # the record must not claim another
        each = {name: settings.changed(dataset=data.name) for name, settings in each.items()}
    # With a cluster, this process only finds out whether all is well.
    laboratory = Laboratory(first, data, device if cluster is None else "cpu", runtime)
    # All before the folder is made: if something is wrong, nothing is left behind.
    runs = {name: laboratory.new_run(settings) for name, settings in each.items()}
    if folder is not None and not allow_changed:
        for name, run in runs.items():
            RunFolder(folder / name).check_plugins(run.plugins)
    with writing_into(folder), locked(folder) if folder is not None else nullcontext() as holder:
        if cluster is None:
            play_together(laboratory, runs, folder, stop_at, watch)
        else:
            play_in_groups(cluster, laboratory.data, runs, folder, holder, stop_at, watch)
    return {
        name: RunRecord.of(run.settings, run.plan, run.records, run.finished, run.failure)
        for name, run in runs.items()
    }
