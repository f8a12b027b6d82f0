"""What takes minutes: the default experiment as `make run` plays it, the quickstart, the round benchmark."""

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from fedteddi import read_study

ROOT = Path(__file__).parents[1]
pytestmark = pytest.mark.slow


def run(*words: str, folder: Path) -> str:
    done = subprocess.run(
        [sys.executable, *words],
        cwd=ROOT,
        env=os.environ | {"FEDTEDDI_CACHE": str(folder / "cache")},
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_default_experiment_learns_the_new_classes_and_keeps_the_old(tmp_path: Path) -> None:
    """`make run`'s command: all 120 rounds, both rules above 65 % balanced from 55 %, the new classes learnt."""
    out = tmp_path / "first"
    words = [
        "-m",
        "fedteddi",
        "compare",
        "--scheduler",
        "fedteddi",
        "--scheduler",
        "random",
        "--out",
        str(out),
    ]
    shown = run(*words, folder=tmp_path)
    assert "Frame 1: rounds to an accuracy" in shown
    assert (out / "report" / "figure3-accuracy-frame1.png").exists()
    study = read_study(out)
    assert study.finished
    for record in study.runs:
        curve = record.curve()
        frame1 = curve[curve["frame"] == 1]
        assert frame1["balanced"].iloc[0] < 0.60
        assert frame1["balanced"].iloc[-1] > 0.65
        assert frame1["new"].iloc[0] < 0.05
        assert frame1["new"].iloc[-1] > 0.35
        assert frame1["old"].iloc[-1] > 0.70
    ours, theirs = (study.of(name)[0] for name in ("fedteddi", "random"))
    with_new = [sum(r.scheduled_new for r in record.records if r.round) for record in (ours, theirs)]
    assert with_new[0] > 1.2 * with_new[1]


def test_the_quickstart_runs(tmp_path: Path) -> None:
    shown = run("examples/quickstart.py", folder=tmp_path)
    assert re.search(r"^fedteddi +0\.\d+ +0\.\d+", shown, re.MULTILINE)
    assert "random reached 65 % balanced accuracy in round" in shown
    picture = ROOT / "accuracy.png"
    assert picture.stat().st_size > 1000
    picture.unlink()


def test_the_tutorial_plays_as_printed(tmp_path: Path) -> None:
    """Every command of docs/tutorial.md ends well and prints the same words; numbers may differ between machines."""
    committed = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")
    page = tmp_path / "tutorial.md"
    page.write_text(committed, encoding="utf-8")
    run("scripts/tutorial.py", "--write", str(page), folder=tmp_path)
    assert (tmp_path / "tutorial" / "figure3-accuracy-frame1.png").stat().st_size > 1000
    assert _words(page.read_text(encoding="utf-8")) == _words(committed)


def _words(page: str) -> list[str]:
    """The words of a page without what stands for a number: `>20 (0 of 1 reached)` in place of 15, say."""
    return re.findall(r"[^\W\d_]{2,}", re.sub(r"\(\d+ of \d+ reached\)|Δ \w+", "", page))


def test_the_site_is_built_without_a_broken_link() -> None:
    """Strictly: a link or anchor that leads nowhere, or anything fetched from elsewhere, ends it with exit code 1."""
    said = run("scripts/docs_site/build.py", folder=ROOT)
    assert "every link and anchor leads somewhere" in said
    assert (ROOT / "build" / "site" / "api.html").stat().st_size > 50_000


def test_the_round_benchmark_runs(tmp_path: Path) -> None:
    shown = run("benchmarks/round.py", "--repeats", "1", "--clients", "30", folder=tmp_path)
    assert "of bare" in shown
    assert "peak memory with    30 clients" in shown


@pytest.mark.skipif(find_spec("triton") is None, reason="Triton comes with CUDA; make test-slow installs it")
def test_the_kernels_for_gpus_agree_with_pytorch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Forward and backward, and a whole engine with them, by Triton's interpreter on the CPU."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "tests"), prepend=os.pathsep)
    said = run("tests/learning/gpu/kernels/interpreted_kernels.py", folder=tmp_path)
    assert (
        said.strip() == "the engine, 24 convolutions, 9 of other tiles, 11 of ResNet-18, and 12 norms agree"
    )


def test_the_study_benchmark_runs(tmp_path: Path) -> None:
    words = ["--rounds", "4", "--seeds", "1", "--device", "cpu", "--scheduler", "random", "fedcgd", "--set"]
    small = ["training.local_steps=1", "training.pretrain_epochs=0", "estimates.class_gradient_samples=4"]
    evaluated = ["evaluation.test_images=100", "evaluation.loss_samples=100"]
    shown = run("benchmarks/study.py", *words, *small, *evaluated, folder=tmp_path)
    assert re.search(r"client-steps +\d+\.\d+ ms each, all in", shown)
    shares = [int(share) for share in re.findall(r"(\d+)%", shown)]
    assert len(shares) == 4
    assert 97 <= sum(shares) <= 103
