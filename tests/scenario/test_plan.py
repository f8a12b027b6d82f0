"""Scenario laws: storage is kept, nobody loses what they should keep, shares are as asked."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedteddi import InputError
from fedteddi.scenario.build import build_plan
from fedteddi.scenario.layouts import dirichlet, few_classes, rounded_counts
from fedteddi.scenario.replay import find_replay_rule, keep_balanced, keep_random
from fedteddi.scenario.traces import read_trace, traced
from fedteddi.settings import Arrival, ScenarioSettings

LABELS = np.repeat(np.arange(10), 800)


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 1000),
    layout=st.sampled_from(["paper-cifar10", "classes", "dirichlet"]),
    replay=st.sampled_from(["random", "balanced"]),
    arriving=st.integers(1, 100),
)
def test_scenario_laws(seed: int, layout: str, replay: str, arriving: int) -> None:
    """Whatever the layout: at most the storage, no image twice, old samples are the client's own, all new kept."""
    chosen = ScenarioSettings(
        layout=layout,  # type: ignore[arg-type]
        replay=replay,
        samples_per_client=100,
        arrivals=[]
        if layout == "paper-cifar10"
        else [Arrival(frame=1, clients=7, classes=[6, 9], samples=arriving)],
    )
    plan = build_plan(chosen, LABELS, 10, 2, seed)
    first, second = plan.frames
    moved = [not np.array_equal(a, b) for a, b in zip(first.held, second.held, strict=True)]
    assert sum(moved) == (12 if layout == "paper-cifar10" else 7)
    for client in range(30):
        before, after = first.held[client], second.held[client]
        assert len(np.unique(after)) == len(after) == 100
        assert np.bincount(LABELS[after], minlength=10).tolist() == second.counts[client].tolist()
        if moved[client]:
            new = np.setdiff1d(after, before)
            assert len(new) == (50 if layout == "paper-cifar10" else arriving)
            assert len(np.unique(LABELS[new])) == 1
            assert LABELS[new[0]] >= 6
    assert plan.new_classes(1).tolist() == [bool(m) for m in moved]


def test_pooled_data_is_everybodys_and_keeps_the_global_mix() -> None:
    """600 images of each of classes 0-2 exist in all and 900 are held: the overlap keeps its weight."""
    labels = np.repeat(np.arange(10), 600)
    plain = build_plan(ScenarioSettings(), labels, 10, 2, seed=3)
    pooled = build_plan(ScenarioSettings(pooled=True), labels, 10, 2, seed=3)
    assert pooled.num_clients == 1
    for one, all_of_them in zip(pooled.frames, plain.frames, strict=True):
        assert sorted(one.held[0]) == sorted(np.concatenate(all_of_them.held))
        assert one.counts[0].tolist() == all_of_them.counts.sum(axis=0).tolist()
        assert one.counts[0].tolist() == np.bincount(labels[one.held[0]], minlength=10).tolist()
    assert len(np.unique(pooled.frames[0].held[0])) < len(pooled.frames[0].held[0])
    assert pooled.new_classes(1).tolist() == [True]


def test_the_papers_layout_in_small_keeps_its_proportions() -> None:
    plan = build_plan(ScenarioSettings(), LABELS, 10, 2, seed=3)
    assert plan.frames[0].counts.sum(axis=0).tolist() == [900, 900, 900, 300, 300, 300, 0, 0, 0, 0]
    assert plan.frames[1].counts[:, 6:].sum(axis=0).tolist() == [180] * 4
    assert plan.classes_seen(0).tolist() == [True] * 6 + [False] * 4
    assert plan.classes_seen(1).all()


def test_images_overlap_only_where_more_are_wanted_than_exist() -> None:
    """900 of classes 0-2 are dealt from 800: each image at least once, none three times; classes 3-5 not at all."""
    held = np.concatenate(build_plan(ScenarioSettings(), LABELS, 10, 1, seed=0).frames[0].held)
    times = np.bincount(held, minlength=8000)
    assert times[:2400].min() == 1
    assert times[:2400].max() == 2
    assert times[2400:4800].max() == 1
    with pytest.raises(InputError, match=r"than the 800 that exist, and scenario\.overlap is false"):
        build_plan(ScenarioSettings(overlap=False), LABELS, 10, 1, seed=0)


