"""How a study and a run show themselves: one line in a terminal, a small figure and a table in a notebook."""

import base64
import io
from html import escape
from typing import TYPE_CHECKING, Any

from fedteddi.results.points import written

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from fedteddi.results.runs import RunRecord, Study
    from fedteddi.settings import Settings

INCHES_SHOWN = 7.0  # at most, of a figure's width in a notebook
DPI = 96
MOST_NAMED = 4  # rules, deadlines or values named one by one


class Shown:
    """What shows itself."""

    def __repr__(self) -> str:
        return line(self)

    def _repr_html_(self) -> str:
        return page(self)


def line(shown: Any) -> str:
    """Return a study or a run in one line."""
    return _study_line(shown) if hasattr(shown, "runs") else _run_line(shown)


def page(shown: Any) -> str:
    """Return a study or a run as HTML: its line, a table where there are several runs, a figure. No network."""
    parts = [f"<p><b>{type(shown).__name__}</b>{escape(line(shown).removeprefix(type(shown).__name__))}</p>"]
    if hasattr(shown, "runs"):
        parts += _study_parts(shown)
    elif len(shown.stretches) > 1:
        parts.append(_image(shown.figure(), f"accuracy of {shown.title}"))
    return "<div>" + "\n".join(parts) + "</div>"


def _run_line(run: "RunRecord") -> str:
    done, in_all = sum(one.rounds for one in run.stretches), sum(run.settings.rounds)
    words = [f"RunRecord: {run.title}: {run.settings.dataset}, {done} of {in_all} rounds"]
    evaluated = [one for one in run.stretches if one.is_evaluated]
    if evaluated:
        last = evaluated[-1]
        words += [f"balanced {last.accuracy('balanced'):.3f}, global {last.accuracy('global'):.3f}"]
    if run.failure is not None:
        words.append(f"failed: {run.failure.cause}")
    return "; ".join(words)


def _study_line(study: "Study") -> str:
    if not study.runs:
        return "Study: no runs"
    settings: Settings = study.runs[0].settings
    seeds = sorted({run.settings.seed for run in study.runs})
    crossed = [_listed(study.schedulers, "schedulers")]
    for position, key in enumerate(study.swept):
        values = dict.fromkeys(list(point.values())[position] for point, _ in study.points)
        crossed.append(f"{key} {_listed([written(value) for value in values], 'values')}")
    if "radio.deadline_s" not in study.swept:
        crossed.append(f"deadline {_listed([f'{time:g}' for time in study.deadlines_s], 'deadlines')} s")
    crossed.append(f"seed {_listed([str(seed) for seed in seeds], 'seeds')}")
    ended = sum(run.finished for run in study.runs)
    state = [f"{ended} of {len(study.runs)} runs finished"]
    state += [f"{len(study.failures)} failed"] if study.failures else []
    rounds = "" if "rounds" in study.swept else f", rounds {settings.rounds}"
    return f"Study: {' × '.join(crossed)}; {settings.dataset}{rounds}; {', '.join(state)}"


def _listed(words: "list[str]", what: str) -> str:
    return ", ".join(words) if len(words) <= MOST_NAMED else f"({len(words)} {what})"


def _study_parts(study: "Study") -> list[str]:
    """Return a study's table and figure; none before there is anything to say."""
    if not study.frames or not any(run.finished for run in study.runs):
        return []
    table = study.table("final_balanced", "final_global", "clients_a_round").display()
    figure = study.sweep_figure() if study.swept else study.accuracy_figure()
    about = f"accuracy over {' and '.join(study.swept) if study.swept else 'the rounds'}"
    frame = study.frames[-1]
    return [
        f"<p>After frame {frame}, mean ± deviation over the seeds:</p>",
        table.to_html(index=False, border=0),
        _image(figure, about),
    ]


def _image(figure: "Figure", about: str) -> str:
    """Return a figure as an image that the page holds itself."""
    scale = min(1.0, INCHES_SHOWN / figure.get_figwidth())
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=DPI * max(scale, 0.75))
    encoded = base64.b64encode(file.getvalue()).decode()
    return f'<img src="data:image/png;base64,{encoded}" alt="{escape(about)}" style="max-width:100%">'
