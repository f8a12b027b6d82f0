"""Comparisons over any settings: played, resumed, read back, tabulated, drawn."""

import re
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import fedteddi
from fedteddi import InputError, compare, read_study, sweep
from fedteddi.experiment import on_device
from fedteddi.results.report import write_report
from fedteddi.results.runs import RunRecord, Study
from fedteddi.sweeps import read_sweep
from made_study import made_run
from small_world import tiny_data, tiny_settings

SETTINGS = tiny_settings(rounds=[1, 2, 0], scheduler="random")
BANDS = [7.5e3, 1.5e4]


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEDTEDDI_CACHE", str(tmp_path / "cache"))


def lines(run: RunRecord) -> list[dict[str, object]]:
    return [record.as_json() for record in run.records]


def test_a_sweep_is_a_comparison_at_every_value(tmp_path: Path) -> None:
    """To the bit, and read back from its folder as it was."""
    study = sweep(
        SETTINGS,
        radio__total_hz=BANDS,
        schedulers=["random", "best-channel"],
        seeds=[0, 1],
        data=tiny_data(),
        out=tmp_path / "sweep",
    )
    assert study.swept == ("radio.total_hz",)
    assert [point for point, _ in study.points] == [{"radio.total_hz": band} for band in BANDS]
    assert len(study.runs) == 2 * 2 * 2
    for band in BANDS:
        alone = compare(
            SETTINGS,
            schedulers=["random", "best-channel"],
            seeds=[0, 1],
            data=tiny_data(),
            radio__total_hz=band,
        )
        own = study.at(radio__total_hz=band)
        assert own.swept == ()
        assert [lines(run) for run in own.runs] == [lines(run) for run in alone.runs]
        assert own.table().equals(alone.table())
    again = read_study(str(tmp_path / "sweep"))
    key = ["radio.total_hz", "scheduler", "metric", "target"]
    one, other = (s.table().sort_values(key).reset_index(drop=True) for s in (study, again))
    assert one.equals(other)
    alone = read_study(str(tmp_path / "sweep" / "radio.total_hz=7500"))
    assert alone.swept == ()
    assert alone.runs[0].settings.radio.total_hz == 7.5e3


def test_runs_that_cannot_share_a_device_are_played_in_turn(tmp_path: Path) -> None:
    """Batches of two sizes, and two keys at once: all four combinations."""
    study = sweep(
        SETTINGS,
        training__batch_size=[8, 4],
        radio__total_hz=np.array(BANDS),
        seeds=[0],
        data=tiny_data(),
        out=tmp_path,
    )
    assert len({repr(on_device(run.settings)) for run in study.runs}) == 2
    assert [(p["training.batch_size"], p["radio.total_hz"]) for p, _ in study.points] == [
        *((4, 7.5e3), (4, 1.5e4), (8, 7.5e3), (8, 1.5e4))
    ]
    for point, part in study.points:
        settings = part.runs[0].settings
        assert settings.training.batch_size == point["training.batch_size"]
        assert settings.radio.total_hz == point["radio.total_hz"]
        assert part.finished
    assert study.at(training__batch_size=4).swept == ("radio.total_hz",)
    assert read_study(tmp_path).swept == ("training.batch_size", "radio.total_hz")


def test_a_sweep_is_resumed_and_goes_on_with_further_values(tmp_path: Path) -> None:
    how = {"schedulers": ["random"], "seeds": [0], "data": tiny_data(), "out": tmp_path / "sweep"}
    stopped = sweep(SETTINGS, radio__total_hz=BANDS[:1], time_limit_s=0, **how)
    assert not stopped.finished
    with pytest.raises(InputError, match="exists already: continue it with --resume"):
        sweep(SETTINGS, radio__total_hz=BANDS, **how)
    study = sweep(SETTINGS, radio__total_hz=BANDS, resume=True, **how)
    assert study.finished
    whole = sweep(SETTINGS, radio__total_hz=BANDS, **(how | {"out": None}))
    assert [lines(run) for run in study.runs] == [lines(run) for run in whole.runs]
    with pytest.raises(
        InputError, match=r"no part of a sweep over training.local_steps: choose another --out"
    ):
        sweep(SETTINGS, training__local_steps=[1, 2], resume=True, **how)


