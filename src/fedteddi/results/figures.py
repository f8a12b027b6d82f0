"""Figures 3 to 7 of the paper, for any study. Colours are fixed per rule; mean over seeds, deviation shaded."""

from collections.abc import Iterator, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, MultipleLocator

from fedteddi.results.cast import Cast, cast_of, setting
from fedteddi.results.drawing import (
    AS_IT_IS,
    NAMELESS,
    PALE,
    WINDOW,
    Picture,
    finished,
    has_lines,
    line,
    panels,
    thin_line,
    whole_numbers,
)
from fedteddi.results.measures import rounds_to
from fedteddi.results.runs import ACCURACIES, REFERENCES, Accuracy, RunRecord, Study
from fedteddi.results.styles import SCREEN, Style
from fedteddi.results.tables import groups, scheduled_a_round

SMOOTHED = f"means over {WINDOW} evaluations; pale: as evaluated"
CURVES = {"balanced": "#000000", "global": "#0072B2", "old": "#999999", "new": "#D55E00"}
BAR_IN, MOST_BARS = 0.22, 12  # in a panel of the usual height
THIN_LINES = (
    "thin, with hollow marks: only some seeds have to learn this level and do; where it is already met at round 0 that"
    " counts as 0 rounds, where it is never reached as all of the frame's, which is less than they would need"
)


def accuracy_over_rounds(study: Study, frame: int, style: Style = SCREEN) -> Figure:
    """Figure 3: test accuracy over the rounds of a frame, a panel per deadline, a row per accuracy."""
    figure, axes = panels(len(ACCURACIES), len(study.deadlines_s), style)
    cast = cast_of(study, [frame])
    for ax, accuracy, deadline_s in _by_accuracy_and_deadline(axes, study):
        for scheduler, runs in _at(study, deadline_s):
            x, y = _rounds(runs, frame), _accuracies(runs, frame, accuracy)
            line(ax, scheduler, x, y, cast.colour(scheduler))
        ax.set_xlabel(f"round of frame {frame}")
        ax.xaxis.set_major_locator(whole_numbers())
        ax.set_ylabel(f"{accuracy} test accuracy")
    _same_height(axes)
    return _finished(figure, axes, study, cast, style, f"Accuracy in frame {frame}")


def scheduled_clients(study: Study, frame: int, style: Style = SCREEN) -> Figure:
    """Figure 4: mean scheduled clients a round, those with new classes first, then those with only old ones."""
    deadlines = study.deadlines_s
    figure, axes = panels(1, len(deadlines), style)
    most = max(len(_at(study, deadline_s)) for deadline_s in deadlines)
    figure.set_figheight(figure.get_figheight() + BAR_IN * max(0, most - MOST_BARS))
    for column, deadline_s in enumerate(deadlines):
        ax = axes[0][column]
        # Data in one place has no clients to count.
        found = [(name, runs) for name, runs in _at(study, deadline_s) if name != "centralised"]
        new, old = [], []
        for _, runs in found:
            clients, changed = scheduled_a_round(runs, frame)
            new.append(changed if clients >= 0 else 0.0)  # not NaN, of a frame without rounds
            old.append(clients - changed if clients >= 0 else 0.0)
        places = np.arange(len(found))
        ax.barh(places, new, color="#D55E00", label="holds new classes")
        ax.barh(places, old, left=new, color="#56B4E9", label="only old")
        names = [scheduler for scheduler, _ in found]
        first = [name for name, _ in _at(study, deadlines[0]) if name != "centralised"]
        ax.set_yticks(places, names if column == 0 or names != first else [""] * len(names))
        ax.invert_yaxis()  # the first rule on top
        several = f"frame {frame}, " if len(study.frames) > 1 else ""
        ax.set_title(f"{several}{_limit(study, deadline_s)}")
        ax.set_xlabel("scheduled clients a round")
        ax.xaxis.set_major_locator(whole_numbers())
        ax.set_axisbelow(True)
    title = f"Who uploads in frame {frame}: {setting(study, shaded=False)}"
    figure.set_label(title)
    return finished(figure, axes, title=title if style.has_words else "")


def rounds_to_levels(study: Study, frame: int, style: Style = SCREEN) -> Figure:
    """Figure 5: rounds needed for each accuracy level; thin where only some seeds have to learn it and do."""
    figure, axes = panels(len(ACCURACIES), len(study.deadlines_s), style)
    cast = cast_of(study, [frame])
    for ax, accuracy, deadline_s in _by_accuracy_and_deadline(axes, study):
        _levels(ax, study, cast, frame, accuracy, deadline_s)
    return _finished(figure, axes, study, cast, style, f"Rounds of frame {frame} to an accuracy")


