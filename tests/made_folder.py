"""Run folders made without training: real positions, channels, delays and schedules; accuracies from a formula."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from fedteddi.randomness import keyed_rng
from fedteddi.schedulers.admission import fitting_in_order
from fedteddi.settings import Settings, write_settings
from fedteddi.wireless.environment import Environment

MODEL_BITS = 8_297_024.0


def made_counts(settings: Settings, classes: int) -> np.ndarray:
    """Two classes of frame 0 for each client, in every later frame a new one for each third client, [L, N, C]."""
    clients, frames = settings.scenario.clients, len(settings.rounds)
    counts = np.zeros((frames, clients, classes), dtype=int)
    first = classes - frames + 1
    for n in range(clients):
        counts[:, n, n % first] = counts[:, n, (n + 1) % first] = 50
        for frame in range(1, frames):
            if n % 3 == 0:
                counts[frame:, n, first + frame - 1] = 50
    return counts


def made_folder(path: Path, settings: Settings, *, classes: int = 10, until: int | None = None) -> Path:
    """Write the folder of a run whose rule admits clients at random, at B*; `until`: so many rounds were played.

    The balanced accuracy after round k of a frame is 0.9 − 0.5/(1 + k/10) − seed/100, the global one 0.02 higher, and
    that on class c lies c/1000 higher.
    """
    counts = made_counts(settings, classes)
    samples = settings.training.local_steps * settings.training.batch_size
    world = Environment.make(
        settings.radio, settings.seed, settings.scenario.clients, samples, rounds=settings.rounds
    )
    lines: list[dict[str, Any]] = []
    played = 0
    for frame, length in enumerate(settings.rounds):
        for number in range(length + 1):
            if number and until is not None and played >= until:
                break
            played += number > 0
            lines.append(_line(settings, world, frame, number, length, counts))
    path.mkdir(parents=True)
    (path / "settings.toml").write_text(write_settings(settings))
    (path / "scenario.json").write_text(json.dumps({"counts": counts.tolist()}))
    (path / "rounds.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def _line(
    settings: Settings, world: Environment, frame: int, number: int, length: int, counts: np.ndarray
) -> dict[str, Any]:
    line: dict[str, Any] = {"frame": frame, "round": number}
    if number:
        gain, compute_s = world.channel_gain(frame, number), world.compute_s(frame, number)
        needed_hz = world.needed_hz(frame, number, gain, compute_s, MODEL_BITS)
        rng = keyed_rng(settings.seed, "scheduler", frame=frame, round=number)
        order = np.random.default_rng([len(settings.name), *rng.integers(0, 99, 3)]).permutation(len(gain))
        chosen = fitting_in_order(order, needed_hz, settings.radio.total_hz, "stop")
        line |= {
            "clients": chosen.tolist(),
            "scheduled_new": int(np.count_nonzero(chosen % 3 == 0)) if frame else 0,
            "bandwidth_hz": needed_hz[chosen].tolist(),
            "compute_s": compute_s[chosen].tolist(),
            "finish_s": [settings.radio.deadline_s] * len(chosen),
            "round_s": settings.radio.deadline_s,
            "uplink_bits": MODEL_BITS * len(chosen),
            "energy_j": 10.0 + len(chosen),
            "gradient_std": None,
            "class_norm": None,
            "objective": None,
            "failures": {},
        }
    if number % settings.evaluation.every == 0 or number == length:
        value = 0.9 - 0.5 / (1 + number / 10) - settings.seed / 100
        each = [value + c / 1000 for c in range(counts.shape[2])]
        line |= {"class_accuracy": each, "balanced": value, "global": value + 0.02}
    return line


def made_study(
    path: Path,
    *,
    schedulers: tuple[str, ...] = ("fedteddi", "random"),
    seeds: tuple[int, ...] = (0, 1),
    deadlines_s: tuple[float, ...] = (0.8, 1.2),
    rounds: tuple[int, ...] = (0, 20, 15),
    classes: int = 10,
    **changes: Any,
) -> Path:
    """Write the folder of a comparison."""
    base = (
        Settings().changed(rounds=list(rounds), radio__total_hz=2e7, scenario__clients=12).changed(**changes)
    )
    for name in schedulers:
        for seed in seeds:
            for deadline_s in deadlines_s:
                one = base.changed(name=name, scheduler=name, seed=seed, radio__deadline_s=deadline_s)
                made_folder(path / f"{name}-d{deadline_s:g}-s{seed}", one, classes=classes)
    return path
