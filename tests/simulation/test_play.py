"""`RunOptions`: one object, or its fields as keywords; what cannot go together is refused."""

import dataclasses
from pathlib import Path

import pytest

from fedteddi import InputError, RunOptions, compare, simulate
from fedteddi.experiment import Progress, play
from fedteddi.simulation.laboratory import Laboratory
from fedteddi.simulation.parallel.groups import Group, play_group
from small_world import tiny_data, tiny_settings

SETTINGS = tiny_settings(rounds=[1, 1, 0], scheduler="random")


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEDTEDDI_CACHE", str(tmp_path / "cache"))


def test_an_object_and_its_keywords_mean_the_same(tmp_path: Path) -> None:
    how = RunOptions(data=tiny_data(), out=tmp_path / "object")
    mine = simulate(SETTINGS, run=how)
    theirs = simulate(SETTINGS, data=tiny_data(), out=str(tmp_path / "keywords"))
    assert mine.records == theirs.records
    rounds = [(tmp_path / name / "rounds.jsonl").read_bytes() for name in ("object", "keywords")]
    assert rounds[0] == rounds[1] != b""


def test_a_keyword_comes_before_the_object(tmp_path: Path) -> None:
    """The object says where and on what data; the keyword turns resuming on for this call alone."""
    how = RunOptions(data=tiny_data(), out=tmp_path / "study")
    seen: list[Progress] = []
    first = compare(SETTINGS, schedulers=["random"], seeds=[0], run=how)
    with pytest.raises(InputError, match="exists already: continue it with --resume"):
        compare(SETTINGS, schedulers=["random"], seeds=[0], run=how)
    again = compare(SETTINGS, schedulers=["random"], seeds=[0], run=how, resume=True, watch=seen.append)
    assert again.runs[0].records == first.runs[0].records
    assert not how.resume
    assert not seen  # all rounds were done


def test_options_and_changes_of_settings_are_told_apart() -> None:
    record = simulate(SETTINGS, data=tiny_data(), time_limit_s=0.0, radio__deadline_s=1.5, seed=3)
    assert (record.settings.radio.deadline_s, record.settings.seed) == (1.5, 3)
    assert record.records == ()  # no time at all
    assert not set(type(SETTINGS).model_fields) & {field.name for field in dataclasses.fields(RunOptions)}


def test_an_unknown_keyword_is_refused() -> None:
    with pytest.raises(InputError, match="unknown key 'resum'"):
        simulate(SETTINGS, data=tiny_data(), resum=True)
    with pytest.raises(TypeError, match=r"play\(\) takes no resum: give what RunOptions has"):
        play({"one": SETTINGS}, data=tiny_data(), resum=True)


@pytest.mark.parametrize("more", [{"seeds": [0, 1]}, {"seeds": [0], "ray": "local"}])
def test_clients_elsewhere_play_one_run_in_this_process(more: dict[str, object], tmp_path: Path) -> None:
    runtime = Laboratory(SETTINGS, tiny_data()).runtime
    with pytest.raises(InputError, match="runtime= plays one run in this process"):
        compare(
            SETTINGS, schedulers=["random"], data=tiny_data(), runtime=runtime, out=tmp_path / "o", **more
        )
    assert not (tmp_path / "o").exists()


def failing(folder: Path) -> str:
    """A rule like Random that raises in frame 1 of these settings, but not in the trial before a run."""
    (folder / "mine.py").write_text(
        "from fedteddi import fill_band\n\n\nclass Mine:\n    name = 'mine'\n    needs = frozenset()\n\n"
        "    def select(self, view, rng):\n        assert view.frame == 0 or view.total_hz != 1.5e4, 'no idea'\n"
        "        return fill_band(view, rng.permutation(view.num_clients))\n"
    )
    return f"{folder}/mine.py:Mine"


def test_a_run_whose_scheduler_fails_ends_alone_if_asked(tmp_path: Path) -> None:
    """Its good rounds are kept; the other run's are those it has alone; without keep_going nothing goes on."""
    each = {"good": SETTINGS, "bad": SETTINGS.changed(scheduler=failing(tmp_path))}
    alone = play({"good": SETTINGS}, data=tiny_data())["good"]
    with pytest.raises(InputError, match=r"^mine raised AssertionError: no idea \(mine.py, line 9\)"):
        play(each, data=tiny_data())
    found = play(each, data=tiny_data(), out=tmp_path / "out", keep_going=True)
    assert found["good"].records == alone.records
    failure = found["bad"].failure
    assert failure is not None
    assert (failure.frame, failure.round) == (1, 1)
    assert "mine raised AssertionError: no idea (mine.py, line 9)" in failure.cause
    assert [(r.frame, r.round) for r in found["bad"].records] == [(0, 0), (0, 1), (1, 0)]
    again = play(each, data=tiny_data(), out=tmp_path / "out", keep_going=True, resume=True)
    assert again["bad"].failure == failure


def test_a_worker_keeps_going_too(tmp_path: Path) -> None:
    settings = SETTINGS.changed(scheduler=failing(tmp_path))
    group = Group({"bad": settings, "good": SETTINGS}, "cpu", None, None, None, keep_going=True)
    bad, good = play_group(tiny_data(), group, lambda _: None)
    assert bad.failure is not None
    assert (bad.finished, good.finished, good.failure) == (False, True, None)
