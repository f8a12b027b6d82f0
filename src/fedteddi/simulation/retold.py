"""Recorded decisions told again: the round as its scheduler saw it, from seed, settings and record.

Positions, gains, delays and batches follow from the seed, L̂^(c) and σ̂ from the record. What is told is asked of the
rule again, and believed only if it chooses the recorded set and gives it the recorded objective.
"""

import contextlib
import dataclasses
import math
from pathlib import Path
from typing import TypeVar

import numpy as np

from fedteddi.errors import InputError
from fedteddi.heterogeneity.mixes import class_mix
from fedteddi.heterogeneity.objective import Objective
from fedteddi.heterogeneity.sharing import bounded_counts
from fedteddi.learning.datasets.dataset import load_dataset
from fedteddi.protocol.record import RoundRecord
from fedteddi.protocol.server import needs_of
from fedteddi.randomness import keyed_rng
from fedteddi.results.page.cell import World, world_of
from fedteddi.results.page.decisions import Retold
from fedteddi.results.page.own_code import refuse_own_code
from fedteddi.results.runs import RunRecord
from fedteddi.schedulers.objectives import has_objective
from fedteddi.schedulers.registry import make_scheduler
from fedteddi.schedulers.schedule import AnyScheduler, choice_of, remembers
from fedteddi.schedulers.search.exact import UnsolvedError, exact
from fedteddi.schedulers.search.greedy import Found
from fedteddi.schedulers.search.problem import SearchProblem
from fedteddi.schedulers.search.refined import refined
from fedteddi.schedulers.view import RoundView
from fedteddi.simulation.clients import Clients
from fedteddi.simulation.seed_world import SeedWorld

AGREES = 1e-6  # relative: the objective that is told again, and the recorded one
MOST_CLIENTS = 200  # a larger round takes too long to be searched for each decision of a page
PROOF_S = 4.0  # the most that one proof may take
T = TypeVar("T")
UPDATES = frozenset({"loss", "update_norm", "update_sketch"})  # numbers that only training tells


class CannotTellError(InputError):
    """A decision cannot be told again; the text says why."""


class Retelling:
    """Tells decisions again; what the runs of a seed share is made once."""

    def __init__(self, data_dir: str | Path | None = None) -> None:
        self.data_dir = data_dir
        self._seeds: dict[tuple[str, int], SeedWorld] = {}
        self._worlds: dict[str, World | None] = {}

    def __call__(self, run: RunRecord, record: RoundRecord, prove: bool) -> Retold | str:
        """Return a decision of a run, with the best set known and, to `prove`, the optimum; or why it cannot."""
        try:
            return self._told(run, record, prove)
        except (InputError, OSError, ValueError) as error:
            return str(error)
        except Exception as error:  # an installed rule may raise anything, and the page is made all the same
            return f"{type(error).__name__}: {error}"

    def _told(self, run: RunRecord, record: RoundRecord, prove: bool) -> Retold:
        settings = run.settings
        refuse_own_code(settings, "scheduler", "radio.channel", "scenario.replay")
        if not settings.dataset.endswith(".npz"):
            refuse_own_code(settings, "dataset")
        rule = make_scheduler(settings.scheduler, **settings.scheduler_options)
        evaluating = rule
        if not has_objective(evaluating):
            raise CannotTellError("the rule ranks clients and has no objective")
        _check_tellable(run, record, rule)
        view = self._view(run, record, rule)
        rng = keyed_rng(settings.seed, "scheduler", frame=record.frame, round=record.round)
        chosen, _ = choice_of(rule, view, rng)
        objective = evaluating.objective(view)
        if chosen.clients != tuple(record.clients) or not _agrees(objective, record):
            raise CannotTellError(
                "computed again it comes out otherwise (another version, machine or data set)"
            )
        total = objective.terms(chosen.clients).total
        problem = SearchProblem.build(
            objective, clients=view.schedulable, needed_hz=view.needed_hz, total_hz=view.total_hz
        )
        how = str(getattr(rule, "search", ""))
        best, proven = _best(problem, how, total, prove, settings.seed)
        trace = None if chosen.trace is None else dataclasses.asdict(chosen.trace)
        return Retold(trace=trace, total=total, best=best, proven=proven)

    def _view(self, run: RunRecord, record: RoundRecord, rule: AnyScheduler) -> RoundView:
        """Return the round as the server saw it before it chose, all clients' reports at hand."""
        settings, frame, number = run.settings, record.frame, record.round
        clients, world = self._clients(run), self._world(run)
        if world is None or world.environment is None or world.model_bits is None:
            raise CannotTellError("" if world is None else world.note)
        everyone = tuple(range(clients.plan.num_clients))
        counts, environment = clients.plan.frames[frame].counts, world.environment
        gain, compute_s = environment.channel_gain(frame, number), environment.compute_s(frame, number)
        mix = np.array([clients.reported_mix(frame, n) for n in everyone])  # [N, C]
        before = mix if frame == 0 else np.array([clients.reported_mix(frame - 1, n) for n in everyone])
        batches = clients.world.batch_counts(clients.plan, frame, number, everyone, settings.training)
        clients.world.begin(())  # forget this round's draws
        earlier = [one for one in run.records if one.frame == frame and 0 < one.round < number]
        return RoundView(
            frame=frame,
            round=number,
            rounds_in_frame=settings.rounds[frame],
            batch_size=settings.training.batch_size,
            total_hz=settings.radio.total_hz,
            num_samples=bounded_counts(counts.sum(axis=1), settings.server.max_sample_share),
            batch_mix=class_mix(batches),
            data_mix=mix,
            previous_data_mix=before,
            needed_hz=_known(world.needed_hz(frame, number)),
            channel_gain=gain,
            times_scheduled=np.bincount([n for one in earlier for n in one.clients], minlength=len(everyone)),
            gradient_std=_known(record.gradient_std) if "gradient_std" in needs_of(rule) else 0.0,
            class_norm=_class_norm(run, earlier, rule, counts.shape[1]),
            classes_seen=clients.plan.classes_seen(frame),
            compute_s=compute_s,
            download_s=environment.download_s(gain, world.model_bits),
            deadline_s=settings.radio.deadline_s,
            model_bits=world.model_bits,
        )

    def _clients(self, run: RunRecord) -> Clients:
        """Return the clients of a run; their data must be what was recorded."""
        settings = run.settings
        key = settings.dataset, settings.seed
        if key not in self._seeds:
            self._seeds[key] = SeedWorld(settings.seed, load_dataset(settings.dataset, self.data_dir))
        world = self._seeds[key]
        plan = world.plan(settings)
        if not np.array_equal(np.stack([frame.counts for frame in plan.frames]), run.counts):
            raise CannotTellError("the data set here is not the one that was played on")
        return Clients(settings, plan, world)

    def _world(self, run: RunRecord) -> World | None:
        settings = run.settings
        key = f"{settings.seed} {settings.radio.model_dump_json()} {settings.training.model} {run.title}"
        if key not in self._worlds:
            self._worlds[key] = world_of([run])
        return self._worlds[key]


