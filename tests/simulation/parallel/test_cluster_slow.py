"""Comparisons on a real Ray of this machine: the same records as without, whatever happens to the workers."""

import os
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from fedteddi import InputError, compare, read_study
from fedteddi.experiment import Progress
from fedteddi.results.runs import Study
from fedteddi.simulation.parallel.cluster import OTHER_NODES, connected
from fedteddi.studies.play import reproduce
from fedteddi.studies.study import load_study
from small_world import tiny_data, tiny_settings

# Ray leaves files and sockets to the garbage collector.
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

# A rule that takes whom it can, and kills its own process once, in the third round, or at any time.
FATAL = """
import os, signal
from pathlib import Path
from fedteddi import make_scheduler

class {name}:
    name = "fatal"
    def __init__(self):
        self.random = make_scheduler("random")
    def select(self, view, rng):
        marker = Path({marker!r})
        third = view.round == 3 and view.frame == 1 and not marker.exists()
        if view.rounds_in_frame < 10 and (third or {always}):  # not in the trial before a run, which has ten
            marker.write_text(str(os.getpid()))
            os.kill(os.getpid(), signal.SIGKILL)
        return self.random.select(view, rng)
"""


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEDTEDDI_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))  # workers need small_world too
    monkeypatch.setenv("FEDTEDDI_CHECKPOINT_S", "0")  # workers read it: a checkpoint after every round


@pytest.fixture(scope="module")
def ray() -> Iterator[None]:
    """One Ray for all tests of this file: starting one takes seconds."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        with connected("local", "cpu"):
            yield


def assert_same(one: Study, other: Study) -> None:
    assert len(one.runs) == len(other.runs)
    for mine, theirs in zip(one.runs, other.runs, strict=True):
        assert mine.settings == theirs.settings
        assert mine.records == theirs.records
        assert (mine.finished, mine.failure) == (theirs.finished, theirs.failure)
        assert (mine.counts == theirs.counts).all()


@pytest.mark.usefixtures("ray")
def test_the_same_bits_as_here_and_a_killed_worker_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two seeds, one of the rules from a file named from the working folder, own data, one torch thread (conftest)."""
    marker = tmp_path / "was killed"
    (tmp_path / "mine.py").write_text(FATAL.format(name="Fatal", marker=str(marker), always=False))
    monkeypatch.chdir(tmp_path)
    asked: dict[str, Any] = {
        "schedulers": ["fedteddi", "mine.py:Fatal"],
        "seeds": [0, 1],
        "data": tiny_data(),
    }
    seen: list[Progress] = []
    there = compare(tiny_settings(), **asked, out="study", ray="local", watch=seen.append)
    assert int(marker.read_text()) != os.getpid()
    here = compare(tiny_settings(), **asked)
    assert_same(here, there)
    assert_same(Study(tuple(sorted(here.runs, key=lambda r: r.title))), read_study(Path("study")))
    (news,) = seen[-1].news
    assert "worker of group" in news
    assert "is played again" in news
    assert seen[-1].rounds_done == seen[-1].rounds_in_all == 44
    resumed = (tmp_path / "study" / "fatal-d1-s0" / "environment.json").read_text()
    assert '"cpus"' in resumed


SLOW = """
import os, time
from fedteddi import make_scheduler

class Slow:
    name = "slow"
    def __init__(self):
        self.random = make_scheduler("random")
    def select(self, view, rng):
        time.sleep(float(os.environ.get("FEDTEDDI_TEST_PAUSE_S", "0")))
        return self.random.select(view, rng)
"""


@pytest.mark.usefixtures("ray")
def test_a_time_limit_is_kept_and_resume_goes_on_with_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """80 rounds with pauses take 16 s at least, and the limit grows until a worker has begun."""
    (tmp_path / "mine.py").write_text(SLOW)
    settings = tiny_settings(rounds=[40, 40, 0])
    asked: dict[str, Any] = {"schedulers": [f"{tmp_path / 'mine.py'}:Slow"], "data": tiny_data()}
    monkeypatch.setenv("FEDTEDDI_TEST_PAUSE_S", "0.2")
    limit_s, out = 4, tmp_path / "study"
    while not (
        part := compare(
            settings, **asked, out=out, seeds=[0], time_limit_s=limit_s, resume=True, ray="local"
        ).runs[0]
    ).records:
        limit_s += 4
    assert not part.finished
    monkeypatch.delenv("FEDTEDDI_TEST_PAUSE_S")
    whole = compare(settings, **asked, out=out, seeds=[0, 1], resume=True, ray="local")
    assert whole.runs[0].records[: len(part.records)] == part.records
    assert_same(whole, compare(settings, **asked, seeds=[0, 1]))


