"""pfl-research's CIFAR-10 benchmark, played by our engine and by pfl itself on the same device in the same run.

    pip install --no-deps --target peer -r benchmarks/pfl-cifar10-requirements.txt
    python benchmarks/pfl_cifar10.py --data ~/.cache/fedteddi/data --peer-path peer

1,500 rounds of FedAvg: 50 users a round, each one epoch over its 50 images, 5 SGD steps of 10. Facts, by file in
https://github.com/apple/pfl-research at c9d1f32:

- `benchmarks/image_classification/configs/baseline.yaml`: cohort_size 50, central_num_iterations 1500 (the README
  beside it has 3000 for non-IID), local_num_epochs 1, local_batch_size 10, local_learning_rate 0.1, learning_rate 1.0
  on the server, weight_by_samples false, 50 images a user, evaluation_frequency 10, val_cohort_size 0.
- `.../pytorch/train.py`: plain SGD on both sides; no schedule, no augmentation, no mixed precision; data on the GPU.
- `benchmarks/model/pytorch/cnn.py`, simple_cnn: 1,626,442 parameters, Glorot-uniform weights.
- `benchmarks/dataset/cifar10/numpy.py`: channels normalised with the training set's mean and deviation. IID users are
  pieces of a permutation; the others draw their classes from Dir(0.1). Users are sampled with replacement.
- `pfl/data/partition.py`: how Dirichlet users get images; `pfl/data/dataset.py`: batches keep their order.
- `benchmarks/dataset/cifar10/download_preprocess.py`: reads the planes of a CIFAR image as if colours were its last
  dimension, so its images are scrambled. Both sides get these; `--pixels true` gives both the real images.

Ours calls the engine (`learning/engine.py`) and the aggregation rule, not `simulate`: that would have all 1,000 clients
report in every round, model the radio, and draw each batch anew, which is another benchmark. Weights, momentum and
losses are float32; with --precision bf16, activations and products are bfloat16. pfl runs as in its benchmark, in
float32 with PyTorch's defaults, and with bf16 once more in its own mixed precision; the ratio is to the faster. pfl
is one process; several on one GPU may be faster. To its favour, it evaluates nothing in timed rounds, keeps users'
batches, and has labels as integers. Ours evaluates on all test images every 10 rounds, outside of "ms a round".
"""

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from fedteddi.aggregation import Received, make_aggregation
from fedteddi.learning.cpu import usable_threads
from fedteddi.learning.datasets.dataset import Dataset, load_dataset
from fedteddi.learning.devices import make_engine
from fedteddi.learning.dropout import draw_keys
from fedteddi.learning.engine import Candidate, TrainJob
from fedteddi.learning.flat import FlatModel
from fedteddi.learning.models import make_model
from fedteddi.randomness import keyed_rng

HELD, BATCH, LEARNING_RATE, ALPHA = 50, 10, 0.1, 0.1
STEPS = HELD // BATCH
TRIES, SPREAD = 20, 0.02  # draws for each image of a user, and what every class's share then gains
EVALUATE_EVERY = 10
WARM_UP = 3  # rounds that are not timed: kernels are compiled and steps captured in them
PRECISIONS = {"fp32": "float32", "tf32": "tf32", "bf16": "bf16"}
PEERS = {"fp32": ("pfl", None), "bf16": ("pfl, bf16 autocast", torch.bfloat16)}
INSTALL = (
    "pip install --no-deps --target DIR -r benchmarks/pfl-cifar10-requirements.txt, then --peer-path DIR"
)
Users = list[np.ndarray]  # the training images of each, [50], in the order of its batches