def rounds_to_levels_by_frame(study: Study, style: Style = SCREEN) -> Figure:
    """Figure 7: figure 5 for all frames with rounds: a panel per frame, a row per accuracy and deadline."""
    rows = [(accuracy, deadline_s) for accuracy in ACCURACIES for deadline_s in study.deadlines_s]
    figure, axes = panels(len(rows), len(study.frames), style)
    cast = cast_of(study, study.frames)
    for (accuracy, deadline_s), row in zip(rows, axes, strict=True):
        for frame, ax in zip(study.frames, row, strict=True):
            _levels(ax, study, cast, frame, accuracy, deadline_s)
            ax.set_title(f"frame {frame}, {_limit(study, deadline_s)}")
    return _finished(figure, axes, study, cast, style, "Rounds to an accuracy")


def accuracy_over_frames(study: Study, style: Style = SCREEN) -> Figure:
    """Figure 6: test accuracy over all frames with rounds, their boundaries marked.

    Lines end there: the next frame counts more classes, and starts from the best model, not from the last.
    """
    starts = _starts(study.runs[0])
    played = study.frames
    figure, axes = panels(len(ACCURACIES), len(study.deadlines_s), style)
    cast = cast_of(study, played)
    for ax, accuracy, deadline_s in _by_accuracy_and_deadline(axes, study):
        for scheduler, runs in _at(study, deadline_s):
            x = [_rounds(runs, frame) + starts[frame] for frame in played]
            y = [_accuracies(runs, frame, accuracy) for frame in played]
            line(ax, scheduler, _broken(x), _broken(y), cast.colour(scheduler))
        _boundaries(ax, [starts[frame] for frame in played[1:]])
        for frame in played:
            middle = starts[frame] + study.runs[0].settings.rounds[frame] / 2
            ax.text(middle, 0.02, f"frame {frame}", transform=ax.get_xaxis_transform(), ha="center")
        ax.set_ylabel(f"{accuracy} test accuracy")
    _same_height(axes)
    return _finished(figure, axes, study, cast, style, "Accuracy over all frames")


def _finished(
    figure: Figure, axes: list[list[Axes]], study: Study, cast: Cast, style: Style, subject: str
) -> Figure:
    """Add a legend, and say what is shown, who is pale, what thin and smoothed lines are; in print, as the label."""
    notes = [
        *([SMOOTHED] if has_lines(figure, AS_IT_IS) else []),
        *([THIN_LINES] if has_lines(figure, NAMELESS) else []),
        *([cast.note] if has_lines(figure, PALE) else []),
    ]
    title = f"{subject}: {setting(study)}"
    if style.has_words:
        return finished(figure, axes, [*cast.full, *REFERENCES], notes, title)
    figure.set_label(". ".join([title, *notes]))
    return finished(figure, axes, [*cast.full, *REFERENCES])


def _same_height(axes: Sequence[Sequence[Axes]]) -> None:
    """Give each row of panels the range of its full lines: what is shaded or pale may leave it."""
    for row in axes:
        drawn = [one for ax in row for one in ax.get_lines() if not str(one.get_label()).startswith("_")]
        values = np.concatenate([np.asarray(one.get_ydata(), dtype=float) for one in drawn] or [np.zeros(0)])
        values = values[np.isfinite(values)]
        if not len(values):
            continue
        margin = max(0.06 * (values.max() - values.min()), 0.005)
        for ax in row:
            ax.set_ylim(values.min() - margin, values.max() + margin)


def run_curve(run: RunRecord) -> Figure:
    """Draw one run, finished or not: its accuracies over all frames, and those on old and new classes."""
    figure, axes = panels(1, 1)
    ax, starts = axes[0][0], _starts(run)
    curve = run.curve()
    x = curve["round"].to_numpy() + starts[curve["frame"].to_numpy(dtype=int)]
    frames = sorted(set(curve["frame"]))
    for column in ACCURACIES:
        ax.plot(x, curve[column], color=CURVES[column], linewidth=1.5, label=column)
    for part in ("old", "new"):  # other classes in every frame: lines of their own
        for frame in frames:
            own = (curve["frame"] == frame).to_numpy()
            label = f"{part} classes" if frame == frames[0] else "_"
            ax.plot(x[own], curve[part][own], "--", color=CURVES[part], linewidth=1.5, label=label)
    _boundaries(ax, [starts[frame] for frame in frames if starts[frame]])
    ax.set_ylabel("test accuracy")
    return finished(figure, axes, title=f"{run.title}\n{setting(Study((run,)))}")


def scenario_heat_map(counts: np.ndarray, title: str) -> Figure:
    """Draw who holds how much of what: clients × classes, a panel per frame, from counts [L, N, C]."""
    frames, clients, classes = counts.shape
    figure = Picture(
        figsize=(1.2 + min(6.0, 1.5 + 0.28 * classes) * frames, 1.4 + 0.14 * clients), layout="constrained"
    )
    axes = figure.subplots(1, frames, squeeze=False, sharey=True)[0]
    for frame, ax in enumerate(axes):
        image = ax.imshow(counts[frame], aspect="auto", cmap="Blues", vmin=0, vmax=max(1, counts.max()))
        ax.set_title(f"frame {frame}")
        ax.set_xlabel("class")
        for axis in (ax.xaxis, ax.yaxis):
            axis.set_major_locator(whole_numbers())
        if frame:
            grown = np.argwhere((counts[frame] > 0) & (counts[frame - 1] == 0))
            ax.plot(grown[:, 1], grown[:, 0], "x", color="#D55E00", markersize=4)
    axes[0].set_ylabel("client")
    figure.colorbar(image, ax=list(axes), label="samples (× = new to the client)")
    figure.suptitle(title)
    FigureCanvasAgg(figure)
    return figure


