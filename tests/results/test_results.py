"""Tables and figures from records made by hand, so that every number is known."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedteddi import InputError, read_study
from fedteddi.protocol.record import RoundRecord
from fedteddi.results.figures import (
    accuracy_over_frames,
    accuracy_over_rounds,
    scenario_heat_map,
)
from fedteddi.results.measures import RoundsTo
from fedteddi.results.report import write_report
from fedteddi.results.runs import RunRecord, Study
from fedteddi.results.tables import (
    Targets,
    continual_table,
    costs_table,
    default_targets,
    markdown,
    rounds_interval,
    rounds_table,
    saving,
    savings_table,
    summary,
)
from fedteddi.settings import Settings, write_settings

# Frame 0: classes 0 and 1; frame 1 brings class 2 to client 1.
COUNTS = np.array([[[10, 0, 0], [0, 10, 0]], [[10, 0, 0], [0, 5, 5]]])


def made(name: str, seed: int, accuracies: list[tuple[float, float, float]], every: int = 5) -> RunRecord:
    """A run whose per-class accuracy at rounds 0, 5, 10, … of frame 1 is given; frame 0 ended at (0.9, 0.8, 0)."""
    records: list[dict[str, Any]] = [judged(0, 0, (0.9, 0.8, 0.0))]
    last = (len(accuracies) - 1) * every
    for number in range(last + 1):
        record: dict[str, Any] = {"frame": 1, "round": number}
        if number:
            record |= {
                "clients": [0, 1],
                "scheduled_new": 1,
                "round_s": 2.0,
                "uplink_bits": 3e9,
                "energy_j": 5.0,
            }
        if number % every == 0:
            record |= judged(1, number, accuracies[number // every])
        records.append(record)
    settings = Settings(name=name, scheduler="random", seed=seed, rounds=[0, last])
    return RunRecord(settings, COUNTS, tuple(map(RoundRecord.from_json, records)), True)


def judged(frame: int, number: int, accuracy: tuple[float, float, float]) -> dict[str, Any]:
    seen = accuracy if frame else accuracy[:2]
    weights = COUNTS[frame].sum(axis=0)
    return {
        "frame": frame,
        "round": number,
        "class_accuracy": list(accuracy),
        "balanced": float(np.mean(seen)),
        "global": float(np.dot(accuracy, weights) / weights.sum()),
    }


OURS = [made("fedteddi", seed, [(0.9, 0.8, 0.0), (0.6, 0.6, 0.6), (0.9, 0.6, 0.75)]) for seed in (0, 1)]
THEIRS = [
    made("random", 0, [(0.9, 0.8, 0.0), (0.6, 0.6, 0.3), (0.6, 0.6, 0.6)]),
    made("random", 1, [(0.9, 0.8, 0.0), (0.6, 0.6, 0.3), (0.6, 0.6, 0.3)]),
]
STUDY = Study((*OURS, *THEIRS))
TO_60: Targets = {"balanced": [0.6], "global": [0.6]}


def test_rounds_to_an_accuracy_are_the_first_evaluated_ones() -> None:
    """Balanced: 0.567, 0.6, 0.75. The start counts: 0.5 is there at round 0."""
    run = OURS[0]
    assert [run.rounds_to(1, target, "balanced") for target in (0.5, 0.6, 0.7, 0.8)] == [0, 5, 10, None]
    # global: weights (10, 5, 5)/20: 0.65, 0.6, 0.7875
    assert run.rounds_to(1, 0.7, "global") == 10


def test_unreached_is_censored_and_never_averaged_away() -> None:
    assert str(RoundsTo((10, 20), 50)) == "15 ± 7"
    assert str(RoundsTo((10, None), 50)) == ">50 (1 of 2 reached)"
    assert RoundsTo((10, None), 50).censored.tolist() == [10, 50]
    table = rounds_table(STUDY, 1, TO_60).set_index("scheduler")
    assert table.loc["fedteddi", "balanced 60%"] == "5 ± 0"
    assert table.loc["random", "balanced 60%"] == ">10 (1 of 2 reached)"


def test_savings_by_hand() -> None:
    """R = 50, R' = 80: 37.5 % fewer rounds, 60 % faster; differences 20 and 40: mean 30 ± 12.7 · 14.1/√2 = 127."""
    found = saving(RoundsTo((40, 60), 300), RoundsTo((60, 100), 300))
    assert found["fewer rounds"] == "37.5%"
    assert found["faster"] == "60.0%"
    assert found["difference (95 %)"] == "+30 [-97, +157]"
    assert saving(RoundsTo((4,), 300), RoundsTo((7,), 300))["difference (95 %)"] == "+3"
    at_once = saving(
        RoundsTo((0, 0), 300), RoundsTo((10, 20), 300)
    )  # there from the start: infinitely faster
    assert (at_once["fewer rounds"], at_once["faster"]) == ("100.0%", "–")
    never = RoundsTo((None, 20), 300)  # however many it would need
    assert saving(RoundsTo((0, 0), 300), never)["fewer rounds"] == "100.0%"
    assert saving(never, RoundsTo((0, 0), 300))["faster"] == "-100.0%"
    nobody = saving(RoundsTo((0, 0), 300), RoundsTo((0, 0), 300))
    assert (nobody["fewer rounds"], nobody["faster"]) == ("–", "–")


