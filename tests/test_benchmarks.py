"""The benchmarks run, agree with their baselines, and print what the documents quote."""

import json
import pickle
import re
import runpy
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from cifar_files import batch
from fedteddi import Settings
from fedteddi.learning.datasets.catalogue import CIFAR
from fedteddi.learning.datasets.dataset import Dataset
from fedteddi.learning.models import make_model
from fedteddi.schedulers.registry import built_in
from fedteddi.studies.summaries import Summaries, Summarised
from fedteddi.studies.summary_files import read_summaries, write_summaries
from made_study import made_frames, made_run

ROOT = Path(__file__).parents[1]


def run(*words: str) -> str:
    done = subprocess.run(
        [sys.executable, *words], cwd=ROOT, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def refused(*words: str) -> str:
    done = subprocess.run(
        [sys.executable, *words], cwd=ROOT, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode != 0
    return done.stderr


def test_optimality_in_small(tmp_path: Path) -> None:
    """A few instances: enumeration and solver agree (the script stops if not), and exact is always optimal."""
    page = tmp_path / "page.md"
    run("benchmarks/optimality.py", "--instances", "6", "--write", str(page))
    rows = re.findall(r"^\| (\d+) \| (\w+) \| (\d+)% \| ([\d.]+) \|", page.read_text(), re.MULTILINE)
    assert [(clients, search) for clients, search, *_ in rows] == [
        (clients, search) for clients in ("12", "30") for search in ("greedy", "refined", "exact")
    ]
    for clients in ("12", "30"):
        gap = {search: float(mean) for size, search, _, mean in rows if size == clients}
        assert gap["greedy"] >= gap["refined"] >= gap["exact"] == 0
    assert {share for _, search, share, _ in rows if search == "exact"} == {"100"}


def test_the_docs_quote_the_committed_page() -> None:
    committed = (ROOT / "docs" / "optimality.md").read_text(encoding="utf-8")
    usage = (ROOT / "docs" / "usage.md").read_text(encoding="utf-8")
    shares = dict(re.findall(r"^\| 30 \| (\w+) \| (\d+)% \|", committed, re.MULTILINE))
    assert f"| {shares['greedy']} % of 30-client rounds |" in usage
    assert f"| {shares['refined']} %, and" in usage


@pytest.mark.parametrize("words", [("scheduling.py", "--quick"), ("one_pass.py", "--clients", "20000")])
def test_speed_benchmarks_run(words: tuple[str, ...]) -> None:
    """`scheduling.py` stops if the plain reading chooses other clients."""
    assert re.search(r"ms", run(f"benchmarks/{words[0]}", *words[1:]))


def test_rounds_beside_peers_in_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two repetitions of one step on two images: bare and ours have times and ratios, pfl too or a reason.

    The only peer but pfl is the bare loop; so without pfl its ratio is 1.
    """
    page = tmp_path / "page.md"
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    words = ["--taus", "1", "--batch-size", "2", "--repeats", "2", "--write", str(page)]
    only = ["bare", "pfl", "ours-fedteddi"]
    said = run("benchmarks/peers.py", *words, *(word for name in only for word in ("--only", name)))
    row = r"^\| ([^|,]+)[^|]* \| [\d.]+ \[[\d.]+, [\d.]+\] \| ([\d.]+) \| [\d.]+ \| [\d,]+ \| 1 \|$"
    for text in (said, page.read_text(encoding="utf-8")):
        ratios = re.findall(row, text, re.MULTILINE)
        left_out = "Left out: pfl. τ = 1: pfl is not installed: pip install -r benchmarks" in text
        expected = {"bare PyTorch loop", "fedteddi"} | (set() if left_out else {"pfl"})
        assert {name for name, _ in ratios} == expected
        assert not left_out or ratios[0][1] == "1.00"
        assert "fedteddi, a FedTeddi round, takes this part of the best peer's time: " in text


def small_cifar(parent: Path, images: int = 60) -> Path:
    """CIFAR-10's six files with so many random images each."""
    which = CIFAR["cifar10"]
    folder = parent / which.folder
    folder.mkdir()
    for number, file in enumerate(which.files):
        (folder / file).write_bytes(pickle.dumps(batch(which, number, images)))
    return parent


def test_pfls_benchmark_in_small(tmp_path: Path) -> None:
    """Five rounds of two of the 300 / 50 = 6 users; pfl's row is there, or why not.

    Three rounds are warm-up, so two of ours are timed. Accuracy is due after round 3 + 1, to compare, and at the end.
    """
    written = tmp_path / "numbers.json"
    words = ["--data", str(small_cifar(tmp_path)), "--device", "cpu", "--json", str(written)]
    few = ["--rounds", "5", "--peer-rounds", "1", "--cohort", "2"]
    said = run("benchmarks/pfl_cifar10.py", *words, *few)
    found = json.loads(written.read_text(encoding="utf-8"))
    assert set(found["results"]) == {"iid", "dirichlet"}
    for sides in found["results"].values():
        ours, *peers = sides.values()
        assert set(sides) == {"ours, fp32"} | (set() if found["left_out"] else {"pfl"})
        assert len(ours["ms"]) == 2
        assert set(ours["accuracy"]) == {"4", "5"}
        assert all(len(peer["ms"]) == 1 and set(peer["accuracy"]) == {"4"} for peer in peers)
        assert all(0 <= share <= 1 for side in sides.values() for share in side["accuracy"].values())
    rows = re.findall(r"^\| (iid|dirichlet) \| ours, fp32 \| 5 \|.* ([\d.]+)× \|", said, re.MULTILINE)
    assert rows == [("iid", "1.0"), ("dirichlet", "1.0")]
    assert ("Left out: pfl cannot be imported" in said) == bool(found["left_out"])
    assert ("times as fast as that of pfl" in said) != bool(found["left_out"])


def test_pfls_users_hold_what_pfl_gives_them() -> None:
    """IID: every image once. Dir(0.1): nobody shares an image, and most of a user's are of one class.

    The largest of ten shares from Dir(0.1) is 0.66 on average; evenly mixed users would have about 0.2.
    """
    script = runpy.run_path(str(ROOT / "benchmarks" / "pfl_cifar10.py"))
    labels = np.arange(5000) % 10
    for users in (script["iid"](labels, 0), script["dirichlet"](labels, 0)):
        assert {len(own) for own in users} == {50}
        assert np.array_equal(np.sort(np.concatenate(users)), np.arange(5000))
    largest = [np.bincount(labels[own], minlength=10).max() / 50 for own in users]
    assert 0.55 < np.mean(largest) < 0.75


def test_pfls_model_and_pixels_are_those_of_its_benchmark() -> None:
    """896 + 18,496 + 1,605,760 + 1,290 weights; both sides give an image the same scores.

    pfl takes the 3,072 bytes of an image, red plane first, for 32 rows of 32 pixels of three colours: pixel 0 of row 0
    is the first three reds, and row 11 begins with byte 11 · 96 = 1,056, a green.
    """
    script = runpy.run_path(str(ROOT / "benchmarks" / "pfl_cifar10.py"))
    planes = torch.arange(3072).reshape(1, 3, 32, 32)
    read = script["as_pfl_reads"](planes)
    assert read[0, 0, 0].tolist() == [0, 1, 2]
    assert read[0, 11, 0].tolist() == [1056, 1057, 1058]
    pixels = np.zeros((50, 3, 32, 32), dtype=np.uint8)
    data = Dataset.from_arrays("none", pixels, np.arange(50) % 10, pixels[:10], np.arange(10))
    model = script["first_model"](data, 0)
    assert sum(p.numel() for p in model.parameters()) == 1_626_442
    images = torch.rand(2, 3, 32, 32)
    seen = script["Network"](model).eval()(images.permute(0, 2, 3, 1))
    torch.testing.assert_close(seen, model(images))


def test_peers_train_the_model_that_we_train() -> None:
    peers = runpy.run_path(str(ROOT / "benchmarks" / "peers.py"))
    for name in ("paper-cnn", "paper-cnn-same"):
        ours = make_model(name, (3, 32, 32), 10, seed=0)
        assert str(peers["make_model"](peers["Work"](name, 1, 2, 1))) == str(ours)


def test_startup_is_set_beside_the_imports_it_needs() -> None:
    """A ratio for every row, and 1 for the baselines; how large the others are is the machine's affair."""
    said = run("benchmarks/startup.py", "--repeats", "1", "--epochs", "0")
    rows = dict(re.findall(r"│ (\S.*?) +│ +[\d.]+ │ +[\d.]+ │ +([\d.]+)× │", said))
    assert {what for what, ratio in rows.items() if ratio == "1.00"} >= {
        "numpy, typer and rich",
        "import torch",
    }
    assert set(rows) - {"numpy, typer and rich", "import torch"} == {
        "import fedteddi",
        *(f"fedteddi {command}" for command in ("example", "schedule", "schedulers")),
        "fedteddi run, at its first round",
        "fedteddi run, first round done",
    }


def test_growth_writes_its_tables_and_its_picture_into_a_page(tmp_path: Path) -> None:
    """Two sizes of everything; what stands around the marks stays, and no time is asked for."""
    page = tmp_path / "page.md"
    committed = (ROOT / "docs" / "scale.md").read_text(encoding="utf-8")
    page.write_text(committed, encoding="utf-8")
    run("benchmarks/growth.py", "--quick", "--write", str(page))
    made = page.read_text(encoding="utf-8")
    around = "<!-- benchmarks/growth.py (?:begins|ends) -->"
    assert re.split(around, made)[::2] == re.split(around, committed)[::2]
    clients = made.partition("## A round, as clients grow")[2].partition("## ")[0]
    assert re.findall(r"^\| ([\d,]+) \|", clients, re.MULTILINE) == ["30", "300"]
    assert 1000 < (tmp_path / "page" / "growth.png").stat().st_size < 150_000


def test_a_decision_by_every_rule_is_written_into_a_page(tmp_path: Path) -> None:
    """A rule without memory, one with a warm-up, and one with a limit: 5,000 clients in place of 10,000."""
    page = tmp_path / "page.md"
    committed = (ROOT / "docs" / "scale.md").read_text(encoding="utf-8")
    page.write_text(committed, encoding="utf-8")
    words = ["--quick", "--scheduler", "random", "fedcor", "divfl", "--write", str(page)]
    assert run("benchmarks/every_rule.py", *words).startswith("2 of 3 rules decide a round of 10,000 clients")
    made = page.read_text(encoding="utf-8")
    around = "<!-- benchmarks/every_rule.py (?:begins|ends) -->"
    assert re.split(around, made)[::2] == re.split(around, committed)[::2]
    row = r"^\| ([a-z-]+) \| ([a-z_–]+) \| [\d.,]+ \| ([\d.,]+)( \(5,000\))? \| [1-9]\d* \| [1-9][\d,]* \|$"
    rows = re.findall(row, re.split(around, made)[1], re.MULTILINE)
    assert [(name, needs, limit) for name, needs, _, limit in rows] == [
        ("random", "–", ""),
        ("fedcor", "loss", ""),
        ("divfl", "update_sketch", " (5,000)"),
    ]


def test_the_page_has_every_rule() -> None:
    """And all but those with a limit decide a million clients within three seconds."""
    committed = (ROOT / "docs" / "scale.md").read_text(encoding="utf-8").partition("every_rule.py begins")[2]
    rows = re.findall(r"^\| ([a-z-]+) \|.*\| ([^|]+) \| [\d,]+ \| [\d,]+ \|$", committed, re.MULTILINE)
    ms = {name: cell for name, cell in rows if name in built_in()}
    assert list(ms) == list(built_in())
    assert {name for name, cell in ms.items() if cell == "–"} == {"divfl"}
    assert max(float(cell.replace(",", "")) for cell in ms.values() if cell != "–") <= 3000


def test_the_privacy_study_writes_its_table_into_a_page(tmp_path: Path) -> None:
    """One round, one seed: rows for Random and every ε, and the page around the table stays."""
    page = tmp_path / "page.md"
    committed = (ROOT / "docs" / "privacy.md").read_text(encoding="utf-8")
    page.write_text(committed, encoding="utf-8")
    run("benchmarks/privacy.py", "--seeds", "1", "--rounds", "1", "--epochs", "0", "--write", str(page))
    made = page.read_text(encoding="utf-8")
    rows = re.findall(r"^\| (FedTeddi, no noise|Random|FedTeddi, ε = [\d.]+) \|", made, re.MULTILINE)
    assert rows == [
        "FedTeddi, no noise",
        "Random",
        "FedTeddi, ε = 1",
        "FedTeddi, ε = 0.1",
        "FedTeddi, ε = 0.01",
    ]
    assert made.split("<!-- ")[0] == committed.split("<!-- ")[0]


def test_solved_weights_are_set_beside_those_by_samples(tmp_path: Path) -> None:
    """One seed, three rounds: a row for each ν, with its gain, and the page around the tables stays."""
    page = tmp_path / "page.md"
    committed = (ROOT / "docs" / "results" / "target-weights.md").read_text(encoding="utf-8")
    page.write_text(committed, encoding="utf-8")
    words = ["--rounds", "3", "--seeds", "1", "--epochs", "0", "--scheduler", "random"]
    run("benchmarks/aggregation_weights.py", *words, "--write", str(page))
    made = page.read_text(encoding="utf-8")
    around = "<!-- benchmarks/aggregation_weights.py (?:begins|ends) -->"
    assert re.split(around, made)[::2] == re.split(around, committed)[::2]
    rows = re.findall(r"^\| random \| (\S.*?) \| [\d.]+ \| [\d.]+ \| (\S*) ?\|", made, re.MULTILINE)
    assert [name for name, _ in rows] == ["α ∝ D", "ν = 0.1", "ν = 0.3", "ν = 1", "α ∝ D", "ν = 0.3"]
    assert [bool(re.fullmatch(r"[+-]0\.\d{3}", gain)) for _, gain in rows] == [
        name != "α ∝ D" for name, _ in rows
    ]


@pytest.mark.parametrize("name", ["precision", "bound"])
def test_a_page_about_summaries_is_what_they_give(tmp_path: Path, name: str) -> None:
    """The committed page comes out again byte for byte; nothing but its figure lies in its folder."""
    page, committed = tmp_path / f"{name}.md", ROOT / "docs" / "results" / f"{name}.md"
    run(f"benchmarks/{name}.py", "--write", str(page))
    assert page.read_bytes() == committed.read_bytes()
    for folder in (page.with_suffix(""), committed.with_suffix("")):
        assert {file.name for file in folder.iterdir()} == {"curves.png"}
        assert all(1000 < file.stat().st_size < 150_000 for file in folder.iterdir())


def test_the_development_of_fedteddi_plus_is_what_the_summaries_give(tmp_path: Path) -> None:
    """The page comes out again byte for byte, from one whose table is gone."""
    committed = (ROOT / "docs" / "fedteddi-plus.md").read_text(encoding="utf-8")
    before, table, after = re.split(
        "(?<=<!-- development begins -->\n)|(?=<!-- development ends -->)", committed
    )
    assert "| 1.2 | global | 75% |" in table
    page = tmp_path / "page.md"
    page.write_text(before + after, encoding="utf-8")
    run("benchmarks/plus_development.py", "--write", str(page))
    assert page.read_text(encoding="utf-8") == committed


def test_the_documents_quote_the_precision_page() -> None:
    committed = (ROOT / "docs" / "results" / "precision.md").read_text(encoding="utf-8")
    within = re.findall(r"at every evaluated round, but at (\d+ of \d+)", committed)
    means = re.findall(r"in TF32 is (\S+ to \S+), and every 95 % interval holds zero", committed)
    assert f"higher by {means[0]}, which" in (ROOT / "docs" / "gpu.md").read_text(encoding="utf-8")
    for page in ("docs/results/README.md", "docs/gpu.md"):
        assert f"spread at {within[0]} evaluated rounds" in " ".join(
            (ROOT / page).read_text(encoding="utf-8").split()
        )


def two_precisions(folder: Path, bf16: list[list[float]]) -> list[str]:
    """Summaries of Random on two seeds: 0.5, then 0.6 ± 0.1 in TF32 (deviation 0.1·√2); in bf16 as given."""
    curves = {"tf32": [[0.5, 0.5], [0.5, 0.7]], "bf16": bf16}
    for precision, own in curves.items():
        base = Settings().changed(training__precision=precision)
        runs = [made_run("random", seed, curve, base=base) for seed, curve in enumerate(own)]
        made = tuple(Summarised(one, {"device": precision}, 1.0) for one in runs)
        write_summaries(Summaries("cifar10", made), folder / precision)
    return [word for name in curves for word in (f"--{name}", str(folder / name))]


def test_precisions_that_agree_are_said_to(tmp_path: Path) -> None:
    """Means 0.6 and 0.61; seed by seed the frame's means differ by 0.005 and 0.005."""
    said = run("benchmarks/precision.py", *two_precisions(tmp_path, [[0.5, 0.51], [0.5, 0.71]]))
    assert "**Yes: the accuracy curves in bf16 stay within" in said
    assert "at all 2 evaluated rounds of the 2 curves" in said
    assert "at most 0.010 apart" in said
    assert (
        "| random, 1.2 s | balanced | 0.0100 | 0.0100 | 0.1414 | 0.1414 | 1 of 1 (100%) | +0.0050 [" in said
    )


def test_precisions_that_disagree_are_said_to(tmp_path: Path) -> None:
    """Means 0.6 and 0.85: 0.25 is more than the deviations 0.1·√2 and 0.11·√2.

    The frame's means differ by 0.12 and 0.13, with the interval
    0.125 ± 12.706 · 0.00707 / √2 = 0.125 ± 0.0635, which leaves out zero.
    """
    said = run("benchmarks/precision.py", *two_precisions(tmp_path, [[0.5, 0.74], [0.5, 0.96]]))
    assert "**No: the accuracy curves in bf16 are not within" in said
    assert "at 0 of 2 (0.0%)" in said
    assert "random, 1.2 s, balanced (1 of 1); random, 1.2 s, global (1 of 1)" in said
    assert "+0.1250 [+0.0615, +0.1885]" in said
    assert "leaves out zero for random, 1.2 s, balanced; random, 1.2 s, global." in said


def test_studies_that_differ_in_more_are_not_compared(tmp_path: Path) -> None:
    words = two_precisions(tmp_path, [[0.5, 0.5, 0.5], [0.5, 0.7, 0.7]])
    assert "differ in more than their precision" in refused("benchmarks/precision.py", *words)


def beside_everyone(folder: Path, rules: dict[str, dict[int, list[list[float]]]]) -> list[str]:
    """Summaries of rules by seed and frame, and of everyone with seeds 0 and 1: the mean of each frame is 0.55."""
    everyone = {0: [[0.5, 0.6], [0.4, 0.7]], 1: [[0.5, 0.6], [0.5, 0.6]]}
    for name, own in {"rules": rules, "bound": {"everyone": everyone}}.items():
        runs = [
            made_frames(rule, seed, curves) for rule, seeds in own.items() for seed, curves in seeds.items()
        ]
        made = tuple(Summarised(one, {"device": name}, 1.0) for one in runs)
        write_summaries(Summaries("cifar100", made), folder / name)
    return [word for name in ("rules", "bound") for word in (f"--{name}", str(folder / name))]


def test_rules_beside_the_bound(tmp_path: Path) -> None:
    """A frame's mean is over its two evaluations: 0.75 and 0.7 are 0.55 + 0.2 and + 0.15, 0.45 is 0.55 − 0.1.

    The interval of two differences is their mean ± 12.706 · their distance / 2, so that only
    nearly equal ones are clear.
    """
    above, mixed = [[0.5, 1.0], [0.4, 0.5]], [[0.5, 1.0], [0.5, 0.9]]
    words = beside_everyone(
        tmp_path,
        {
            "random": {0: above, 1: mixed},
            "fed-cbs": {0: [[0.5, 0.7], [0.4, 0.2]], 1: [[0.4, 0.4], [0.4, 0.2]], 2: above},
            "best-norm": dict.fromkeys((0, 1), [[0.5, 0.6]] * 2),  # level with the bound, not ahead
            "fedteddi": {1: above},  # without seed 0 it is left out
        },
    )
    said = run("benchmarks/bound.py", *words)
    assert "on the seeds that it was run with (0, 1)" in said
    assert (
        "in frame 2 a run's best evaluation is 60% to 70%, and it gets to 40% with 2, 45% with 2, 50% with 2 of"
        " 2 seeds." in said
    )
    standing = re.findall(r"^\| (\d) \| balanced \| (.*) \|$", said, re.MULTILINE)
    assert standing == [
        ("1", "mean over the frame | 0.550 ± 0.000 | random | +0.200 [+0.200, +0.200] | random | 0 of 3"),
        ("1", "at its end | 0.600 ± 0.000 | random | +0.400 [+0.400, +0.400] | random | 0 of 3"),
        ("2", "mean over the frame | 0.550 ± 0.000 | random | +0.025 [-1.563, +1.613] | none | 1 of 3"),
        ("2", "at its end | 0.650 ± 0.071 | random | +0.050 [-3.127, +3.227] | none | 0 of 3"),
    ]
    # Frame by frame: best, mean over the frame, that − the bound's, at its end, that − the bound's.
    balanced = "".join(re.findall(r"^## Frame \d, balanced\n(.*?)^#", said, re.MULTILINE | re.DOTALL))
    rows = re.findall(r"^\| (\S+) \| 2\.0 \|" + r" ([^|]+) \|" * 5, balanced, re.MULTILINE)
    assert [(row[0], *(float(cell.split()[0]) for cell in row[1:] if cell != "–")) for row in rows] == [
        ("fed-cbs", 0.55, 0.5, -0.05, 0.55, -0.05),
        ("random", 1.0, 0.75, 0.2, 1.0, 0.4),
        ("best-norm", 0.6, 0.55, 0.0, 0.6, 0.0),
        ("everyone", 0.6, 0.55, 0.6),
        ("fed-cbs", 0.4, 0.3, -0.25, 0.2, -0.45),
        ("random", 0.7, 0.575, 0.025, 0.7, 0.05),
        ("best-norm", 0.6, 0.55, 0.0, 0.6, -0.05),
        ("everyone", 0.65, 0.55, 0.65),
    ]
    assert rows[4][3] == "-0.250 [-0.250, -0.250]"
    assert rows[4][5] == "-0.450 [-1.085, +0.185]"


def test_what_is_no_bound_is_not_taken_for_one(tmp_path: Path) -> None:
    words = beside_everyone(tmp_path, {"random": {0: [[0.5, 0.6]] * 2}})
    assert "must hold runs of everyone, and no others" in refused("benchmarks/bound.py", *words[:3], words[1])


def test_rules_at_two_deadlines_are_not_set_beside_the_bound(tmp_path: Path) -> None:
    words = beside_everyone(tmp_path, {})
    runs = [made_frames("random", 0, [[0.5, 0.6]] * 2, deadline_s=deadline_s) for deadline_s in (0.8, 1.2)]
    made = tuple(Summarised(one, {"device": "rules"}, 1.0) for one in runs)
    write_summaries(Summaries("cifar100", made), tmp_path / "rules")
    assert "at one deadline" in refused("benchmarks/bound.py", *words)


def test_rules_that_begin_with_another_model_are_not_set_beside_the_bound(tmp_path: Path) -> None:
    words = beside_everyone(tmp_path, {})
    runs = [made_frames("random", seed, [[0.5, 0.6]] * 2) for seed in (0, 1)]
    other = replace(runs[1].records[0], balanced=0.8, class_accuracy=[0.8, 0.8, None, None])
    runs[1] = replace(runs[1], records=(other, *runs[1].records[1:]))
    made = tuple(Summarised(one, {"device": "rules"}, 1.0) for one in runs)
    write_summaries(Summaries("cifar100", made), tmp_path / "rules")
    assert "another pre-trained model" in refused("benchmarks/bound.py", *words)


def test_rounds_without_training_are_those_of_the_run() -> None:
    """Random's clients follow from the seed: deciding its rounds again gives what the run on the GPU recorded."""
    script = runpy.run_path(str(ROOT / "benchmarks" / "reading.py"))
    for one in read_summaries(ROOT / "docs" / "results" / "reading-cifar10").study.of("random"):
        decided = script["scheduled_untrained"]("random", one)  # [2, K]
        by_stretch = decided.reshape(2, -1, one.settings.evaluation.every).mean(axis=2)
        np.testing.assert_allclose(by_stretch, script["scheduled"](one), rtol=1e-12)


def test_the_page_about_the_reading_is_made_again(tmp_path: Path) -> None:
    run("benchmarks/reading.py", "--write", str(tmp_path / "page.md"))
    committed = (ROOT / "docs" / "results" / "reading.md").read_text(encoding="utf-8")
    assert (tmp_path / "page.md").read_text(encoding="utf-8") == committed


def test_hostile_in_small(tmp_path: Path) -> None:
    """Two rounds, one attack: the honest run and it, under both defaults and with three other aggregations."""
    page = tmp_path / "hostile.md"
    page.write_text(
        "Before.\n<!-- benchmarks/hostile.py begins -->\nold\n<!-- benchmarks/hostile.py ends -->\nAfter.\n"
    )
    run("benchmarks/hostile.py", "--rounds", "2", "--attacks", "1", "--write", str(page))
    text = page.read_text()
    rows = re.findall(r"^\| (none|finite weights of 1e37) \|(.*)\|$", text, re.MULTILINE)
    assert [(name, cells.count("|") + 1) for name, cells in rows] == [
        *(("none", 2), ("finite weights of 1e37", 2)),
        *(("none", 3), ("finite weights of 1e37", 3)),
    ]
    assert text.startswith("Before.\n")
    assert text.endswith("After.\n")
    assert "old" not in text
