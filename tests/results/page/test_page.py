"""What the page is made of, against plain loops over the records it is made from."""

import json
import math
from pathlib import Path

import numpy as np
import pytest

from fedteddi.results.page import build
from fedteddi.results.page.cell import PER_MILLE, world_of
from fedteddi.results.page.collect import collect
from fedteddi.results.page.conditions import conditions_of
from fedteddi.results.page.detail import Detail, spaced, thinned_rounds
from fedteddi.results.page.found import find_runs
from fedteddi.results.page.headline import headline
from fedteddi.results.page.schedule import LEVELS, bins_of, jain, timeline
from fedteddi.results.reading import read_run
from fedteddi.settings import Settings
from made_folder import MODEL_BITS, made_folder, made_study


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made_study(tmp_path_factory.mktemp("page") / "runs")


def collected(folder: Path, detail: Detail | None = None) -> dict:
    return json.loads(build.as_json(collect(find_runs(folder), detail or Detail())))


def test_a_whole_study_lacks_nothing(study: Path) -> None:
    data = collected(study)
    assert data["notes"] == []
    assert data["thinned"] == []
    assert data["runs"] == 8
    assert [one["label"] for one in data["conditions"]] == ["deadline 0.8 s", "deadline 1.2 s"]
    assert [group["name"] for group in data["conditions"][0]["groups"]] == ["fedteddi", "random"]


def test_the_headline_says_when_a_level_was_reached(study: Path) -> None:
    """Evaluations at 0, 5, …, 20 have 0.9 − 0.5/(1 + k/10) − seed/100: 0.7333 and 0.7233 at 20 in frame 1.

    So 70 % is the highest multiple of five that both seeds reach. In frame 2, at its last round 15, they have 0.70 and
    0.69: 65 % is; at round 10 both have at least 0.64, and seed 0 alone 0.65.
    """
    condition = conditions_of(find_runs(study))[0][0]
    for frame, level in ((1, 0.70), (2, 0.65)):
        rounds = [
            next(k for k in (0, 5, 10, 15, 20) if 0.9 - 0.5 / (1 + k / 10) - seed / 100 >= level)
            for seed in (0, 1)
        ]
        found = headline(condition, frame, "balanced")
        mean = f"{np.mean(rounds):g}"
        assert (
            found["title"]
            == f"{level:.0%} balanced after {mean} rounds (fedteddi, random); two seeds, frame {frame}"
        )
    assert "fedteddi 72.8%, random 72.8%" in headline(condition, 1, "balanced")["text"]


def test_one_seed_is_called_one(tmp_path: Path) -> None:
    made_study(tmp_path / "runs", seeds=(0,), deadlines_s=(1.2,))
    found = collected(tmp_path / "runs")["conditions"][0]
    assert found["label"] == ""
    assert found["headlines"]["1"]["global"]["title"].endswith("; one seed, frame 1")
    assert "One seed says little" in found["headlines"]["1"]["global"]["text"]


def test_the_cell_computes_again_what_the_runs_saw(study: Path) -> None:
    """D_s follows from the recorded uploads; and with B* a client's rate carries D_s in just the time that is left."""
    run = read_run(study / "random-d0.8-s1")
    world = world_of([run])
    assert world is not None
    assert world.model_bits == MODEL_BITS
    assert world.note == ""
    assert world.environment is not None
    radio = run.settings.radio
    needed = world.needed_hz(2, 7)
    gain, compute_s = world.environment.channel_gain(2, 7), world.environment.compute_s(2, 7)
    assert needed is not None
    assert np.isfinite(needed).sum() > 5
    for n in np.flatnonzero(np.isfinite(needed)):
        snr = (
            10 ** (radio.power_dbm / 10 - 3) * gain[n] / (needed[n] * 10 ** (radio.noise_dbm_per_hz / 10 - 3))
        )
        assert needed[n] * math.log2(1 + snr) * (0.8 - compute_s[n]) == pytest.approx(MODEL_BITS, rel=1e-9)
    shown = collected(study)["conditions"][0]
    columns = shown["worlds"]["1"]
    at = shown["rounds"].index([2, 7])
    parts = [math.ceil(hz / radio.total_hz * PER_MILLE) if math.isfinite(hz) else -1 for hz in needed]
    assert columns["needed"][at] == [part if part <= 9 * PER_MILLE else -1 for part in parts]
    assert columns["infeasible"][at] == sum(not hz <= radio.total_hz for hz in needed)
    assert all(math.hypot(*where) <= radio.radius_m for where in columns["places"])