def test_the_same_difference_in_all_seeds_is_not_certain() -> None:
    """Judged every 5 rounds, three seeds: 5 ± 4.30 · √(24/6)/√3 = 4.97; with one side at round 0, which is exact, or
    never there, 4.30 · √(24/12)/√3 = 3.51. Where every round is judged nothing is rounded."""
    ours, theirs = ((5, 10, 15), (10, 15, 20))
    assert rounds_interval(RoundsTo(ours, 300, 5), RoundsTo(theirs, 300, 5)) == pytest.approx(
        (5, 0.03, 9.97), abs=0.005
    )
    assert rounds_interval(RoundsTo(ours, 300), RoundsTo(theirs, 300)) == (5, 5, 5)
    at_once = RoundsTo((0, 0, 0), 300, 5)
    assert rounds_interval(at_once, at_once) == (0, 0, 0)
    soon, never = RoundsTo((5, 5, 5), 300, 5), RoundsTo((None, None, None), 300, 5)
    assert rounds_interval(at_once, soon) == pytest.approx((5, 1.49, 8.51), abs=0.005)
    assert rounds_interval(soon, never) == pytest.approx((295, 291.49, 298.51), abs=0.005)


def test_savings_with_censoring_are_bounds() -> None:
    reached, never = RoundsTo((50, 50), 100), RoundsTo((None, 90), 100)
    assert saving(reached, never)["faster"] == "≥ 90.0%"
    assert saving(never, reached)["fewer rounds"] == "≤ -90.0%"
    assert saving(never, never)["faster"] == "–"
    table = savings_table(STUDY, 1, TO_60, "fedteddi")
    assert table["baseline"].tolist() == ["random", "random"]
    assert table["fewer rounds"][0] == "≥ 50.0%"  # 5 rounds against (10, >10)


def test_costs_are_summed_until_the_target() -> None:
    """Five rounds of 2 s, 3 Gbit and 5 J."""
    row = costs_table(Study(tuple(OURS)), 1, TO_60).iloc[0]
    assert (row["seconds"], row["uplink Gbit"], row["energy J"]) == ("10", "15", "25")
    row = costs_table(Study(tuple(THEIRS)), 1, TO_60).iloc[0]
    assert row["seconds"] == ">20"