def test_deadlines_lists_and_options_can_be_swept() -> None:
    data = tiny_data()
    times = sweep(SETTINGS, radio__deadline_s=[0.9, 1.1], seeds=[0], data=data)
    assert [run.settings.radio.deadline_s for run in times.runs] == [0.9, 1.1]
    assert times.table("final_balanced").display().columns.tolist() == [
        *("radio.deadline_s", "scheduler", "final balanced")
    ]
    lengths = sweep(SETTINGS, rounds=[[1, 1, 0], [1, 2, 0]], seeds=[0], data=data)
    assert [run.settings.rounds for run in lengths.runs] == [[1, 1, 0], [1, 2, 0]]
    assert lengths.table("final_balanced")["rounds_in_frame"].tolist() == [1, 2]
    fixed = sweep(SETTINGS, rounds=[1, 1, 0], radio__total_hz=BANDS, seeds=[0], data=data)
    assert {tuple(run.settings.rounds) for run in fixed.runs} == {(1, 1, 0)}
    options = sweep(
        SETTINGS, scheduler_options__on_no_fit=["stop", "skip"], schedulers=["random"], seeds=[0], data=data
    )
    assert [run.settings.scheduler_options["on_no_fit"] for run in options.runs] == ["stop", "skip"]
    assert options.swept == ("scheduler_options.on_no_fit",)


def test_parts_given_as_objects_are_named() -> None:
    def keep_first(held: np.ndarray, _: np.ndarray, keep: int, __: np.random.Generator) -> np.ndarray:
        return held[:keep]

    study = sweep(SETTINGS, scenario__replay=["random", keep_first], seeds=[0], data=tiny_data())
    names = [point["scenario.replay"] for point, _ in study.points]
    assert names[0] == "random"
    assert "keep_first" in names[1]


def test_what_cannot_be_swept_is_refused() -> None:
    how = {"seeds": [0], "data": tiny_data()}
    for changes, sentence in (
        ({}, "nothing is swept: give a key a list of values"),
        ({"radio__total_hz": 1e4}, "nothing is swept"),
        ({"radio__total_hz": []}, "radio.total_hz: no values to sweep over"),
        ({"seed": [1, 2]}, r"seed cannot be swept: use seeds=\[…\] \(--seeds\)"),
        ({"scheduler": ["random"]}, r"scheduler cannot be swept: use schedulers="),
        ({"radio__totl_hz": [1e4]}, "unknown key 'radio.totl_hz'.*total_hz"),
        ({"radio__total_hz": [1e4, -1.0]}, "radio.total_hz=-1.0"),
        ({"scheduler_options__on_no_fits": ["stop"]}, "none of random has an option 'on_no_fits'"),
        ({"radio__channel_options": [{"k_db": 3}], "radio__channel": "rician"}, "sweep one of its keys"),
    ):
        with pytest.raises(InputError, match=sentence):
            sweep(SETTINGS, **changes, **how)
    with pytest.raises(InputError, match="leave deadlines_s"):
        sweep(SETTINGS, radio__deadline_s=[1.0, 1.1], deadlines_s=[1.0], **how)


def test_words_of_the_command_line_are_values() -> None:
    assert read_sweep(["radio.deadline_s=0.8,1.2", "scenario.alpha = 1, 0.1"]) == {
        "radio__deadline_s": [0.8, 1.2],
        "scenario__alpha": [1, 0.1],
    }
    assert read_sweep(["rounds=[0,60],[0, 120]"]) == {"rounds": [[0, 60], [0, 120]]}
    assert read_sweep(['radio.channel=rayleigh,"a,b"']) == {"radio__channel": ["rayleigh", "a,b"]}
    for wrong, sentence in (
        (["alpha"], "write it as key=value,value"),
        (["=1,2"], "write it as key=value,value"),
        (["seed=1", "seed=2"], "--sweep seed is given twice: list all its values in one"),
        (["device=cpu,cuda"], "--sweep device: there is no such setting: 'fedteddi settings' lists all"),
        (["raido.deadline_s=1,2"], r"there is no such setting \(did you mean 'radio'\?\)"),
    ):
        with pytest.raises(InputError, match=sentence):
            read_sweep(wrong)


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("played") / "sweep"
    sweep(
        SETTINGS,
        radio__total_hz=BANDS,
        scenario__samples_per_client=[24, 18],
        schedulers=["random", "everyone"],
        seeds=[0, 1],
        data=tiny_data(),
        out=folder,
    )
    return folder


