"""An experiment from settings to results: one run, or schedulers × seeds × deadlines in lock-step."""

import os
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from fedteddi.checkpoint import load_checkpoint, save_checkpoint, save_failure
from fedteddi.cluster import POLL_S, Cluster, Tell, connected, cut
from fedteddi.errors import InputError
from fedteddi.laboratory import Laboratory
from fedteddi.learning.data import Dataset, load_dataset
from fedteddi.results.folder import Failure, RunFolder, check_out, check_shared, differences, locked
from fedteddi.results.reading import read_run
from fedteddi.results.runs import REFERENCES, RunRecord, Study
from fedteddi.run import Run
from fedteddi.runtimes.in_process import Exchange
from fedteddi.schedulers.registry import named_rule
from fedteddi.settings import Settings

CHECKPOINT_EVERY_S = float(os.environ.get("FEDTEDDI_CHECKPOINT_S", "10"))
THE_FOLDER_ITSELF = ""  # the name of a run that lies in no folder of runs
# What the reference bounds share: no limit of band or time.
NO_LIMITS: dict[str, Any] = {
    "scheduler": "random",
    "scheduler_options": {},
    "radio__total_hz": 1e18,
    "radio__deadline_s": 1e6,
}


@dataclass(frozen=True)
class Progress:
    """How far an experiment is, for whoever shows it."""

    rounds_done: int  # over all runs
    rounds_in_all: int
    runs: tuple[Run, ...]
    seconds: dict[str, float]  # what they went into so far: training, estimates, evaluation, the rest
    news: tuple[str, ...] = ()  # all that the user should know by now, such as that a worker died


Watch = Callable[[Progress], None]


def simulate(
    settings: Settings | None = None,
    *,
    data: Dataset | None = None,
    device: str = "cpu",
    out: str | Path | None = None,
    resume: bool = False,
    time_limit_s: float | None = None,
    watch: Watch | None = None,
    data_dir: str | Path | None = None,
    runtime: Exchange | None = None,
    **changes: Any,
) -> RunRecord:
    """Run one experiment and return its record.

    `changes` replace settings: `simulate(scheduler="random", radio__deadline_s=1.2)`. `data_dir` is where CIFAR lies,
    `runtime` are the clients, if they are not to be simulated in this process.
    """
    chosen = (settings or Settings()).changed(**changes)
    if chosen.scheduler in REFERENCES:
        raise InputError(f"{chosen.scheduler} is a reference bound: run it with compare")
    if "name" not in changes:
        chosen = chosen.changed(name=chosen.scheduler.rpartition(":")[2])
    (record,) = _play(
        {THE_FOLDER_ITSELF: chosen},
        data,
        device,
        out,
        resume,
        time_limit_s,
        watch,
        one=True,
        data_dir=data_dir,
        runtime=runtime,
    )
    if record.failure is not None:
        raise InputError(f"{record.title}: {record.failure.cause}")
    return record


def compare(
    settings: Settings | None = None,
    *,
    schedulers: Iterable[str],
    seeds: Iterable[int] = range(5),
    deadlines_s: Iterable[float] | None = None,
    data: Dataset | None = None,
    device: str = "cpu",
    out: str | Path | None = None,
    resume: bool = False,
    time_limit_s: float | None = None,
    watch: Watch | None = None,
    data_dir: str | Path | None = None,
    ray: str | None = None,
    **changes: Any,
) -> Study:
    """Run schedulers × seeds × deadlines together, on the same data, channels, delays and batches.

    A run that diverges ends there (`study.failures`); the others go on. `ray` spreads the runs over a Ray cluster
    (docs/cluster.md): its address, or "local" to start one on this machine.
    """
    base = (settings or Settings()).changed(**changes)
    rules, numbers = list(dict.fromkeys(schedulers)), list(dict.fromkeys(seeds))
    times = list(dict.fromkeys(deadlines_s)) if deadlines_s is not None else [base.radio.deadline_s]
    each: dict[str, Settings] = {}
    for settings_ in (variant(base, rule, n, t) for t in times for rule in rules for n in numbers):
        name = run_name(settings_)
        if each.setdefault(name, settings_) != settings_:
            raise InputError(
                f"two runs would both be called {name}: give your schedulers different class names"
            )
    with connected(ray, device) if ray is not None else nullcontext() as cluster:
        found = _play(
            each,
            data,
            device,
            out,
            resume,
            time_limit_s,
            watch,
            one=False,
            data_dir=data_dir,
            cluster=cluster,
        )
    return Study(tuple(found))


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
    found = _play(dict(each), data, device, out, resume, time_limit_s, watch, one=False, data_dir=data_dir)
    return dict(zip(each, found, strict=True))


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


