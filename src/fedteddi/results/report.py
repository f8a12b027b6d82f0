"""A study as a page: tables in Markdown, numbers in CSV, figures in PNG and, if asked for, SVG."""

from dataclasses import dataclass
from pathlib import Path

import matplotlib as mpl
import pandas as pd
from matplotlib.figure import Figure

from fedteddi.errors import InputError
from fedteddi.results import figures, tables
from fedteddi.results.drawing import save
from fedteddi.results.runs import ACCURACIES, Study
from fedteddi.results.starts import paragraph, started_otherwise
from fedteddi.results.styles import PRINT, SCREEN, Style
from fedteddi.results.sweep_figure import MEANS, over_key
from fedteddi.results.tables import markdown


@dataclass(frozen=True)
class Report:
    """What `write_report` made: the tables by title, the files, what is missing, what a reader must know."""

    tables: dict[str, pd.DataFrame]
    files: list[Path]
    unfinished: list[str]
    warning: str


def make_tables(study: Study, targets: list[float] | None, ours: str) -> dict[str, pd.DataFrame]:
    """Return all tables about the frames that have rounds, by title; of a sweep, those over its keys."""
    study.check_reportable()
    found = {}
    if study.swept:
        about = f"Sweep of {' and '.join(study.swept)}"
        accuracy = [f"{kind}_{a}" for a in ACCURACIES for kind in ("final", "mean")]
        found[f"{about}: accuracy and cost"] = study.table(*accuracy, "clients_a_round", "seconds").display()
        rounds = study.table(*(f"rounds_to_{a}" for a in ACCURACIES), targets=targets or []).telling()
        return found | ({f"{about}: rounds to an accuracy": rounds.display()} if len(rounds) else {})
    for frame in study.frames:
        wanted = tables.levels(study, frame, targets or [])
        found[f"Frame {frame}: accuracy and cost"] = tables.summary(study, frame)
        found[f"Frame {frame}: rounds to an accuracy"] = tables.rounds_table(study, frame, wanted)
        found[f"Frame {frame}: cost to an accuracy"] = tables.costs_table(study, frame, wanted)
        against = tables.savings_table(study, frame, wanted, ours)
        if len(against):
            found[f"Frame {frame}: {ours} against each baseline"] = against
        found[f"Frame {frame}: old and new classes"] = tables.continual_table(study, frame)
    # Without targets, which nobody learns, two columns say what the rest would be about.
    return {title: table for title, table in found.items() if len(table) and len(table.columns) > 2}


def make_numbers(study: Study, targets: list[float] | None, ours: str) -> dict[str, pd.DataFrame]:
    """Return what the tables show as numbers, by file: everything, the differences to one rule, all curves."""
    frames = [None] if study.swept else study.frames
    found = {"table": pd.concat([study.table(frame=frame, targets=targets or []) for frame in frames])}
    if ours in study.schedulers and len(study.schedulers) > 1:
        each = [study.table(frame=frame, targets=targets or [], against=ours) for frame in frames]
        if len(differences := pd.concat(each)):
            found[f"differences-to-{ours}"] = differences
    return found | {"curves": study.curves()}


def make_figures(study: Study, style: Style = SCREEN) -> dict[str, Figure]:
    """Return figures 3 to 5 of every frame that has rounds, and 6 and 7 where there are several, by name.

    Of a sweep: accuracy over its first key.
    """
    study.check_reportable()
    drawn = {}
    with mpl.rc_context(style.rc):
        if study.swept:
            return {"sweep": over_key(study, MEANS, None, style)}
        for frame in study.frames:
            drawn[f"figure3-accuracy-frame{frame}"] = figures.accuracy_over_rounds(study, frame, style)
            drawn[f"figure4-scheduled-frame{frame}"] = figures.scheduled_clients(study, frame, style)
            drawn[f"figure5-rounds-frame{frame}"] = figures.rounds_to_levels(study, frame, style)
        if len(study.frames) > 1:
            drawn["figure6-accuracy-frames"] = figures.accuracy_over_frames(study, style)
            drawn["figure7-rounds-frames"] = figures.rounds_to_levels_by_frame(study, style)
    return drawn


def write_for_print(study: Study, out: Path) -> list[Path]:
    """Write the figures as PDFs of an IEEE journal's column width, fonts embedded, and what their captions must say."""
    written, captions = [out / "captions.md"], []
    for name, figure in make_figures(study, PRINT).items():
        captions.append(f"{name}: {figure.get_label()}.\n")
        with mpl.rc_context(PRINT.rc):
            written += save(figure, out / name, (".pdf",))
    written[0].write_text("\n".join(captions), encoding="utf-8")
    return written


def write_report(
    study: Study,
    out: Path,
    targets: list[float] | None = None,
    ours: str = "fedteddi",
    svg: bool = False,
    pdf: bool = False,
) -> Report:
    """Write report.md, its numbers as CSV and the figures into a folder; if asked to, as SVG and PDF, too."""
    found = make_tables(study, targets, ours)
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{out} cannot be written ({error.strerror}): choose another with --out") from None
    files = []
    for name, numbers in make_numbers(study, targets, ours).items():
        files.append(out / f"{name}.csv")
        numbers.to_csv(files[-1], index=False)
    endings = (".png", ".svg") if svg else (".png",)
    pictures = [save(figure, out / name, endings) for name, figure in make_figures(study).items()]
    unfinished = [run.title for run in study.unfinished]
    page = [f"# {len(study.runs)} runs", ""]
    if unfinished:
        page += [f"Not finished, and left out of the tables: {'; '.join(unfinished)}.", ""]
    for title, failure in study.failures.items():
        page += [f"Failed, and left out of the tables: {title}: {failure.cause}.", ""]
    warning = started_otherwise((run.scheduler, run) for run in study.runs if run.finished)
    page += paragraph(warning)
    for title, table in found.items():
        page += [f"## {title}", "", markdown(table), ""]
    page += [f"![{png.stem}]({png.name})" for png, *_ in pictures]
    (out / "report.md").write_text("\n".join(page) + "\n", encoding="utf-8")
    files = [out / "report.md", *files, *(file for written in pictures for file in written)]
    files += write_for_print(study, out) if pdf else []
    return Report(found, files, unfinished, warning)
