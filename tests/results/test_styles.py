"""How figures look: who is drawn in full, in which colours, over which range, and how wide they are in print."""

from pathlib import Path

import numpy as np

from fedteddi.results.cast import cast_of, setting
from fedteddi.results.drawing import COLOURS, PALE, colours_of
from fedteddi.results.figures import accuracy_over_rounds, rounds_to_levels, scheduled_clients
from fedteddi.results.report import make_figures, write_for_print
from fedteddi.results.runs import RunRecord, Study
from fedteddi.results.styles import PRINT
from made_study import made_frames

POINTS_AN_INCH = 72


def runs(rule: str, level: float, seeds: int = 2, deadline_s: float = 1.0) -> list[RunRecord]:
    """Of each seed a curve from 0.5 to `level` in two evaluations."""
    curve = [0.5, level, level + 0.02]
    return [made_frames(rule, seed, [curve], deadline_s=deadline_s) for seed in range(seeds)]


def many(rules: int = 8) -> Study:
    """fedteddi is last; rule 0 leads, then 1, and so on."""
    others = [run for place in range(rules - 1) for run in runs(f"rule-{place}", 0.8 - place / 100)]
    return Study((*runs("fedteddi", 0.6), *others))


def test_of_many_rules_five_are_full_and_the_papers_is_one_of_them() -> None:
    cast = cast_of(many(), [1])
    assert list(cast.full) == ["rule-0", "rule-1", "rule-2", "rule-3", "fedteddi"]
    assert cast.pale == ("rule-4", "rule-5", "rule-6")
    assert len(set(cast.full.values())) == 5
    assert cast.colour("rule-5") is None
    few = cast_of(many(6), [1])
    assert (len(few.full), few.pale) == (6, ())


def test_pale_rules_are_named_above_the_legend() -> None:
    figure = accuracy_over_rounds(many(), 1)
    lines = figure.axes[0].get_lines()
    assert sum(line.get_label() == PALE for line in lines) == 3
    assert len({line.get_color() for line in lines if line.get_label() == PALE}) == 1
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()][-1] == "fedteddi"
    assert "in grey: rule-4, rule-5, rule-6" in " ".join(legend.get_title().get_text().split())


def test_bounds_are_never_pale() -> None:
    study = Study((*many().runs, *runs("everyone", 0.9)))
    assert cast_of(study, [1]).colour("everyone") == COLOURS["everyone"]


def test_rules_without_a_colour_take_those_that_are_free() -> None:
    """fedcgd has the first of them, so mine has the next."""
    chosen = colours_of(["mine", "fedcgd", "fedteddi"])
    assert chosen["fedcgd"] == COLOURS["fedcgd"]
    assert chosen["mine"] == COLOURS["fed-cbs"]
    every = colours_of([*COLOURS, *(f"rule-{place}" for place in range(20))])
    assert set(every) == {*COLOURS, *(f"rule-{place}" for place in range(20))}


def test_titles_say_data_seeds_and_setting() -> None:
    study = Study((*runs("fedteddi", 0.6, 3), *runs("random", 0.6, 3)))
    assert setting(study) == "fashion-mnist, 30 clients, 2 MHz, 3 seeds, ± standard deviation shaded"
    assert setting(Study(study.runs[:1])).endswith("2 MHz, one seed")
    assert setting(Study(study.runs[:4])).endswith("1 to 3 seeds, ± standard deviation shaded")
    own = [
        RunRecord(run.settings.changed(dataset="/data/mine.npz"), run.counts, run.records, True)
        for run in study.runs[:1]
    ]
    assert setting(Study(tuple(own))).startswith("mine.npz, ")
    assert accuracy_over_rounds(study, 1).get_suptitle().startswith("Accuracy in frame 1: fashion-mnist, 30")
    assert "shaded" not in scheduled_clients(study, 1).get_suptitle()


def test_the_axis_covers_the_lines_and_no_more() -> None:
    """From 0.5 to 0.72 in one panel and 0.82 in the other: both show 0.5 to 0.82 with 6 % around."""
    study = Study((*runs("fedteddi", 0.7), *runs("fedteddi", 0.8, deadline_s=2.0)))
    first, second, *_ = accuracy_over_rounds(study, 1).axes
    np.testing.assert_allclose(first.get_ylim(), (0.5 - 0.06 * 0.32, 0.82 + 0.06 * 0.32))
    assert first.get_ylim() == second.get_ylim()


def test_levels_are_steps_and_lower_is_better() -> None:
    ax = rounds_to_levels(Study(tuple(runs("fedteddi", 0.6))), 1).axes[0]
    (line,) = ax.get_lines()
    assert line.get_drawstyle() == "steps-pre"
    assert ax.get_ylabel() == "rounds of frame 1\n(lower is better)"


def test_print_figures_are_a_column_wide_and_embed_truetype(tmp_path: Path) -> None:
    """3.5 inches with one deadline, 7.16 with several; TrueType lies in /FontFile2, and nothing is drawn as Type 3."""
    one = Study(tuple(many().runs))
    files = write_for_print(one, tmp_path)
    captions = (tmp_path / "captions.md").read_text()
    for file in files[1:]:
        content = file.read_bytes()
        assert b"/FontFile2" in content
        assert b"/Type3" not in content
        assert f"/MediaBox [ 0 0 {3.5 * POINTS_AN_INCH:g} ".encode() in content
        assert f"{file.stem}: " in captions
    assert "in grey: rule-4, rule-5, rule-6." in captions
    again = tmp_path / "again"
    again.mkdir()
    assert [file.read_bytes() for file in write_for_print(one, again)] == [
        file.read_bytes() for file in files
    ]
    both = Study((*one.runs, *runs("fedteddi", 0.7, deadline_s=2.0)))
    figures = make_figures(both, PRINT)
    assert {figure.get_figwidth() for figure in figures.values()} == {7.16}
    assert {figure.get_suptitle() for figure in figures.values()} == {""}
