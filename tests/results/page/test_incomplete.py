"""Whatever is in the folder, there is a page, and it says what is missing."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from cli_runner import Outcome
from fedteddi.results.page import build
from fedteddi.settings import Settings
from made_folder import made_folder, made_study

BASE = Settings().changed(rounds=[0, 10], radio__total_hz=2e7, scenario__clients=6)


def page(folder: Path) -> dict:
    return json.loads(build.page_data(folder))


def one(folder: Path, name: str, seed: int = 0, until: int | None = None, **changes: object) -> Path:
    settings = BASE.changed(name=name, scheduler=name, seed=seed, **changes)
    return made_folder(folder / f"{name}-s{seed}", settings, until=until)


def test_an_empty_folder(tmp_path: Path, cli: Callable[..., Outcome]) -> None:
    made = cli("report", tmp_path, "--html")
    assert made.code == 0
    assert (tmp_path / "report" / "report.html").stat().st_size > 1_000_000
    (note,) = page(tmp_path)["notes"]
    assert "holds no run that can be read: 'fedteddi compare" in note


def test_an_empty_run_folder_beside_a_good_one(tmp_path: Path) -> None:
    one(tmp_path, "random")
    (tmp_path / "fedteddi-s0").mkdir()
    data = page(tmp_path)
    assert data["runs"] == 1
    assert data["notes"] == ["Left out: fedteddi-s0 is empty."]


@pytest.mark.parametrize("file", ["rounds.jsonl", "scenario.json", "settings.toml"])
def test_a_run_folder_without_one_of_its_files(tmp_path: Path, file: str) -> None:
    one(tmp_path, "random")
    (one(tmp_path, "fedteddi") / file).unlink()
    data = page(tmp_path)
    assert data["runs"] == 1
    assert data["notes"] == [f"Left out: fedteddi-s0 has no {file}."]


def test_a_run_that_stopped_half_way_is_drawn_as_far_as_it_came(tmp_path: Path) -> None:
    """The last line is cut, as by a crash: six whole rounds are left of ten."""
    one(tmp_path, "random")
    file = one(tmp_path, "fedteddi", until=7) / "rounds.jsonl"
    file.write_bytes(file.read_bytes()[:-20])
    data = page(tmp_path)
    assert (
        "fedteddi at 1 s, seed 0 (fedteddi-s0) has 6 of 10 rounds: --resume plays the others."
        in data["notes"]
    )
    group = data["conditions"][0]["groups"][0]
    assert group["name"] == "fedteddi"
    assert not group["runs"]["0"]["finished"]
    assert group["runs"]["0"]["shown"]["who"].count(None) == 4
    assert {row[6:] for row in group["runs"]["0"]["timeline"]} == {"----"}
    assert not any("-" in row[:6] for row in group["runs"]["0"]["timeline"])
    assert "Not finished yet: fedteddi." in data["conditions"][0]["headlines"]["1"]["balanced"]["text"]
    assert group["runs"]["0"]["curve"]["round"][-1] == 5
    assert "fedteddi" not in data["conditions"][0]["headlines"]["1"]["balanced"]["title"]


def test_a_run_with_a_broken_line_is_left_out(tmp_path: Path) -> None:
    one(tmp_path, "random")
    file = one(tmp_path, "fedteddi") / "rounds.jsonl"
    file.write_text("not a record\n" + file.read_text())
    (note,) = page(tmp_path)["notes"]
    assert note.startswith("Left out: fedteddi-s0 is not a complete run folder")


def test_a_run_without_any_round(tmp_path: Path) -> None:
    folder = one(tmp_path, "fedteddi")
    (folder / "rounds.jsonl").write_text("")
    data = page(tmp_path)
    assert any("has no rounds yet" in note for note in data["notes"])
    assert data["conditions"][0]["headlines"]["1"]["balanced"]["title"] == "No finished run yet"
    assert data["conditions"][0]["worlds"]["0"]["places"]


def test_a_run_that_failed_is_named_and_left_out(tmp_path: Path) -> None:
    one(tmp_path, "random")
    folder = one(tmp_path, "fedteddi", until=4)
    (folder / "failed.json").write_text(json.dumps({"frame": 1, "round": 5, "cause": "training diverged"}))
    data = page(tmp_path)
    assert any("failed in frame 1, round 5" in note and "training diverged" in note for note in data["notes"])
    assert [group["name"] for group in data["conditions"][0]["groups"]] == ["random"]


def test_mixed_experiments_are_kept_apart_and_said_so(tmp_path: Path) -> None:
    for alpha in (0.1, 1.0):
        for name in ("fedteddi", "random"):
            one(tmp_path / f"alpha-{alpha}", name, scenario__alpha=alpha, scenario__layout="dirichlet")
    data = page(tmp_path)
    assert [condition["label"] for condition in data["conditions"]] == ["alpha 0.1", "alpha 1.0"]
    assert all(len(condition["groups"]) == 2 for condition in data["conditions"])
    assert any("they differ in scenario.alpha" in note for note in data["notes"])


def test_a_scheduler_missing_at_one_deadline_and_a_missing_seed(tmp_path: Path) -> None:
    made_study(tmp_path, seeds=(0, 1), deadlines_s=(0.8, 1.2), rounds=(0, 5))
    for gone in ("random-d1.2-s0", "random-d1.2-s1", "fedteddi-d0.8-s1"):
        for file in (tmp_path / gone).iterdir():
            file.unlink()
        (tmp_path / gone).rmdir()
    data = page(tmp_path)
    assert "No runs of random at deadline 1.2 s." in data["notes"]
    assert "No run of fedteddi at deadline 0.8 s with seed 1: its mean is over the others." in data["notes"]


def test_a_run_that_lies_there_twice_counts_once(tmp_path: Path) -> None:
    one(tmp_path / "a", "fedteddi")
    one(tmp_path / "b", "fedteddi")
    data = page(tmp_path)
    assert len(data["conditions"][0]["groups"][0]["runs"]) == 1
    assert any("is there twice: a/fedteddi-s0 is shown" in note for note in data["notes"])


def test_bounds_stand_beside_every_deadline(tmp_path: Path) -> None:
    """A bound has no deadline; centralised trains one client on N times the batch."""
    made_study(tmp_path, seeds=(0,), deadlines_s=(0.8, 1.2), rounds=(0, 5))
    base = Settings().changed(rounds=[0, 5], radio__total_hz=2e7, scenario__clients=12)
    made_folder(tmp_path / "everyone-s0", base.changed(name="everyone", scheduler="everyone"))
    pooled = base.changed(name="centralised", scheduler="everyone", training__batch_size=32 * 12)
    made_folder(tmp_path / "centralised-s0", pooled.changed(scenario__pooled=True))
    data = page(tmp_path)
    for condition in data["conditions"]:
        names = [(group["name"], group["bound"]) for group in condition["groups"]]
        assert names == [("fedteddi", False), ("random", False), ("centralised", True), ("everyone", True)]
        assert "seconds" not in condition["groups"][3]["runs"]["0"]["curve"]


def test_bad_input_is_one_sentence(
    tmp_path: Path, cli: Callable[..., Outcome], monkeypatch: pytest.MonkeyPatch
) -> None:
    nowhere = cli("report", tmp_path / "nowhere", "--html")
    assert (nowhere.code, nowhere.err) == (
        2,
        f"error: there is no folder {tmp_path / 'nowhere'}: give a run's folder, or one that holds runs\n",
    )
    beside = cli("report", tmp_path, "--html", "--target", "0.7")
    assert beside.code == 2
    assert "--target has no effect" in beside.err
    (tmp_path / "file").write_text("")
    blocked = cli("report", tmp_path, "--html", tmp_path / "file" / "page.html")
    assert blocked.code == 2
    assert "choose another --html FILE" in blocked.err
    monkeypatch.setitem(__import__("sys").modules, "plotly.offline", None)
    without = cli("report", tmp_path, "--html")
    assert without.code == 2
    assert "pip install 'fedteddi[report]'" in without.err


def test_the_file_is_where_it_was_asked_for(tmp_path: Path, cli: Callable[..., Outcome]) -> None:
    one(tmp_path / "runs", "random")
    for words, file in (
        ((tmp_path / "runs", "--html"), tmp_path / "runs" / "report" / "report.html"),
        (("--html", tmp_path / "a.html", tmp_path / "runs"), tmp_path / "a.html"),
        (("--html", tmp_path / "runs"), tmp_path / "runs" / "report" / "report.html"),
    ):
        made = cli("report", *words)
        assert made.code == 0
        assert str(file) in made.out
        assert file.is_file()
        file.unlink()


def test_open_hands_the_page_to_a_browser(
    tmp_path: Path, cli: Callable[..., Outcome], monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", lambda address: bool(opened.append(address)))
    one(tmp_path, "random")
    made = cli("report", tmp_path, "--open")
    assert opened == [(tmp_path / "report" / "report.html").as_uri()]
    assert "no browser was found here" in made.out


def test_code_that_a_run_names_is_not_run_for_a_page(tmp_path: Path, cli: Callable[..., Outcome]) -> None:
    """The folder may be anybody's: its scheduler, channel and data set are shown as recorded, never loaded."""
    (tmp_path / "evil.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w').close()\n")
    file = one(tmp_path / "runs", "random") / "settings.toml"
    evil = f"{tmp_path / 'evil.py'}:X"
    file.write_text(
        file.read_text()
        .replace('scheduler = "random"', f'scheduler = "{evil}"')
        .replace('channel = "shadowing"', f'channel = "{evil}"')
    )
    assert file.read_text().count("evil.py") == 2
    done = cli("report", tmp_path / "runs", "--html")
    assert done.code == 0, done.err
    assert not (tmp_path / "ran").exists()
    assert "radio.channel is code of its own" in (tmp_path / "runs" / "report" / "report.html").read_text()


def test_runs_that_differ_in_options_alone_are_all_shown(tmp_path: Path) -> None:
    for search in ("greedy", "refined"):
        settings = BASE.changed(name="fedteddi", scheduler="fedteddi", scheduler_options={"search": search})
        made_folder(tmp_path / search / "fedteddi-s0", settings)
    data = page(tmp_path)
    names = [group["name"] for condition in data["conditions"] for group in condition["groups"]]
    assert sorted(names) == ["fedteddi (search=greedy)", "fedteddi (search=refined)"]
    assert not [note for note in data["notes"] if "twice" in note]
