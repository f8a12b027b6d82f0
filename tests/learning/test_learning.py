"""Data, models, training, statistics and evaluation, against plain torch and by hand."""

import hashlib
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from fedteddi import InputError
from fedteddi.learning.cpu import SideBySide
from fedteddi.learning.datasets.dataset import Dataset, load_dataset
from fedteddi.learning.dropout import KeyedDropout, set_key
from fedteddi.learning.engine import NO_IMAGE, Candidate, Probe, Trained, TrainJob
from fedteddi.learning.flat import FlatModel
from fedteddi.learning.models import make_model
from fedteddi.learning.pretraining import pretraining_job
from fedteddi.learning.statistics import _has_shortcut, class_gradient, gradient_variance, loss_sum
from fedteddi.settings import TrainingSettings
from small_world import tiny_data, tiny_model


def test_the_embedded_images_are_the_official_ones() -> None:
    """Checksums of the bytes that scripts/embed_fashion_mnist.py wrote from Debian's package."""
    data = load_dataset("fashion-mnist")
    assert data.train_images.shape == (8000, 1, 28, 28)
    assert torch.bincount(data.train_labels).tolist() == [800] * 10
    assert torch.bincount(data.test_labels).tolist() == [200] * 10
    assert hashlib.sha256(data.train_images.numpy().tobytes()).hexdigest().startswith("dcda5d31d243feac")
    assert hashlib.sha256(data.test_images.numpy().tobytes()).hexdigest().startswith("96315b1732ab731e")


def test_images_are_normalised_and_mirrored() -> None:
    data = load_dataset("fashion-mnist")
    everything = data.normalised(data.train_images)
    assert float(everything.mean()) == pytest.approx(0, abs=1e-4)
    assert float(everything.std()) == pytest.approx(1, abs=1e-4)
    plain, _ = data.training_batch(np.array([3, 4]))
    mixed, labels = data.training_batch(np.array([3, 4]), np.array([True, False]))
    assert torch.equal(mixed[0], plain[0].flip(-1))
    assert torch.equal(mixed[1], plain[1])
    assert labels.tolist() == data.train_labels[3:5].tolist()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"train_images": np.zeros((4, 8, 8))},
            "train_images are float32 and test_images uint8: give both as",
        ),
        (
            {"train_images": np.zeros((4, 8, 8), dtype=object)},
            "train_images is object with 3 dim.*: give bytes or fl",
        ),
        ({"train_images": np.zeros(4)}, "float64 with 1 dimensions: give bytes or floats in 2"),
        ({"train_images": np.full((4, 8, 8), np.nan)}, "train_images holds numbers that are not finite"),
        ({"train_images": [[1.0, 2.0], [3.0]]}, "train_images is no array"),
        ({"train_labels": np.array([0.0, 1.0, 0.0, 1.0])}, "train_labels: give 4 class numbers"),
        ({"train_labels": np.zeros(3, dtype=int)}, "train_labels: give 4 class numbers"),
        ({"test_labels": np.array([-1, 0])}, "test_labels"),
        ({"test_images": np.zeros((2, 9, 9), dtype=np.uint8)}, "differ in shape"),
    ],
)
def test_bad_arrays_are_refused(change: dict[str, np.ndarray], message: str) -> None:
    good = {
        "train_images": np.zeros((4, 8, 8), dtype=np.uint8),
        "train_labels": np.array([0, 1, 0, 1]),
        "test_images": np.zeros((2, 8, 8), dtype=np.uint8),
        "test_labels": np.array([0, 1]),
    }
    with pytest.raises(InputError, match=message):
        Dataset.from_arrays("bad", **(good | change))