def _by_accuracy_and_deadline(axes: list[list[Axes]], study: Study) -> Iterator[tuple[Axes, Accuracy, float]]:
    """Yield every panel with its accuracy and its deadline, which becomes its title."""
    for row, accuracy in enumerate(ACCURACIES):
        for column, deadline_s in enumerate(study.deadlines_s):
            axes[row][column].set_title(_limit(study, deadline_s))
            yield axes[row][column], accuracy, deadline_s


def _limit(study: Study, deadline_s: float) -> str:
    only_bounds = set(study.schedulers) <= set(REFERENCES)
    return "no limits" if only_bounds else f"$T_{{max}}$ = {deadline_s:g} s"


def _starts(run: RunRecord) -> np.ndarray:
    """Return how many rounds lie before each frame, [L]."""
    return np.cumsum([0, *run.settings.rounds[:-1]])


def _boundaries(ax: Axes, starts: list[int]) -> None:
    """Mark where frames begin on an axis of rounds over all frames."""
    for start in starts:
        ax.axvline(float(start), color="#444444", linestyle=":", linewidth=1)
    ax.set_xlabel("round, over all frames")
    ax.xaxis.set_major_locator(whole_numbers())


def _levels(ax: Axes, study: Study, cast: Cast, frame: int, accuracy: Accuracy, deadline_s: float) -> None:
    """Draw the rounds of a frame that each rule needs for each accuracy level.

    In full where every seed has to learn it and does; thin where only some do, and nothing where none does.
    """
    for scheduler, runs in _at(study, deadline_s):
        first = min(run.evaluated(frame)[0].accuracy(accuracy) for run in runs)
        best = max(max(_accuracies([run], frame, accuracy)[0]) for run in runs)
        levels = [level for level in np.arange(5, 100) / 100 if first < level <= best]
        found = [rounds_to(runs, frame, float(level), accuracy) for level in levels]
        if not any(any(f.rounds) for f in found):
            continue
        x, rounds = np.array(levels), np.array([f.censored for f in found]).T
        by_all = np.array(
            [all(f.rounds) for f in found]
        )  # neither 0, already met at round 0, nor None, never
        by_some = np.array([any(f.rounds) for f in found]) & ~by_all
        colour = cast.colour(scheduler)
        line(
            ax, scheduler, x[by_all], rounds[:, by_all], colour, steps=True
        )  # even if it has no point: for the legend
        if by_some.any():
            around = np.pad(by_some, 1)
            drawn = by_some | (by_all & (around[:-2] | around[2:]))  # so that it joins the full line
            thin_line(ax, scheduler, x, np.where(drawn, rounds.mean(axis=0), np.nan), colour)
    ax.set_xlabel(f"{accuracy} test accuracy")
    ax.set_ylabel(f"rounds of frame {frame}\n(lower is better)")
    if not ax.get_lines():
        why = "no level above the start\nis reached"
        ax.text(0.5, 0.5, why, transform=ax.transAxes, ha="center")
        ax.set_xticks([])
        ax.set_yticks([])
        return
    ax.set_ylim(bottom=0)  # a cost; and few rounds would else be shown by fractions
    ax.yaxis.set_major_locator(whole_numbers())
    low, high = ax.get_xlim()
    by_percent = high - low < 0.06  # levels are whole percents
    ax.xaxis.set_major_locator(
        MultipleLocator(0.01) if by_percent else MaxNLocator(nbins=6, steps=[1, 2, 5, 10])
    )


def _at(study: Study, deadline_s: float) -> list[tuple[str, list[RunRecord]]]:
    return [(scheduler, runs) for at, scheduler, runs in groups(study) if at == deadline_s]


def _rounds(runs: list[RunRecord], frame: int) -> np.ndarray:
    return np.array([r.round for r in runs[0].evaluated(frame)])


def _accuracies(runs: list[RunRecord], frame: int, accuracy: Accuracy) -> np.ndarray:
    return np.array(
        [[r.accuracy(accuracy) for r in run.evaluated(frame)] for run in runs]
    )  # [seeds, evaluations]


def _broken(parts: list[np.ndarray]) -> np.ndarray:
    """Join arrays along their last axis with NaN between them, where a line is then interrupted."""
    gap = np.full((*parts[0].shape[:-1], 1), np.nan)
    joined = [piece for part in parts for piece in (part, gap)]
    return np.concatenate(joined[:-1], axis=-1)