def _check_tellable(run: RunRecord, record: RoundRecord, rule: AnyScheduler) -> None:
    """Refuse what the record cannot bring back."""
    if run.counts.shape[1] > MOST_CLIENTS:
        raise CannotTellError(
            f"rounds of more than {MOST_CLIENTS} clients are not searched again for this page"
        )
    if remembers(rule) or needs_of(rule) & UPDATES:
        raise CannotTellError("the rule depends on more than is on record")
    if record.failures:
        raise CannotTellError("some clients' answers were missing or rejected in this round")
    if not record.clients or record.objective is None:
        raise CannotTellError("this round has none on record")


def _class_norm(run: RunRecord, earlier: list[RoundRecord], rule: AnyScheduler, classes: int) -> np.ndarray:
    """Return L̂^(c) as the scheduler had it: that after the round before, [C]."""
    if "class_norm" not in needs_of(rule):
        return np.ones(classes)
    if earlier:
        return np.array(_known(earlier[-1].class_norm))
    if run.settings.estimates.first_class_norm == "ones":
        return np.ones(classes)
    raise CannotTellError("L̂ at a frame's first round is estimated before it, and not on record")


def _agrees(objective: Objective, record: RoundRecord) -> bool:
    recorded = (record.objective or {}).get("total", math.nan)
    return math.isclose(objective.terms(record.clients).total, recorded, rel_tol=AGREES, abs_tol=AGREES)


def _best(
    problem: SearchProblem, how: str, total: float, prove: bool, seed: int
) -> tuple[float | None, bool]:
    """Return the lowest objective that is found and whether it is proven; None where only the rule itself searched."""
    rng = keyed_rng(seed, "scheduler")
    if prove and problem.distance == "absolute" and problem.all_samples is None and how != "exact":
        with contextlib.suppress(UnsolvedError):
            return min(total, _total(problem, exact(problem, rng, PROOF_S))), True
    if how in ("refined", "exact"):
        return (total, True) if how == "exact" else (None, False)
    return min(total, _total(problem, refined(problem, rng))), False


def _total(problem: SearchProblem, found: Found) -> float:
    return problem.total(problem.sums(found.members))


def _known(value: T | None) -> T:
    if value is None:
        raise CannotTellError("the record says too little of this round")
    return value
