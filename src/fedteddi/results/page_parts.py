"""What every page about many runs is made of: files on a disk, how it differs from the paper, how it was run."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure

from fedteddi.errors import InputError
from fedteddi.results import tables
from fedteddi.results.comparisons import by_seed
from fedteddi.results.drawing import save
from fedteddi.results.folder import differences
from fedteddi.results.reproduction import Reproduction
from fedteddi.results.runs import REFERENCES, RunRecord, Study
from fedteddi.results.starts import paragraph, started_otherwise
from fedteddi.results.summary import VARIANT, Summaries, Summarised
from fedteddi.settings import Settings

NO_SEEDS = "none finished"
QUICK = "quick: a shortened study that shows that everything works, not how good a rule is"
# What makes a study shorter than the paper's: fewer of any of these.
LENGTHS = ("training.local_steps", "training.pretrain_epochs", "rounds", "scenario.samples_per_client")


@dataclass(frozen=True)
class Page:
    """What was written: the page first, then tables and pictures; the claims as judged; what a reader must know."""

    files: list[Path]
    claims: pd.DataFrame
    warning: str
    failed: dict[str, str]  # runs that diverged, and why


def save_page(
    into: Path, name: str, text: str, parts: dict[str, pd.DataFrame], pictures: dict[str, Figure], mark: str
) -> list[Path]:
    """Write NAME.md, and tables as CSV and pictures, each with the mark, into NAME/; return the files, page first."""
    folder = into / name
    files = [into / f"{name}.md"]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for title, table in parts.items():
            files.append(folder / f"{title}.csv")
            table.to_csv(files[-1], index=False)
        for title, figure in pictures.items():
            if mark:
                figure.suptitle(mark, fontsize="small")
            files += save(figure, folder / title)
        files[0].write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputError(f"{folder} cannot be written ({error.strerror}): choose another folder") from None
    return files


def changes(study: Study, paper: Settings) -> dict[str, tuple[object, object]]:
    """Return every setting in which a study differs from the paper's, with both values."""
    own = next(
        (run.settings for run in study.runs if run.scheduler not in REFERENCES), study.runs[0].settings
    )
    found = differences(paper, own)
    return {
        key: values
        for key, values in found.items()
        if key != "radio.deadline_s" and key.partition(".")[0] not in VARIANT
    }


def shorter(changed: dict[str, tuple[object, object]]) -> bool:
    """Say whether a study has fewer rounds, steps, epochs or test images than the paper's."""

    def total(value: object) -> float:
        return sum(value) if isinstance(value, list) else float(str(value))

    fewer = any(total(changed[key][1]) < total(changed[key][0]) for key in LENGTHS if key in changed)
    return fewer or "evaluation.test_images" in changed


def causes(failed: Iterable[RunRecord]) -> dict[str, str]:
    """Return why each run diverged, by its title."""
    return {run.title: run.failure.cause for run in failed if run.failure is not None}


def failures(causes: dict[str, str]) -> list[str]:
    """Name the runs that diverged, and why, as lines of a page: without them a rule may look better than it is."""
    named = "; ".join(f"{title}: {cause}" for title, cause in causes.items())
    return [f"**Failed,** and left out of all that follows: {named}.", ""] if named else []


def check_any_finished(runs: Sequence[Summarised], causes: dict[str, str]) -> None:
    """Refuse to write a page about nothing."""
    if runs:
        return
    if not causes:
        raise InputError("no run has come to its end yet: finish one with --resume")
    raise InputError(
        f"no run has come to its end, and {len(causes)} failed, the first one so: {next(iter(causes.values()))}"
    )


def starts(study: Study) -> str:
    """Say which runs begin with another pre-trained model than the others of their seed; nothing if none does."""
    return started_otherwise((run.scheduler, run) for run in study.runs if run.finished)


def cautions(study: Study, failed: Iterable[RunRecord]) -> list[str]:
    """Return as lines what a reader must know before the results of a study: what failed, what began otherwise."""
    return [*failures(causes(failed)), *paragraph(starts(study))]


def seeds_run(reproduction: Reproduction, study: Study) -> dict[str, str]:
    """Return which seeds were run of each rule, and deadline, in words; nothing if the study is whole."""
    found: dict[str, tuple[int, ...]] = {}
    for rule in reproduction.rule_names:
        for deadline_s in reproduction.deadlines_s:
            at = f" at {deadline_s:g} s" if len(reproduction.deadlines_s) > 1 else ""
            found[f"{rule}{at}"] = tuple(sorted(by_seed(study, rule, deadline_s)))
    if set(found.values()) == {reproduction.seeds}:
        return {}
    return {rule: ", ".join(map(str, seeds)) or NO_SEEDS for rule, seeds in found.items()}


def how_run(summaries: Summaries) -> list[str]:
    """Say where the runs were made: device, versions, revision, minutes."""
    by_machine: dict[str, list[Summarised]] = {}
    for one in summaries.runs:
        by_machine.setdefault(repr(sorted(one.machine.items(), key=lambda item: item[0])), []).append(one)
    rows = []
    for own in by_machine.values():
        machine = own[0].machine
        packages = machine.get("packages") or {}
        rows.append(
            {
                "device": machine.get("device", "–"),
                "precision": _precision(own[0]),
                "runs": len(own),
                "minutes of rounds": f"{sum(one.minutes for one in own):.1f}",
                "revision": _revision(machine.get("git_revision")),
                "Python": machine.get("python", "–"),
                "torch": packages.get("torch", "–"),
                "numpy": packages.get("numpy", "–"),
                "system": machine.get("system", "–"),
                "CPUs": machine.get("cpus", "–"),
            }
        )
    return [tables.markdown(pd.DataFrame(rows))]


def _precision(one: Summarised) -> str:
    """Return the precision of products, which is a setting for GPUs only."""
    on_cpu = one.machine.get("device") == "cpu"
    return "float32" if on_cpu else str(one.run.settings.training.precision)


def _revision(text: str | None) -> str:
    """Shorten a revision; that it had uncommitted changes must stay visible."""
    head, dash, dirty = (text or "–").rpartition("-dirty")
    return f"{head[:12]}{dash}" if dash else dirty[:12]


def plain(value: object) -> str:
    """Return a setting's value as the page shows it: of a data set in a file, only the file's name."""
    return Path(value).name if isinstance(value, str) and value.endswith(".npz") else str(value)
