"""The engine for GPUs against the one for CPUs: same jobs, same answers within rounding. On CUDA too where it is."""

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from fedteddi import InputError
from fedteddi.learning.augmentation import draw_views
from fedteddi.learning.cpu import SideBySide
from fedteddi.learning.datasets.dataset import Dataset
from fedteddi.learning.devices import make_engine
from fedteddi.learning.dropout import KeyedDropout, draw_keys, keyed_bits
from fedteddi.learning.engine import NO_IMAGE, Candidate, Probe, TrainJob
from fedteddi.learning.flat import FlatModel
from fedteddi.learning.gpu import engine as gpu_engine
from fedteddi.learning.gpu import training as gpu_training
from fedteddi.learning.gpu.engine import Stacked, grain_of, held_by_others, jobs_at_once
from fedteddi.learning.gpu.sheets import images_of, sheets_of
from fedteddi.learning.models import make_model
from small_world import tiny_data

DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]


class OddNet(nn.Module):
    """A layer without a stacked form: a bare parameter. It takes the way through vmap."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.linspace(0.5, 1.5, 64))
        self.taps = nn.Conv2d(1, 4, (2, 3), stride=2)  # which must keep PyTorch's layout
        self.drop = nn.Dropout(0.3)
        self.head = nn.Linear(64 + 4 * 4 * 3, 5)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        scaled = torch.tanh(images.flatten(1) * self.scale)
        return self.head(self.drop(torch.cat([scaled, self.taps(images).flatten(1)], dim=1)))


class Reaching(nn.Module):
    """Uses a layer's weight behind its back: the stacked form would answer otherwise, so vmap must be taken."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(64, 5)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.head(images.flatten(1)) + F.linear(images.flatten(1), self.head.weight)


def module_named(name: str, data: Dataset) -> nn.Module:
    torch.manual_seed(3)
    if name == "odd":
        return OddNet()
    if name == "reaching":
        return Reaching()
    if name == "frozen":
        net = nn.Sequential(nn.Conv2d(1, 8, 3, stride=2), nn.ReLU(), nn.Flatten(), nn.Linear(72, 5))
        net[0].weight.requires_grad_(False)
        return net
    if name == "oblong":  # no two sizes of a weight are equal
        first, second = nn.Conv2d(1, 4, (2, 3), padding=(0, 1)), nn.Conv2d(4, 6, (3, 2), stride=2)
        return nn.Sequential(first, nn.Tanh(), second, nn.Flatten(), nn.Linear(6 * 3 * 4, 5))
    return make_model(name, data.image_shape, 5, 0)


CLOSED = 4


def jobs_of(
    model: FlatModel, count: int, steps: int = 3, width: int = 8, rate: float = 0.05
) -> list[TrainJob]:
    rng = np.random.default_rng(1)
    found = []
    for number in range(count):
        # The images of class CLOSED come last; the last jobs have no output for it.
        outputs = np.arange(5) != CLOSED if number >= 3 else None
        samples = rng.integers(0, 300 if outputs is None else 240, (steps, width))
        samples[1, width - number % 3 :] = NO_IMAGE  # steps of unequal size
        found.append(
            TrainJob(
                weights=model.weights.clone() * (1 + 0.02 * number),
                samples=samples,
                views=draw_views(rng, (steps, width), ("none", "flip", "crop-flip")[number % 3]),
                learning_rate=rate * np.array([1, 0.8, 0.6]) if number == 0 else rate,
                momentum=0.3 + 0.1 * number,
                weight_decay=0.01 * number,
                dropout_keys=draw_keys(rng, steps),
                outputs=outputs,
            )
        )
    return found