def simple_cnn(image_shape: tuple[int, int, int], num_classes: int) -> nn.Sequential:
    """Make pfl's CNN: two unpadded 3×3 convolutions, pooling, 128 units, two dropouts."""
    channels, height, width = image_shape
    model = nn.Sequential(
        *(nn.Conv2d(channels, 32, 3), nn.ReLU(), nn.Conv2d(32, 64, 3), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Dropout(0.25), nn.Flatten(), nn.Linear(64 * ((height - 4) // 2) * ((width - 4) // 2), 128)),
        *(nn.ReLU(), nn.Dropout(0.5), nn.Linear(128, num_classes)),
    )
    for layer in model:
        if isinstance(layer, nn.Conv2d | nn.Linear):
            nn.init.xavier_uniform_(layer.weight)
    return model


def first_model(data: Dataset, seed: int) -> nn.Module:
    """Make the model with the weights that both sides start from."""
    return make_model(f"{Path(__file__).resolve()}:simple_cnn", data.image_shape, data.num_classes, seed)


def as_pfl_reads(images: Tensor) -> np.ndarray:
    """Read the bytes of images [M, 3, H, W] as [M, H, W, 3], as pfl's preprocessing does."""
    count, channels, height, width = images.shape
    return images.contiguous().numpy().reshape(count, height, width, channels)


def benchmark_data(data_dir: Path | None, pixels: str) -> Dataset:
    """Load CIFAR-10 with its pixels as pfl reads them, or as they are."""
    data = load_dataset("cifar10", data_dir)
    if pixels == "true":
        return data
    return Dataset.from_arrays(
        "cifar10, as pfl reads it",
        as_pfl_reads(data.train_images),
        data.train_labels.numpy(),
        as_pfl_reads(data.test_images),
        data.test_labels.numpy(),
        num_classes=data.num_classes,
    )


def iid(labels: np.ndarray, seed: int) -> Users:
    """Deal all images to users of 50."""
    order = keyed_rng(seed, "arrival").permutation(len(labels))
    return list(order[: len(order) // HELD * HELD].reshape(-1, HELD))


def dirichlet(labels: np.ndarray, seed: int) -> Users:
    """Draw every user's class mix from Dir(0.1), then its images, until fewer than 50 are left.

    A class that has none left is drawn in vain; after 1,000 draws a user's mix moves towards all classes.
    """
    rng = keyed_rng(seed, "arrival")
    left = [list(rng.permutation(np.flatnonzero(labels == c))) for c in np.unique(labels)]
    users: Users = []
    while sum(map(len, left)) >= HELD:
        mix = rng.dirichlet([ALPHA] * len(left))
        own: list[int] = []
        while len(own) < HELD:
            for c in rng.choice(len(left), size=HELD * TRIES, p=mix):
                if left[c] and len(own) < HELD:
                    own.append(left[c].pop())
            mix = (mix + SPREAD) / (mix + SPREAD).sum()
        users.append(np.array(own))
    return users


PARTITIONS: dict[str, Callable[[np.ndarray, int], Users]] = {"iid": iid, "dirichlet": dirichlet}


@dataclass
class Played:
    """What was measured of one side."""

    ms: list[float] = field(default_factory=list)  # of each round after the warm-up, evaluation left out
    seconds: float = 0.0  # from the first round's start to the end, everything included
    startup_s: float = 0.0  # before the first round
    warm_up_s: float = 0.0  # of `seconds`, the rounds that are not timed
    accuracy: dict[int, float] = field(default_factory=dict)  # by round

    @property
    def last(self) -> tuple[int, float]:
        """The last round that was evaluated, and the accuracy after it."""
        return max(self.accuracy.items())


def now(device: str) -> float:
    """Return the time, once the device has done all it was asked."""
    if device != "cpu":
        torch.cuda.synchronize(device)
    return time.perf_counter()


def play_ours(data: Dataset, users: Users, options: argparse.Namespace) -> Played:
    """Play all rounds with our engine."""
    played, device = Played(), options.device
    begun = now(device)
    model = FlatModel(first_model(data, options.seed))
    engine = make_engine(model, data, device, PRECISIONS[options.precision], usable_threads())
    rule, weights = make_aggregation("fedavg"), engine.place(model.weights.clone())
    tested = np.bincount(data.test_labels.numpy(), minlength=data.num_classes)
    due = {options.rounds, WARM_UP + options.peer_rounds}
    first = now(device)
    for number in range(1, options.rounds + 1):
        started = now(device)
        cohort = keyed_rng(options.seed, "scheduler", round=number).integers(len(users), size=options.cohort)
        trained = engine.train(jobs_of(weights, [users[user] for user in cohort], options.seed, number))
        weights = rule.aggregate(
            Received(
                frame=0,
                round=number,
                model=weights,
                uploads=tuple(one.weights for one in trained),
                shares=np.full(len(trained), 1 / len(trained)),
                client_id=cohort,
            )
        )
        ended = now(device)
        if number > WARM_UP:
            played.ms.append(1e3 * (ended - started))
        else:
            played.warm_up_s = ended - first
        if number % EVALUATE_EVERY == 0 or number in due:
            accuracy = np.nan_to_num(engine.class_accuracy([Candidate(weights)])[0])
            played.accuracy[number] = float(accuracy @ tested / tested.sum())
    played.startup_s, played.seconds = first - begun, now(device) - first
    return played


def jobs_of(weights: Tensor, held: Users, seed: int, number: int) -> list[TrainJob]:
    """Return the local training of a round's users, who hold these images."""
    keys = draw_keys(keyed_rng(seed, "dropout", round=number), len(held) * STEPS)
    return [
        TrainJob(
            weights=weights,
            samples=own.reshape(STEPS, BATCH),
            views=None,
            learning_rate=LEARNING_RATE,
            momentum=0.0,
            dropout_keys=key,
        )
        for own, key in zip(held, keys.reshape(len(held), STEPS, 2), strict=True)
    ]


class Network(nn.Module):
    """The model as pfl wants it; images are [n, H, W, channels]."""

    def __init__(self, layers: nn.Module) -> None:
        super().__init__()
        self.layers = layers

    def forward(self, images: Tensor) -> Tensor:
        """Return class scores, [n, C]."""
        scores: Tensor = self.layers(images.permute(0, 3, 1, 2))
        return scores

    def loss(self, images: Tensor, labels: Tensor) -> Tensor:
        """Return the mean loss of a batch, with dropout."""
        return F.cross_entropy(self.train()(images), labels)

    @torch.no_grad()
    def metrics(self, images: Tensor, labels: Tensor) -> dict[str, Any]:
        """Count the images that are classified correctly."""
        from pfl.metrics import Weighted

        right = (self.eval()(images).argmax(dim=1) == labels).sum().item()
        return {"accuracy": Weighted(right, len(labels))}


def pixels_of(data: Dataset, images: Tensor, device: str) -> Tensor:
    """Return normalised images, [n, H, W, channels], on the device."""
    return data.normalised(images).permute(0, 2, 3, 1).contiguous().to(device)


def play_pfl(data: Dataset, users: Users, options: argparse.Namespace, amp: torch.dtype | None) -> Played:
    """Play some rounds on pfl's simulated backend."""
    from pfl.aggregate.simulate import SimulatedBackend
    from pfl.aggregate.weighting import WeightByUser
    from pfl.algorithm.base import NNAlgorithmParams
    from pfl.algorithm.federated_averaging import FederatedAveraging
    from pfl.callback.base import TrainingProcessCallback
    from pfl.data.dataset import Dataset as UserDataset
    from pfl.data.federated_dataset import FederatedDataset
    from pfl.data.sampling import get_user_sampler
    from pfl.hyperparam import NNEvalHyperParams, NNTrainHyperParams
    from pfl.metrics import Metrics
    from pfl.model.pytorch import PyTorchModel

    played, device, ends = Played(), options.device, list[float]()

    class Clock(TrainingProcessCallback):  # type: ignore[misc]
        """Notes when a round is over."""

        def after_central_iteration(self, *_: object, **__: object) -> tuple[bool, Any]:
            """Wait for the device and go on."""
            ends.append(now(device))
            return False, Metrics()

    begun = now(device)
    np.random.seed(options.seed)  # noqa: NPY002 - pfl draws its users from it
    torch.manual_seed(options.seed)
    network = Network(first_model(data, options.seed)).to(device)
    central = torch.optim.SGD(network.parameters(), lr=1.0)
    model = PyTorchModel(network, torch.optim.SGD, central, amp_dtype=amp)
    images, labels = pixels_of(data, data.train_images, device), data.train_labels.to(device)
    held = [UserDataset((images[own], labels[own])) for own in map(torch.from_numpy, users)]
    source = FederatedDataset(held.__getitem__, get_user_sampler("random", range(len(held))))
    backend = SimulatedBackend(source, source, postprocessors=[WeightByUser()])
    # It always evaluates in iteration 0, which is not timed, and in no other here.
    until = NNAlgorithmParams(
        central_num_iterations=WARM_UP + options.peer_rounds,
        evaluation_frequency=2**31,
        train_cohort_size=options.cohort,
        val_cohort_size=0,
    )
    how = NNTrainHyperParams(
        local_batch_size=BATCH, local_num_epochs=STEPS * BATCH // HELD, local_learning_rate=LEARNING_RATE
    )
    evaluation = NNEvalHyperParams(local_batch_size=1000)
    first = now(device)
    FederatedAveraging().run(
        until, backend, model, how, evaluation, callbacks=[Clock()], send_metrics_to_platform=False
    )
    played.startup_s, played.seconds = first - begun, now(device) - first
    played.warm_up_s = ends[WARM_UP - 1] - first
    played.ms = [1e3 * (end - start) for start, end in zip(ends[WARM_UP - 1 :], ends[WARM_UP:], strict=False)]
    test = UserDataset((pixels_of(data, data.test_images, device), data.test_labels.to(device)))
    ((_, accuracy),) = model.evaluate(test, eval_params=evaluation)
    played.accuracy[len(ends)] = float(accuracy.overall_value)
    return played


def pfl_fault(path: Path | None, device: str) -> str | None:
    """Return why pfl cannot take part; None: it can, and uses the device."""
    os.environ["PFL_PYTORCH_DEVICE"] = device
    if path is not None:
        sys.path.append(str(path))
    try:
        import pfl.aggregate.simulate
        import pfl.model.pytorch  # noqa: F401
    except ImportError as error:
        return f"pfl cannot be imported ({error}): {INSTALL}"
    return None


def compare(data: Dataset, partition: str, with_pfl: bool, options: argparse.Namespace) -> dict[str, Played]:
    """Play one partition on both sides; return what was measured, by title."""
    users = PARTITIONS[partition](data.train_labels.numpy(), options.seed)
    tell(f"{partition}: {len(users)} users; ours, {options.rounds} rounds")
    found = {f"ours, {options.precision}": play_ours(data, users, options)}
    if with_pfl and options.peer_rounds:
        for title, amp in map(PEERS.__getitem__, options.peer_precision):
            tell(f"{partition}: {title}, {WARM_UP} + {options.peer_rounds} rounds")
            found[title] = play_pfl(data, users, options, amp)
    return found


def table(results: dict[str, dict[str, Played]], options: argparse.Namespace) -> list[str]:
    """Return the table's lines."""
    same = WARM_UP + options.peer_rounds
    lines = [
        f"| users | | rounds | seconds | of them the first {WARM_UP} | ms a round | ratio | accuracy at the end, best"
        f" | after round {same} |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for partition, sides in results.items():
        medians = {title: statistics.median(played.ms) for title, played in sides.items() if played.ms}
        own = next(iter(medians.values()), None)
        for title, played in sides.items():
            ms = medians.get(title)
            last, best = played.last[1], max(played.accuracy.values())
            cells = [
                *(partition, title, f"{len(played.ms) + WARM_UP}" if played.ms else "–"),
                *(f"{played.seconds:.1f}", f"{played.warm_up_s:.1f}", "–" if ms is None else f"{ms:.2f}"),
                "–" if ms is None or own is None else f"{ms / own:.1f}×",
                f"{last:.4f}, {best:.4f}",
                f"{played.accuracy[same]:.4f}" if same in played.accuracy else "–",
            ]
            lines.append(f"| {' | '.join(cells)} |")
    return lines


def verdict(partition: str, sides: dict[str, Played]) -> str:
    """Return how ours stands to its targets: 60 s, and a tenth of the faster pfl's time a round."""
    (_, ours), *peers = sides.items()
    text = f"{partition}: {ours.last[0]} rounds in {ours.seconds:.1f} s with {ours.last[1]:.2%} accuracy"
    if not peers or not ours.ms:
        return f"{text}."
    title, best = min(peers, key=lambda peer: statistics.median(peer[1].ms))
    ratio = statistics.median(best.ms) / statistics.median(ours.ms)
    return f"{text}; a round is {ratio:.1f} times as fast as that of {title}."


def tell(line: str) -> None:
    """Say how far it is, apart from the results."""
    print(line, file=sys.stderr, flush=True)


def options_of(words: list[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--data", type=Path, help="where CIFAR-10 lies; by default where fedteddi keeps it")
    parser.add_argument("--rounds", type=int, default=1500, help="of ours")
    parser.add_argument(
        "--peer-rounds", type=int, default=30, help=f"of pfl, after {WARM_UP} that are not timed"
    )
    parser.add_argument("--partition", choices=[*PARTITIONS, "both"], default="both")
    parser.add_argument("--cohort", type=int, default=50, help="users a round")
    parser.add_argument(
        "--pixels", choices=["pfl", "true"], default="pfl", help="as pfl reads images, or not"
    )
    parser.add_argument("--device", default="auto")
    parser.add_argument("--precision", choices=list(PRECISIONS), default="bf16", help="of ours, on a GPU")
    parser.add_argument("--peer-path", type=Path, help="a folder that holds pfl and what it needs")
    parser.add_argument(
        "--peer-precision", choices=list(PEERS), nargs="+", help="by default fp32, and bf16 if ours is bf16"
    )
    parser.add_argument("--json", type=Path, help="write the numbers here too")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(words)
    if options.device == "auto":
        options.device = "cuda" if torch.cuda.is_available() else "cpu"
    if options.device == "cpu":  # it always computes in float32
        options.precision = "fp32"
    options.peer_precision = options.peer_precision or ["fp32", *(["bf16"] * (options.precision == "bf16"))]
    return options


def main() -> None:
    """Play, print the table, and write the numbers as JSON."""
    options = options_of(None)
    data = benchmark_data(options.data, options.pixels)
    fault = pfl_fault(options.peer_path, options.device)
    partitions = list(PARTITIONS) if options.partition == "both" else [options.partition]
    results = {partition: compare(data, partition, fault is None, options) for partition in partitions}
    notes = [] if fault is None else [f"Left out: {fault}"]
    print("\n".join([*table(results, options), "", *(verdict(*item) for item in results.items()), *notes]))
    if options.json is not None:
        setup = {key: str(value) for key, value in vars(options).items()} | {"torch": torch.__version__}
        sides = {partition: {t: asdict(p) for t, p in own.items()} for partition, own in results.items()}
        text = json.dumps({"setup": setup, "left_out": fault, "results": sides}, indent=1)
        options.json.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
