"""Runs on a Ray cluster, as far as that can be tested without one; with one: test_cluster_slow.py."""

import sys
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch

from cli_runner import Outcome
from fedteddi import InputError, compare
from fedteddi.cli.options import with_local_ray
from fedteddi.cli.progress import watching
from fedteddi.experiment import Progress
from fedteddi.results.folder import check_shared, locked
from fedteddi.results.trained import weights_of
from fedteddi.simulation.laboratory import Laboratory
from fedteddi.simulation.parallel import cluster, worker
from fedteddi.simulation.parallel import groups as ray_groups
from fedteddi.simulation.parallel.groups import Group, play_group
from small_world import tiny_data, tiny_settings


def cut(seeds: list[int], places: int, over: list[bool] | None = None) -> list[list[int]]:
    return ray_groups.cut(seeds, over or [False] * len(seeds), places)


def test_seeds_stay_together_where_there_are_as_many_as_places() -> None:
    """Six runs, as compare orders them: 0 and 3 have seed 7, 1 and 4 seed 5, 2 and 5 seed 6."""
    assert cut([7, 5, 6, 7, 5, 6], 3) == [[1, 4], [2, 5], [0, 3]]


def test_one_seed_is_cut_and_more_places_than_runs_are_left_empty() -> None:
    assert cut([0, 0, 0, 0, 0], 2) == [[0, 1, 2], [3, 4]]
    assert cut([0, 1], 8) == [[0], [1]]
    assert cut([0, 1], 1) == [[0, 1]]


def test_every_run_is_in_one_group_and_sizes_differ_by_one_at_most() -> None:
    for number, seeds, places in product(range(1, 12), (1, 2, 3), range(1, 6)):
        groups = cut([run % seeds for run in range(number)], places)
        assert sorted(run for group in groups for run in group) == list(range(number))
        assert len(groups) == min(number, places)
        assert max(map(len, groups)) - min(map(len, groups)) <= 1


def test_runs_that_are_over_take_no_places() -> None:
    assert cut([0, 0, 0, 0], 2, [True, True, False, False]) == [[2, 0], [3, 1]]
    assert cut([0, 1], 2, [True, True]) == [[0, 1]]
    assert cut([0, 1], 2, [True, False]) == [[1, 0]]


@pytest.mark.parametrize(
    ("given", "read"),
    [
        (["--ray"], ["--ray", "local"]),
        (["cifar10", "--ray", "--seeds", "2"], ["cifar10", "--ray", "local", "--seeds", "2"]),
        (["--ray", "auto", "--resume"], ["--ray", "auto", "--resume"]),
        (["--ray=10.0.0.1:6379"], ["--ray=10.0.0.1:6379"]),
        (["--ray", "--", "--ray"], ["--ray", "local", "--", "--ray"]),
        (["--seeds", "2"], ["--seeds", "2"]),
    ],
)
def test_the_address_may_be_left_out(given: list[str], read: list[str]) -> None:
    assert with_local_ray(given) == read


@pytest.mark.parametrize("address", ["local", "auto", "127.0.0.1:6379", "ray://head.example:10001"])
def test_addresses(address: str) -> None:
    cluster.check_address(address)


@pytest.mark.parametrize("address", ["cifar10", "127.0.0.1", "http://a:1", "a:b", ""])
def test_what_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(InputError, match="give HOST:PORT"):
        cluster.check_address(address)


def test_the_command_says_what_is_wrong_and_leaves_nothing_behind(
    cli: Callable[..., Outcome], tmp_path: Path
) -> None:
    for words, message in [
        (["--ray", "cifar10"], "an experiment's name comes before --ray"),
        (["--ray", "--device", "cuda:1"], "with --ray choose cpu, cuda or auto"),
    ]:
        outcome = cli("compare", *words, "--out", tmp_path / "out")
        assert outcome.code == 2
        assert message in " ".join(outcome.err.split())
    assert not (tmp_path / "out").exists()


def test_without_ray_one_sentence_says_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(InputError, match=r"Ray is not installed .*pip install 'fedteddi\[ray\]'"):
        compare(schedulers=["random"], seeds=[0], ray="local", out=tmp_path / "out")
    assert not (tmp_path / "out").exists()


class FakeRay:
    """As much of Ray as is needed to be asked what a cluster has."""

    def __init__(self, **there: float) -> None:
        self.there = there

    def cluster_resources(self) -> dict[str, float]:
        return self.there


@pytest.mark.parametrize(
    ("there", "device", "slots"),
    [
        ({"CPU": 8.0, "GPU": 2.0}, "cuda", 2),
        ({"CPU": 8.0, "GPU": 2.0}, "auto", 2),
        ({"CPU": 8.0, "GPU": 2.0}, "cpu", 8),
        ({"CPU": 3.0}, "auto", 3),
    ],
)
def test_a_slot_is_a_gpu_or_a_core(there: dict[str, float], device: str, slots: int) -> None:
    found = cluster.Cluster(FakeRay(**there), device)
    assert found.slots == slots
    assert found.device == ("cuda" if slots == 2 else "cpu")


def test_a_cluster_without_what_is_asked_for_is_refused() -> None:
    with pytest.raises(InputError, match="no GPU: use --device cpu"):
        cluster.Cluster(FakeRay(CPU=4.0), "cuda")
    with pytest.raises(InputError, match="no CPU cores"):
        cluster.Cluster(FakeRay(GPU=1.0), "cpu")


