"""Data given in Python: arrays, PyTorch's data sets, features; what models see of them, and that they learn."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import Dataset as TorchDataset
from torch.utils.data import TensorDataset

from fedteddi import Dataset, InputError, scheduler_names, simulate
from fedteddi.learning.cpu import SideBySide
from fedteddi.learning.datasets.arrays import input_statistics
from fedteddi.learning.datasets.given import as_dataset
from fedteddi.learning.engine import Probe, TrainJob
from fedteddi.learning.flat import FlatModel
from fedteddi.learning.models import make_model
from small_world import tiny_settings

FEATURES, CLASSES = 6, 5
UNITS = np.array([1, 10, 100, 1, 0.1, 1])  # features of very different sizes


def blobs(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Normal clouds about a centre for each class, far apart beside their deviation of 1."""
    centres = 4 * np.random.default_rng(9).normal(size=(CLASSES, FEATURES))
    labels = np.arange(count) % CLASSES
    values = centres[labels] + np.random.default_rng(seed).normal(size=(count, FEATURES))
    return values * UNITS + [0, 5, 1000, 0, 0, 0], labels


TRAIN, TEST = blobs(400, 1), blobs(100, 2)


def tabular(**changes: Any) -> Any:
    """Tiny settings for features; flips would be refused."""
    return tiny_settings(**{"training__augment": "none", "training__model": "mlp", **changes})


class Items(TorchDataset[Any]):
    """A PyTorch data set whose items are made when they are asked for, as torchvision's are."""

    def __init__(self, inputs: np.ndarray, labels: np.ndarray) -> None:
        self.inputs, self.labels = inputs, labels

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        return torch.tensor(self.inputs[index]), torch.tensor(self.labels[index])


def test_all_forms_are_the_same_data() -> None:
    expected = Dataset.from_arrays("given", *TRAIN, *TEST)
    assert as_dataset(expected) is expected
    tensors = [TensorDataset(torch.tensor(x), torch.tensor(y)) for x, y in (TRAIN, TEST)]
    frames = [(pd.DataFrame(x), pd.Series(y)) for x, y in (TRAIN, TEST)]
    for given in (
        (*TRAIN, *TEST),
        (TRAIN, TEST),
        dict(zip(("train_images", "train_labels", "test_images", "test_labels"), (*TRAIN, *TEST), strict=True)),
        tuple(tensors),
        (Items(*TRAIN), Items(*TEST)),
        frames,
        (TRAIN[0].tolist(), list(TRAIN[1]), *TEST),
    ):  # fmt: skip
        found = as_dataset(given)
        assert found.fingerprint == expected.fingerprint
        assert (found.image_shape, found.num_classes) == ((FEATURES,), CLASSES)


def test_float_images_keep_their_values_and_have_channels_first() -> None:
    images = np.random.default_rng(0).normal(2, 3, size=(50, 8, 9, 3))
    labels = np.arange(50) % 2
    data = as_dataset((images, labels, images, labels))
    assert data.image_shape == (3, 8, 9)
    np.testing.assert_allclose(data.train_images, images.transpose(0, 3, 1, 2), rtol=1e-6)
    seen = data.normalised(data.train_images).numpy()
    np.testing.assert_allclose(seen.mean(axis=(0, 2, 3)), 0, atol=1e-5)
    np.testing.assert_allclose(seen.std(axis=(0, 2, 3)), 1, atol=1e-5)
    plain = Dataset.from_arrays("plain", images, labels, images, labels, normalise=False)
    assert torch.equal(plain.normalised(plain.train_images), plain.train_images)
    assert plain.fingerprint != data.fingerprint
    assert as_dataset((images[..., 0], labels, images[..., 0], labels)).image_shape == (1, 8, 9)