def test_the_figure_has_a_line_for_each_rule_over_the_first_key(played: Path) -> None:
    """Two panels a measure, for 18 and 24 samples; y is the mean over both seeds at each band, computed anew here."""
    study = read_study(played)
    assert study.swept == ("radio.total_hz", "scenario.samples_per_client")
    figure = study.sweep_figure(["final_balanced", "clients_a_round"])
    titles = [ax.get_title() for ax in figure.axes]
    assert [title.split(",")[0] for title in titles] == [
        *("scenario.samples_per_client=18", "scenario.samples_per_client=24")
    ] * 2
    for ax, samples in zip(figure.axes[:2], (18, 24), strict=True):
        assert ax.get_xlabel() == "radio.total_hz"
        drawn = {str(one.get_label()): one for one in ax.get_lines()}
        assert set(drawn) == {"random", "everyone"}
        expected = []
        for band in BANDS:
            runs = study.at(radio__total_hz=band, scenario__samples_per_client=samples).of("random")
            assert [run.settings.seed for run in runs] == [0, 1]
            expected.append(np.mean([run.evaluated(1)[-1].balanced for run in runs]))
        np.testing.assert_allclose(drawn["random"].get_ydata(), expected)
        np.testing.assert_allclose(drawn["random"].get_xdata(), BANDS)
        assert [tick.get_text() for tick in ax.get_xticklabels()] == ["7500", "15000"]
    assert figure.axes[0].get_ylim() == figure.axes[1].get_ylim()
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["random", "everyone"]
    assert legend.get_title().get_text() == "of frame 1; shaded: deviation over the seeds"


def test_wide_numbers_have_a_logarithmic_axis_and_words_have_places() -> None:
    def study(key: str, values: list[object]) -> Study:
        each = [
            replace(made_run("random", 0, [0.2, 0.4 + n / 10]), point={key: v}) for n, v in enumerate(values)
        ]
        return Study(tuple(each))

    wide = study("scenario.alpha", [0.1, 1.0, 10.0]).sweep_figure(["final_global"]).axes[0]
    assert wide.get_xscale() == "log"
    words = study("radio.channel", ["shadowing", "rayleigh"]).sweep_figure(["final_global"]).axes[0]
    assert [tick.get_text() for tick in words.get_xticklabels()] == ["shadowing", "rayleigh"]
    np.testing.assert_allclose(words.get_lines()[0].get_xdata(), [0, 1])
    np.testing.assert_allclose(words.get_lines()[0].get_ydata(), [0.4, 0.5])
    with pytest.raises(InputError, match="sweep nothing"):
        Study((made_run("random", 0, [0.2, 0.4]),)).sweep_figure()


def test_a_point_without_finished_runs_is_a_gap(played: Path) -> None:
    """And a seed that one point lacks is left out of the whole line."""
    study = read_study(played).at(scenario__samples_per_client=24)
    kept = tuple(r for r in study.runs if (r.point["radio.total_hz"], r.settings.seed) != (7.5e3, 1))
    (line,) = [
        one
        for one in Study(kept).sweep_figure(["final_balanced"]).axes[0].get_lines()
        if one.get_label() == "random"
    ]
    first = [study.at(radio__total_hz=band).of("random")[0].evaluated(1)[-1].balanced for band in BANDS]
    np.testing.assert_allclose(line.get_ydata(), first)
    lost = tuple(
        replace(r, finished=r.point["radio.total_hz"] != 7.5e3 or r.scheduler != "random") for r in study.runs
    )
    axes = Study(lost).sweep_figure(["final_balanced"]).axes[0]
    (line,) = [one for one in axes.get_lines() if one.get_label() == "random"]
    assert np.isnan(line.get_ydata()).tolist() == [True, False]
    assert set(Study(lost).table("final_balanced")["scheduler"]) == {"random", "everyone"}


def test_the_report_of_a_sweep(played: Path, tmp_path: Path) -> None:
    made = write_report(read_study(played), tmp_path / "report", [0.3])
    assert [file.name for file in made.files] == ["report.md", "table.csv", "curves.csv", "sweep.png"]
    page = (tmp_path / "report" / "report.md").read_text()
    assert "| radio.total_hz | scenario.samples_per_client | scheduler | final balanced |" in page
    assert "![sweep](sweep.png)" in page
    numbers = pd.read_csv(tmp_path / "report" / "table.csv")
    assert set(numbers["radio.total_hz"]) == set(BANDS)
    assert numbers["mean"].dtype == np.float64


