"""`fedteddi reproduce cifar100`: two frames, groups that are run apart and merge, a page that is honest about gaps."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cli_runner import Outcome
from fedteddi import InputError, read_study
from fedteddi.experiment import Progress
from fedteddi.results.runs import RunRecord
from fedteddi.studies.page import page_of_summaries, write_page
from fedteddi.studies.play import reproduce, summarise
from fedteddi.studies.study import flat, load_study
from fedteddi.studies.summaries import merged
from fedteddi.studies.summary_files import read_summaries, write_summaries
from made_study import in_short, made_frames

Cli = Callable[..., Outcome]
ROOT = Path(__file__).parents[2]
CIFAR10, CIFAR100 = load_study("cifar10-first"), load_study("cifar100-first")

# The study in very small: its layout and frames, tiny images, a model of one convolution.
SMALL = [
    "dataset=data.npz",
    "rounds=[0, 2, 2]",
    "scenario.samples_per_client=12",
    "training.model=small_world:tiny_model",
    "training.local_steps=1",
    "training.batch_size=4",
    "training.pretrain_epochs=1",
    "radio.total_hz=20e3",
    "estimates.class_gradient_samples=2",
    "evaluation.every=1",
    "evaluation.loss_samples=20",
]
SET = [word for change in SMALL for word in ("--set", change)]


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder of one's own with tiny images of 50 classes."""
    monkeypatch.setenv("FEDTEDDI_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    arrays = {}
    for part, per_class in (("train", 16), ("test", 2)):
        labels = np.repeat(np.arange(50), per_class)
        images = rng.integers(0, 100, size=(len(labels), 8, 8, 3)) + 3 * labels[:, None, None, None]
        arrays |= {f"{part}_images": images.astype(np.uint8), f"{part}_labels": labels}
    np.savez("data.npz", **arrays)


def play(folder: str, rules: list[str], seeds: list[int], **more: Any) -> None:
    reproduce(CIFAR100, out=Path(folder), schedulers=rules, seeds=seeds, changes=SMALL, **more)


def rounds_of(folder: str) -> dict[str, bytes]:
    return {file.parent.name: file.read_bytes() for file in sorted(Path(folder).glob("*/rounds.jsonl"))}


def test_groups_run_apart_merge_into_one_page(cli: Cli) -> None:
    """FedTeddi with seeds 10 and 11 and Random with 10 only, each group in a folder of its own."""
    for number, (rule, seed) in enumerate([("fedteddi", 10), ("fedteddi", 11), ("random", 10)]):
        play(f"group{number}", [rule], [seed])
        if number < 2:
            assert summarise(CIFAR100, Path(f"group{number}"), Path("kept/cifar100-first")) == []
    Path("README.md").write_bytes((ROOT / "docs" / "results" / "README.md").read_bytes())
    words = ("--out", "group2", "--summarise", "kept/cifar100-first", "--readme", "README.md")
    done = cli("reproduce", "cifar100-first", *words)
    assert done.code == 0, done.err
    rows = (
        Path("README.md").read_text(encoding="utf-8").split("<!-- results of cifar100-first begins -->\n")[1]
    )
    assert rows.startswith("| claim | paper | ours |")
    assert "| frame 2: fewer rounds than fed-cbs, to 50% | 51.8 % fewer rounds |" in rows
    others = "fedcgd, fed-cbs, pure-drift, power-of-choice, best-norm, best-channel"
    said = (
        f"Seeds run, of 10, 11, 12, 13, 14: 10, 11; of random: 10; of {others}: none finished. Two schedulers"
    )
    assert f"\n\n{said}" in rows
    keys = [one.key for one in read_summaries(Path("kept/cifar100-first")).runs]
    assert keys == [
        ("baseline", rule, 30.0, seed) for rule, seed in (("fedteddi", 10), ("fedteddi", 11), ("random", 10))
    ]
    play("together", ["fedteddi", "random"], [10, 11])
    assert all(record.clients for record in read_study(Path("group0")).runs[0].records if record.round)
    together = rounds_of("together")
    for number in range(3):
        assert rounds_of(f"group{number}").items() <= together.items()

    page = Path("kept/cifar100-first.md").read_text()
    assert "3 finished runs" in page
    assert f"- {said}" in page
    for frame in (1, 2):
        for title in ("final, best and mean accuracy", "rounds to an accuracy", "old and new classes"):
            assert f"## Frame {frame}: {title}" in page
    pictures = sorted(file.name for file in Path("kept/cifar100-first").glob("*.png"))
    assert pictures == [
        "figure4-scheduled-frame1.png",
        "figure4-scheduled-frame2.png",
        "figure6-accuracy-frames.png",
        "figure7-rounds-frames.png",
    ]
    assert all(f"(cifar100-first/{name})" in page for name in pictures)
    assert "A\n*late drop* is the best accuracy" in page
    before = {file.name: file.read_bytes() for file in Path("kept/cifar100-first").iterdir()}

    # The same group again changes nothing; a later seed only adds.
    assert summarise(CIFAR100, Path("group0"), Path("kept/cifar100-first")) == []
    assert {file.name: file.read_bytes() for file in Path("kept/cifar100-first").iterdir()} == before
    play("later", ["random"], [11])
    summarise(CIFAR100, Path("later"), Path("kept/cifar100-first"))
    changed = {
        file.name for file in Path("kept/cifar100-first").iterdir() if file.read_bytes() != before[file.name]
    }
    assert changed == {"random.jsonl.gz"}
    page_of_summaries(CIFAR100, Path("kept/cifar100-first"))
    left = "fedcgd, fed-cbs, pure-drift, power-of-choice, best-norm, best-channel"
    assert f"14: 10, 11; of {left}: none finished." in Path("kept/cifar100-first.md").read_text()


class Interrupted(Exception):
    pass


def test_interrupted_in_the_second_frame_and_resumed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two runs of 2 + 2 rounds in lock-step, stopped after 3 each: in frame 2, which began with the best of frame 1."""
    monkeypatch.setattr("fedteddi.simulation.session.CHECKPOINT_EVERY_S", 0.0)
    play("whole", ["fedteddi", "fed-cbs"], [10])

    def interrupt(state: Progress) -> None:
        if state.rounds_done >= 6:
            assert all((run.state.frame, run.state.round) == (2, 1) for run in state.runs)
            raise Interrupted

    with pytest.raises(Interrupted):
        play("parts", ["fedteddi", "fed-cbs"], [10], watch=interrupt)
    with pytest.raises(InputError, match="no run that has come to its end"):
        summarise(CIFAR100, Path("parts"), Path("kept"))
    play("parts", ["fedteddi", "fed-cbs"], [10], resume=True)
    assert rounds_of("parts") == rounds_of("whole")
    assert summarise(CIFAR100, Path("parts"), Path("kept")) == []


def test_the_studys_seeds_are_the_default(cli: Cli) -> None:
    """A number counts from the study's first seed; which ones can be said as well. --quick takes the first."""
    words = ("reproduce", "cifar100-first", "--scheduler", "random", *SET)
    for given, expected in (
        ((), [10, 11, 12, 13, 14]),
        (("--seeds", 2), [10, 11]),
        (("--seeds", "3-4"), [3, 4]),
    ):
        folder = Path("runs") / str(len(given)) / str(expected[0])
        done = cli(*words, *given, "--out", folder, "--time-limit", 0)
        assert done.code == 0, done.err
        assert [run.settings.seed for run in read_study(folder).runs] == expected
    assert CIFAR10.seeds == [0, 1, 2, 3, 4]


def test_quick_plays_all_rules_in_both_frames(cli: Cli) -> None:
    """As it is, but for data and model: those of the study take minutes (docs/metrics.md)."""
    kept = [word for word in SMALL if word.startswith(("dataset", "training.model", "radio", "scenario"))]
    done = cli("reproduce", "cifar100-first", "--quick", *[w for change in kept for w in ("--set", change)])
    assert done.code == 0, done.err
    runs = read_study(Path("runs/cifar100-first-quick")).runs
    assert sorted(run.scheduler for run in runs) == sorted(CIFAR100.schedulers)
    assert {run.settings.seed for run in runs} == {10}
    assert all(run.evaluated(frame)[-1].round == 2 for run in runs for frame in (1, 2))
    page = Path("runs/cifar100-first-quick/report/cifar100-first.md").read_text()
    assert "**Quick: a shortened study" in page
    assert "- Seeds run, of 10: 10" not in page  # with --quick that is all
    assert "- Set here: `rounds`: [0, 2, 2] instead of [0, 200, 200]" in page
    assert (
        flat(CIFAR100.quick).keys() & {"training__model", "dataset"} == set()
    )  # it is the study's model on its images


def test_groups_that_contradict_each_other_are_refused() -> None:
    one = made_frames("fedteddi", 10, [[0.4, 0.5], [0.4, 0.6]], deadline_s=30.0)
    other = made_frames("fedteddi", 10, [[0.4, 0.5], [0.4, 0.7]], deadline_s=30.0)
    with pytest.raises(InputError, match="with seed 10 is there already with another outcome"):
        merged(in_short(one), in_short(other))
    shorter = made_frames("random", 10, [[0.4, 0.5], [0.4, 0.5, 0.5]], deadline_s=30.0)
    with pytest.raises(InputError, match=r"another study \(rounds was \[0, 5, 5\], now \[0, 5, 10\]\)"):
        merged(in_short(one), in_short(shorter))
    elsewhere = made_frames("random", 10, [[0.4, 0.5], [0.4, 0.6]], deadline_s=30.0)
    moved = RunRecord(elsewhere.settings, elsewhere.counts[:, ::-1], elsewhere.records, True)
    with pytest.raises(InputError, match="did not see the same data: run one of them again"):
        merged(in_short(one), in_short(moved))

    write_summaries(in_short(one), Path("kept"))
    Path("kept/copy.jsonl.gz").write_bytes(Path("kept/fedteddi.jsonl.gz").read_bytes())
    with pytest.raises(InputError, match=r"seed 10 is in kept/copy.*and in kept/fedteddi.*: remove one"):
        read_summaries(Path("kept"))


def test_how_it_was_run_lists_every_machine() -> None:
    runs = [made_frames("fedteddi", seed, [[0.4, 0.5], [0.4, 0.6]], deadline_s=30.0) for seed in (10, 11, 12)]
    parts = [
        in_short(run, name="cifar100-first", machine=name)
        for run, name in zip(runs, ("one", "two", "two"), strict=True)
    ]
    whole = merged(merged(parts[0], parts[1]), parts[2])
    page = write_page(CIFAR100, whole, Path(), "name", "me").files[0].read_text()
    rows = page.split("## Method")[1]
    assert "| one | float32 | 1 | 1.0 |" in rows
    assert "| two | float32 | 2 | 2.0 |" in rows


def test_the_study_is_the_papers() -> None:
    """SPEC section 6: the complete settings."""
    settings = CIFAR100.settings
    assert (settings.dataset, settings.rounds) == ("cifar100", [0, 200, 200])
    scenario, training, radio = settings.scenario, settings.training, settings.radio
    assert (scenario.layout, scenario.clients, scenario.samples_per_client) == ("paper-cifar100", 30, 300)
    assert (scenario.replay, scenario.overlap) == ("random", False)
    assert (training.model, training.local_steps, training.batch_size) == ("resnet18-gn8", 10, 32)
    assert (training.learning_rate, training.decay, training.momentum) == (0.01, 0.9992, 0.5)
    assert (training.augment, training.precision, training.pretrain_epochs) == ("flip", "bf16", 30)
    assert (training.pretrain_learning_rate, training.pretrain_momentum) == (0.02, 0.9)
    assert (training.pretrain_weight_decay, training.pretrain_batch_size) == (5e-4, 128)
    assert (radio.total_hz, radio.deadline_s, radio.power_dbm, radio.radius_m) == (20e6, 30.0, 23.0, 250.0)
    assert (settings.evaluation.every, settings.evaluation.loss_samples) == (5, 2000)
    assert CIFAR100.schedulers == CIFAR10.schedulers
    assert CIFAR100.deadlines_s == [30.0]
    assert CIFAR100.quickened().settings.training.model == "resnet18-gn8"
