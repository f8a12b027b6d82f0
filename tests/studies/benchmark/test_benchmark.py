"""The leaderboard played for real in small: resumed, killed, recomputed from the records, made again to the byte."""

import json
import math
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from cli_runner import Outcome
from fedteddi import InputError
from fedteddi.schedulers.registry import built_in
from fedteddi.settings import load_experiment
from fedteddi.studies.benchmark import plan as plans
from fedteddi.studies.benchmark.page import page_of_runs, page_of_summaries
from fedteddi.studies.benchmark.plan import SCENARIOS, SEEDS, Benchmark, chosen_rules
from fedteddi.studies.benchmark.play import play_benchmark
from tiny_benchmark import RULES, tiny_benchmark

Cli = Callable[..., Outcome]
ROOT = Path(__file__).parents[3]
OUT = Path("out")
ONLY = [word for rule in RULES for word in ("--only", rule)]
MINE = """\
from fedteddi import fill_band

class Mine:
    name = "mine"
    needs = frozenset()

    def select(self, view, rng):
        {}
        return fill_band(view, rng.permutation(view.num_clients))
"""


@pytest.fixture(autouse=True)
def tiny(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Benchmark:
    """A folder of one's own, in which the command plays the tiny scenarios."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FEDTEDDI_CACHE", str(tmp_path / "cache"))
    made = tiny_benchmark()
    monkeypatch.setattr(plans, "Benchmark", partial(Benchmark, scenarios=made.scenarios))
    return made


def records(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "rounds.jsonl").read_text().splitlines()]


def all_records(out: Path) -> dict[str, bytes]:
    return {str(file.relative_to(out)): file.read_bytes() for file in out.glob("*/*/rounds.jsonl")}


# --- what is played


def test_the_whole_is_every_rule_on_three_scenarios_and_three_seeds() -> None:
    whole = Benchmark()
    each = whole.runs(chosen_rules([], []), SEEDS)
    assert len(each) == len(built_in()) * 3 * 3
    assert {name.split("/")[0] for name in each} == {"arrival", "shares", "static"}
    # What all runs on a device share, so that they can be played together.
    assert len({(s.dataset, s.training.model, s.training.batch_size) for s in each.values()}) == 1


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_scenarios_are_embedded_small_and_shorter_when_quick(scenario: plans.Scenario) -> None:
    whole, quick = Benchmark().settings(scenario), Benchmark(is_quick=True).settings(scenario)
    assert whole == load_experiment(scenario.experiment)
    assert whole.dataset == "fashion-mnist"
    assert sum(quick.rounds) <= sum(whole.rounds) / 3
    assert len(quick.rounds) == len(whole.rounds)


def test_rules_join_the_built_in_ones_or_are_the_only_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(MINE.format("pass"))
    assert chosen_rules([], []) == [*built_in()]
    assert chosen_rules(["mine.py:Mine", "random"], []) == [*built_in(), "mine.py:Mine"]
    assert chosen_rules(["mine.py:Mine"], ["random"]) == ["random", "mine.py:Mine"]
    with pytest.raises(InputError, match="everyone is a reference bound"):
        chosen_rules(["everyone"], [])


def test_two_rules_of_one_name_are_refused(tiny: Benchmark) -> None:
    for name in ("here", "there"):
        Path(name).mkdir()
        Path(f"{name}/mine.py").write_text(MINE.format("pass"))
    with pytest.raises(InputError, match="two runs would both be called arrival/mine-d1-s0"):
        play_benchmark(tiny, ["here/mine.py:Mine", "there/mine.py:Mine"], out=OUT)
    assert not OUT.exists()


# --- the numbers


def test_the_tables_are_what_the_records_give(tiny: Benchmark) -> None:
    """Played in two sessions: a seed of both rules, then the other. Everything is added up here once more."""
    play_benchmark(tiny, RULES, out=OUT, seeds=[0])
    play_benchmark(tiny, RULES, out=OUT, seeds=[0, 1])
    page, unfinished = page_of_runs(tiny, OUT)
    assert unfinished == []
    table = pd.read_csv(OUT / "report" / "leaderboard" / "leaderboard.csv")
    table = table.set_index(["scenario", "scheduler", "metric"])
    scores: dict[str, np.ndarray] = {}
    for scenario in tiny.scenarios:
        for rule in RULES:
            runs = [records(OUT / scenario.name / f"{rule}-d1-s{seed}") for seed in (0, 1)]
            for kind in ("balanced", "global"):
                each = [by_frame(run, kind) for run in runs]
                check(table.loc[scenario.name, rule, f"mean {kind}"], each)
                if kind == "balanced":
                    scores[rule] = scores.get(rule, np.zeros(2)) + np.array(each) / 2
            reached = [first_at(run, scenario.target) for run in runs]
            played = [[record for record in run if record["round"]] for run in runs]
            rounds = [len(own) if at is None else at for own, at in zip(played, reached, strict=True)]
            row = table.loc[scenario.name, rule, "rounds to target"]
            assert row["mean"] == np.mean(rounds)
            assert row["reached"] == sum(at is not None for at in reached)
            for name, key, unit in (
                ("seconds", "round_s", 1),
                ("uplink Gbit", "uplink_bits", 1e9),
                ("energy J", "energy_j", 1),
            ):
                whole = [sum(record[key] for record in own) / unit for own in played]
                until = [sum(r[key] for r in own[:at]) / unit for own, at in zip(played, rounds, strict=True)]
                check(table.loc[scenario.name, rule, name], whole)
                check(table.loc[scenario.name, rule, f"{name} to target"], until)
            check(
                table.loc[scenario.name, rule, "clients a round"],
                [np.mean([len(record["clients"]) for record in own]) for own in played],
            )
    by_seed = pd.read_csv(OUT / "report" / "leaderboard" / "outcomes.csv")
    of_run = ["static", "random", 1, "rounds to target"]
    (at,) = by_seed[(by_seed.iloc[:, :4] == of_run).all(axis=1)]["value"]
    expected = first_at(records(OUT / "static" / "random-d1-s1"), tiny.scenarios[1].target)
    assert at == (6 if expected is None else expected)
    first = max(RULES, key=lambda rule: scores[rule].mean())
    assert page.ranking.loc[0, "scheduler"] == first
    (other,) = set(RULES) - {first}
    behind = scores[first] - scores[other]
    # Student's t of 0.975 with one degree of freedom.
    half = 12.706204736432095 * behind.std(ddof=1) / math.sqrt(2)
    shown = f"{behind.mean():+.3f} [{behind.mean() - half:+.3f}, {behind.mean() + half:+.3f}]"
    assert page.ranking.loc[1, "behind the first by (95 %)"] == shown
    assert page.ranking.loc[1, "clearly"] == ("yes" if behind.mean() - half > 0 else "no")


def by_frame(run: list[dict[str, Any]], kind: str) -> float:
    """The mean over frames with rounds of the mean over their evaluations."""
    frames = sorted({record["frame"] for record in run if record["round"]})
    return float(np.mean([np.mean([r[kind] for r in run if r["frame"] == f and kind in r]) for f in frames]))


def first_at(run: list[dict[str, Any]], target: float) -> int | None:
    """Rounds played when an evaluation in a frame with rounds first reaches the target."""
    frames, played = {record["frame"] for record in run if record["round"]}, 0
    for record in run:
        played += record["round"] > 0
        if record["frame"] in frames and record.get("balanced", 0) >= target:
            return played
    return None


def check(row: pd.Series, values: list[float]) -> None:
    """Mean and interval; what is measured is kept with six significant digits."""
    half = 12.706204736432095 * np.std(values, ddof=1) / math.sqrt(2)
    assert row["mean"] == pytest.approx(np.mean(values), rel=2e-6)
    assert row["high"] - row["mean"] == pytest.approx(half, rel=1e-3, abs=2e-5)
    assert (row["seeds"], row["mean"] - row["low"]) == (2, pytest.approx(row["high"] - row["mean"]))


# --- interruptions


def test_a_killed_benchmark_goes_on_as_if_it_had_not_been(tiny: Benchmark) -> None:
    """The second seed's runs are under way when the process gets SIGKILL: the same records come out, to the byte."""
    script = (
        "import os, signal\nfrom pathlib import Path\nfrom tiny_benchmark import RULES, tiny_benchmark\n"
        "from fedteddi.studies.benchmark.play import play_benchmark\n"
        "def watch(state):\n    if state.rounds_done >= 35: os.kill(os.getpid(), signal.SIGKILL)\n"
        "play_benchmark(tiny_benchmark(), RULES, out=Path('out'), seeds=[0, 1], watch=watch)\n"
    )
    places = os.pathsep.join([str(ROOT / "tests"), str(ROOT / "src")])
    killed = subprocess.run(
        [sys.executable, "-c", script],
        env=os.environ | {"PYTHONPATH": places, "FEDTEDDI_CHECKPOINT_S": "0", "OMP_NUM_THREADS": "1"},
        timeout=120,
        check=False,
    )
    assert killed.returncode == -signal.SIGKILL
    partly = all_records(OUT)
    assert sum(text.count(b"\n") for text in partly.values()) > 2 * 2 * 6
    seen: list[int] = []
    found = play_benchmark(
        tiny, RULES, out=OUT, seeds=[0, 1], watch=lambda state: seen.append(state.rounds_done)
    )
    assert all(run.finished for run in found.values())
    assert seen[0] >= 34
    assert seen[-1] == 2 * 2 * 2 * 6
    play_benchmark(tiny, RULES, out=Path("whole"), seeds=[0, 1])
    assert all_records(OUT) == all_records(Path("whole"))
    assert partly != all_records(OUT)


def test_progress_counts_all_groups_and_their_seconds(tiny: Benchmark) -> None:
    told: list[Any] = []
    play_benchmark(tiny, RULES, out=OUT, seeds=[0, 1], watch=told.append)
    assert {state.rounds_in_all for state in told} == {2 * 2 * 2 * 6}
    done = [state.rounds_done for state in told]
    assert done == sorted(done)
    spent = [sum(state.seconds.values()) for state in told]
    assert spent == sorted(spent)


def test_without_time_nothing_is_lost_and_nothing_said_to_be_done(cli: Cli) -> None:
    done = cli("benchmark", *ONLY, "--out", OUT, "--time-limit", "0")
    assert (done.code, done.err) == (0, "")
    assert "stopped in time" in done.out
    assert cli("benchmark", "--only", "random", "--out", OUT, "--seeds", "1").code == 0
    done = cli("benchmark", *ONLY, "--out", OUT, "--time-limit", "0", "--write", "page.md")
    assert done.code == 0, done.err
    assert "arrival/best-channel-d1-s0 is not finished, and left out" in done.err
    assert not Path("page.md").exists()
    assert (OUT / "report" / "leaderboard.md").exists()
    done = cli("benchmark", *ONLY, "--out", OUT, "--seeds", "1")
    assert done.code == 0, done.err
    assert "all rounds are done" in done.out


def test_a_part_has_a_page_that_names_what_is_not_finished(tiny: Benchmark, cli: Cli) -> None:
    """Of the second seed only the beginning is there."""
    play_benchmark(tiny, RULES, out=OUT, seeds=[0])
    with pytest.raises(KeyboardInterrupt):
        play_benchmark(tiny, RULES, out=OUT, seeds=[1], watch=interrupt)
    done = cli("benchmark", "--only", "random", "--out", OUT, "--seeds", "1")
    assert done.code == 0, done.err
    assert "arrival/random-d1-s1 is not finished, and left out" in done.err
    page = (OUT / "report" / "leaderboard.md").read_text()
    assert "4 finished runs, seed 0." in page


def interrupt(_state: Any) -> None:
    raise KeyboardInterrupt


# --- the command


def test_an_own_rule_joins_and_plays_anew_when_its_code_has_changed(cli: Cli) -> None:
    Path("mine.py").write_text(MINE.format("pass"))
    done = cli("benchmark", "--only", "random", "--scheduler", "mine.py:Mine", "--out", OUT, "--seeds", "2")
    assert done.code == 0, done.err
    table = pd.read_csv(OUT / "report" / "leaderboard" / "leaderboard.csv")
    assert set(table["scheduler"]) == {"random", "mine"}
    before = all_records(OUT)
    Path("mine.py").write_text(MINE.format("rng = __import__('numpy').random.default_rng(7)"))
    again = ["benchmark", "--only", "random", "--scheduler", "mine.py:Mine", "--out", OUT, "--seeds", "2"]
    refused = cli(*again)
    assert refused.code == 2
    assert "the code of mine.py:Mine has changed since out/arrival/mine-d1-s0 was written" in refused.err
    assert all_records(OUT) == before
    done = cli(*again, "--replay")
    assert done.code == 0, done.err
    after = all_records(OUT)
    changed = {name for name in before if before[name] != after[name]}
    assert changed == {name for name in before if "mine" in name}


def test_a_rule_that_raises_is_named_and_the_others_have_their_page(cli: Cli) -> None:
    """It raises in frame 2, which only one scenario has."""
    Path("mine.py").write_text(MINE.format("assert view.frame < 2, 'no idea'"))
    words = ["benchmark", *ONLY, "--scheduler", "mine.py:Mine", "--out", OUT, "--seeds", "2"]
    done = cli(*words)
    assert done.code == 1
    why = "mine raised AssertionError: no idea (mine.py, line 8)"
    assert f"arrival/mine at deadline 1 s with seed 0 failed, and is left out: {why}" in done.err
    page = (OUT / "report" / "leaderboard.md").read_text()
    assert (
        f"- **Failed**, and left out of all numbers: arrival/mine at deadline 1 s with seed 0: {why}" in page
    )
    assert "Not ranked, because they have not all of these seeds everywhere: mine." in page
    row = next(line for line in page.splitlines() if "| – | mine |" in line)
    assert row.split(" | ")[-2] == "failed"
    assert len(records(OUT / "arrival" / "mine-d1-s0")) == 1 + 1 + 4 + 1  # up to the first model of frame 2
    assert len(records(OUT / "static" / "mine-d1-s0")) == 1 + 6
    again = cli(*words)
    assert again.code == 1
    assert (OUT / "report" / "leaderboard.md").read_text() == page
    Path("mine.py").write_text(MINE.format("pass"))
    good = cli(*words, "--replay")
    assert good.code == 0, good.err
    assert "Failed" not in (OUT / "report" / "leaderboard.md").read_text()


def test_what_failed_is_not_played_again_unless_asked(tiny: Benchmark) -> None:
    play_benchmark(tiny, ["random"], out=OUT, seeds=[0])
    folder = OUT / "arrival" / "random-d1-s0"
    (folder / "failed.json").write_text('{"frame": 1, "round": 2, "cause": "an earlier version"}')
    settings = tiny.runs(["random"], [0])
    again = play_benchmark(tiny, ["random"], out=OUT, seeds=[0])
    assert [name for name in settings if again[name].failure] == ["arrival/random-d1-s0"]
    anew = play_benchmark(tiny, ["random"], out=OUT, seeds=[0], replay=True)
    assert not any(run.failure for run in anew.values())
    assert anew["arrival/random-d1-s0"].finished


def test_if_all_fail_that_is_said(cli: Cli) -> None:
    """It raises in every round that it was not tried on before."""
    Path("mine.py").write_text(MINE.format("assert view.total_hz != 3e4, 'no idea'"))
    only = ["--only", "mine.py:Mine", "--out", OUT, "--seeds", "1"]
    done = cli("benchmark", *only)
    assert done.code == 2
    assert "all runs failed; first error: mine raised AssertionError: no idea (mine.py, line 8)" in done.err


def test_an_unknown_rule_leaves_nothing_behind(cli: Cli) -> None:
    done = cli("benchmark", "--scheduler", "rnadom", "--out", OUT)
    assert done.code == 2
    assert "no scheduler is called 'rnadom' (did you mean 'random'?)" in done.err
    assert not OUT.exists()


def test_folders_of_something_else_are_refused(cli: Cli, tiny: Benchmark) -> None:
    play_benchmark(tiny, ["random"], out=OUT, seeds=[0])
    before = all_records(OUT)
    done = cli("benchmark", *ONLY, "--quick", "--out", OUT)
    assert done.code == 2
    assert "out holds another benchmark (rounds was [0, 4, 2], now [0, 2, 1])" in done.err
    assert cli("benchmark", *ONLY, "--out", OUT, "--no-resume").code == 2
    shutil.move("out/arrival", "other")
    done = cli("benchmark", *ONLY, "--out", ".")
    assert done.code == 2
    assert "which is no part of a benchmark: choose another --out" in done.err
    shutil.move("other", "out/arrival")
    assert all_records(OUT) == before


def test_the_page_comes_out_again_to_the_byte(cli: Cli) -> None:
    Path("docs").mkdir()
    page, folder = Path("docs/leaderboard.md"), Path("docs/leaderboard")
    done = cli("benchmark", *ONLY, "--out", OUT, "--seeds", "2", "--write", page)
    assert done.code == 0, done.err
    first = {file: file.read_bytes() for file in [page, *folder.iterdir()]}
    assert {file.name for file in folder.iterdir()} == {
        "arrival.jsonl.gz",
        "static.jsonl.gz",
        "leaderboard.csv",
        "outcomes.csv",
        "overview.png",
    }
    assert "--from-summaries docs/leaderboard` from the summaries" in page.read_text()
    page.unlink()
    for file in first:
        if file.suffix in (".csv", ".png"):
            file.unlink()
    done = cli("benchmark", "--from-summaries", folder)
    assert done.code == 0, done.err
    assert {file: file.read_bytes() for file in [page, *folder.iterdir()]} == first
    assert cli("benchmark", "--from-summaries", folder, "--quick").code == 2
    (folder / "static.jsonl.gz").rename(folder / "statics.jsonl.gz")
    unknown = cli("benchmark", "--from-summaries", folder)
    assert "no scenario is called 'statics' (did you mean 'static'?)" in unknown.err
    refused = cli("benchmark", *ONLY, "--out", OUT, "--write", "docs/leaderboard")
    assert "give a Markdown file, such as docs/leaderboard.md" in refused.err


def test_the_committed_leaderboard_is_what_its_summaries_give(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = ROOT / "docs" / "leaderboard"
    if not kept.is_dir():
        pytest.skip("no leaderboard is committed: a whole run writes it, by make leaderboard")
    monkeypatch.chdir(ROOT)
    shutil.copytree(kept, tmp_path / "docs" / "leaderboard")
    page_of_summaries(Benchmark(), tmp_path / "docs" / "leaderboard")
    for file in (Path("leaderboard.md"), *(Path("leaderboard") / path.name for path in kept.glob("*.csv"))):
        assert (tmp_path / "docs" / file).read_bytes() == (ROOT / "docs" / file).read_bytes()