def test_folders_that_do_not_belong_together_are_refused(played: Path, tmp_path: Path) -> None:
    name = "radio.total_hz={},scenario.samples_per_client={}"

    def copied(*points: tuple[str, str]) -> Path:
        folder = tmp_path / f"copy{len(list(tmp_path.iterdir()))}"
        for one, other in points:
            shutil.copytree(played / name.format("7500", "24"), folder / name.format(one, other))
        return folder

    with pytest.raises(
        InputError, match=r"is not named after its runs \(radio.total_hz was 7500.0, now 9000"
    ):
        read_study(copied(("9000", "24")))
    mixed = copied(("7500", "24"))
    shutil.copytree(mixed / name.format("7500", "24") / "random-d1-s0", mixed / "random-d1-s0")
    with pytest.raises(InputError, match="belongs to another sweep"):
        read_study(mixed)
    other = tmp_path / "other"
    sweep(
        SETTINGS,
        radio__total_hz=[9e3],
        scenario__samples_per_client=[24],
        training__learning_rate=0.01,
        seeds=[0],
        data=tiny_data(),
        out=other,
    )
    with pytest.raises(InputError, match=r"another experiment \(training.learning_rate was 0.05, now 0.01\)"):
        read_study(played, other)


def test_several_paths_are_one_study(played: Path, tmp_path: Path) -> None:
    """Other values of the same keys in another folder; one folder named twice counts once."""
    parts = []
    for number, band in enumerate(("7500", "15000")):
        parts.append(tmp_path / f"part{number}")
        for folder in played.glob(f"radio.total_hz={band},*"):
            shutil.copytree(folder, parts[-1] / folder.name)
    both = read_study(*parts, f"{parts[0]}/")
    assert len(both.runs) == len(read_study(played).runs)
    assert both.table().equals(read_study(played).table())
    with pytest.raises(InputError, match="there is no folder nowhere"):
        read_study(played, "nowhere")
    with pytest.raises(InputError, match="no folder is named"):
        read_study()


def test_values_that_were_not_swept_are_refused(played: Path) -> None:
    study = read_study(played)
    with pytest.raises(InputError, match=r"no runs at radio.total_hz=1: choose from 7500, 15000"):
        study.at(radio__total_hz=1.0)
    with pytest.raises(InputError, match=r"scenario.alpha is not swept here: radio.total_hz, "):
        study.at(scenario__alpha=1.0)


def test_sweep_is_public() -> None:
    assert fedteddi.sweep is sweep


def test_what_cannot_be_swept_says_so_before_anything_is_played() -> None:
    with pytest.raises(InputError, match=r"--sweep rounds: its values are lists: write rounds=\[0,20\]"):
        read_sweep(["rounds=1,2"])
    assert read_sweep(["rounds=[0,1],[0,2]"]) == {"rounds": [[0, 1], [0, 2]]}
    with pytest.raises(InputError, match="dataset is swept, and data= is one data set"):
        sweep(SETTINGS, dataset=["fashion-mnist", "cifar10"], data=tiny_data())


def test_numpy_numbers_one_name_and_a_number_of_seeds_are_taken() -> None:
    settings = SETTINGS.changed(seed=np.int64(3), radio__deadline_s=np.float32(0.5))
    assert (settings.seed, settings.radio.deadline_s) == (3, 0.5)
    study = compare(settings, schedulers="random", seeds=2, data=tiny_data())
    assert study.schedulers == ["random"]
    assert [run.settings.seed for run in study.runs] == [0, 1]


def test_options_in_brackets_and_beside_them_are_both_kept() -> None:
    record = fedteddi.simulate(
        SETTINGS,
        scheduler="fedteddi[search=refined]",
        scheduler_options={"sigma": "literal"},
        data=tiny_data(),
    )
    assert record.settings.scheduler_options == {"search": "refined", "sigma": "literal"}
    assert record.settings.name == "fedteddi-search-refined-sigma-literal"


def test_a_sweep_is_drawn_for_print_too(tmp_path: Path) -> None:
    """A page's width at most (7.16 inches), the title in the caption, not in the picture."""
    runs = tuple(
        replace(made_run("random", 0, [0.2, 0.4 + alpha / 10]), point={"scenario.alpha": alpha})
        for alpha in (0.5, 1.0)
    )
    write_report(Study(runs), tmp_path, pdf=True)
    assert "sweep: Sweep of scenario.alpha: " in (tmp_path / "captions.md").read_text()
    (width,) = re.findall(rb"/MediaBox \[ 0 0 ([\d.]+) ", (tmp_path / "sweep.pdf").read_bytes())
    assert float(width) <= 7.16 * 72 + 1