def test_data_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "mine.npz"
    np.savez(file, train_images=np.zeros((4, 8, 8, 3), np.uint8), train_labels=np.array([0, 1, 2, 0]))
    with pytest.raises(InputError, match="lacks test_images"):
        load_dataset(str(file))
    np.savez(
        file,
        train_images=np.zeros((4, 8, 8, 3), np.uint8),
        train_labels=np.array([0, 1, 2, 0]),
        test_images=np.zeros((1, 8, 8, 3), np.uint8),
        test_labels=np.array([2]),
    )
    assert load_dataset(str(file)).image_shape == (3, 8, 8)
    file.write_bytes(b"no zip")
    with pytest.raises(InputError, match="cannot be read"):
        load_dataset(str(file))
    with pytest.raises(InputError, match="did you mean 'fashion-mnist'"):
        load_dataset("fashion-mnits")


@pytest.mark.parametrize(
    ("name", "shape", "classes", "parameters"),
    [
        ("paper-cnn", (3, 32, 32), 10, 259_282),
        ("paper-cnn-same", (3, 32, 32), 10, 558_802),
        ("resnet18", (3, 32, 32), 100, 11_220_132),
        ("resnet18-gn8", (3, 32, 32), 100, 11_220_132),
        ("small-cnn", (1, 28, 28), 10, 55_434),
    ],
)
def test_models_have_the_papers_sizes(
    name: str, shape: tuple[int, int, int], classes: int, parameters: int
) -> None:
    model = FlatModel(make_model(name, shape, classes, seed=0))
    assert model.size == parameters
    assert model.bits == 32 * parameters
    assert model.module(torch.zeros(2, *shape)).shape == (2, classes)


def test_models_follow_their_seed_and_leave_the_global_stream_alone() -> None:
    torch.manual_seed(5)
    expected = torch.rand(1)
    torch.manual_seed(5)
    one, same, other = (
        FlatModel(make_model("small-cnn", (1, 28, 28), 10, seed)).weights for seed in (1, 1, 2)
    )
    assert torch.equal(torch.rand(1), expected)
    assert torch.equal(one, same)
    assert not torch.equal(one, other)


def test_foreign_models_are_checked(tmp_path: Path) -> None:
    file = tmp_path / "nets.py"
    file.write_text(
        "from torch import nn\n"
        "def good(shape, classes): return nn.Sequential(nn.Flatten(), nn.Linear(64, classes))\n"
        "def norm(shape, classes): return nn.Sequential(nn.BatchNorm2d(1), nn.Flatten(), nn.Linear(64, classes))\n"
        "def bad(shape, classes): return 3\n"
        "def five(shape, classes): return nn.Sequential(nn.Flatten(), nn.Linear(64, 5))\n"
        "def empty(shape, classes): return nn.Flatten()\n"
    )
    assert FlatModel(make_model(f"{file}:good", (1, 8, 8), 5, 0)).size == 325
    with pytest.raises(InputError, match="use GroupNorm"):
        make_model(f"{file}:norm", (1, 8, 8), 5, 0)
    with pytest.raises(InputError, match="must return a torch"):
        make_model(f"{file}:bad", (1, 8, 8), 5, 0)
    with pytest.raises(InputError, match=r"gives \(2, 5\) for 2 inputs: it must give \(2, 7\)"):
        make_model(f"{file}:five", (1, 8, 8), 7, 0)
    with pytest.raises(InputError, match="nothing to train"):
        make_model(f"{file}:empty", (1, 8, 8), 5, 0)
    with pytest.raises(InputError, match="cannot take"):
        make_model(f"{file}:good", (1, 9, 9), 5, 0)
    with pytest.raises(InputError, match="did you mean 'small-cnn'"):
        make_model("smal-cnn", (1, 8, 8), 5, 0)


KEYS = np.array([[1, 2], [3, 4], [5, 6]], dtype=np.int32)


def job(model: FlatModel, **changes: object) -> TrainJob:
    given = {
        "weights": model.weights.clone(),
        "samples": np.arange(24).reshape(3, 8),
        "views": None,
        "learning_rate": 0.1,
        "momentum": 0.9,
        "dropout_keys": KEYS,
    }
    return TrainJob(**(given | changes))  # type: ignore[arg-type]


