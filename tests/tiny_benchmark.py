"""A leaderboard of two very small scenarios, in the current folder."""

from pathlib import Path

import numpy as np

from fedteddi.settings import write_settings
from fedteddi.studies.benchmark.plan import Benchmark, Scenario
from small_world import tiny_settings

RULES = ["random", "best-channel"]


def tiny_benchmark(is_quick: bool = False) -> Benchmark:
    """Two frames with new classes, and a static one; --quick halves them. Writes what it needs beside itself."""
    labels = np.arange(400) % 5
    noise = np.random.default_rng(0).integers(0, 100, size=(400, 8, 8, 1))
    images = (noise + 30 * labels[:, None, None, None]).astype(np.uint8)
    arrays = {"train_images": images[:300], "test_images": images[300:]}
    np.savez("data.npz", train_labels=labels[:300], test_labels=labels[300:], **arrays)
    arriving = tiny_settings(dataset="data.npz", rounds=[0, 4, 2], radio__total_hz=3e4)
    static = arriving.changed(rounds=[6], scenario__arrivals=[])
    Path("arrival.toml").write_text(write_settings(arriving))
    Path("static.toml").write_text(write_settings(static))
    scenarios = (
        Scenario("arrival", "Arrival", "arrival.toml", 0.7, {"rounds": [0, 2, 1]}),
        Scenario("static", "Static", "static.toml", 0.78, {"rounds": [3]}),
    )
    return Benchmark(scenarios=scenarios, is_quick=is_quick)