def test_more_images_than_exist_for_one_client_is_an_error() -> None:
    with pytest.raises(InputError, match="but only 800 that it does not hold yet exist"):
        build_plan(ScenarioSettings(samples_per_client=900), LABELS, 10, 1, seed=0)


def test_shares_grow_shrink_and_vanish() -> None:
    """Class 3 takes over at the named clients, class 0 is forgotten there, and nobody else changes."""
    settings_ = ScenarioSettings(
        layout="dirichlet",
        clients=4,
        samples_per_client=100,
        class_weights=[1, 1, 1, 1],
        arrivals=[Arrival(frame=1, clients=[1, 2], mix=[0, 0, 1, 3], samples=40, forget=[0])],
    )
    first, second = build_plan(settings_, LABELS, 10, 2, seed=0).frames
    for client in (1, 2):
        assert second.counts[client, 0] == 0
        assert second.counts[client].sum() <= 100
        new = np.setdiff1d(second.held[client], first.held[client])
        assert np.bincount(LABELS[new], minlength=4)[:4].tolist() == [0, 0, 10, 30]
    for client in (0, 3):
        assert np.array_equal(first.held[client], second.held[client])


def test_clients_forget_only_what_their_own_arrival_says() -> None:
    news = [
        Arrival(frame=1, clients=[0, 1], classes=[6], samples=10, forget=[0, 1]),
        Arrival(frame=1, clients=[2, 3], classes=[7], samples=10),
    ]
    chosen = ScenarioSettings(
        layout="dirichlet", clients=4, samples_per_client=100, alpha=50.0, arrivals=news
    )
    counts = build_plan(chosen, LABELS, 10, 2, seed=0).frames[1].counts
    assert (counts[:2, :2] == 0).all()
    assert (counts[2:, :2] > 0).all()


def test_two_arrivals_of_a_frame_choose_their_clients_independently() -> None:
    news = [Arrival(frame=1, clients=5, classes=[c], samples=10) for c in (6, 7)]
    chosen = ScenarioSettings(layout="classes", arrivals=news)
    counts = build_plan(chosen, LABELS, 10, 2, seed=0).frames[1].counts
    assert (counts[:, 6] > 0).sum() == (counts[:, 7] > 0).sum() == 5
    assert not np.array_equal(counts[:, 6] > 0, counts[:, 7] > 0)


def test_layouts_by_hand() -> None:
    assert rounded_counts(np.array([1.0, 1.0, 1.0]), 10).tolist() == [4, 3, 3]
    counts = few_classes(10, 2, 30, np.array([3.0, 3.0, 2.0, 2.0]), seed=0)
    assert ((counts > 0).sum(axis=1) == 2).all()
    assert (counts.sum(axis=1) == 30).all()
    assert (counts > 0).sum(axis=0).tolist() == [6, 6, 4, 4]
    # A class can go to each client once: what is too much for class 0 goes to the others, and to no other class.
    crowded = few_classes(6, 2, 24, np.array([10.0, 1.0, 1.0, 0.0, 0.0]), seed=0)
    assert (crowded > 0).sum(axis=0).tolist() == [6, 3, 3, 0, 0]
    skewed, even = (dirichlet(200, alpha, 100, np.ones(5), seed=0) for alpha in (0.05, 100.0))
    assert (skewed.max(axis=1) > 90).mean() > 0.4
    assert even.max() < 40


def test_replay_rules() -> None:
    held, classes = np.arange(30), np.array([0] * 24 + [1] * 4 + [2] * 2)
    rng = np.random.default_rng(0)
    random = keep_random(held, classes, 9, rng)
    assert len(np.unique(random)) == 9
    balanced = keep_balanced(held, classes, 9, rng)
    assert np.bincount(classes[balanced]).tolist() in ([3, 4, 2], [4, 3, 2])