def variant(base: Settings, scheduler: str, seed: int, deadline_s: float) -> Settings:
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
        scheduler_options=common | rule.options,
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
        radio__gain_trace="",  # they are about N clients, and nothing is sent
        radio__compute_trace="",
    )


def run_name(settings: Settings) -> str:
    """Return the folder of one run of a comparison."""
    deadline = "" if settings.name in REFERENCES else f"-d{settings.radio.deadline_s:.12g}"
    return f"{settings.name}{deadline}-s{settings.seed}"


def _play(
    each: dict[str, Settings],  # by the name of their folder inside `out`
    data: Dataset | None,
    device: str,
    out: str | Path | None,
    resume: bool,
    time_limit_s: float | None,
    watch: Watch | None,
    *,
    one: bool,
    data_dir: str | Path | None = None,
    runtime: Exchange | None = None,
    cluster: Cluster | None = None,
) -> list[RunRecord]:
    if not each:
        raise InputError("there is nothing to run: name at least one scheduler, seed and deadline")
    stop_at = None if time_limit_s is None else time.monotonic() + time_limit_s
    folder = None if out is None else Path(out)
    if folder is not None and folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is a file: choose a folder with --out")
    chosen = list(each.values())
    if data is not None:
        chosen = [
            settings.changed(dataset=data.name) for settings in chosen
        ]  # so that the record does not claim another
    if folder is not None:
        check_out(folder, resume=resume, one=one)
    if data is None:
        data = load_dataset(chosen[0].dataset, data_dir)
    # With a cluster, this process only finds out whether all is well.
    laboratory = Laboratory(chosen[0], data, device if cluster is None else "cpu", runtime)
    # All before the folder is made: if something is wrong, nothing is left behind.
    runs = [laboratory.new_run(settings) for settings in chosen]
    try:
        with locked(folder) if folder is not None else nullcontext() as holder:
            if cluster is not None:
                _play_spread(cluster, laboratory.data, runs, folder, holder, stop_at, watch)
            else:
                folders = None if folder is None else [folder / name for name in each]
                _play_here(laboratory, runs, folders, stop_at, watch)
    except OSError as error:  # such as a full disk
        raise _unwritable(folder, error) from None
    return [_record(run) for run in runs]


def _unwritable(folder: Path | None, error: OSError) -> InputError:
    return InputError(
        f"{folder or 'a file'} could not be written ({error.strerror or error}): what was written before is kept;"
        " make room and repeat with --resume"
    )


def _play_here(
    laboratory: Laboratory,
    runs: list[Run],
    folders: list[Path] | None,
    stop_at: float | None,
    watch: Watch | None,
) -> None:
    try:
        if folders is not None:
            for run, own in zip(runs, folders, strict=True):
                _attach(run, RunFolder(own), laboratory)
        _advance_all(laboratory, runs, stop_at, watch)
    finally:
        for run in runs:
            if run.folder is not None:
                run.folder.close()


def _record(run: Run) -> RunRecord:
    return RunRecord.of(run.settings, run.plan, run.records, run.finished, run.failure)


