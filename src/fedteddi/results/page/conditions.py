"""Which runs may be set beside each other: those whose settings differ in scheduler and seed alone."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from fedteddi.results.page.found import Found
from fedteddi.results.runs import REFERENCES, RunRecord
from fedteddi.settings import Settings
from fedteddi.settings.keys import toml_value

FREE = ("name", "scheduler", "scheduler_options", "seed")
NAMED_KEYS = 3  # so many differing settings are written in a label
DEADLINE = "radio.deadline_s"


@dataclass(frozen=True)
class Condition:
    """Runs of the same settings, such as all at one deadline; bounds belong to every condition on the same data."""

    label: str
    settings: Settings
    groups: dict[str, tuple[RunRecord, ...]]  # by scheduler: its runs by seed

    @property
    def runs(self) -> tuple[RunRecord, ...]:
        """All its runs."""
        return tuple(run for group in self.groups.values() for run in group)

    @property
    def seeds(self) -> list[int]:
        """The seeds that any scheduler has."""
        return sorted({run.settings.seed for run in self.runs})

    @property
    def frames(self) -> list[int]:
        """The frames that have rounds."""
        return [frame for frame, rounds in enumerate(self.settings.rounds) if rounds]


def conditions_of(found: Found) -> tuple[list[Condition], list[str]]:
    """Part runs into conditions, the one with most runs first; note what keeps them apart and what is missing."""
    usable = {name: run for name, run in found.runs.items() if run.failure is None}
    members: dict[str, dict[str, RunRecord]] = {}
    for name, run in usable.items():
        if run.scheduler not in REFERENCES:
            members.setdefault(_key(run.settings), {})[name] = run
    bounds = {name: run for name, run in usable.items() if run.scheduler in REFERENCES}
    if not members:
        for name, run in bounds.items():
            members.setdefault(_key(run.settings, bound=True), {})[name] = run
    else:
        for own in members.values():
            like = _key(next(iter(own.values())).settings, bound=True)
            own |= {name: run for name, run in bounds.items() if _key(run.settings, bound=True) == like}
    firsts = [next(iter(own.values())).settings for own in members.values()]
    differing = _differing(firsts)
    notes: list[str] = []
    made = [
        Condition(_label(first, differing), first, _grouped(own, notes))
        for first, own in zip(firsts, members.values(), strict=True)
    ]
    made.sort(key=lambda one: [_sortable(_flat(one.settings).get(key)) for key in differing])
    if set(differing) - {DEADLINE}:
        notes.append(
            f"These runs are of different experiments: they differ in {', '.join(differing)}. Only runs that differ in"
            " scheduler and seed alone are drawn together; the selector leads from one setting to the next."
        )
    return made, notes + _absent(made)


def _grouped(own: Mapping[str, RunRecord], notes: list[str]) -> dict[str, tuple[RunRecord, ...]]:
    """Return runs by scheduler, bounds last, each with its seeds in order; a run that is there twice counts once."""
    options: dict[str, set[str]] = {}
    for run in own.values():
        options.setdefault(run.scheduler, set()).add(repr(run.settings.scheduler_options))
    seen: dict[tuple[str, int], str] = {}
    groups: dict[str, list[RunRecord]] = {}
    for name, run in sorted(own.items(), key=lambda item: _place(item[1])):
        called = run.scheduler if len(options[run.scheduler]) == 1 else _with_options(run)
        first = seen.setdefault((called, run.settings.seed), name)
        if first == name:
            groups.setdefault(called, []).append(run)
        else:
            notes.append(f"{run.title} is there twice: {first} is shown, {name} is not.")
    return {scheduler: tuple(runs) for scheduler, runs in groups.items()}


def _with_options(run: RunRecord) -> str:
    """Return a scheduler's name with its options, where runs of one name differ in them."""
    given = ", ".join(f"{key}={value}" for key, value in run.settings.scheduler_options.items())
    return f"{run.scheduler} ({given or 'defaults'})"


def _place(run: RunRecord) -> tuple[bool, bool, str, int]:
    """Return where a run stands: the paper's rule and ours first, bounds last."""
    name = run.scheduler
    return name in REFERENCES, not name.startswith("fedteddi"), name, run.settings.seed


def _absent(conditions: list[Condition]) -> list[str]:
    """Name the schedulers and seeds that a condition lacks though others have them."""
    notes = []
    schedulers = dict.fromkeys(name for one in conditions for name in one.groups)
    for one in conditions:
        where = f" at {one.label}" if one.label else ""
        absent = [name for name in schedulers if name not in one.groups]
        if absent:
            notes.append(f"No runs of {', '.join(absent)}{where}.")
        for name, runs in one.groups.items():
            seeds = [str(seed) for seed in one.seeds if seed not in {run.settings.seed for run in runs}]
            if seeds:
                notes.append(
                    f"No run of {name}{where} with seed {', '.join(seeds)}: its mean is over the others."
                )
    return notes


def _flat(settings: Settings) -> dict[str, Any]:
    """Return all settings but scheduler and seed, by path."""
    found: dict[str, Any] = {}
    for key, value in settings.model_dump().items():
        if key not in FREE:
            found |= {f"{key}.{k}": v for k, v in value.items()} if isinstance(value, dict) else {key: value}
    return found


def _key(settings: Settings, *, bound: bool = False) -> str:
    """Return what runs of a condition share; of a bound, which has no deadline and no band, less."""
    if settings.name == "centralised":
        each = settings.training.batch_size // settings.scenario.clients
        settings = settings.changed(scenario__pooled=False, training__batch_size=each)
    own = _flat(settings)
    if bound:
        own = {key: value for key, value in own.items() if not key.startswith(("radio.", "server."))}
        own |= {key: None for key in own if key.startswith("training.local_training")}
    return repr(sorted(own.items(), key=lambda item: item[0]))


def _differing(firsts: Iterable[Settings]) -> list[str]:
    flats = [_flat(settings) for settings in firsts]
    keys = [key for key in (flats[0] if flats else {}) if len({repr(flat.get(key)) for flat in flats}) > 1]
    return sorted(keys, key=lambda key: key == DEADLINE)  # the deadline varies fastest


def _label(settings: Settings, differing: list[str]) -> str:
    flat = _flat(settings)
    words = [f"{key.rpartition('.')[2]} {_shown(flat[key])}" for key in differing if key != DEADLINE]
    more = [f"{len(words) - NAMED_KEYS} more differ"] if len(words) > NAMED_KEYS else []
    deadline = [f"deadline {flat[DEADLINE]:g} s"] if DEADLINE in differing else []
    return " · ".join(words[:NAMED_KEYS] + more + deadline)


def _shown(value: Any) -> str:
    text = "none" if value is None else toml_value(value).strip('"') if not isinstance(value, str) else value
    return text if len(text) <= 40 else text[:39] + "…"


def _sortable(value: Any) -> tuple[bool, float, str]:
    number = isinstance(value, int | float)
    return (not number, float(value) if number else 0.0, str(value))
