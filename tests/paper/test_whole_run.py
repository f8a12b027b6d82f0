"""A run of `simulate` against the slow reading of the specification in `whole_run.py`: the wiring, end to end."""

import math
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from fedteddi import simulate
from fedteddi.learning.datasets.dataset import Dataset
from fedteddi.settings import Settings, parse_settings
from paper.whole_run import Reading, WholeRun

# A run is in single precision, the reading in double: over 40 rounds their weights part by less than this.
ROUNDING = 2e-5
LEARNED = {"gradient_std", "class_norm", "objective", "loss"}  # what carries the rounding of weights
CLIENTS, CLASSES = 8, 6


@cache
def noisy_rows() -> Dataset:
    """Noise with a slightly brighter row that tells the class: hard enough for losses that also rise."""
    rng = np.random.default_rng(0)

    def images(count: int) -> tuple[np.ndarray, np.ndarray]:
        labels = np.repeat(np.arange(CLASSES), count)
        pixels = rng.integers(0, 200, size=(len(labels), 8, 8))
        pixels[np.arange(len(labels)), labels] += 30
        return pixels.astype(np.uint8), labels

    return Dataset.from_arrays("rows", *images(30), *images(15))


def settings_of(scheduler: str, on_no_fit: str, **changes: Any) -> Settings:
    """Return three frames with new classes in two, unequal data and a class that vanishes."""
    settings = parse_settings(
        {
            "name": scheduler,
            "scheduler": scheduler,
            "scheduler_options": {"on_no_fit": on_no_fit},
            "dataset": "rows",
            "seed": 4,
            "rounds": [4, 5, 4],
            "scenario": {
                "layout": "dirichlet",
                "clients": CLIENTS,
                "samples_per_client": 20,
                "alpha": 0.6,
                "class_weights": [2, 2, 1, 1],
                "arrivals": [
                    {"frame": 1, "clients": 3, "classes": [4], "samples": 6, "forget": [0]},
                    {"frame": 2, "clients": 3, "classes": [5, 4], "samples": 8},
                    {"frame": 2, "clients": [*range(CLIENTS)], "classes": [1], "samples": 2, "forget": [2]},
                ],
            },
            "training": {
                "model": "paper.whole_run_learning:two_layer_model",
                "local_steps": 2,
                "batch_size": 6,
                "learning_rate": 0.2,
                "decay": 0.9,
                "augment": "flip",
                "pretrain_epochs": 2,
                "pretrain_batch_size": 16,
            },
            "radio": {"total_hz": 1.2e6, "deadline_s": 0.02},
            "estimates": {"class_gradient_samples": 10},
            "evaluation": {"every": 2, "loss_samples": 60},
        }
    )
    return settings.changed(**changes)


def played(settings: Settings) -> tuple[list[dict[str, Any]], list[np.ndarray], np.ndarray]:
    """Return a run's records, its model after each round and who held what, [L, N, C]."""
    models: dict[int, np.ndarray] = {}

    def watch(progress: Any) -> None:
        models[progress.rounds_done] = progress.runs[0].state.weights.numpy()

    run = simulate(settings, data=noisy_rows(), watch=watch)
    return (
        [record.as_json() for record in run.records],
        [models[done] for done in range(1, sum(settings.rounds) + 1)],
        run.counts,
    )


def read(settings: Settings) -> Reading:
    return WholeRun(settings, noisy_rows()).play()


@pytest.mark.parametrize(
    ("scheduler", "on_no_fit", "changes"),
    [
        ("fedteddi", "stop", {}),
        ("fedteddi", "skip", {}),
        # Frame 0 is pre-training alone, as in the paper's studies.
        ("fedteddi", "stop", {"rounds": [0, 3, 2], "evaluation__loss_in_last_frame": True}),
        ("random", "stop", {"training__pretrain_data": "held"}),
        ("random", "skip", {}),
        ("fed-cbs", "stop", {}),
        # A class is gone since two frames, and there are enough draws for how often each was scheduled to matter.
        ("fed-cbs", "skip", {"rounds": [6, 2, 2, 30]}),
    ],
)
def test_a_run_is_what_the_specification_says(
    scheduler: str,
    on_no_fit: str,
    changes: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Same data, schedules and bands, the same records and weights but for rounding."""
    monkeypatch.setenv("FEDTEDDI_CACHE", str(tmp_path))  # or an older pre-trained model could be found
    settings = settings_of(scheduler, on_no_fit, **changes)
    records, models, counts = played(settings)
    reading = read(settings)
    labels = noisy_rows().train_labels.numpy()
    held = [[np.bincount(labels[own], minlength=CLASSES) for own in frame] for frame in reading.held]
    np.testing.assert_array_equal(counts, held)
    for record, expected in zip(records, reading.records, strict=True):
        assert record.keys() == expected.keys()
        for key, value in expected.items():
            where = f"{key} in frame {record['frame']}, round {record['round']}"
            rounding = {"rel": 1e-5, "abs": ROUNDING} if key in LEARNED else {"rel": 1e-9}
            assert record[key] == (value if value is None else pytest.approx(value, **rounding)), where
    for after, (model, weights) in enumerate(zip(models, reading.models, strict=True), start=1):
        expected_model = torch.cat([layer.ravel() for layer in weights]).numpy()
        np.testing.assert_allclose(model, expected_model, rtol=0, atol=ROUNDING, err_msg=f"round {after}")


def test_the_comparison_is_sharp() -> None:
    """The settings must bring about what the rules are about, or the comparison above would show little.

    All of it is read off the slow reading alone: F_l is lowest before the last round of frames 0 and 1, and in frame 1
    never below frame 0's best; sample counts differ; class 2 is gone in frame 2; clients share images; the band
    runs out and (19) stops the search; some clients miss the deadline, some need more than the whole band.
    """
    settings = settings_of("fedteddi", "stop")
    reading = read(settings)
    losses = [[r["loss"] for r in reading.records if r["frame"] == f and "loss" in r] for f in (0, 1)]
    assert all(np.argmin(own) < len(own) - 1 for own in losses)
    assert min(losses[1]) > min(losses[0])
    labels = noisy_rows().train_labels.numpy()
    assert all(len({len(own) for own in reading.held[frame]}) > 2 for frame in (1, 2))
    assert [any((labels[own] == 2).any() for own in frame) for frame in reading.held] == [True, True, False]
    pooled = [image for own in reading.held[0] for image in own]
    assert len(set(pooled)) < len(pooled)
    assert {"(19)", "no fit"} <= set(reading.stops)
    needed = [hz for own in reading.needed_hz.values() for hz in own]
    assert any(math.isinf(hz) for hz in needed)
    assert any(settings.radio.total_hz < hz < math.inf for hz in needed)
    assert sum(len(r["clients"]) > 1 for r in reading.records if r["round"]) >= 8
