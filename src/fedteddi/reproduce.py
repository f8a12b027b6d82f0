"""Playing and judging the studies of studies.py, whole or in parts, and keeping them as summaries."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from fedteddi.errors import InputError, nearest_hint, shown
from fedteddi.experiment import Watch, compare
from fedteddi.results.page import ordered, write_page
from fedteddi.results.page_parts import Page
from fedteddi.results.readme import at_a_glance, put_between_marks
from fedteddi.results.reproduction import Reproduction
from fedteddi.results.runs import Study
from fedteddi.results.summary import from_folder, merged
from fedteddi.results.summary_files import read_summaries, write_summaries
from fedteddi.settings import Settings, load_experiment, override
from fedteddi.studies import REPRODUCTIONS


def find_reproduction(name: str) -> Reproduction:
    """Return a study of the paper by name."""
    if name not in REPRODUCTIONS:
        raise InputError(
            f"no study is called {shown(name)}{nearest_hint(name, REPRODUCTIONS)}: known are"
            f" {', '.join(REPRODUCTIONS)}"
        )
    return REPRODUCTIONS[name]


def paper_settings(study: Reproduction) -> Settings:
    """Return the complete settings of a study, from its experiment."""
    return load_experiment(study.experiment)


def reproduce(
    study: Reproduction,
    *,
    out: Path,
    schedulers: Iterable[str] | None = None,
    seeds: Iterable[int] | None = None,
    deadlines_s: Iterable[float] | None = None,
    quick: bool = False,
    changes: Iterable[str] = (),
    resume: bool = False,
    time_limit_s: float | None = None,
    watch: Watch | None = None,
    **where: Any,
) -> Study:
    """Play a study, or the part of it that is named, into a folder that may hold other parts already.

    `changes` are settings as `key=value`; `where` goes to `compare` as it is (`data`, `device`, `data_dir`).
    """
    settings = paper_settings(study).changed(**study.quick if quick else {})
    return compare(
        override(settings, list(changes)),
        schedulers=schedulers or study.schedulers,
        seeds=(study.seeds[:1] if quick else study.seeds) if seeds is None else seeds,
        deadlines_s=deadlines_s or study.deadlines_s,
        out=out,
        resume=resume,
        time_limit_s=time_limit_s,
        watch=watch,
        **where,
    )


def page_of_runs(study: Reproduction, runs: Path) -> tuple[Page, list[str]]:
    """Write the page about every finished run in a folder into RUNS/report; also name the unfinished runs."""
    summaries, unfinished = from_folder(study.name, runs)
    source = f"`fedteddi reproduce {study.name}` from the runs in its folder"
    page = write_page(study, summaries, paper_settings(study), runs / "report", study.name, source)
    return page, unfinished


def summarise(study: Reproduction, runs: Path, folder: Path) -> list[str]:
    """Add every finished run in a folder of runs to a folder of summaries; return the names of the unfinished."""
    summaries, unfinished = from_folder(study.name, runs)
    if not summaries.runs and not summaries.failed:
        raise InputError(f"{runs} holds no run that has come to its end: finish one with --resume")
    if any(folder.glob("*.jsonl.gz")):
        summaries = merged(read_summaries(folder), summaries)
    write_summaries(summaries, folder)
    return unfinished


def page_of_summaries(
    study: Reproduction, folder: Path, into: Path | None = None, readme: Path | None = None
) -> Page:
    """Write the page about a folder of summaries beside it, or elsewhere, and its claims in short into a README."""
    summaries = read_summaries(folder)
    if summaries.name != study.name:
        raise InputError(
            f"{folder} holds summaries of {summaries.name}: 'fedteddi reproduce {summaries.name}' reads them"
        )
    name = folder.resolve().name
    source = (  # the folder as it is called in the repository, so that the page is the same wherever it is made
        f"`fedteddi reproduce {study.name} --from-summaries docs/results/{name}` from the summaries in that folder"
    )
    page = write_page(study, summaries, paper_settings(study), into or folder.parent, name, source)
    if readme is not None:
        short = at_a_glance(study, ordered(study, summaries.study), summaries.failed)
        try:
            text = put_between_marks(readme.read_text(encoding="utf-8"), f"results of {study.name}", short)
            readme.write_text(text, encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            why = error.strerror if isinstance(error, OSError) else "it is no text"
            raise InputError(f"{readme} cannot be used ({why}): give a Markdown file") from None
    return page