def test_what_fills_up_a_row_may_be_of_a_class_without_an_output() -> None:
    """Rows are filled up with image 0, whose class 0 is closed here: its infinite loss must not count."""
    data = tiny_data()
    model = FlatModel(module_named("small_world:tiny_model", data))
    one, many = SideBySide(model, data), Stacked(model, data, "cpu")
    assert int(data.train_labels[0]) == 0
    outputs = np.arange(5) != 0
    probes = [Probe(model.weights, np.arange(60, 64 + 20 * turn), outputs=outputs) for turn in range(3)]
    assert many.losses(probes) == pytest.approx(one.losses(probes), rel=1e-4)
    job = replace(jobs_of(model, 3)[2], outputs=outputs)
    job.samples[job.samples != NO_IMAGE] %= 240
    job.samples[job.samples != NO_IMAGE] += 60
    assert (job.samples == NO_IMAGE).any()
    (mine,), (theirs,) = many.train([job]), one.train([job])
    assert mine.mean_loss == pytest.approx(theirs.mean_loss, rel=1e-4)
    for found, wanted in zip(many.gradients(probes), one.gradients(probes), strict=True):
        assert (found - wanted).norm() <= 1e-3 * wanted.norm()


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    "name", ["small_world:tiny_model", "paper-cnn", "resnet18-gn8", "odd", "reaching", "frozen", "oblong"]
)
def test_the_two_engines_agree(name: str, device: str) -> None:
    """Training with dropout, flips, crops, closed outputs, momentum, decay and uneven steps; σ̂, losses, gradients,
    accuracy.
    """
    data = tiny_data(size=20 if name == "paper-cnn" else 8)  # without padding, smaller images leave nothing
    model = FlatModel(module_named(name, data))
    # A deep net on 1×1 features magnifies rounding from step to step: small steps keep it comparable.
    jobs = jobs_of(model, 5, rate=1e-4 if name == "resnet18-gn8" else 0.05)
    one, many = SideBySide(model, data), Stacked(model, data, device)
    if device == "cuda":
        many.train(jobs)  # captures a step, which is replayed from now on
    for mine, theirs in zip(many.train(jobs), one.train(jobs), strict=True):
        torch.testing.assert_close(mine.weights.cpu(), theirs.weights, rtol=1e-4, atol=1e-5)
        assert mine.mean_loss == pytest.approx(theirs.mean_loss, rel=1e-4)
        assert mine.update_norm == pytest.approx(theirs.update_norm, rel=1e-4)
    probes = [
        Probe(job.weights, job.samples[0], job.views if job.views is None else job.views[0], job.outputs)
        for job in jobs
    ]
    for (variance, loss), (expected, expected_loss) in zip(
        many.gradient_variances(probes), one.gradient_variances(probes), strict=True
    ):
        assert variance == pytest.approx(expected, rel=1e-3)
        assert loss == pytest.approx(expected_loss, rel=1e-4)
    uneven = [Probe(job.weights, np.arange(4 + 70 * place)) for place, job in enumerate(jobs)]
    assert many.losses(uneven) == pytest.approx(one.losses(uneven), rel=1e-4)
    for found, wanted in zip(many.gradients(uneven[:2]), one.gradients(uneven[:2]), strict=True):
        # As vectors: how far single small entries of a deep net's gradient are apart depends on the machine.
        assert (found.cpu() - wanted).norm() <= 1e-3 * wanted.norm()
    models = [Candidate(job.weights, job.outputs) for job in jobs]
    assert many.class_accuracy(models).max() <= 1  # images that fill up a chunk do not count
    np.testing.assert_allclose(many.class_accuracy(models), one.class_accuracy(models), atol=1 / 20)
    assert (many.class_accuracy(models)[-1, CLOSED] == 0).all()
    assert (many.programs.stacked is None) is (name in ("odd", "reaching"))
    assert many.programs.by_layer is (many.programs.stacked is not None)


@pytest.mark.parametrize("name", ["oblong", "frozen", "reaching", "odd"])
def test_weights_are_laid_out_for_products_and_back(name: str) -> None:
    """Of convolutions as [jobs, down, across, in, out] where they are stacked; flat weights keep PyTorch's order, and
    so does a model that goes through vmap.
    """
    model = FlatModel(module_named(name, tiny_data()))
    programs = Stacked(model, tiny_data(), "cpu").programs
    weights = torch.stack([model.weights, torch.arange(model.size, dtype=torch.float32)])
    params = programs.layout.params(weights)
    assert torch.equal(programs.layout.flat(params), weights)
    assert all(p.is_contiguous() for p in params)
    for p, own in zip(params, model.module.parameters(), strict=True):
        turned = own.dim() == 4 and name != "odd"
        assert torch.equal(p[0], own.permute(2, 3, 1, 0) if turned else own)
    programs.layout.flat(params).zero_()
    assert torch.equal(programs.layout.flat(params), weights)  # a copy, not a view