def test_summary() -> None:
    row = summary(STUDY, 1).set_index("scheduler").loc["fedteddi"]
    assert row["final balanced"] == "0.750 ± 0.000"
    assert row["mean balanced"] == "0.639 ± 0.000"  # of 0.567 (the model that enters), 0.6 and 0.75
    theirs = summary(STUDY, 1).set_index("scheduler").loc["random"]
    assert theirs["mean balanced"] == "0.539 ± 0.024"  # of 0.567, 0.5, 0.6 and of 0.567, 0.5, 0.5
    assert row["clients a round"] == "2.0"
    assert row["with new classes"] == "1.0"


def test_continual_measures_by_hand() -> None:
    """Old classes 0 and 1: best earlier (0.9, 0.8), final (0.9, 0.6): forgetting (0 + 0.2)/2 = 0.1, transfer −0.1.

    Before the arrival balanced was 0.85, which 0.75 does not reach; global 0.85 neither.
    """
    run = OURS[0]
    assert run.old_classes(1).tolist() == [True, True, False]
    assert run.new_classes(1).tolist() == [False, False, True]
    assert run.forgetting(1) == pytest.approx(0.1)
    assert run.backward_transfer(1) == pytest.approx(-0.1)
    assert run.rounds_to_recover(1, "balanced") is None
    row = continual_table(STUDY, 1).set_index("scheduler").loc["fedteddi"]
    assert row["old classes"] == "0.750 ± 0.000"
    assert row["new classes"] == "0.750 ± 0.000"
    assert row["rounds to recover balanced"] == ">10 (0 of 2 reached)"
    assert np.isnan(run.forgetting(0))


def test_default_targets_lie_above_every_start_and_are_just_reached() -> None:
    """Balanced goes from 0.567 to 0.75 at best; global from 0.65 to 0.7875, where steps of 5 % are only two."""
    assert default_targets(STUDY, 1) == {"balanced": [0.65, 0.7, 0.75], "global": [0.74, 0.76, 0.78]}


def test_without_anything_learned_there_are_no_targets(tmp_path: Path) -> None:
    flat = Study((made("fedteddi", 0, [(0.6, 0.6, 0.6)] * 3), made("random", 0, [(0.6, 0.6, 0.6)] * 3)))
    assert default_targets(flat, 1) == {"balanced": [], "global": []}
    titles = list(write_report(flat, tmp_path).tables)
    assert titles == ["Frame 1: accuracy and cost", "Frame 1: old and new classes"]


def test_markdown() -> None:
    lines = markdown(rounds_table(STUDY, 1, TO_60)).splitlines()
    assert lines[0] == "| deadline s | scheduler | balanced 60% | global 60% |"
    assert len(lines) == 4


def test_figures_show_every_rule_and_the_numbers() -> None:
    figure = accuracy_over_rounds(STUDY, 1)
    lines = {line.get_label(): line for line in figure.axes[0].get_lines()}
    assert set(lines) == {"fedteddi", "random"}
    np.testing.assert_allclose(lines["fedteddi"].get_ydata(), [1.7 / 3, 0.6, 0.75])
    np.testing.assert_allclose(lines["random"].get_ydata(), [1.7 / 3, 0.5, 0.55])
    assert len(accuracy_over_frames(STUDY).axes) == 2
    assert len(scenario_heat_map(COUNTS, "two frames").axes) == 3


def test_bounds_are_dashed_and_data_in_one_place_has_no_bar() -> None:
    bounds = [made(name, 0, [(0.9, 0.8, 0.0), (0.9, 0.8, 0.9)]) for name in ("everyone", "centralised")]
    study = Study((made("random", 0, [(0.9, 0.8, 0.0), (0.6, 0.6, 0.3)]), *bounds))
    lines = study.accuracy_figure().axes[0].get_lines()
    assert [(line.get_label(), line.get_linestyle()) for line in lines] == [
        ("random", "-"),
        ("everyone", "--"),
        ("centralised", "--"),
    ]
    assert len({line.get_color() for line in lines}) == 3
    bars = [label.get_text() for label in study.scheduled_figure().axes[0].get_yticklabels()]
    assert bars == ["random", "everyone"]