def test_own_replay_rule_is_used_and_checked(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(
        "def newest(held, classes, keep, rng): return held[-keep:]\ndef lazy(held, classes, keep, rng): return held\n"
    )
    held = np.arange(10)
    newest = find_replay_rule(f"{file}:newest")
    assert newest(held, held, 3, np.random.default_rng(0)).tolist() == [7, 8, 9]
    with pytest.raises(InputError, match="must return 3 different ones"):
        find_replay_rule(f"{file}:lazy")(held, held, 3, np.random.default_rng(0))
    with pytest.raises(InputError, match="did you mean 'random'"):
        find_replay_rule("randon")


def test_arrivals_from_a_trace(tmp_path: Path) -> None:
    file = tmp_path / "arrivals.csv"
    file.write_text("frame,client,class,samples\n1,2,6,10\n1,2,7,5\n")
    settings_ = ScenarioSettings(layout="classes", clients=4, samples_per_client=40, arrivals_trace=str(file))
    plan = build_plan(settings_, LABELS, 10, 2, seed=0)
    assert plan.frames[1].counts[2, 6:8].tolist() == [10, 5]
    assert plan.new_classes(1).tolist() == [False, False, True, False]


def test_gains_from_a_trace(tmp_path: Path) -> None:
    file = tmp_path / "gains.csv"
    file.write_text("frame,round,client,value\n1,1,0,0.5\n1,1,1,0.25\n1,2,0,0.1\n1,2,1,0.2\n")
    table = read_trace(str(file), clients=2)
    assert traced(table, "gains.csv", 1, 1).tolist() == [0.5, 0.25]
    assert traced(table, "gains.csv", 1, 3).tolist() == [0.5, 0.25]  # starts again
    with pytest.raises(InputError, match="nothing for frame 2"):
        traced(table, "gains.csv", 2, 1)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "has no column frame"),
        ("frame,round,client,value\n", "has no rows"),
        ("frame,round,client\n1,1,0\n", "has no column value"),
        ("frame,round,client,value\n1,1,0,nan\n", "line 2: value='nan'"),
        ("frame,round,client,value\n1,1,0,-1\n", "line 2: value='-1'"),
        ("frame,round,client,value\n1,1,0\n", "line 2: value=None"),
        ("frame,round,client,value\n1,1,5,1\n", "clients from 0 to 1"),
        ("frame,round,client,value\n1,x,0,1\n", "round='x'"),
        ("frame,round,client,value\n1,1,0,1\n1,1,0,2\n", "stands twice"),
        ("frame,round,client,value\n1,1,0,1\n", "has no value for frame 1, round 1, client 1"),
    ],
)
def test_bad_traces_are_refused(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "trace.csv"
    file.write_text(text)
    with pytest.raises(InputError, match=message):
        read_trace(str(file), clients=2)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"arrivals": [Arrival(frame=3, classes=[6])]}, "frames 0 to 1 only"),
        ({"arrivals": [Arrival(frame=1, classes=[12])]}, "classes are numbers from 0 to 9"),
        ({"arrivals": [Arrival(frame=1, clients=99, classes=[6])]}, "there are only 30"),
        ({"arrivals": [Arrival(frame=1, clients=[0, 0], classes=[6])]}, "give different clients"),
        ({"arrivals": [Arrival(frame=1, mix=[0, 0])]}, "one at least above 0"),
        ({"arrivals": [Arrival(frame=1, classes=[6], samples=500)]}, "but it can store 120"),
        ({"class_weights": [0, 0]}, "all 0"),
        ({"class_weights": [1] * 11}, "the data set has 10 classes"),
        ({"classes_per_client": 7}, "only 6 classes are there"),
        ({"layout": "paper-cifar10", "clients": 10}, "has 30, always"),
    ],
)
def test_impossible_scenarios_are_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        build_plan(ScenarioSettings(**({"layout": "classes"} | changes)), LABELS, 10, 2, seed=0)  # type: ignore[arg-type]
