"""All that the page shows, as plain data: by condition, scheduler and seed."""

from collections.abc import Sequence
from typing import Any

from fedteddi.results.page.cell import World, world_columns, world_of
from fedteddi.results.page.conditions import Condition, conditions_of
from fedteddi.results.page.curves import class_curves, class_numbers, run_curves
from fedteddi.results.page.decisions import Retell, told_decisions
from fedteddi.results.page.detail import Detail, spaced, thinned_rounds
from fedteddi.results.page.found import Found
from fedteddi.results.page.headline import headline
from fedteddi.results.page.schedule import bins_of, participation, seeds_worlds, shown_rounds, timeline
from fedteddi.results.page.words import settings_in_words
from fedteddi.results.runs import ACCURACIES, REFERENCES, RunRecord

PROOFS = 12  # optima that are proven for a page, a second or two each


def collect(found: Found, detail: Detail, retell: Retell | None = None) -> dict[str, Any]:
    """Return the data of the page, as JSON takes it."""
    conditions, notes = conditions_of(found)
    runs = sum(len(one.runs) for one in conditions)
    pool: list[Any] = []  # what several conditions share, such as the data of a seed
    thinned: dict[str, None] = {}
    parts = [_condition(one, runs, detail, retell, pool, thinned, notes) for one in conditions]
    return {
        "folder": found.folder.resolve().name,
        "runs": runs,
        "notes": [*found.notes, *dict.fromkeys(notes)],
        "thinned": list(thinned),
        "conditions": parts,
        "pool": pool,
    }


def _condition(
    one: Condition,
    runs: int,
    detail: Detail,
    retell: Retell | None,
    pool: list[Any],
    thinned: dict[str, None],
    notes: list[str],
) -> dict[str, Any]:
    settings = one.settings
    clients_in_all = next((run.counts.shape[1] for run in one.runs if run.scheduler != "centralised"), 1)
    clients = spaced(clients_in_all, detail.clients(runs))
    rounds = thinned_rounds(settings.rounds, detail.rounds(_numbers_a_round(one, runs, len(clients))))
    decided = thinned_rounds(settings.rounds, detail.decisions(runs))
    bins = bins_of(settings.rounds, detail.bins(runs * len(clients)))
    _say_thinned(one, clients_in_all, len(clients), len(rounds), len(bins), len(decided), thinned)
    worlds = {seed: world_of(own) for seed, own in seeds_worlds(one).items()}
    where = f" at {one.label}" if one.label else ""
    for seed, world in worlds.items():
        if world is not None and world.note:
            notes.append(f"The cell{where}, seed {seed}: {world.note}.")
    series = sum(len(group) * len(settings.rounds) for group in one.groups.values()) * max(
        1, runs // max(1, len(one.runs))
    )
    classes = class_numbers(one)
    return {
        "label": one.label,
        "words": settings_in_words(one),
        "seeds": one.seeds,
        "frames": one.frames,
        "lengths": list(settings.rounds),
        "total_hz": settings.radio.total_hz,
        "radius_m": settings.radio.radius_m,
        "deadline_s": settings.radio.deadline_s,
        "classes": classes,
        "num_clients": clients_in_all,
        "clients": clients,
        "rounds": rounds,
        "bins": bins,
        "headlines": {
            str(frame): {kind: headline(one, frame, kind) for kind in ACCURACIES} for frame in one.frames
        },
        "worlds": {str(seed): _world(world, rounds, clients) for seed, world in worlds.items()},
        "data": {str(seed): _shared(pool, _data(own, clients)) for seed, own in seeds_worlds(one).items()},
        "groups": [
            {
                "name": name,
                "bound": name in REFERENCES,
                "by_class": class_curves(group, detail, len(settings.rounds) * classes * max(1, runs // 3)),
                "runs": {
                    str(run.settings.seed): _run(run, one, detail, series, rounds, clients, bins)
                    | {"decisions": told_decisions(run, decided, retell, PROOFS // runs)}
                    for run in group
                },
            }
            for name, group in one.groups.items()
        ],
    }


def _run(
    run: RunRecord,
    one: Condition,
    detail: Detail,
    series: int,
    rounds: Sequence[tuple[int, int]],
    clients: Sequence[int],
    bins: Sequence[tuple[int, int]],
) -> dict[str, Any]:
    found: dict[str, Any] = {"finished": run.finished, "curve": run_curves(run, detail, series)}
    if run.scheduler != "centralised":  # it has no clients to schedule
        found |= {
            "shown": shown_rounds(run, rounds, clients),
            "timeline": timeline(run, clients, bins),
            "participation": participation(run, one.frames),
        }
    return found


def _world(
    world: World | None, rounds: Sequence[tuple[int, int]], clients: Sequence[int]
) -> dict[str, Any] | None:
    return None if world is None else world_columns(world, rounds, clients)


def _data(runs: Sequence[RunRecord], clients: Sequence[int]) -> list[Any] | None:
    """Return the samples by frame, client and class, those of no sample left out: [L][n] of [class, samples, …]."""
    counts = next((run.counts for run in runs if run.scheduler != "centralised"), None)
    if counts is None:
        return None
    return [
        [[int(x) for c in range(len(row)) if row[c] for x in (c, row[c])] for row in frame[list(clients)]]
        for frame in counts
    ]


def _shared(pool: list[Any], value: Any) -> int:
    """Return where a value is in the pool; equal ones are there once."""
    if value not in pool:
        pool.append(value)
    return pool.index(value)


def _numbers_a_round(one: Condition, runs: int, clients: int) -> int:
    """Return about how many numbers the whole page takes for each round that is shown one by one."""
    played = [record for run in one.runs for record in run.records[:50] if record.round]
    mean = sum(min(len(record.clients), clients) for record in played) / max(1, len(played))
    share_of_all = runs / max(1, len(one.runs))
    return int((len(one.runs) * 2 * (mean + 2) + len(one.seeds) * clients) * share_of_all)


def _say_thinned(
    one: Condition, clients: int, shown: int, rounds: int, bins: int, decided: int, thinned: dict[str, None]
) -> None:
    """Note what a screen could not show, and so is not in the page."""
    total = sum(one.settings.rounds)
    if shown < clients:
        thinned[
            f"Of {clients} clients {shown} have a place and a row, evenly by number; fairness counts all."
        ] = None
    if rounds < total:
        thinned[f"Of {total} rounds the cell shows {rounds}, evenly over every frame."] = None
    if bins < total:
        thinned[f"A column of the timelines stands for up to {-(-total // bins)} rounds."] = None
    if decided < total:
        thinned[f"Of {total} decisions of a run {decided} are told, evenly over every frame."] = None
    evaluations = max((sum(s.is_evaluated for s in run.stretches) for run in one.runs), default=0)
    if evaluations > 240:
        thinned[
            "Of long curves not every evaluation is drawn; the first and the last of a frame always are."
        ] = None
