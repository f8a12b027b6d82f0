"""Write the golden files again: `python -m golden.make` in `tests/`.

Only after a change that is meant to move results (CHANGELOG, "Numbers changed"). Kept is what does not depend on the
machine: checksums of plans and batches, gains, delays, schedules and bandwidths, and test accuracies to be compared
within rounding (`test_golden.py`).
"""

import hashlib
import json
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

import fedteddi
from fedteddi.settings import Settings, load_experiment
from seed_draws import SeedDraws

FOLDER = Path(__file__).parent
RULES = ("fedteddi", "random", "fed-cbs")
ROUNDS = {"fashion": [0, 8], "evolving": [3, 3, 2]}  # eight each
# A fifth of the local steps, each five times as slow: the same delays, and runs that take seconds.
SHORTER = {
    "training__local_steps": 2,
    "radio__seconds_per_sample": 2.5e-3,
    "radio__samples_per_second": 400.0,
    "evaluation__every": 4,
}
# Relative and absolute. Accuracies: three of a class's 200 test images, one a class in the means. Without oneDNN's
# kernels, two images of a class changed sides at most, and 0.003 of a mean.
ROUNDING = {
    "bandwidth_hz": (1e-9, 0.0),
    "class_accuracy": (0.0, 3.5 / 200),
    "balanced": (0.0, 1 / 200),
    "global": (0.0, 1 / 200),
}


def experiment(name: str) -> Settings:
    """Return an experiment that comes with the package, with eight rounds."""
    return load_experiment(name).changed(rounds=ROUNDS[name])


def golden(name: str) -> dict[str, Any]:
    """Return what must not move in an experiment."""
    return {"draws": _draws(experiment(name)), "runs": _runs(experiment(name))}


def _draws(settings: Settings) -> dict[str, Any]:
    """What all rules share, of the experiment as it is."""
    draws, frames = SeedDraws(settings), range(len(settings.rounds))
    times = [(frame, k) for frame in frames for k in range(1, settings.rounds[frame] + 1)]
    clients = range(len(draws.held(0)))
    return {
        "plan": [_checksum(draws.held(frame)) for frame in frames],
        "batches": [_checksum([part for n in clients for part in draws.batches(*time, n)]) for time in times],
        "channel_gain": [draws.gain(*time).tolist() for time in times],
        "compute_s": [draws.compute_s(*time).tolist() for time in times],
    }


def _runs(settings: Settings) -> dict[str, Any]:
    """What every rule does, of the shortened experiment."""
    epochs = min(
        settings.training.pretrain_epochs, 1
    )  # more would magnify rounding until schedules depend on it
    study = fedteddi.compare(
        settings, schedulers=RULES, seeds=[0], training__pretrain_epochs=epochs, **SHORTER
    )
    kept = ("frame", "round", "clients", "bandwidth_hz", "class_accuracy", "balanced", "global")
    return {
        run.scheduler: [
            {key: line[key] for key in kept if key in line} for line in (r.as_json() for r in run.records)
        ]
        for run in study.runs
    }


def _checksum(arrays: Any) -> str:
    """Return a checksum of integer arrays and their shapes, the same on every machine."""
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(repr(np.shape(array)).encode())
        digest.update(np.asarray(array).astype("<i8").tobytes())
    return digest.hexdigest()[:16]


def differences(found: dict[str, Any], kept: dict[str, Any]) -> Iterator[str]:
    """Say what differs by more than another machine's rounding."""
    for part in ("plan", "batches"):
        if found["draws"][part] != kept["draws"][part]:
            yield part
    for part in ("channel_gain", "compute_s"):
        if not np.allclose(found["draws"][part], kept["draws"][part], rtol=1e-12, atol=0):
            yield part
    for rule in RULES:
        for record, expected in zip(found["runs"][rule], kept["runs"][rule], strict=True):
            where = f"{rule}, frame {expected['frame']}, round {expected['round']}"
            yield from (f"{where}: {key}" for key in expected if not _same(key, record[key], expected[key]))


def _same(key: str, value: Any, expected: Any) -> bool:
    if key not in ROUNDING:
        return bool(value == expected)
    relative, absolute = ROUNDING[key]
    return len(np.ravel(value)) == len(np.ravel(expected)) and np.allclose(
        value, expected, rtol=relative, atol=absolute
    )


def main() -> None:
    """Write the files, and play once more with other kernels: what differs then is no golden value."""
    os.environ["FEDTEDDI_CACHE"] = tempfile.mkdtemp()
    for name in ROUNDS:
        kept = golden(name)
        os.environ["FEDTEDDI_CACHE"] = tempfile.mkdtemp()
        with torch.backends.mkldnn.flags(enabled=False):
            unstable = list(differences(golden(name), kept))
        if unstable:
            sys.exit(
                f"{name} depends on rounding: {'; '.join(unstable)}. Choose another seed or fewer rounds."
            )
        (FOLDER / f"{name}.json").write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