def several_frames() -> Study:
    """The runs above, with one round in frame 0 that ends where frame 1 starts."""
    runs = []
    for run in STUDY.runs:
        first = RoundRecord.from_json(run.records[2].as_json() | judged(0, 1, (0.9, 0.9, 0.0)))
        records = (run.records[0], first, *run.records[1:])
        runs.append(RunRecord(run.settings.changed(rounds=[1, 10]), COUNTS, records, True))
    return Study(tuple(runs))


def test_figure_7_has_a_panel_for_every_frame_with_rounds() -> None:
    """Balanced in frame 0: 0.85, then 0.90 after one round; in frame 1 as in figure 5."""
    study = several_frames()
    axes = study.rounds_by_frame_figure().axes
    assert [ax.get_title() for ax in axes] == [f"frame {frame}, $T_{{max}}$ = 1 s" for frame in (0, 1)] * 2
    assert [ax.get_xlabel().split()[0] for ax in axes] == ["balanced"] * 2 + ["global"] * 2
    first = axes[0].get_lines()[0]
    np.testing.assert_allclose(first.get_xdata(), [0.86, 0.87, 0.88, 0.89, 0.9])
    assert set(first.get_ydata()) == {1.0}
    deadlines = [
        RunRecord(run.settings.changed(radio__deadline_s=2.0), COUNTS, run.records, True)
        for run in study.runs
    ]
    both = Study((*study.runs, *deadlines)).rounds_by_frame_figure()
    assert [ax.get_title() for ax in both.axes] == [
        f"frame {frame}, $T_{{max}}$ = {deadline} s" for deadline in (1, 2) for frame in (0, 1)
    ] * 2
    again, line = study.rounds_figure(1).axes[0].get_lines()[0], axes[1].get_lines()[0]
    np.testing.assert_array_equal(line.get_ydata(), again.get_ydata())


def test_a_study_draws_and_tabulates_itself(tmp_path: Path) -> None:
    study = several_frames()
    assert study.frames == [0, 1]
    assert study.accuracy_figure().axes[0].get_xlabel() == "round of frame 1"
    assert study.accuracy_figure(0).axes[0].get_xlabel() == "round of frame 0"
    assert len(study.frames_figure().axes) == 2
    names = {file.name for file in write_report(study, tmp_path).files}
    assert {"figure6-accuracy-frames.png", "figure7-rounds-frames.png"} <= names
    assert not any(name.endswith(".svg") for name in names)
    with pytest.raises(InputError, match="frame 2 has no rounds: choose from 0, 1"):
        study.table(frame=2)


def test_a_run_draws_itself_even_unfinished() -> None:
    half = RunRecord(OURS[0].settings, COUNTS, OURS[0].records[:7], False)
    ax = half.figure().axes[0]
    lines = {line.get_label(): line for line in ax.get_lines()}
    np.testing.assert_allclose(lines["balanced"].get_ydata(), [0.85, 1.7 / 3, 0.6])
    new = [line.get_ydata().tolist() for line in ax.get_lines() if line.get_color() == "#D55E00"]
    assert new == [[pytest.approx(0.85)], [0.0, 0.6]]  # frame 1 has other new classes than frame 0
    assert lines["balanced"].get_xdata().tolist() == [0, 0, 5]
    title = half.figure().get_suptitle()
    assert title == "fedteddi at 1 s, seed 0\nfashion-mnist, 30 clients, 2 MHz, one seed"


def test_the_report_is_complete_and_repeatable(tmp_path: Path) -> None:
    first = write_report(STUDY, tmp_path / "one", [0.6], svg=True)
    write_report(STUDY, tmp_path / "two", [0.6], svg=True)
    names = {file.name for file in first.files}
    assert {"report.md", "curves.csv", "figure3-accuracy-frame1.png", "figure5-rounds-frame1.svg"} <= names
    for file in first.files:
        assert file.stat().st_size > 50
        if file.suffix in (".md", ".csv", ".svg"):
            assert file.read_bytes() == (tmp_path / "two" / file.name).read_bytes()
    page = (tmp_path / "one" / "report.md").read_text()
    assert ">10 (1 of 2 reached)" in page


