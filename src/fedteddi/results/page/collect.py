"""All that the page shows, as plain data: by condition, scheduler and seed."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from fedteddi.results.page.cell import world_columns, world_of
from fedteddi.results.page.conditions import Condition, conditions_of
from fedteddi.results.page.curves import class_curves, run_curves
from fedteddi.results.page.decisions import Retell, told_decisions
from fedteddi.results.page.detail import Detail, spaced, thinned_rounds
from fedteddi.results.page.found import Found
from fedteddi.results.page.headline import headline
from fedteddi.results.page.schedule import bins_of, participation, shown_rounds, timeline
from fedteddi.results.page.words import settings_in_words
from fedteddi.results.runs import ACCURACIES, REFERENCES, RunRecord

PROOFS = 6  # optima that are proven for a page, seconds each


def collect(found: Found, detail: Detail, retell: Retell | None = None) -> dict[str, Any]:
    """Return the data of the page, as JSON takes it."""
    conditions, notes = conditions_of(found)
    page = _Page(sum(len(one.runs) for one in conditions), detail, retell)
    parts = [page.condition(one) for one in conditions]
    return {
        "folder": found.folder.resolve().name,
        "runs": page.runs,
        "notes": [*found.notes, *dict.fromkeys([*notes, *page.notes])],
        "thinned": list(dict.fromkeys(page.thinned)),
        "conditions": parts,
        "pool": page.pool,
    }


@dataclass(frozen=True)
class _Shown:
    """What of a condition is shown one by one: clients, rounds of the cell, decisions, bins of the timelines."""

    clients: list[int]
    rounds: list[tuple[int, int]]
    decided: list[tuple[int, int]]
    bins: list[tuple[int, int]]


@dataclass
class _Page:
    """A page that is being collected."""

    runs: int
    detail: Detail
    retell: Retell | None
    pool: list[Any] = field(default_factory=list)  # what conditions share, such as the data of a seed
    notes: list[str] = field(default_factory=list)
    thinned: list[str] = field(default_factory=list)

    def condition(self, one: Condition) -> dict[str, Any]:
        """Return everything about the runs of one condition."""
        settings, shown = one.settings, self._shown(one)
        by_seed = {seed: [run for run in one.runs if run.settings.seed == seed] for seed in one.seeds}
        return {
            "label": one.label,
            "words": settings_in_words(one),
            "seeds": one.seeds,
            "frames": one.frames,
            "lengths": list(settings.rounds),
            "total_hz": settings.radio.total_hz,
            "radius_m": settings.radio.radius_m,
            "classes": int(one.runs[0].counts.shape[2]),
            "num_clients": _num_clients(one),
            "clients": shown.clients,
            "rounds": shown.rounds,
            "bins": shown.bins,
            "headlines": {
                str(frame): {kind: headline(one, frame, kind) for kind in ACCURACIES} for frame in one.frames
            },
            "worlds": {str(seed): self._world(one, seed, runs, shown) for seed, runs in by_seed.items()},
            "data": {str(seed): self._shared(_data(runs, shown.clients)) for seed, runs in by_seed.items()},
            "groups": [self._group(one, name, runs, shown) for name, runs in one.groups.items()],
        }

    def _shown(self, one: Condition) -> _Shown:
        number, lengths = _num_clients(one), one.settings.rounds
        clients = spaced(number, self.detail.clients(self.runs))
        shown = _Shown(
            clients,
            thinned_rounds(lengths, self.detail.rounds(self._numbers_a_round(one, len(clients)))),
            thinned_rounds(lengths, self.detail.decisions(self.runs)),
            bins_of(lengths, self.detail.bins(self.runs * len(clients))),
        )
        self.thinned += _thinned(one, shown, number)
        return shown

    def _numbers_a_round(self, one: Condition, clients: int) -> int:
        """Return about how many numbers the whole page takes for each round that is shown one by one."""
        played = [record for run in one.runs for record in run.records[:50] if record.round]
        mean = sum(min(len(record.clients), clients) for record in played) / max(1, len(played))
        each = 2 * (mean + 2) + len(one.seeds) * clients / len(one.runs)
        return int(self.runs * each)

    def _world(
        self, one: Condition, seed: int, runs: Sequence[RunRecord], shown: _Shown
    ) -> dict[str, Any] | None:
        world = world_of(runs)
        if world is not None and world.note:
            where = f" at {one.label}" if one.label else ""
            self.notes.append(f"The cell{where}, seed {seed}: {world.note}.")
        return None if world is None else world_columns(world, shown.rounds, shown.clients)

    def _group(self, one: Condition, name: str, runs: Sequence[RunRecord], shown: _Shown) -> dict[str, Any]:
        """Return the runs of one scheduler."""
        lines = len(one.settings.rounds) * int(runs[0].counts.shape[2]) * -(-self.runs // len(runs))
        return {
            "name": name,
            "bound": name in REFERENCES,
            "by_class": class_curves(runs, self.detail, lines),
            "runs": {str(run.settings.seed): self._run(run, one, shown) for run in runs},
        }

    def _run(self, run: RunRecord, one: Condition, shown: _Shown) -> dict[str, Any]:
        proofs = PROOFS // self.runs
        found: dict[str, Any] = {
            "finished": run.finished,
            "curve": self._curve(run, one),
            "decisions": told_decisions(run, shown.decided, self.retell, proofs),
        }
        if run.scheduler != "centralised":  # it has no clients to schedule
            found |= {
                "shown": shown_rounds(run, shown.rounds, shown.clients),
                "timeline": timeline(run, shown.clients, shown.bins),
                "participation": participation(run, one.frames),
            }
        return found

    def _curve(self, run: RunRecord, one: Condition) -> dict[str, Any]:
        curve = run_curves(run, self.detail, self.runs * len(one.settings.rounds))
        if len(curve["frame"]) < sum(stretch.is_evaluated for stretch in run.stretches):
            self.thinned.append(
                "Of long curves not every evaluation is drawn, but each frame's first and last."
            )
        return curve

    def _shared(self, value: Any) -> int:
        """Return where a value is in the pool; equal ones are there once."""
        if value not in self.pool:
            self.pool.append(value)
        return self.pool.index(value)


def _num_clients(one: Condition) -> int:
    return next((run.counts.shape[1] for run in one.runs if run.scheduler != "centralised"), 1)


def _data(runs: Sequence[RunRecord], clients: Sequence[int]) -> list[Any] | None:
    """Return the samples by frame and client as class, samples, class, samples, …, without classes that have none."""
    counts = next((run.counts for run in runs if run.scheduler != "centralised"), None)
    if counts is None:
        return None
    return [
        [[int(x) for c in range(len(row)) if row[c] for x in (c, row[c])] for row in frame[list(clients)]]
        for frame in counts
    ]


def _thinned(one: Condition, shown: _Shown, clients: int) -> list[str]:
    """Say what a screen could not show, and so is not in the page."""
    total, found = sum(one.settings.rounds), []
    if len(shown.clients) < clients:
        found.append(
            f"Of {clients} clients {len(shown.clients)} have a place and a row, evenly by number; fairness counts all."
        )
    if len(shown.rounds) < total:
        found.append(f"Of {total} rounds the cell shows {len(shown.rounds)}, evenly over every frame.")
    if len(shown.bins) < total:
        widest = max(stop - start for start, stop in shown.bins)
        found.append(f"A column of the timelines stands for up to {widest} rounds.")
    if len(shown.decided) < total:
        found.append(f"Of {total} decisions of a run {len(shown.decided)} are told, evenly over every frame.")
    return found
