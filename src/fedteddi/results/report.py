"""A study as a page: tables in Markdown and CSV, figures in PNG and SVG."""

from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from fedteddi.errors import InputError
from fedteddi.results import figures, tables
from fedteddi.results.runs import ACCURACIES, Study


@dataclass(frozen=True)
class Report:
    """What `write_report` made: the tables by title, the files, and what is missing."""

    tables: dict[str, pd.DataFrame]
    files: list[Path]
    unfinished: list[str]


def make_tables(study: Study, targets: list[float] | None, ours: str) -> dict[str, pd.DataFrame]:
    """Return all tables about the frames that have rounds, by title."""
    if not any(study.runs[0].settings.rounds):
        raise InputError("these runs have no rounds: there is nothing to report")
    if not tables.groups(study):
        raise InputError("no run has come to its end yet: finish one with --resume")
    found = {}
    for frame, rounds in enumerate(study.runs[0].settings.rounds):
        if rounds == 0:
            continue
        chosen: tables.Targets = dict.fromkeys(ACCURACIES, targets) if targets else {}
        levels = chosen or tables.default_targets(study, frame)
        found[f"Frame {frame}: accuracy and cost"] = tables.summary(study, frame)
        found[f"Frame {frame}: rounds to an accuracy"] = tables.rounds_table(study, frame, levels)
        found[f"Frame {frame}: cost to an accuracy"] = tables.costs_table(study, frame, levels)
        if ours in study.schedulers and len(study.schedulers) > 1:
            found[f"Frame {frame}: {ours} against each rival"] = tables.savings_table(
                study, frame, levels, ours
            )
        found[f"Frame {frame}: old and new classes"] = tables.continual_table(study, frame)
    return found


def write_report(
    study: Study, out: Path, targets: list[float] | None = None, ours: str = "fedteddi"
) -> Report:
    """Write report.md, a CSV per table, curves.csv and the figures into a folder."""
    found = make_tables(study, targets, ours)
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{out} cannot be written ({error.strerror}): choose another with --out") from None
    files = []
    for title, table in found.items():
        file = out / (title.lower().replace(": ", "-").replace(" ", "-") + ".csv")
        table.to_csv(file, index=False)
        files.append(file)
    study.curves().to_csv(out / "curves.csv", index=False)
    files.append(out / "curves.csv")
    pictures = []
    for frame, rounds in enumerate(study.runs[0].settings.rounds):
        if rounds:
            drawn = {
                f"figure3-accuracy-frame{frame}": figures.accuracy_over_rounds(study, frame),
                f"figure4-scheduled-frame{frame}": figures.scheduled_clients(study, frame),
                f"figure5-rounds-frame{frame}": figures.rounds_to_levels(study, frame),
            }
            pictures += [figures.save(figure, out / name) for name, figure in drawn.items()]
    if sum(rounds > 0 for rounds in study.runs[0].settings.rounds) > 1:
        pictures.append(figures.save(figures.accuracy_over_frames(study), out / "figure6-accuracy-frames"))
    unfinished = [f"{run.scheduler} seed {run.settings.seed}" for run in study.runs if not run.finished]
    page = [f"# {len(study.runs)} runs", ""]
    if unfinished:
        page += [f"Not finished, and left out of the tables: {', '.join(unfinished)}.", ""]
    for title, table in found.items():
        page += [f"## {title}", "", tables.markdown(table), ""]
    page += [f"![{png.stem}]({png.name})" for png, _ in pictures]
    (out / "report.md").write_text("\n".join(page) + "\n", encoding="utf-8")
    return Report(
        found, [out / "report.md", *files, *(file for pair in pictures for file in pair)], unfinished
    )