@pytest.mark.parametrize("column", ["finish_s", "compute_s"])
def test_a_measured_channel_is_not_passed_off_as_the_modelled_one(tmp_path: Path, column: str) -> None:
    folder = made_folder(tmp_path / "run", Settings().changed(rounds=[0, 5], radio__total_hz=2e7))
    lines = [json.loads(line) for line in (folder / "rounds.jsonl").read_text().splitlines()]
    for line in lines:
        if line.get("clients"):
            line[column][0] *= 1.01
    (folder / "rounds.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    data = collected(folder)
    assert any("do not fit the channel that the settings give" in note for note in data["notes"])
    world = data["conditions"][0]["worlds"]["0"]
    assert "needed" not in world
    assert len(world["places"]) == 30


def test_records_without_times_still_have_a_cell(tmp_path: Path) -> None:
    folder = made_folder(tmp_path / "run", Settings().changed(rounds=[0, 5], radio__total_hz=2e7))
    lines = [json.loads(line) for line in (folder / "rounds.jsonl").read_text().splitlines()]
    for line in lines:
        line.pop("finish_s", None)
    (folder / "rounds.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    data = collected(folder)
    assert any("no upload with its times is on record" in note for note in data["notes"])
    assert data["conditions"][0]["groups"][0]["runs"]["0"]["shown"]["who"][0]


def test_timelines_and_fairness_count_what_is_on_record(study: Path) -> None:
    run = read_run(study / "fedteddi-d1.2-s0")
    played = [record for record in run.records if record.round]
    rows = timeline(run, range(12), [(k, k + 1) for k in range(35)])
    assert rows == ["".join("z" if n in record.clients else "0" for record in played) for n in range(12)]
    pairs = timeline(run, range(12), [(k, min(k + 2, 35)) for k in range(0, 35, 2)])
    for n, row in enumerate(pairs):
        for letter, both in zip(row, (played[k : k + 2] for k in range(0, 35, 2)), strict=True):
            share = sum(n in record.clients for record in both) / len(both)
            assert letter == LEVELS[math.ceil(share * 35)]
    group = collected(study)["conditions"][1]["groups"][0]
    found = group["runs"]["0"]["participation"][0]
    times = [sum(n in record.clients for record in played if record.frame == 1) for n in range(12)]
    assert found["clients"] == round(sum(times) / 20, 2)
    assert found["never"] == times.count(0)
    assert found["jain"] == pytest.approx(sum(times) ** 2 / (12 * sum(t * t for t in times)), abs=1e-4)
    assert found["shares"] == [round(t / 20, 3) for t in sorted(times, reverse=True)]


def test_jains_index_at_its_ends() -> None:
    assert jain(np.array([3.0, 3.0, 3.0, 3.0])) == 1.0
    assert jain(np.array([7.0, 0.0, 0.0, 0.0])) == 0.25
    assert jain(np.zeros(4)) == 1.0


def test_curves_add_up_what_was_spent(study: Path) -> None:
    run = read_run(study / "random-d0.8-s0")
    curve = collected(study)["conditions"][0]["groups"][1]["runs"]["0"]["curve"]
    for at, (frame, number) in enumerate(zip(curve["frame"], curve["round"], strict=True)):
        before = [r for r in run.records if (r.frame, r.round) <= (frame, number)]
        assert curve["bits"][at] == pytest.approx(sum(r.uplink_bits for r in before), rel=1e-4)
        assert curve["joules"][at] == pytest.approx(sum(r.energy_j for r in before), rel=1e-4)
        assert curve["balanced"][at] == round(before[-1].balanced * 10_000)
    # Frame 1 brings class 8, which is 8/1000 above the base of all classes; the old ones are 0 to 7.
    first = curve["frame"].index(1)
    base = read_run(study / "random-d0.8-s0").records[1].class_accuracy[0]
    assert curve["new"][first] == round((base + 0.008) * 10_000)
    assert curve["old"][first] == round((base + 0.0035) * 10_000)


def test_thinning_keeps_the_ends_and_is_stated(study: Path) -> None:
    assert spaced(5, 10) == [0, 1, 2, 3, 4]
    assert spaced(100, 3) == [0, 50, 99] or spaced(100, 3) == [0, 49, 99]
    few = thinned_rounds([0, 100, 50], 30)
    assert {(1, 1), (1, 100), (2, 1), (2, 50)} <= set(few)
    assert len(few) == 30
    assert bins_of([5, 4], 9) == [(k, k + 1) for k in range(9)]
    assert bins_of([5, 4], 3) == [(0, 3), (3, 5), (5, 8), (8, 9)]
    small = collected(study, Detail(1e-4))
    assert len(small["conditions"][0]["rounds"]) == 12 < 35
    assert any("the cell shows 12" in sentence for sentence in small["thinned"])


def test_data_that_is_too_large_is_thinned_until_it_fits(
    study: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = build.page_data(study)
    limit = len(whole.encode()) * 2 // 3
    monkeypatch.setattr(build, "LARGEST_DATA", limit)
    less = build.page_data(study)
    assert len(less.encode()) <= limit
    assert json.loads(less)["thinned"]


def test_names_cannot_break_out_of_the_page(tmp_path: Path) -> None:
    settings = Settings().changed(name="</script><b>&", rounds=[0, 5])
    made_folder(tmp_path / "run", settings)
    data = build.page_data(tmp_path / "run")
    assert not set("<>&") & set(data)
    assert json.loads(data)["conditions"][0]["groups"][0]["name"] == "</script><b>&"


@pytest.mark.slow
def test_a_page_about_120_runs_is_below_10_mb(tmp_path: Path) -> None:
    rules = (
        "fedteddi",
        "fedteddi-plus",
        "random",
        "fedcgd",
        "fed-cbs",
        "pure-drift",
        "best-norm",
        "best-channel",
    )
    made_study(
        tmp_path / "runs",
        schedulers=rules,
        seeds=tuple(range(5)),
        deadlines_s=(0.8, 1.0, 1.2),
        rounds=(0, 300, 300),
        scenario__clients=30,
    )
    build.write_page(tmp_path / "runs", tmp_path / "page.html")
    assert (tmp_path / "page.html").stat().st_size < 10_000_000
    assert collected(tmp_path / "runs")["runs"] == 120
