"""The CPU's engine: threads change how fast, and nothing else."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from fedteddi import simulate
from fedteddi.learning.cpu import MOST_THREADS, SideBySide, usable_threads
from fedteddi.learning.engine import Candidate, Probe, TrainJob
from fedteddi.learning.flat import FlatModel
from fedteddi.learning.models import make_model
from small_world import tiny_data, tiny_settings

DATA = tiny_data()


class Noisy(nn.Module):
    """Draws from PyTorch's generator in a way of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(64, 5)

    def forward(self, images: Tensor) -> Tensor:
        flat = images.flatten(1)
        return self.head(flat + torch.randn_like(flat) if self.training else flat)


class Locked(Noisy):
    """Cannot be copied, and draws nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.lock = threading.Lock()

    def forward(self, images: Tensor) -> Tensor:
        return self.head(images.flatten(1))


class Closed(Noisy):
    """Calls its layer by a function, which a copy of the model shares."""

    def __init__(self) -> None:
        super().__init__()
        self.answer = lambda images: self.head(images.flatten(1))

    def forward(self, images: Tensor) -> Tensor:
        return self.answer(images)


def engine(threads: int | None, make: Callable[[], nn.Module] | None = None) -> SideBySide:
    torch.manual_seed(0)
    model = make_model("small_world:tiny_model", DATA.image_shape, 5, 0) if make is None else make()
    return SideBySide(FlatModel(model), DATA, threads)


def jobs(model: FlatModel, number: int = 7, steps: int = 4) -> list[TrainJob]:
    rng = np.random.default_rng(1)
    return [
        TrainJob(
            weights=model.weights.clone(),
            samples=rng.integers(0, 300, (steps, 8)),
            views=rng.random((steps, 8)) < 0.5,
            learning_rate=0.1,
            momentum=0.5,
            dropout_keys=rng.integers(0, 2**31, (steps, 2)).astype(np.int32),
        )
        for _ in range(number)
    ]


def everything(one: SideBySide) -> list[np.ndarray]:
    """Return all that an engine can be asked, as arrays."""
    trained = one.train(jobs(one.model))
    models = [done.weights for done in trained]
    rng = np.random.default_rng(2)
    probes = [
        Probe(model, rng.integers(0, 300, size), rng.random(size) < 0.5)
        for model, size in zip(models, (8, 9, 1201), strict=False)
    ]
    return [
        torch.stack(models).numpy(),
        np.array([(done.mean_loss, done.update_norm) for done in trained]),
        np.array(one.gradient_variances(probes[:2])),
        np.array(one.losses(probes)),
        torch.stack(one.gradients(probes)).numpy(),
        one.class_accuracy([Candidate(model) for model in models]),
    ]


@pytest.mark.parametrize("make", [None, Noisy, Locked, Closed])
def test_no_bit_depends_on_the_number_of_threads(make: Any) -> None:
    """1,201 images are more than go through a model at once. What draws by itself, or has no copy, goes in turn."""
    expected = everything(engine(1, make))
    assert not np.array_equal(expected[0][0], expected[0][1])
    for threads in (2, 3, None):
        for found, wanted in zip(everything(engine(threads, make)), expected, strict=True):
            np.testing.assert_array_equal(found, wanted)


def test_a_model_that_draws_by_itself_is_noticed_and_leaves_the_generator_alone() -> None:
    quiet, noisy = engine(2), engine(2, Noisy)
    torch.manual_seed(5)
    before = torch.get_rng_state()
    for one in (quiet, noisy):
        one.train(jobs(one.model))
    assert torch.equal(torch.get_rng_state(), before)
    assert (quiet._draws, noisy._draws) == (False, True)


def test_jobs_run_on_other_threads_one_thread_each_and_pytorch_is_left_as_it_was() -> None:
    seen: set[tuple[int, int]] = set()

    class Watched(nn.Linear):
        def forward(self, images: Tensor) -> Tensor:
            seen.add((threading.get_ident(), torch.get_num_threads()))
            return super().forward(images.flatten(1))

    torch.set_num_threads(2)
    try:
        one = engine(2, lambda: Watched(64, 5))
        one.train(jobs(one.model, number=40))
        assert {threads for _, threads in seen} == {1}
        assert len({thread for thread, _ in seen} - {threading.get_ident()}) == 2
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(1)


def test_progress_is_told_by_the_thread_that_asks_and_an_interruption_ends_all_jobs() -> None:
    one, tellers = engine(2), set()

    def tell(_: int) -> None:
        tellers.add(threading.get_ident())
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        one.train(jobs(one.model, number=3, steps=100_000), tell)
    assert tellers == {threading.get_ident()}
    assert (
        len(one.train(jobs(one.model))) == 7
    )  # the threads are free again, long before 300,000 steps are taken


def test_what_goes_wrong_in_a_job_is_said() -> None:
    one = engine(2)
    broken = jobs(one.model)
    broken[3].samples[2, 1] = 10**6
    with pytest.raises(IndexError):
        one.train(broken)
    assert len(one.train(jobs(one.model))) == 7


def test_how_many_threads_are_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(64)), raising=False)
    monkeypatch.setattr("fedteddi.learning.cpu.CONTAINER", tmp_path / "none")
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    assert usable_threads() == MOST_THREADS
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 5})
    assert usable_threads() == 2
    monkeypatch.setattr("fedteddi.learning.cpu.CONTAINER", tmp_path / "cpu.max")
    for text, cores in {"100000 100000": 1, "150000 100000": 2, "max 100000": 2, "10 100000": 1}.items():
        (tmp_path / "cpu.max").write_text(text)
        assert usable_threads() == cores
    (tmp_path / "cpu.max").unlink()
    for given, expected in {"1": 1, "7": 2, "0": 1, "4,2": 2, "": 2}.items():
        monkeypatch.setenv("OMP_NUM_THREADS", given)
        assert usable_threads() == expected


def wide_model(image_shape: tuple[int, int, int], num_classes: int) -> nn.Module:
    """Enough parameters for PyTorch to split sums over them."""
    return nn.Sequential(
        nn.Flatten(), nn.Linear(int(np.prod(image_shape)), 2000), nn.Linear(2000, num_classes)
    )


def test_no_record_depends_on_the_number_of_threads() -> None:
    """Nor on PyTorch's own: L̂ sums over all parameters, and PyTorch rounds such sums by how it splits them."""
    settings = tiny_settings(training__model=f"{__file__}:wide_model")
    found = []
    for own, threads in ((1, 1), (2, 1), (2, 2)):
        torch.set_num_threads(own)
        try:
            found.append([r.as_json() for r in simulate(settings, data=DATA, threads=threads).records])
            assert torch.get_num_threads() == own
        finally:
            torch.set_num_threads(1)
    assert found[0] == found[1] == found[2]