def accuracy(model: FlatModel, data: Dataset) -> np.ndarray:
    return SideBySide(model, data).class_accuracy([Candidate(model.weights.clone())])[0]


def train(jobs: list[TrainJob], model: FlatModel, data: Dataset) -> list[Trained]:
    return SideBySide(model, data).train(jobs)


def test_training_is_plain_sgd_with_momentum() -> None:
    """Three steps against torch.optim.SGD on a second copy of the model, with the same keys for dropout."""
    data = tiny_data()
    model = FlatModel(make_model("small_world:tiny_model", data.image_shape, 5, 0))
    reference = FlatModel(make_model("small_world:tiny_model", data.image_shape, 5, 0)).module.train()
    optimiser = torch.optim.SGD(reference.parameters(), lr=0.1, momentum=0.9)
    losses = []
    for step in range(3):
        set_key(reference, KEYS[step])
        optimiser.zero_grad(set_to_none=False)
        images, labels = data.training_batch(np.arange(24).reshape(3, 8)[step])
        loss = F.cross_entropy(reference(images), labels)
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    (trained,) = train([job(model)], model, data)
    expected = torch.cat([p.detach().reshape(-1) for p in reference.parameters()])
    torch.testing.assert_close(trained.weights, expected, rtol=1e-6, atol=1e-7)
    assert trained.mean_loss == pytest.approx(np.mean(losses))


def test_jobs_do_not_depend_on_each_other() -> None:
    data = tiny_data()
    model = FlatModel(make_model("small_world:tiny_model", data.image_shape, 5, 0))
    first, second = job(model), job(model, dropout_keys=KEYS + 1, samples=np.arange(24, 48).reshape(3, 8))
    together = train([first, second], model, data)
    alone = train([second], model, data) + train([first], model, data)
    assert torch.equal(together[0].weights, alone[1].weights)
    assert torch.equal(together[1].weights, alone[0].weights)
    assert not torch.equal(together[0].weights, together[1].weights)


class OddNet(nn.Module):
    """A layer without a shortcut: a bare parameter."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(64))
        self.head = nn.Linear(64, 5)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.head(torch.tanh(images.flatten(1) * self.scale))


@pytest.mark.parametrize("kind", ["small-cnn", "paper-cnn-same", "residual", "odd"])
def test_gradient_variance_against_one_backward_pass_per_sample(kind: str) -> None:
    """D5: 1/(b−1) Σ‖g_i − ḡ‖² from b separate gradients, with dropout off; the loss is the batch's mean."""
    shape = (1, 8, 8)
    torch.manual_seed(0)
    if kind == "odd":
        module: nn.Module = OddNet()
    elif kind == "residual":
        from fedteddi.learning.models import ResidualBlock

        module = nn.Sequential(
            ResidualBlock(1, 8, 2, 8), ResidualBlock(8, 8, 1, 8), nn.Flatten(), nn.Linear(128, 5)
        )
    else:
        module = make_model(kind, shape, 5, 0)
    model = FlatModel(module.double())
    images, labels = torch.randn(6, *shape, dtype=torch.float64), torch.tensor([0, 1, 2, 3, 4, 0])
    module.eval()
    rows = []
    for image, label in zip(images, labels, strict=True):
        loss = F.cross_entropy(module(image[None]), label[None])
        rows.append(torch.cat([g.flatten() for g in torch.autograd.grad(loss, list(module.parameters()))]))
    grads = torch.stack(rows)
    expected = float((grads - grads.mean(dim=0)).square().sum() / 5)
    variance, loss_value = gradient_variance(model, images, labels)
    assert variance == pytest.approx(expected, rel=1e-9)
    assert loss_value == pytest.approx(F.cross_entropy(module(images), labels).item())
    assert _has_shortcut(module) is (kind != "odd")
    assert all(p.requires_grad for p in module.parameters())
    torch.testing.assert_close(class_gradient(model, images, labels), grads.mean(dim=0))