def _attach(run: Run, folder: RunFolder, laboratory: Laboratory) -> None:
    """Give a run its folder: a new one, or one with a checkpoint to go on from."""
    scenario = {
        "data": laboratory.data.fingerprint,
        "counts": [frame.counts.tolist() for frame in run.plan.frames],
    }
    if folder.checkpoint.exists():
        folder.check_scenario(scenario)
        load_checkpoint(run, folder)
        folder.note_machine(laboratory.engine.name)
        return
    if folder.has_rounds():  # somebody removed the weights: what was found must not be overwritten
        folder.check_scenario(scenario)
        kept = read_run(folder.path)
        if kept.settings != run.settings or not kept.finished:
            raise InputError(
                f"{folder.path} holds rounds but no checkpoint: it cannot be continued; choose another --out"
            )
        run.records, run.finished = list(kept.records), True
        return
    folder.start(run.settings, scenario, laboratory.engine.name)
    run.folder = folder
    save_checkpoint(run)


def _advance_all(laboratory: Laboratory, runs: list[Run], stop_at: float | None, watch: Watch | None) -> None:
    in_all = sum(sum(run.settings.rounds) for run in runs)
    started_at = saved_at = time.monotonic()
    last_s: deque[float] = deque(maxlen=20)  # not all: the first round may compile programs, and never again
    saving_s = 0.0
    started = [run for run in runs if not run.over]
    while active := [run for run in runs if not run.over]:
        if stop_at is not None and time.monotonic() + 1.5 * max(last_s, default=0.0) + saving_s > stop_at:
            break
        began = time.monotonic()
        fresh = [run for run in active if not run.records]
        # A run's first step may pre-train: on a CPU one at a time, to stop in time.
        laboratory.advance((fresh if laboratory.engine.together else fresh[:1]) or active)
        if not fresh:  # pre-training says nothing about how long a round takes
            last_s.append(time.monotonic() - began)
        for run in active:
            if run.failure is not None:
                save_failure(run)
        began = time.monotonic()
        # At most a twentieth of the time goes into saving; 0 means after every round.
        pause_s = max(CHECKPOINT_EVERY_S, 20 * saving_s) if CHECKPOINT_EVERY_S else 0.0
        if began - saved_at >= pause_s:
            for run in active:
                save_checkpoint(run)
            saved_at = time.monotonic()
            saving_s = saved_at - began
        if watch is not None:
            spent = dict(laboratory.engine.seconds)
            spent["the rest"] = max(0.0, time.monotonic() - started_at - sum(spent.values()))
            watch(Progress(sum(run.state.rounds_done for run in runs), in_all, tuple(runs), spent))
    for run in started:
        save_checkpoint(run)


# --- on a cluster (docs/cluster.md)


@dataclass(frozen=True)
class Group:
    """Runs that one worker plays in lock-step."""

    each: list[Settings]
    device: str
    folder: Path | None  # of all runs, with what its lock says
    holder: str | None
    stop_at: float | None  # of time.time(): clocks of other machines count from elsewhere


@dataclass(frozen=True)
class Account:
    """How far one run is, as its worker tells it."""

    frame: int
    round: int
    rounds_done: int
    records: list[dict[str, Any]] = field(repr=False)
    finished: bool
    failure: Failure | None

    @classmethod
    def of(cls, run: Run, records: list[dict[str, Any]]) -> "Account":
        """Give account of a run, with some of its records."""
        state = run.state
        return cls(state.frame, state.round, state.rounds_done, records, run.finished, run.failure)

    def take_over(self, run: Run) -> None:
        """Show in a run of this process what became of it elsewhere."""
        run.state.frame, run.state.round, run.state.rounds_done = self.frame, self.round, self.rounds_done
        run.records, run.finished, run.failure = self.records, self.finished, self.failure


