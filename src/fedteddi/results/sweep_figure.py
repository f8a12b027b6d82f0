"""The figure of a sweep: measures over the values of a key, a line for each rule."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from fedteddi.errors import InputError
from fedteddi.results.drawing import colours_of, finished, line, panels
from fedteddi.results.measures import measure
from fedteddi.results.points import Point, are_numbers, in_words, ordered, written
from fedteddi.results.runs import RunRecord, Study
from fedteddi.results.styles import SCREEN, Style
from fedteddi.results.tables import groups

MEANS = ("mean_balanced", "mean_global")
LOGARITHMIC_FROM = 20.0  # the ratio of the largest to the smallest value


def over_key(study: Study, metrics: Sequence[str], frame: int | None, style: Style = SCREEN) -> Figure:
    """Draw measures over a sweep's first key, a row for each, a panel for each value of the others (mean, deviation).

    A line has the seeds that are finished at all its points, and a gap where a rule has none.
    """
    if not study.swept:
        raise InputError("these runs sweep nothing: draw their accuracy_figure")
    study.check_reportable()
    key, others = study.swept[0], study.swept[1:]
    values = [point[key] for point in ordered({key: run.point[key]} for run in study.runs)]
    places = ordered({k: run.point[k] for k in others} for run in study.runs)
    columns = [(place, deadline_s) for place in places for deadline_s in _deadlines(study)]
    figure, axes = panels(len(metrics), len(columns), style)
    colours = colours_of(study.schedulers)
    for row, name in zip(axes, metrics, strict=True):
        for ax, (place, deadline_s) in zip(row, columns, strict=True):
            for scheduler, at in _lines(study, key, place, deadline_s).items():
                x, y = _numbers(name, at, values, frame)
                if np.isfinite(y).any():
                    line(ax, scheduler, x, y, colours[scheduler])
            _label(ax, key, values)
            ax.set_ylabel(measure(name).title + (" accuracy" if name.startswith(("final", "mean")) else ""))
            ax.set_title(_title(study, place, deadline_s))
        _alike(row)
    title = f"Sweep of {' and '.join(study.swept)}: {study.runs[0].settings.dataset}"
    note = _note(study, frame)
    figure.set_label(f"{title}. {note}")
    if not style.has_words:
        return finished(figure, axes, study.schedulers)
    return finished(figure, axes, study.schedulers, [note], title)


Line = dict[Any, list[RunRecord]]  # the finished runs of a rule, by the key's value


def _lines(study: Study, key: str, place: Point, deadline_s: float | None) -> dict[str, Line]:
    """Return the line of every rule in a panel."""
    found: dict[str, Line] = {}
    for point, part in study.points:
        if place.items() <= point.items():
            for at, scheduler, runs in groups(part):
                if deadline_s is None or at == deadline_s:
                    found.setdefault(scheduler, {})[point[key]] = runs
    return found


def _numbers(name: str, at: Line, values: Sequence[Any], frame: int | None) -> tuple[np.ndarray, np.ndarray]:
    """Return x [points] and a measure [seeds, points]; NaN where there are no runs."""
    seeds = set.intersection(*({run.settings.seed for run in runs} for runs in at.values()))
    y = np.full((max(1, len(seeds)), len(values)), np.nan)
    for column, value in enumerate(values):
        runs = [run for run in at.get(value, []) if run.settings.seed in seeds]
        if runs:
            y[:, column] = measure(name).sample(runs, Study(tuple(runs)).chosen_frame(frame)).values
    x = np.array(values if are_numbers(values) else range(len(values)), dtype=float)
    return x, y


def _label(ax: Axes, key: str, values: Sequence[Any]) -> None:
    """Name the axis of the key, with a tick at every value of the sweep."""
    ax.set_xlabel(key)
    if not are_numbers(values):
        ax.set_xticks(range(len(values)), [written(value) for value in values])
        return
    if min(values) > 0 and max(values) / min(values) >= LOGARITHMIC_FROM:
        ax.set_xscale("log")
    ax.set_xticks(values, [f"{value:g}" for value in values])
    ax.xaxis.set_minor_locator(NullLocator())


def _alike(row: list[Axes]) -> None:
    """Give the panels of a measure the same scale, so that they can be compared."""
    limits = np.array([ax.get_ylim() for ax in row])
    for ax in row:
        ax.set_ylim(limits[:, 0].min(), limits[:, 1].max())


def _deadlines(study: Study) -> list[float | None]:
    """Return the deadlines that have panels of their own: none where a point has one."""
    each = {tuple(part.deadlines_s) for _, part in study.points}
    several = [*study.deadlines_s] if any(len(own) > 1 for own in each) else []
    return [*several] or [None]


def _note(study: Study, frame: int | None) -> str:
    """Say of which frame the measures are, and what is shaded."""
    parts = [part for _, part in study.points if any(run.finished for run in part.runs)]
    frames = sorted({part.chosen_frame(frame) for part in parts})
    several = len({run.settings.seed for run in study.runs}) > 1
    return f"of frame {', '.join(map(str, frames))}{'; shaded: deviation over the seeds' if several else ''}"


def _title(study: Study, place: Point, deadline_s: float | None) -> str:
    words = [in_words(place)] if place else []
    if deadline_s is not None:
        words.append(f"$T_{{max}}$ = {deadline_s:g} s")
    elif len(study.deadlines_s) == 1 and "radio.deadline_s" not in study.swept:
        words.append(f"$T_{{max}}$ = {study.deadlines_s[0]:g} s")
    return ", ".join(words)