@pytest.mark.usefixtures("ray")
def test_a_run_that_diverges_fails_as_it_does_here() -> None:
    settings = tiny_settings(training__learning_rate=1e30)
    asked: dict[str, Any] = {"schedulers": ["random", "fedteddi"], "seeds": [0], "data": tiny_data()}
    failed = compare(settings, **asked, ray="local")
    assert len(failed.failures) == 2
    assert_same(failed, compare(settings, **asked))


@pytest.mark.usefixtures("ray")
def test_a_worker_that_always_dies_is_given_up_and_refusals_come_back(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(FATAL.format(name="Fatal", marker=str(tmp_path / "m"), always=True))
    asked: dict[str, Any] = {"seeds": [0], "data": tiny_data(), "ray": "local"}
    with pytest.raises(InputError, match=r"group 1 of 1 \(fatal-d1-s0\) died 3 times .*--resume"):
        compare(tiny_settings(), schedulers=[f"{file}:Fatal"], **asked)
    file.write_text("class Mine:\n    name = 'mine'\n    def select(self, view, rng): return {}['x']\n")
    with pytest.raises(InputError, match=r"mine raised KeyError: 'x' \(mine.py, line 3\)"):
        compare(tiny_settings(), schedulers=[f"{file}:Mine"], **asked)


# What is shared takes its time to be read by the worker, and only then the time is up.
IN_THE_BACKGROUND = """
import signal, sys, time
from pathlib import Path
signal.signal(signal.SIGINT, signal.SIG_IGN)
from fedteddi.simulation.parallel.cluster import connected
from fedteddi.studies.play import reproduce
from fedteddi.studies.study import load_study

READING = Path({marker!r})

def read():
    READING.touch()
    time.sleep(5)

class SlowToRead:
    def __reduce__(self):
        return read, ()

def play(shared, group, report):
    return "it was not cancelled before"

def look(reported, news):
    give_up = time.monotonic() + 60
    while not READING.exists() and time.monotonic() < give_up:
        time.sleep(0.05)

with connected("local", "cpu") as cluster:
    print(cluster.spread(play, SlowToRead(), {{"one": None}}, look, stop_at=0.0), READING.exists())
"""


def test_time_is_up_in_a_shells_background_too(tmp_path: Path) -> None:
    """There Ctrl-C is ignored, by which Ray cancels: a group that has not begun is left for --resume all the same."""
    script = IN_THE_BACKGROUND.format(marker=str(tmp_path / "reading"))
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=180, check=False
    )
    assert done.stdout == "[None] True\n", done.stderr


# Who starts the tests in a shell's background has Ctrl-C ignored, which is inherited.
SCRIPT = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
from small_world import tiny_data, tiny_settings
from fedteddi import compare
settings = tiny_settings(rounds=[3000, 0, 0])
compare(settings, schedulers=["random"], seeds=[0, 1], data=tiny_data(), out={out!r}, ray="local")
"""


def test_ctrl_c_stops_the_workers_and_keeps_what_was_written(tmp_path: Path) -> None:
    """A Ray of its own; meanwhile a second command on the folder is refused. In the end nobody writes any more."""
    out = tmp_path / "study"
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT.format(out=str(out))],
        # Saved after every round: what was written is kept only as far as it was saved.
        env=os.environ
        | {"PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1", "FEDTEDDI_CHECKPOINT_S": "0"},
        stderr=subprocess.PIPE,
        text=True,
    )
    files = [out / f"random-d1-s{seed}" / "rounds.jsonl" for seed in (0, 1)]
    give_up = time.monotonic() + 60
    while not all(file.exists() and file.read_bytes().count(b"\n") > 3 for file in files):
        assert time.monotonic() < give_up
        assert process.poll() is None
        time.sleep(0.1)
    asked: dict[str, Any] = {"schedulers": ["random"], "seeds": [0, 1], "data": tiny_data(), "out": out}
    settings = tiny_settings(rounds=[3000, 0, 0])
    with pytest.raises(InputError, match="study is in use by another process"):
        compare(settings, **asked, resume=True)
    process.send_signal(signal.SIGINT)
    assert "KeyboardInterrupt" in process.communicate(timeout=60)[1]
    sizes = [file.stat().st_size for file in files]
    study = compare(settings, **asked, resume=True, time_limit_s=0)
    assert all(1 < len(run.records) < 3001 for run in study.runs)
    assert all(file.stat().st_size <= size for file, size in zip(files, sizes, strict=True))


@pytest.mark.usefixtures("ray")
def test_a_study_on_a_cluster_is_the_study_here(tmp_path: Path) -> None:
    """Runs with one deadline, and runs by level, whose folders lie in folders of levels."""
    for name, rules in (("plus-fashion", ["random", "fedteddi-plus"]), ("sensitivity", ["random"])):
        plan = load_study(name).quickened()
        how: dict[str, Any] = {"factors": ["tau"]} if plan.factors else {}
        how |= {"changes": ["dataset=fashion-mnist", "scenario.samples_per_client=40"]}
        for folder, ray in (("here", None), ("there", "local")):
            reproduce(plan, out=tmp_path / name / folder, schedulers=rules, ray=ray, **how)
        here, there = (
            {
                file.relative_to(tmp_path / name / folder): file.read_bytes()
                for file in (tmp_path / name / folder).rglob("rounds.jsonl")
            }
            for folder in ("here", "there")
        )
        assert len(here) >= 2
        assert there == here


# Two nodes on loopback, a slot each. A line that it reads kills the second one.
TWO_NODES = """
import sys
from ray.cluster_utils import Cluster