@pytest.mark.parametrize("device", DEVICES)
def test_neighbours_and_chunks_do_not_matter(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    data = tiny_data()
    model = FlatModel(module_named("small_world:tiny_model", data))
    jobs = jobs_of(model, 7)
    engine = Stacked(model, data, device)
    together = engine.train(jobs)
    alone = engine.train(jobs[3:4])[0]
    torch.testing.assert_close(alone.weights, together[3].weights, rtol=1e-5, atol=1e-7)
    monkeypatch.setattr(gpu_engine, "AT_ONCE", (2, 1))
    small = Stacked(model, data, device)
    for mine, theirs in zip(small.train(jobs), together, strict=True):
        torch.testing.assert_close(mine.weights, theirs.weights, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("device", DEVICES)
def test_jobs_apart_do_not_depend_on_each_other_by_a_bit(device: str) -> None:
    data = tiny_data()
    model = FlatModel(module_named("small_world:tiny_model", data))
    jobs = jobs_of(model, 4, steps=9)[1:]
    first = jobs[0]
    assert first.views is not None
    short = replace(
        first, samples=first.samples[:5], views=first.views[:5], dropout_keys=first.dropout_keys[:5]
    )
    told: list[int] = []
    engine = Stacked(model, data, device)
    apart = engine.train_apart([*jobs, short], told.append)
    assert told == list(range(1, 10))
    for job, mine in zip([*jobs, short], apart, strict=True):
        (alone,) = engine.train_apart([job])
        assert torch.equal(mine.weights, alone.weights)
        assert (mine.mean_loss, mine.update_norm) == (alone.mean_loss, alone.update_norm)
    for mine, theirs in zip(apart, engine.train(jobs), strict=False):
        torch.testing.assert_close(mine.weights, theirs.weights, rtol=1e-5, atol=1e-7)


def test_jobs_apart_are_waited_for_when_they_are_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their buffers must not be given to others while streams of their own still write into them."""
    data = tiny_data()
    model = FlatModel(module_named("small_world:tiny_model", data))
    engine = Stacked(model, data, "cpu")
    waits: list[int] = []
    monkeypatch.setattr(engine.stretches, "_wait", lambda: waits.append(len(waits)))

    def interrupt(_step: int) -> None:
        waits.append(-1)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        engine.train_apart(jobs_of(model, 2), interrupt)
    assert waits == [0, -1, 2]


@pytest.mark.parametrize("device", DEVICES)
def test_every_step_is_told(device: str) -> None:
    data = tiny_data()
    model = FlatModel(module_named("small_world:tiny_model", data))
    steps = len(jobs_of(model, 1)[0].samples)
    for engine in (SideBySide(model, data), Stacked(model, data, device)):
        told: list[int] = []
        engine.train(jobs_of(model, 1), told.append)
        assert told == list(range(1, steps + 1))


def test_out_of_memory_means_fewer_jobs_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    data = tiny_data()
    model = FlatModel(module_named("small_world:tiny_model", data))
    engine = Stacked(model, data, "cpu")
    expected = [end.weights for end in engine.train(jobs_of(model, 20))]
    train_chunk, sizes = engine._train_chunk, []

    def narrow(chunk: list[TrainJob], told: None) -> object:
        if len(chunk) > 4:
            raise torch.OutOfMemoryError("too many")
        sizes.append(len(chunk))
        return train_chunk(chunk, told)

    monkeypatch.setattr(engine, "_train_chunk", narrow)
    for mine, theirs in zip(engine.train(jobs_of(model, 20)), expected, strict=True):
        torch.testing.assert_close(mine.weights, theirs, rtol=1e-5, atol=1e-7)
    assert set(sizes) == {4}

    def never(chunk: list[TrainJob], _told: object) -> object:
        raise torch.OutOfMemoryError(f"even {len(chunk)}")

    monkeypatch.setattr(engine, "_train_chunk", never)
    with pytest.raises(InputError, match="use smaller batches"):
        engine.train(jobs_of(model, 20))


def test_more_jobs_go_at_once_again_when_others_give_memory_back(monkeypatch: pytest.MonkeyPatch) -> None:
    data = tiny_data()
    model = FlatModel(module_named("small_world:tiny_model", data))
    engine = Stacked(model, data, "cpu")
    train_chunk, others = engine._train_chunk, [0.7]
    sizes: list[int] = []
    monkeypatch.setattr(gpu_engine, "held_by_others", lambda _device: others[0])

    def train(others_hold: float) -> list[int]:
        """Return the sizes that were tried in turn: beside others who hold more than a half, 4 jobs fit."""
        others[0] = others_hold
        sizes.clear()
        engine.train(jobs_of(model, 64))
        return list(sizes)

    def narrow(chunk: list[TrainJob], told: None) -> object:
        sizes.append(len(chunk))
        if len(chunk) > 4 and others[0] > 0.5:
            raise torch.OutOfMemoryError("too many")
        return train_chunk(chunk, told)

    monkeypatch.setattr(engine, "_train_chunk", narrow)
    tried, fours = [64, 32, 16], [4] * 16
    assert train(0.7) == tried + fours
    assert train(0.66) == fours  # a twentieth is worth a try, less is not
    assert train(0.8) == fours
    assert train(0.64) == tried + fours  # not enough
    assert train(0.64) == fours
    assert train(0.55) == fours  # now it must be a tenth
    assert train(0.3) == [64]
    assert train(0.7) == tried + fours
    assert train(0.52) == fours  # and now a fifth
    assert train(0.48) == [64]


def test_what_others_hold_is_neither_free_nor_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    assert held_by_others(torch.device("cpu")) == 0
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _device: (20, 80))
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda _device: 40)
    assert held_by_others(torch.device("cuda")) == 0.25


def test_an_engine_begins_with_as_many_jobs_as_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    data = tiny_data()
    model = FlatModel(module_named("small_world:tiny_model", data))
    assert Stacked(model, data, "cpu").at_once == 256
    room = 2 * gpu_engine.COPIES * 4 * len(model.weights) * 17  # half of it for 17 jobs
    monkeypatch.setattr(gpu_engine, "memory_bytes", lambda _device: room)
    assert Stacked(model, data, "cpu").at_once == 16


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU whose memory another process holds")
def test_beside_a_process_that_holds_the_memory_of_a_gpu_cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    data = tiny_data()
    model = FlatModel(module_named("small_world:tiny_model", data))
    engine = Stacked(model, data, "cuda")
    engine.train(jobs_of(model, 16))  # all that CUDA itself wants is there
    torch.cuda.empty_cache()
    hold = """import torch
free_bytes, _ = torch.cuda.mem_get_info()
held = torch.empty(free_bytes - 2**30, dtype=torch.int8, device="cuda")
print("held", flush=True)
input()"""
    other = subprocess.Popen(
        [sys.executable, "-c", hold],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    train_chunk, sizes = engine._train_chunk, []

    def heavy(chunk: list[TrainJob], told: None) -> object:
        sizes.append(len(chunk))
        torch.empty(len(chunk) * 2**27, dtype=torch.int8, device="cuda")  # 2 GiB for 16 jobs
        return train_chunk(chunk, told)

    monkeypatch.setattr(engine, "_train_chunk", heavy)
    try:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        engine.train(jobs_of(model, 16))
        assert sizes[:2] == [16, 16]  # the first time, captured steps gave their memory back
        assert set(sizes[2:]) <= {4, 1}
        narrow = len(sizes)
        engine.train(jobs_of(model, 16))
        assert 16 not in sizes[narrow:]
        other.communicate("done\n", timeout=60)
        sizes.clear()
        engine.train(jobs_of(model, 16))
        assert sizes == [16]
    finally:
        other.kill()
        other.wait()


def test_numbers_of_jobs_are_few_and_mostly_filled() -> None:
    """1,290 jobs are five times 256 and once 16; of large batches so many fewer that images are as many."""
    data = tiny_data()
    engine = Stacked(FlatModel(module_named("small_world:tiny_model", data)), data, "cpu")

    def sizes(count: int, images: int) -> list[int]:
        chunks = engine._in_chunks(list(range(count)), list, images, grain=grain_of(images))
        assert [item for chunk in chunks for item in chunk][:count] == list(range(count))
        return [len(chunk) for chunk in chunks]

    assert sizes(1290, 32) == [256] * 5 + [16]
    assert sizes(30, 32) == [32]
    assert sizes(50, 10) == [56]
    assert sizes(2, 128) == [2]  # two models that are pre-trained: an idle row would cost as much as each
    assert sizes(3, 960) == [3]  # one client that stands for 30
    assert sizes(20, 960) == [8, 8, 4]
    engine.at_once = 4
    assert sizes(10, 32) == [4, 4, 4]
    assert sizes(3, 960) == [1, 1, 1]


def test_probes_of_one_model_share_its_weights() -> None:
    """Rows are dealt evenly to sheets, and a long probe is cut; another model, or other outputs, get sheets of their
    own.
    """
    one, other, closed = torch.zeros(3), torch.zeros(3), np.array([True, False])
    long = Probe(one, np.arange(2500), np.arange(2500) % 7)
    probes = [
        long,
        Probe(other, np.arange(3)),
        Probe(one, np.arange(5)),
        Probe(one, np.arange(2), outputs=closed),
    ]
    sheets = sheets_of(probes, 256)
    assert [[index for index, _ in sheet.rows] for sheet in sheets] == [[0] * 4, [0] * 4, [0, 0, 2], [1], [3]]
    assert all(sheet.weights is (other if sheet.rows[0][0] == 1 else one) for sheet in sheets)
    assert sheets[4].outputs is closed
    samples, views = images_of(sheets, 256, 4)
    assert samples.shape == views.shape == (5, 1024)
    assert samples[:2].ravel().tolist() == list(range(2048))
    assert samples[2, :452].tolist() == list(range(2048, 2500))
    assert (samples[2, 452:512] == NO_IMAGE).all()
    assert samples[2, 512:517].tolist() == list(range(5))
    assert (samples[2, 517:] == NO_IMAGE).all()
    assert views[2, :452].tolist() == [n % 7 for n in range(2048, 2500)]
    assert images_of(sheets[3:], 256, 1)[1] is None


def test_large_models_are_not_tried_in_numbers_that_cannot_fit() -> None:
    gigabyte = 2**30
    assert jobs_at_once(4 * 558_802, 139 * gigabyte) == 256
    assert jobs_at_once(4 * 11_220_132, 139 * gigabyte) == 64
    assert jobs_at_once(4 * 11_220_132, 8 * gigabyte) == 4
    assert jobs_at_once(40 * gigabyte, 8 * gigabyte) == 1


def test_jobs_like_earlier_ones_use_their_stretch() -> None:
    """A stretch fits jobs of the same number, shape and rule, whatever else they are; nothing is left in it."""
    data = tiny_data()
    model = FlatModel(module_named("small_world:tiny_model", data))
    engine, fresh = Stacked(model, data, "cpu"), Stacked(model, data, "cpu")
    first, second = (
        jobs_of(model, 6),
        [replace(job, momentum=0.9, weight_decay=0) for job in jobs_of(model, 7)],
    )
    engine.train(first)
    (stretch,) = engine.stretches.kept.values()
    again = engine.train(second)
    assert [*engine.stretches.kept.values()] == [stretch]
    for mine, theirs in zip(again, fresh.train(second), strict=True):
        assert torch.equal(mine.weights, theirs.weights)
        assert mine.mean_loss == theirs.mean_loss
    plain = [replace(job, views=None, outputs=None) for job in first]
    for jobs, number in ((plain, 2), (jobs_of(model, 12), 3), (jobs_of(model, 6, width=7), 4), (first, 4)):
        engine.train(jobs)
        assert len(engine.stretches.kept) == number
    assert [*engine.stretches.kept.values()][-1] is stretch  # the one used last is the last to go
    assert not engine.stretches.forget()  # nothing is captured on a CPU
    assert not engine.stretches.kept


def test_the_stretches_that_are_kept_are_few(monkeypatch: pytest.MonkeyPatch) -> None:
    data = tiny_data()
    model = FlatModel(module_named("small_world:tiny_model", data))
    engine = Stacked(model, data, "cpu")
    monkeypatch.setattr(gpu_training, "MOST_STRETCHES", 2)
    for width in (5, 6, 7):
        engine.train(jobs_of(model, 1, width=width))
    assert [stretch.width for stretch in engine.stretches.kept.values()] == [6, 7]


class OwnNoise(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(64, 5)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.head(F.dropout(images.flatten(1), 0.5, self.training))


class Mixing(nn.Module):
    """Looks at values while running, which cannot be batched."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(64))
        self.head = nn.Linear(64, 5)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        flat = images.flatten(1) * self.scale
        return self.head(flat if float(flat.sum()) > 0 else -flat)


def test_models_that_cannot_be_batched_are_refused() -> None:
    data = tiny_data()
    with pytest.raises(InputError, match=r"draws random numbers of its own.*use nn.Dropout"):
        Stacked(FlatModel(OwnNoise()), data, "cpu")
    with pytest.raises(InputError, match="cannot be batched over clients"):
        Stacked(FlatModel(Mixing()), data, "cpu")


def test_no_cuda_where_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    data = tiny_data()
    model = FlatModel(module_named("small_world:tiny_model", data))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(
        InputError, match=r"device='cuda': PyTorch .* sees 0 CUDA devices here; use --device cpu"
    ):
        make_engine(model, data, "cuda")
    with pytest.raises(InputError, match=r"device='cuda:3'"):
        make_engine(model, data, "cuda:3")
    with pytest.raises(InputError, match="choose cpu, cuda"):
        make_engine(model, data, "gpu")
    assert isinstance(make_engine(model, data, "auto"), SideBySide)
    assert isinstance(make_engine(model, data), SideBySide)


def test_dropout_follows_its_key() -> None:
    """Share kept 1 − p within 5 deviations; the same key, the same mask; another key, step or layer, another one."""
    layer = KeyedDropout(0.3, layer=0)
    layer.key = torch.tensor([[5, -7], [5, -6]], dtype=torch.int32)
    ones = torch.ones(2, 100_000)
    masks = layer(ones)
    assert masks.unique().tolist() == pytest.approx([0, 1 / 0.7])
    kept = (masks > 0).float().mean(dim=1)
    assert (kept - 0.7).abs().max() < 5 * np.sqrt(0.21 / 100_000)
    assert torch.equal(masks, layer(ones))
    both = ((masks[0] > 0) & (masks[1] > 0)).float().mean()
    assert abs(float(both) - 0.49) < 5 * np.sqrt(0.49 * 0.51 / 100_000)
    other = KeyedDropout(0.3, layer=1)
    other.key = layer.key
    agree = ((other(ones) > 0) == (masks > 0)).float().mean()
    assert abs(float(agree) - 0.58) < 5 * np.sqrt(0.25 / 200_000)
    layer.key = layer.key[:1]
    assert torch.equal(layer(ones[:1]), masks[:1])  # who shares the batch does not matter
    layer.eval()
    assert torch.equal(layer(ones), ones)
    layer.train()
    layer.p = 1.0
    assert not layer(ones).any()


def test_dropout_bits_are_those_of_32_bit_arithmetic() -> None:
    """The same mixing in Python's unlimited integers, cut to 32 bits after each step."""

    def mixed(h: int) -> int:
        h = ((h ^ (h >> 16)) * 0x85EBCA6B) % 2**32
        h = ((h ^ (h >> 13)) * 0xC2B2AE35) % 2**32
        return h ^ (h >> 16)

    key, layer = (123456789, -987654321), 2
    found = keyed_bits(torch.tensor([key], dtype=torch.int32), layer, 50)[0].tolist()
    offset = layer * 0x9E3779B9 % 2**32
    for place, bits in enumerate(found):
        first = mixed((place + ((key[0] % 2**32) ^ offset)) % 2**32)
        assert bits % 2**32 == mixed(first ^ (key[1] % 2**32))