class Twice(nn.Module):
    """A layer that is called twice, which no layer-wise shortcut covers."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.head = nn.Linear(64, 64), nn.Linear(64, 5)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.head(torch.tanh(self.inner(torch.tanh(self.inner(images.flatten(1))))))


class Tokens(nn.Module):
    """A Linear layer over a sequence: [b, T, d]."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.head = nn.Linear(8, 6), nn.Linear(48, 5)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.head(torch.tanh(self.inner(images[:, 0])).flatten(1))


class Patches(nn.Module):
    """A Linear layer over the rows of four patches an image, as one batch."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.head = nn.Linear(16, 4), nn.Linear(16, 5)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.head(torch.tanh(self.inner(images.reshape(-1, 16))).reshape(-1, 16))


@pytest.mark.parametrize("kind", ["twice", "tokens", "patches", "reflect", "frozen"])
def test_gradient_variance_where_the_shortcuts_do_not_hold(kind: str) -> None:
    torch.manual_seed(0)
    modules: dict[str, nn.Module] = {
        "twice": Twice(),
        "tokens": Tokens(),
        "patches": Patches(),
        "reflect": nn.Sequential(
            nn.Conv2d(1, 4, 3, padding=1, padding_mode="reflect"), nn.ReLU(), nn.Flatten(), nn.Linear(256, 5)
        ),
        "frozen": nn.Sequential(nn.Flatten(), nn.Linear(64, 8), nn.ReLU(), nn.Linear(8, 5)),
    }
    module = modules[kind].double()
    if kind == "frozen":
        module[1].requires_grad_(False)  # type: ignore[index]
    model = FlatModel(module)
    images, labels = torch.randn(6, 1, 8, 8, dtype=torch.float64), torch.tensor([0, 1, 2, 3, 4, 0])
    trained = [p for p in module.parameters() if p.requires_grad]
    rows = []
    for image, label in zip(images, labels, strict=True):
        loss = F.cross_entropy(module(image[None]), label[None])
        rows.append(torch.cat([g.flatten() for g in torch.autograd.grad(loss, trained)]))
    grads = torch.stack(rows)
    expected = float((grads - grads.mean(dim=0)).square().sum() / 5)
    assert gradient_variance(model, images, labels)[0] == pytest.approx(expected, rel=1e-9)
    assert [p.requires_grad for p in module.parameters()] == [
        any(p is t for t in trained) for p in module.parameters()
    ]


def test_statistics_leave_dropout_off() -> None:
    data = tiny_data()
    model = FlatModel(tiny_model(data.image_shape, 5))
    model.module.train()
    batch = data.training_batch(np.arange(8))
    assert gradient_variance(model, *batch) == gradient_variance(model, *batch)
    assert loss_sum(model, *batch) == loss_sum(model, *batch)


def test_accuracy_and_loss_by_hand() -> None:
    """A "model" that always says class 1: accuracy (0, 1, 0, 0, 0); the loss of certain scores is known."""

    class Stubborn(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scores = nn.Parameter(torch.tensor([0.0, 3.0, 0.0, 0.0, 0.0]))

        def forward(self, images: torch.Tensor) -> torch.Tensor:
            return self.scores.expand(len(images), -1)

    data, model = tiny_data(), FlatModel(Stubborn())
    assert accuracy(model, data).tolist() == [0, 1, 0, 0, 0]
    normaliser = np.log(np.exp(3) + 4)
    samples = np.array([0, 1, 60, 120])  # classes 0, 0, 1, 2
    engine = SideBySide(model, data)
    (loss,) = engine.losses([Probe(model.weights.clone(), samples)])
    assert loss == pytest.approx((3 * normaliser + normaliser - 3) / 4, rel=1e-6)


def test_pretraining_learns_and_repeats() -> None:
    data = tiny_data()
    settings = TrainingSettings(
        pretrain_epochs=3, pretrain_batch_size=21
    )  # the last steps are one image short
    ends = []
    for _ in range(2):
        model = FlatModel(make_model("small_world:tiny_model", data.image_shape, 5, 0))
        before = accuracy(model, data).mean()
        job = pretraining_job(model.weights.clone(), np.arange(300), settings, seed=0)
        (trained,) = train([job], model, data)
        assert accuracy(model, data).mean() > before + 0.3
        ends.append(trained.weights)
    assert torch.equal(*ends)


def test_a_model_that_many_runs_share_is_judged_once(monkeypatch: pytest.MonkeyPatch) -> None:
    data = tiny_data()
    engine = SideBySide(FlatModel(make_model("small_world:tiny_model", data.image_shape, 5, 0)), data)
    first, second = engine.model.weights.clone(), engine.model.weights * 3
    expected = engine.class_accuracy([Candidate(first), Candidate(second)])
    calls: list[int] = []
    monkeypatch.setattr("fedteddi.learning.cpu.classified", lambda *_: calls.append(1))
    again = [Candidate(weights) for weights in (second, first, second)]
    np.testing.assert_array_equal(engine.class_accuracy(again), expected[[1, 0, 1]])
    assert not calls


def test_pretraining_is_one_long_job() -> None:
    """Each epoch is a permutation of all samples, 5 + 5 + 4 of 14; η_s = ½ η (1 + cos(π s / 6))."""
    settings = TrainingSettings(
        pretrain_epochs=2,
        pretrain_batch_size=5,
        pretrain_learning_rate=0.2,
        pretrain_momentum=0.8,
        pretrain_weight_decay=0.03,
        augment="flip",
    )
    samples = np.arange(100, 114)
    job = pretraining_job(torch.zeros(3), samples, settings, seed=4)
    assert job.samples.shape == (6, 5)
    assert (job.samples == NO_IMAGE).sum() == 2
    for epoch in (job.samples[:3], job.samples[3:]):
        np.testing.assert_array_equal(np.sort(epoch[epoch != NO_IMAGE]), samples)
    assert not np.array_equal(job.samples[:3], job.samples[3:])
    np.testing.assert_allclose(job.learning_rate, 0.1 * (1 + np.cos(np.pi * np.arange(6) / 6)))
    assert (job.momentum, job.weight_decay) == (0.8, 0.03)
    assert job.views is not None
    assert 5 < job.views.sum() < 25
    assert len(np.unique(job.dropout_keys)) == 12
    other = pretraining_job(torch.zeros(3), samples, settings, seed=5)
    assert not np.array_equal(other.samples, job.samples)
    plain = pretraining_job(torch.zeros(3), samples, settings.model_copy(update={"augment": "none"}), seed=4)
    assert plain.views is None


def test_one_dropout_in_two_places_is_refused(tmp_path: Path) -> None:
    """It would drop the same entries in both."""
    file = tmp_path / "net.py"
    file.write_text(
        "from torch import nn\n"
        "def twice(shape, classes):\n"
        "    d = nn.Dropout(0.5)\n"
        "    return nn.Sequential(nn.Flatten(), nn.Linear(64, 8), d, nn.Linear(8, 8), d, nn.Linear(8, classes))\n"
        "def once(shape, classes):\n"
        "    parts = [nn.Flatten(), nn.Dropout(0.5), nn.Linear(64, 64), nn.Dropout(0.5), nn.Linear(64, classes)]\n"
        "    return nn.Sequential(*parts)\n"
    )
    with pytest.raises(InputError, match="give each place a Dropout of its own"):
        make_model(f"{file}:twice", (1, 8, 8), 5, 0)
    model = FlatModel(make_model(f"{file}:once", (1, 8, 8), 5, 0))
    set_key(model.module, KEYS[0])
    drops = [layer for layer in model.module.modules() if isinstance(layer, KeyedDropout)]
    ones = torch.ones(4, 64)
    assert len(drops) == 2
    assert not torch.equal(drops[0](ones), drops[1](ones))