def test_nobody_at_an_address_is_said_at_once() -> None:
    with pytest.raises(InputError, match=r"no Ray answers at 127\.0\.0\.1:1 "):
        cluster._check_listening("127.0.0.1:1")


def test_workers_find_our_code_and_variables(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("FEDTEDDI_CACHE", "there")
    given = worker.worker_environment()
    assert given["PYTHONPATH"].split(":")[-1] == str(tmp_path)
    assert str(worker.HERE.parent) in given["PYTHONPATH"].split(":")
    assert (given["FEDTEDDI_CACHE"], given["OMP_NUM_THREADS"]) == ("there", "1")


def test_a_worker_with_other_code_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    home = worker.Home.of_this_process()
    home.enter()
    monkeypatch.setattr(worker, "code_fingerprint", lambda: "another")
    with pytest.raises(InputError, match="another version of fedteddi"):
        home.enter()


def test_a_folder_that_is_not_shared_is_found_out(tmp_path: Path) -> None:
    """The worker looks for what the driver's lock says: in no folder, in another's, in the right one."""
    (tmp_path / "elsewhere").mkdir()
    with locked(tmp_path / "out") as holder, locked(tmp_path / "elsewhere"):
        check_shared(tmp_path / "out", holder)
        for other in ("nowhere", "elsewhere"):
            with pytest.raises(InputError, match="does not share the folder"):
                check_shared(tmp_path / other, holder)
        with pytest.raises(InputError, match="in use by another process"), locked(tmp_path / "out"):
            pass
        check_shared(tmp_path / "out", holder)  # whoever was refused has not changed it


def group(folder: Path | None, holder: str | None) -> Group:
    settings = tiny_settings(rounds=[2, 0, 0], dataset="tiny")
    return Group({"fedteddi-d1-s0": settings}, "cpu", folder, holder, None)


def test_a_group_is_played_as_everything_is(tmp_path: Path) -> None:
    told: list[Any] = []
    with locked(tmp_path / "out") as holder:
        (account,) = play_group(tiny_data(), group(tmp_path / "out", holder), told.append)
    whole = compare(tiny_settings(rounds=[2, 0, 0]), schedulers=["fedteddi"], seeds=[0], data=tiny_data())
    assert tuple(account.records) == whole.runs[0].records
    assert (account.finished, account.rounds_done, account.failure) == (True, 2, None)
    (last,), seconds, pretraining = told[-1]
    assert pretraining is None
    evaluated = [replace(record, trace=None) for record in account.records[:-1] if record.is_evaluated]
    assert last.records == [*evaluated, account.records[-1]]
    assert "training" in seconds
    settings = tiny_settings(rounds=[2, 0, 0])
    run = Laboratory(settings, tiny_data()).new_run(settings)
    account.take_over(run)
    assert (run.records, run.finished, run.state.rounds_done) == (account.records, True, 2)
    assert account.weights is None  # they are in the folder


def test_a_group_without_a_folder_brings_its_weights(tmp_path: Path) -> None:
    (account,) = play_group(tiny_data(), group(None, None), lambda _: None)
    kept = compare(
        tiny_settings(rounds=[2, 0, 0]),
        schedulers=["fedteddi"],
        seeds=[0],
        data=tiny_data(),
        out=tmp_path / "out",
    )
    settings = tiny_settings(rounds=[2, 0, 0])
    run = Laboratory(settings, tiny_data()).new_run(settings)
    before = run.state.weights
    account.take_over(run)
    assert torch.equal(run.state.weights, weights_of(kept.runs[0]).vector)
    assert not torch.equal(run.state.weights, before)


def test_a_group_tells_of_pretraining(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEDTEDDI_CACHE", str(tmp_path / "cache"))
    settings = tiny_settings(rounds=[0, 1, 0], dataset="tiny", training__pretrain_epochs=2, seed=5)
    told: list[Any] = []
    play_group(tiny_data(), Group({"fedteddi-d1-s5": settings}, "cpu", None, None, None), told.append)
    assert (told[0][2].seed, told[0][2].step) == (5, 1)
    assert told[-1][2] is None


def test_a_group_whose_runs_another_worker_still_plays_is_refused(tmp_path: Path) -> None:
    with (
        locked(tmp_path / "out") as holder,
        locked(tmp_path / "out" / "fedteddi-d1-s0"),
        pytest.raises(InputError, match="fedteddi-d1-s0 is in use by another process"),
    ):
        play_group(tiny_data(), group(tmp_path / "out", holder), lambda _: None)


def test_a_group_whose_workers_keep_dying_is_named() -> None:
    for deaths in (["lost"], ["lost", "killed"]):
        news = cluster._played_again("group 1", deaths)
        assert news == f"the worker of group 1 died ({deaths[-1]}); it is played again"
    with pytest.raises(InputError, match=r"the worker of group 1 died 3 times \(killed\).*--resume"):
        cluster._played_again("group 1", ["lost", "lost", "killed"])


def test_news_are_said_once(capfd: pytest.CaptureFixture[str]) -> None:
    settings = tiny_settings()
    runs = {"": Laboratory(settings, tiny_data()).new_run(settings)}
    with watching() as watch:
        for news in ((), ("a worker died",), ("a worker died",), ("a worker died", "another died")):
            watch(Progress(0, 11, runs, {}, news))
    said = capfd.readouterr().err
    assert said.count("a worker died") == 1
    assert said.count("another died") == 1