def _play_spread(
    cluster: Cluster,
    data: Dataset,
    runs: list[Run],
    folder: Path | None,
    holder: str | None,
    stop_at: float | None,
    watch: Watch | None,
) -> None:
    """Let a cluster's workers play the runs in groups, and take over what they tell and answer."""
    over = [(found := _found(run, folder)) is not None and (found.finished or found.failure) for run in runs]
    numbers = cut([run.settings.seed for run in runs], [bool(done) for done in over], cluster.places)
    groups = [[runs[number] for number in group] for group in numbers]
    own = None if folder is None else folder.resolve()
    until = None if stop_at is None else time.time() + stop_at - time.monotonic()
    started_at, in_all = time.monotonic(), sum(sum(run.settings.rounds) for run in runs)

    def look(told: dict[int, tuple[list[Account], dict[str, float]]], news: list[str]) -> None:
        spent: dict[str, float] = {}
        for number, (accounts, seconds) in told.items():
            for run, account in zip(groups[number], accounts, strict=True):
                account.take_over(run)
            for purpose, value in seconds.items():
                spent[purpose] = spent.get(purpose, 0.0) + value
        if watch is not None:
            # All groups' shares, of the time that passes here.
            passed, total = time.monotonic() - started_at, sum(spent.values())
            spent = {purpose: passed * value / total for purpose, value in spent.items() if total}
            watch(
                Progress(sum(run.state.rounds_done for run in runs), in_all, tuple(runs), spent, tuple(news))
            )

    asked = {
        _group_name(number, groups): Group(
            [run.settings for run in group], cluster.device, own, holder, until
        )
        for number, group in enumerate(groups)
    }
    answers = cluster.spread(_play_group, data, asked, look, until)
    for group, accounts in zip(groups, answers, strict=True):
        for place, run in enumerate(group):
            if accounts is not None:
                accounts[place].take_over(run)
            elif (
                found := _found(run, folder)
            ) is not None:  # not begun in time; what there was is still there
                run.records, run.finished, run.failure = list(found.records), found.finished, found.failure


def _group_name(number: int, groups: list[list[Run]]) -> str:
    names = [run_name(run.settings) for run in groups[number]]
    more = f" and {len(names) - 2} more" if len(names) > 2 else ""
    return f"group {number + 1} of {len(groups)} ({', '.join(names[:2])}{more})"


def _found(run: Run, folder: Path | None) -> RunRecord | None:
    """Return what a folder holds of a run; nothing if that cannot be read, which its worker will say."""
    if folder is None:
        return None
    try:
        return read_run(folder / run_name(run.settings))
    except InputError:
        return None


def _play_group(data: Dataset, group: Group, tell: Tell) -> list[Account]:
    """Play runs in lock-step in a cluster's worker; return what became of each."""
    if group.device == "cpu":
        torch.set_num_threads(1)  # a core each; and rounding depends on it
    stop_at = None if group.stop_at is None else time.monotonic() + group.stop_at - time.time()
    laboratory = Laboratory(group.each[0], data, group.device)
    runs = [laboratory.new_run(settings) for settings in group.each]
    told_at = 0.0

    def report(state: Progress) -> None:
        nonlocal told_at
        if time.monotonic() - told_at >= POLL_S or state.rounds_done == state.rounds_in_all:
            told_at = time.monotonic()
            tell(([Account.of(run, _last_records(run)) for run in runs], state.seconds))

    with ExitStack() as locks:
        folders = None
        if group.folder is not None:
            check_shared(group.folder, group.holder or "")
            folders = [group.folder / run_name(run.settings) for run in runs]
            for own in folders:  # one that was given up but lives on must not write beside its successor
                locks.enter_context(locked(own))
        try:
            _play_here(laboratory, runs, folders, stop_at, report)
        except OSError as error:
            raise _unwritable(group.folder, error) from None
    return [Account.of(run, run.records) for run in runs]


def _last_records(run: Run) -> list[dict[str, Any]]:
    """Return what tells how far a run is: its last round at which it was judged, and its last round."""
    judged = [record for record in run.records[:-1] if "balanced" in record]
    return [*judged[-1:], *run.records[-1:]]
