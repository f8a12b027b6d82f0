"""Figures over several frames and levels, on runs made by hand."""

import numpy as np
import pytest

from fedteddi.results.drawing import COLOURS
from fedteddi.results.figures import (
    accuracy_over_frames,
    rounds_to_levels,
    rounds_to_levels_by_frame,
    scheduled_clients,
)
from fedteddi.results.runs import RunRecord, Study
from made_study import made_frames

LONG = 10  # evaluations after the first, every five rounds: K = 50 in both frames


def jump(at: int | None, low: float = 0.4, high: float = 0.52) -> list[float]:
    """A curve that is `low` until round `at` (a multiple of 5) and `high` from then on; None: never."""
    return [high if at is not None and 5 * k >= at else low for k in range(LONG + 1)]


def runs(rule: str, first: list[int | None], second: list[int | None], seed: int = 10) -> list[RunRecord]:
    """Runs that jump at those rounds of frames 1 and 2, with seeds 10, 11, …"""
    each = enumerate(zip(first, second, strict=True), start=seed)
    return [made_frames(rule, own, [jump(a), jump(b)], deadline_s=30.0) for own, (a, b) in each]


def test_lines_end_with_their_frame() -> None:
    """The last point of frame 1 and the first of frame 2 share round 50; between them there is none to be drawn."""
    study = Study(tuple(runs("fedteddi", [10, 15], [10, 15])))
    ax = accuracy_over_frames(study).axes[0]
    line = next(line for line in ax.get_lines() if line.get_label() == "fedteddi")
    x, y = (np.asarray(line.get_data()[i], dtype=float) for i in (0, 1))
    (gap,) = np.flatnonzero(np.isnan(y))
    assert (x[gap - 1], x[gap + 1]) == (50, 50)
    assert {text.get_text() for text in ax.texts} == {"frame 1", "frame 2"}
    assert scheduled_clients(study, 2).axes[0].get_title().startswith("frame 2, ")
    (first, *_) = rounds_to_levels_by_frame(Study(tuple(runs("fedteddi", [None], [10])))).axes
    assert [text.get_text() for text in first.texts] == ["no level above the start\nis reached"]
    assert (len(first.get_xticks()), len(first.get_yticks())) == (0, 0)


def test_levels_that_only_some_seeds_learn_are_thin() -> None:
    """Seeds go from 0.40 to 0.43 after 10 rounds, from 0.412 to 0.442 after 20, from 0.40 to 0.43 after 30, of 50.

    So 0.41 is there from the start with one of them, which counts as 0, and 0.44 is never reached by the others: 50.
    """
    curves = [jump(10, 0.40, 0.43), jump(20, 0.412, 0.442), jump(30, 0.40, 0.43)]
    study = Study(tuple(made_frames("fedteddi", seed, [curve]) for seed, curve in enumerate(curves)))
    figure = rounds_to_levels(study, 1)
    full, thin = figure.axes[0].get_lines()
    np.testing.assert_allclose(full.get_xydata(), [(0.42, 20), (0.43, 20)])
    np.testing.assert_allclose(thin.get_xydata(), [(0.41, 40 / 3), (0.42, 20), (0.43, 20), (0.44, 40)])
    assert thin.get_color() == full.get_color()
    assert thin.get_linewidth() < full.get_linewidth()
    assert thin.get_zorder() < full.get_zorder()
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["fedteddi"]
    assert legend.get_title().get_text().startswith("thin, with hollow marks: only some seeds")


def test_thin_lines_end_where_the_full_one_begins() -> None:
    """One seed is at 0.412 when the frame begins, the other at 0.40; then both learn up to 0.46."""
    curves = [jump(10, 0.40, 0.46), jump(20, 0.412, 0.46)]
    study = Study(tuple(made_frames("fedteddi", seed, [curve]) for seed, curve in enumerate(curves)))
    _, thin = rounds_to_levels(study, 1).axes[0].get_lines()
    drawn = [(x, y) for x, y in np.asarray(thin.get_xydata()) if not np.isnan(y)]
    np.testing.assert_allclose(drawn, [(0.41, 5), (0.42, 15)])


@pytest.mark.parametrize("levels", [1, 2, 3])
def test_few_levels_can_be_drawn_too(levels: int) -> None:
    """One seed learns so many levels above 0.40, the other none; of another rule, both seeds do."""
    rising = jump(10, 0.40, 0.40 + levels / 100)
    made = [made_frames("fedteddi", seed, [c]) for seed, c in enumerate((rising, jump(None, 0.40)))]
    whole = [made_frames("random", seed, [rising]) for seed in (0, 1)]
    ours, thin, theirs = rounds_to_levels(Study((*made, *whole)), 1).axes[0].get_lines()
    assert len(ours.get_xdata()) == 0
    np.testing.assert_allclose(thin.get_xydata(), [(0.41 + place / 100, 30) for place in range(levels)])
    np.testing.assert_allclose(theirs.get_xydata(), [(0.41 + place / 100, 10) for place in range(levels)])