def test_a_report_names_runs_that_begin_with_another_model(tmp_path: Path) -> None:
    """Here all runs of a seed begin alike, but for one that is made to differ in one class."""
    assert write_report(STUDY, tmp_path / "same").warning == ""
    first, *later = THEIRS[0].records
    moved = [first.class_accuracy[0] - 0.01, *first.class_accuracy[1:]]
    other = replace(THEIRS[0], records=(replace(first, class_accuracy=moved), *later))
    third = made("fed-cbs", 0, [(0.9, 0.8, 0.0), (0.6, 0.6, 0.6)])
    made_report = write_report(Study((*OURS, other, third)), tmp_path / "other")
    assert f"random: seed {other.settings.seed} (" in made_report.warning
    assert made_report.warning in (tmp_path / "other" / "report.md").read_text()


def test_unfinished_runs_are_left_out_and_named(tmp_path: Path) -> None:
    half = RunRecord(OURS[0].settings, COUNTS, OURS[0].records[:3], False)
    made_report = write_report(Study((half, *THEIRS)), tmp_path / "report")
    assert made_report.unfinished == ["fedteddi at 1 s, seed 0"]
    assert "fedteddi" not in summary(Study((half, *THEIRS)), 1)["scheduler"].tolist()
    unfinished_ours = savings_table(Study((half, *THEIRS)), 1, TO_60, "fedteddi")
    assert len(unfinished_ours) == 0
    with pytest.raises(InputError, match="no run has come to its end"):
        write_report(Study((half,)), tmp_path / "nothing")


def test_a_class_without_test_images_does_not_spoil_the_measures() -> None:
    def without(record: RoundRecord) -> RoundRecord:
        if record.class_accuracy is None:
            return record
        return replace(record, class_accuracy=[None, *record.class_accuracy[1:]])

    run = RunRecord(OURS[0].settings, COUNTS, tuple(without(r) for r in OURS[0].records), True)
    assert run.forgetting(1) == pytest.approx(0.2)  # class 1 alone
    assert run.curve()["old"].iloc[-1] == pytest.approx(0.6)


def test_targets_keep_their_digits() -> None:
    levels: Targets = {"balanced": [0.301, 0.304], "global": [0.3]}
    assert rounds_table(STUDY, 1, levels).columns[2:].tolist() == [
        "balanced 30.1%",
        "balanced 30.4%",
        "global 30%",
    ]


def test_different_experiments_are_not_mixed(tmp_path: Path) -> None:
    for name, rate in (("a", 0.01), ("b", 0.02)):
        folder = tmp_path / name
        folder.mkdir()
        chosen = OURS[0].settings.changed(training__learning_rate=rate)
        (folder / "settings.toml").write_text(write_settings(chosen))
        (folder / "scenario.json").write_text('{"counts": [[[1]]]}')
        (folder / "rounds.jsonl").write_text("")
    with pytest.raises(InputError, match=r"another experiment \(training.learning_rate was 0.01, now 0.02\)"):
        read_study(tmp_path)
    (tmp_path / "b" / "settings.toml").write_text(write_settings(OURS[0].settings))
    with pytest.raises(InputError, match="seed 0 twice"):
        read_study(tmp_path)


def test_folders_that_hold_no_runs_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no folder"):
        read_study(tmp_path / "nowhere")
    with pytest.raises(InputError, match="holds no runs"):
        read_study(tmp_path)
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "settings.toml").write_text("nonsense = 1")
    with pytest.raises(InputError, match="nonsense"):
        read_study(tmp_path)