@pytest.mark.parametrize("shape", [(30, 6), (30, 3, 4, 5)])
def test_statistics_are_numpys(shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """Added up piece by piece; the oracle looks at everything at once. A far mean would show lost digits."""
    monkeypatch.setattr("fedteddi.learning.datasets.arrays.PIECE_IMAGES", 7)
    inputs = np.random.default_rng(1).normal(1000, 0.5, size=shape).astype(np.float32)
    axes = tuple(axis for axis in range(len(shape)) if axis != 1)
    mean, std = input_statistics(inputs)
    np.testing.assert_allclose(mean, inputs.astype(np.float64).mean(axis=axes), rtol=1e-12)
    np.testing.assert_allclose(std, inputs.astype(np.float64).std(axis=axes), rtol=1e-9)


def test_a_feature_that_never_changes_is_no_division_by_zero() -> None:
    inputs = np.column_stack([TRAIN[0], np.full(len(TRAIN[0]), 3.0)])
    data = as_dataset((inputs, TRAIN[1], inputs, TRAIN[1]))
    seen = data.normalised(data.train_images)
    assert torch.equal(seen[:, FEATURES], torch.zeros(len(inputs)))


def plain_sgd(model: nn.Module, inputs: Tensor, labels: Tensor, rate: float, momentum: float) -> Tensor:
    """PyTorch's own loop over batches [τ, b, F]."""
    optimiser = torch.optim.SGD(model.parameters(), lr=rate, momentum=momentum)
    for batch, targets in zip(inputs, labels, strict=True):
        optimiser.zero_grad()
        nn.functional.cross_entropy(model(batch), targets).backward()  # type: ignore[no-untyped-call]
        optimiser.step()
    return torch.cat([p.detach().flatten() for p in model.parameters()])


def test_local_training_on_features_is_pytorchs() -> None:
    """Standardised by hand from the arrays, and trained by torch.optim.SGD."""
    data = as_dataset((TRAIN, TEST))
    engine = SideBySide(FlatModel(make_model("mlp", (FEATURES,), CLASSES, 0)), data)
    samples = np.random.default_rng(3).permutation(400)[:48].reshape(3, 16)
    start = engine.model.weights.clone()
    job = TrainJob(
        weights=start, samples=samples, views=None, learning_rate=0.1, momentum=0.5,
        dropout_keys=np.zeros((3, 2), np.int32),
    )  # fmt: skip
    (trained,) = engine.train([job])
    standard = (TRAIN[0] - TRAIN[0].mean(axis=0)) / TRAIN[0].std(axis=0)
    own = make_model("mlp", (FEATURES,), CLASSES, 0)
    expected = plain_sgd(
        own, torch.tensor(standard[samples], dtype=torch.float32), torch.tensor(TRAIN[1][samples]), 0.1, 0.5
    )
    torch.testing.assert_close(trained.weights, expected, rtol=1e-4, atol=1e-6)
    # σ̂² of a batch: the per-sample gradients' variance, one sample after another.
    ((variance, loss),) = engine.gradient_variances([Probe(start, samples[0])])
    engine.model.load(start)
    rows = torch.stack(
        [engine.model.loss_gradient(*data.training_batch(samples[0][[i]]))[1].clone() for i in range(16)]
    )
    assert variance == pytest.approx(float(rows.var(dim=0).sum()), rel=1e-4)
    assert engine.losses([Probe(start, samples[0])]) == [pytest.approx(loss)]


class Net(nn.Module):
    """A user's network with a layer that has no shortcut."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.norm = nn.Linear(FEATURES, 32), nn.LayerNorm(32)
        self.head = nn.Linear(32, CLASSES)

    def forward(self, features: Tensor) -> Tensor:
        return self.head(self.norm(torch.tanh(self.body(features))))


@pytest.mark.parametrize("model", ["mlp", Net])
def test_features_are_learnt_and_evaluated(model: Any) -> None:
    """The clouds' centres are 4·√(2·6) ≈ 14 deviations apart: whoever learns at all tells nearly all from another."""
    run = simulate(
        tabular(training__model=model, rounds=[8, 8, 8], training__local_steps=8), data=(TRAIN, TEST)
    )
    last = run.records[-1]
    assert last.balanced is not None
    assert last.balanced > 0.9
    net, data = run.model(), as_dataset((TRAIN, TEST))
    guesses = net(data.normalised(data.test_images)).argmax(dim=1)
    by_hand = [float((guesses[data.test_labels == c] == c).float().mean()) for c in range(CLASSES)]
    assert last.class_accuracy == pytest.approx(by_hand)


@pytest.mark.parametrize("rule", scheduler_names())
def test_every_scheduler_schedules_on_features(rule: str) -> None:
    run = simulate(tabular(rounds=[2, 1, 0], scheduler=rule), data=(TRAIN, TEST))
    assert run.finished
    assert any(record.clients for record in run.records)


def test_pre_training_follows_how_inputs_are_normalised(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Same numbers, seen differently: the cached model of one must not begin a run on the other."""
    monkeypatch.setenv("FEDTEDDI_CACHE", str(tmp_path))
    settings = tabular(rounds=[0, 0, 1], training__pretrain_epochs=1)
    for normalise in (True, False):
        simulate(settings, data=Dataset.from_arrays("blobs", *TRAIN, *TEST, normalise=normalise))
    assert len(list(tmp_path.glob("pretrained/*.safetensors"))) == 2


class Endless(torch.utils.data.IterableDataset[Any]):
    def __iter__(self) -> Iterator[Any]:
        return iter([(TRAIN[0][0], 0)])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("mine", "data='mine' is a name: give it as dataset='mine'"),
        (5, "data is a int: give a fedteddi.Dataset, two of PyTorch's"),
        (TRAIN, "item 0 of the train data is not .input, label."),
        ((Endless(), Endless()), "the train data are a Endless, which has no items and length"),
        ((TRAIN, (TEST[0][:, :3], TEST[1])), "differ in shape: give inputs of one shape"),
        ((TRAIN, ([], [])), "test_images is float64 with 1 dimensions"),
        (((np.full((400, 6), np.nan), TRAIN[1]), TEST), "train_images holds numbers that are not finite"),
        (([(np.zeros(2), 0), (np.zeros(3), 1), (np.zeros(3), 1)], TEST), r"inputs of shapes \[\(2,\), \(3,\)\]"),
    ],
)  # fmt: skip
def test_what_is_no_data_is_refused(given: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        as_dataset(given)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"training__model": "small-cnn"}, r"small-cnn takes images, .* of shape \(6,\): use training.model=mlp"),
        ({"training__augment": "flip"}, "training.augment='flip' varies images, and the data are features"),
        ({"training__model": lambda shape, classes: nn.Linear(7, classes)}, r"cannot take inputs of shape \(6,\)"),  # noqa: ARG005
    ],
)  # fmt: skip
def test_what_is_for_images_says_so(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        simulate(tabular(**changes), data=(TRAIN, TEST))