cluster = Cluster(initialize_head=True, head_node_args={"include_dashboard": False})
second = cluster.add_node()
try:
    print(cluster.address, flush=True)
    if sys.stdin.readline():
        cluster.remove_node(second, allow_graceful=False)
        print("killed", flush=True)
        sys.stdin.read()
finally:
    cluster.shutdown()
"""

# Waits in its fifth round, but not in the trial before a run, which has ten rounds, until a file is there.
GATED = """
import os, time
from pathlib import Path
from fedteddi import make_scheduler

class Gated:
    name = "gated"
    def __init__(self):
        self.random = make_scheduler("random")
    def select(self, view, rng):
        give_up = time.monotonic() + 60
        while view.round == 5 and view.rounds_in_frame < 10 and not Path("open").exists():
            assert time.monotonic() < give_up
            time.sleep(0.05)
        return self.random.select(view, rng)
"""

# Played on the embedded data.
OWN_STUDY = """
title = "Two rules"
experiment = "fashion"
changes = { rounds = [0, 9], training = { pretrain_epochs = 0, local_steps = 1 } }
ours = "gated"
schedulers = ["mine.py:Gated", "random"]
seeds = [0, 1]
deadlines_s = [1.0]
targets = { balanced = [0.1], global = [0.1] }

[[claims]]
kind = "fewest rounds"
whom = "the other"
"""


@pytest.fixture
def two_nodes(tmp_path: Path) -> Iterator[tuple[str, Callable[[], None]]]:
    """A cluster's address, and what kills its second node."""
    log = tmp_path / "nodes"
    with (
        log.open("w") as errors,
        subprocess.Popen(
            [sys.executable, "-c", TWO_NODES],
            env=os.environ | {OTHER_NODES: "0", "RAY_USAGE_STATS_ENABLED": "0"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        ) as process,
        ended_in_time(process, 300),
    ):
        assert process.stdin is not None
        assert process.stdout is not None
        sent, said = process.stdin, process.stdout

        def kill() -> None:
            sent.write("\n")
            sent.flush()
            assert said.readline() == "killed\n", log.read_text()

        address = said.readline().strip()
        assert address, log.read_text()
        yield address, kill
        sent.close()  # which ends it


@contextmanager
def ended_in_time(process: subprocess.Popen[str], limit_s: float) -> Iterator[None]:
    """Wait for a process to end; kill it where it takes too long, or where something fails meanwhile."""
    timer = threading.Timer(limit_s, process.kill)
    timer.start()
    try:
        yield
        process.wait()
    finally:
        timer.cancel()
        process.kill()


def fedteddi(*words: str) -> subprocess.Popen[str]:
    more = {"OMP_NUM_THREADS": "1", OTHER_NODES: "0"}
    return subprocess.Popen(
        [sys.executable, "-m", "fedteddi", *words],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)} | more,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def rounds_in(folder: Path) -> dict[Path, bytes]:
    return {file.relative_to(folder): file.read_bytes() for file in folder.rglob("rounds.jsonl")}


def test_a_node_that_is_killed_changes_no_bit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, two_nodes: tuple[str, Callable[[], None]]
) -> None:
    """Each of two groups is on a node of its own; the second is killed when both have played some rounds."""
    address, kill_second_node = two_nodes
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(GATED)
    Path("own.toml").write_text(OWN_STUDY)
    words = ("reproduce", "own.toml", "--device", "cpu", "--scheduler", "mine.py:Gated")
    there = fedteddi(*words, "--out", "there", "--ray", address)
    with ended_in_time(there, 180):
        while [rounds.count(b"\n") > 3 for rounds in rounds_in(Path("there")).values()] != [True, True]:
            assert there.poll() is None, there.communicate()[0]
            time.sleep(0.1)
        kill_second_node()
        Path("open").touch()
        said = " ".join(there.communicate()[0].split())
    assert there.returncode == 0, said
    assert "it is played again" in said
    assert "all rounds are done" in said
    here = fedteddi(*words, "--out", "here")
    with ended_in_time(here, 60):
        said = here.communicate()[0]
    assert here.returncode == 0, said
    assert len(rounds_in(Path("here"))) == 2
    assert rounds_in(Path("there")) == rounds_in(Path("here"))