def test_a_level_that_no_seed_learns_is_not_drawn() -> None:
    """0.41 to 0.45 are there from the start or never reached: their mean would be rounds that nobody needed."""
    flat = [made_frames("fedteddi", seed, [jump(None, low)]) for seed, low in enumerate((0.40, 0.45))]
    ax = rounds_to_levels(Study(tuple(flat)), 1).axes[0]
    assert [text.get_text() for text in ax.texts] == ["no level above the start\nis reached"]
    # One that rises from 0.40 to 0.42 learns 0.41 and 0.42, and nobody 0.43 to 0.45.
    rising = Study((made_frames("fedteddi", 0, [jump(10, 0.40, 0.42)]), flat[1]))
    _, thin = rounds_to_levels(rising, 1).axes[0].get_lines()
    np.testing.assert_allclose(thin.get_xydata(), [(x / 100, 5 if x < 43 else np.nan) for x in range(41, 46)])


def test_rules_of_ones_own_keep_their_colours_beside_thin_lines() -> None:
    """In the legend they are full, though no level is learned with every seed; a single level shows by its mark."""
    one, two = runs("my-rule", [None, 10], [None, 20]), runs("other-search-refined", [None, 10], [10, 10])
    figure = rounds_to_levels_by_frame(Study((*one, *two)))
    panels = [ax.get_lines() for ax in figure.axes]
    colours = [lines[0].get_color() for lines in panels]
    assert [len(lines) for lines in panels] == [
        4,
        3,
        4,
        3,
    ]  # in frame 2 the second rule learns all with every seed
    for lines in panels:
        assert [line.get_color() for line in lines] == [lines[0].get_color()] * 2 + [lines[2].get_color()] * (
            len(lines) - 2
        )
        assert [line.get_linestyle() for line in lines] == ["-"] * 2 + [":"] * (len(lines) - 2)
    assert len(set(colours)) == 1
    assert panels[0][2].get_color() == COLOURS["fed-cbs"]  # the next that is free after fedcgd's
    assert (len(panels[0][0].get_xdata()), panels[0][1].get_marker()) == (0, ".")
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["my-rule", "other-search-refined"]
    assert [line.get_linewidth() for line in legend.get_lines()] == [1.3, 1.3]


def test_thin_lines_are_explained_where_there_are_any() -> None:
    def note(study: Study) -> set[str]:
        figures = (rounds_to_levels_by_frame(study), rounds_to_levels(study, 1))
        return {figure.legends[0].get_title().get_text()[:4] for figure in figures}

    assert note(Study(tuple(runs("fedteddi", [10], [10])))) == {""}
    assert note(Study(tuple(runs("fedteddi", [None, 10], [10, 10])))) == {"thin"}
    assert note(Study(tuple(runs("fedteddi", [10, 10], [None, 10])))) == {"", "thin"}  # frame 1 has none


def test_the_legend_has_the_order_of_the_rules_even_if_the_first_panel_lacks_some() -> None:
    """In frame 1 only random gets anywhere."""
    study = Study((*runs("fedteddi", [None], [10]), *runs("random", [10], [10])))
    (legend,) = rounds_to_levels_by_frame(study).legends
    assert [text.get_text() for text in legend.get_texts()] == ["fedteddi", "random"]


def test_levels_that_lie_close_have_a_tick_a_percent() -> None:
    """From 0.40 to 0.43 in frame 1, to 0.80 in frame 2."""
    run = made_frames("fedteddi", 10, [jump(5, high=0.43), jump(5, high=0.80)], deadline_s=30.0)
    narrow, wide, *_ = rounds_to_levels_by_frame(Study((run,))).axes
    low, high = narrow.get_xlim()
    assert [round(tick, 6) for tick in narrow.get_xticks() if low <= tick <= high] == [0.41, 0.42, 0.43]
    low, high = wide.get_xlim()
    assert [round(tick, 6) for tick in wide.get_xticks() if low <= tick <= high] == [0.4, 0.5, 0.6, 0.7, 0.8]


def test_a_rule_without_a_colour_of_its_own_has_the_same_in_every_panel() -> None:
    """In frame 1 only "y" gets anywhere; in frame 2 "x" is drawn before it."""
    study = Study((*runs("x", [None], [10]), *runs("y", [10], [10]), *runs("fedteddi", [10], [10])))
    first, second, *_ = rounds_to_levels_by_frame(study).axes
    colours = [{str(line.get_label()): line.get_color() for line in ax.get_lines()} for ax in (first, second)]
    assert set(colours[0]) == {"y", "fedteddi"}
    assert colours[0]["y"] == colours[1]["y"]
    assert len(set(colours[1].values())) == 3
