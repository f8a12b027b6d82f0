"""`fedteddi reproduce`: parts that merge, summaries that give everything back, a page that anyone can make again."""

import gzip
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from cli_runner import Outcome
from fedteddi import InputError, Settings, read_study
from fedteddi.results import tables
from fedteddi.results.figures import accuracy_over_rounds
from fedteddi.results.folder import Failure
from fedteddi.results.runs import RunRecord
from fedteddi.studies.page import at_a_glance, page_of_summaries, put_between_marks, write_page
from fedteddi.studies.play import read_kept, read_runs, reproduce, summarise
from fedteddi.studies.study import load_study, study_names
from fedteddi.studies.summaries import ROUNDED, Summaries, Summarised, merged
from fedteddi.studies.summary_files import read_summaries, write_summaries
from made_study import in_short, made_run

Cli = Callable[..., Outcome]
ROOT = Path(__file__).parents[2]
CIFAR10 = load_study("cifar10-first")
SUMMARISED = {file.parent for file in (ROOT / "docs" / "results").glob("*/*.jsonl.gz")}
# Summaries without a page of their own: precision.md and bound.md are made of them (test_benchmarks.py).
ONLY_COMPARED = {
    ROOT / "docs" / "results" / name
    for name in ("precision-tf32", "bound-everyone", "reading-cifar10", "reading-cifar100")
}
COMMITTED = sorted(SUMMARISED - ONLY_COMPARED)

# The study in very small: CIFAR's shapes, its layout, a model of one convolution.
SMALL = [
    "dataset=data.npz",
    "rounds=[0, 2]",
    "scenario.samples_per_client=16",
    "training.model=small_world:tiny_model",
    "training.local_steps=1",
    "training.batch_size=4",
    "training.pretrain_epochs=1",
    "radio.total_hz=2e6",
    "estimates.class_gradient_samples=4",
    "evaluation.every=1",
    "evaluation.loss_samples=20",
]
SET = [word for change in SMALL for word in ("--set", change)]
PART = ("--deadline", 0.8, "--deadline", 1.2, *SET)
BOTH: dict[str, Any] = {"deadlines_s": [0.8, 1.2], "changes": SMALL}


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder of one's own with a tiny data set of CIFAR-10's shape."""
    monkeypatch.setenv("FEDTEDDI_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    labels = np.arange(400) % 10
    images = rng.integers(0, 100, size=(400, 32, 32, 3)) + 15 * labels[:, None, None, None]
    parts = {"train": slice(0, 300), "test": slice(300, 400)}
    arrays = {f"{name}_images": images[part].astype(np.uint8) for name, part in parts.items()}
    arrays |= {f"{name}_labels": labels[part] for name, part in parts.items()}
    np.savez("data.npz", **arrays)


def records(folder: str) -> dict[str, bytes]:
    return {file.parent.name: file.read_bytes() for file in sorted(Path(folder).glob("*/rounds.jsonl"))}


def test_parts_merge_into_the_whole_study(cli: Cli) -> None:
    """Two commands into one folder leave the same rounds as one command, and so do their summaries."""
    done = cli(
        "reproduce", "cifar10-first", "--scheduler", "fedteddi", "--scheduler", "random", "--seeds", 2, *PART
    )
    assert done.code == 0, done.err
    assert "inconclusive" in done.out
    whole = Path("runs/cifar10-first")
    assert len(records("runs/cifar10-first")) == 2 * 2 * 2
    page = (whole / "report" / "cifar10-first.md").read_text()
    assert "8 finished runs" in page
    for name in ("figure3-accuracy", "figure4-scheduled", "figure5-rounds"):
        assert (whole / "report" / "cifar10-first" / f"{name}-frame1.png").stat().st_size > 1000
        assert f"(cifar10-first/{name}-frame1.png)" in page

    reproduce(CIFAR10, out=Path("parts"), schedulers=["fedteddi"], seeds=[0, 1], **BOTH)
    second = {"out": Path("parts"), "schedulers": ["random"], "seeds": [1, 0], **BOTH}
    with pytest.raises(InputError, match="continue it with --resume"):
        reproduce(CIFAR10, **second)
    reproduce(CIFAR10, **second, resume=True)
    assert records("parts") == records("runs/cifar10-first")

    # Summaries of parts from different folders are those of the whole.
    reproduce(CIFAR10, out=Path("apart"), schedulers=["random"], seeds=[1], **BOTH)
    for folder, into in (("runs/cifar10-first", "one"), ("apart", "two"), ("parts", "two")):
        assert summarise(CIFAR10, Path(folder), Path(into) / "cifar10-first") == []
    one, two = (read_summaries(Path(into) / "cifar10-first") for into in ("one", "two"))
    assert [s.key for s in one.runs] == [s.key for s in two.runs]
    assert [s.run.stretches for s in one.runs] == [s.run.stretches for s in two.runs]
    assert cli("reproduce", "cifar10-first", "--from-summaries", "two/cifar10-first").code == 0
    assert_regenerated(Path("two/cifar10-first"), Path("again"), "cifar10-first")


def test_a_time_limit_stops_it_and_resume_finishes_it(cli: Cli) -> None:
    words = (
        "reproduce",
        "cifar10-first",
        "--scheduler",
        "fedteddi",
        "--scheduler",
        "random",
        "--seeds",
        1,
        *PART,
    )
    stopped = cli(*words, "--time-limit", 0)
    assert stopped.code == 0
    assert "stopped in time" in stopped.out
    assert not Path("runs/cifar10-first/report").exists()
    done = cli(*words, "--resume")
    assert "all rounds are done" in done.out
    assert "4 finished runs" in Path("runs/cifar10-first/report/cifar10-first.md").read_text()


def test_runs_that_fail_are_named_and_nobody_is_told_to_resume_them(cli: Cli) -> None:
    words = ("reproduce", "cifar10-first", "--scheduler", "random", "--seeds", 1, *PART)
    done = cli(*words, "--set", "training.learning_rate=1e30", "--out", "burst")
    assert done.code == 1
    assert done.err.count("failed, and is left out") == 2
    assert "is not finished" not in done.err
    assert "are done" not in done.out
    kept = cli("reproduce", "cifar10-first", "--out", "burst", "--summarise", "kept")
    assert kept.code == 2
    assert "no run has come to its end, and 2 failed. First error: " in kept.err
    assert "lower training.learning_rate" in kept.err
    assert len(read_summaries(Path("kept")).failed) == 2


def test_quick_says_so_on_every_page_and_picture(cli: Cli) -> None:
    """All eight rules, three deadlines, one seed; only the model and the data are smaller here."""
    kept = [w for w in SMALL if not w.startswith(("rounds", "training.local", "training.pre", "evaluation"))]
    words = [word for change in [*kept, "rounds=[0, 1]"] for word in ("--set", change)]
    done = cli("reproduce", "cifar10-first", "--quick", "--svg", "--csv", *words)
    assert done.code == 0, done.err
    assert len(records("runs/cifar10-first-quick")) == 8 * 3
    settings = read_study(Path("runs/cifar10-first-quick")).runs[0].settings
    assert settings.evaluation.test_images == 1000
    assert (settings.training.local_steps, settings.training.pretrain_epochs) == (2, 1)
    folder = Path("runs/cifar10-first-quick/report")
    page = (folder / "cifar10-first.md").read_text()
    assert "**Quick: a shortened study" in page
    assert "- Set here: `rounds`: [0, 1] instead of [0, 300]." in page
    assert (folder / "cifar10-first" / "outcomes.csv").is_file()
    pictures = list(folder.glob("cifar10-first/*.svg"))
    assert len(pictures) == 3
    assert all("<!-- Quick: a shortened study" in picture.read_text() for picture in pictures)


def _as_meant(run: RunRecord) -> Settings:
    """The paper's settings with another learning rate."""
    own = CIFAR10.settings.changed(training__learning_rate=0.5)
    return own.changed(name=run.scheduler, scheduler=run.scheduler, seed=run.settings.seed)


def test_the_papers_settings_bear_no_mark() -> None:
    runs = [made_run(rule, seed, [0.5, 0.6]) for rule in ("fedteddi", "random") for seed in (0, 1)]
    runs = [replace(run, settings=_as_meant(run)) for run in runs]
    page = write_page(CIFAR10, in_short(*runs), Path("as-asked"), "name", "me").files[0].read_text()
    assert "uick" not in page
    assert "Set here: `training.learning_rate`: 0.5 instead of 0.01." in page
    assert page.count("Set here") == 1


def test_summaries_give_back_what_tables_and_figures_need() -> None:
    reproduce(
        CIFAR10,
        out=Path("runs"),
        schedulers=["fedteddi", "everyone"],
        seeds=[0, 1],
        deadlines_s=[1.2],
        changes=SMALL,
    )
    summaries, unfinished = read_runs(CIFAR10, Path("runs"))
    files = write_summaries(summaries, Path("kept"))
    assert unfinished == []
    assert [file.name for file in files] == ["everyone.jsonl.gz", "fedteddi.jsonl.gz"]
    back, original = read_summaries(Path("kept")).study, read_study(Path("runs"))
    assert [run.settings for run in back.runs] == [run.settings for run in original.runs]
    for one, other in zip(back.runs, original.runs, strict=True):
        np.testing.assert_array_equal(one.counts, other.counts)
        assert one.records == ()
        for short, full in zip(one.stretches, other.stretches, strict=True):
            measured = {name: pytest.approx(getattr(full, name), rel=1e-5) for name in ROUNDED if full.round}
            assert short == replace(full, loss=None, **measured)
    targets: tables.Targets = {"balanced": [0.1, 0.9], "global": [0.1]}
    for table in (tables.summary, tables.continual_table):
        pd.testing.assert_frame_equal(table(back, 1), table(original, 1))
    pd.testing.assert_frame_equal(
        tables.costs_table(back, 1, targets), tables.costs_table(original, 1, targets)
    )
    assert len(accuracy_over_rounds(back, 1).axes) == 2
    head = json.loads(gzip.decompress(files[1].read_bytes()).splitlines()[0])
    assert head["machines"][0]["device"] == "cpu"
    assert "command" not in head["machines"][0]  # it may name folders of whoever ran it
    assert write_summaries(summaries, Path("again"))[1].read_bytes() == files[1].read_bytes()


def test_parts_from_different_machines_merge_and_are_listed() -> None:
    one = in_short(*(made_run("fedteddi", seed, [0.5, 0.6]) for seed in (0, 1)), machine="cuda")
    two = in_short(*(made_run("random", seed, [0.5, 0.55]) for seed in (0, 1)), machine="cpu")
    both = merged(one, merged(two, two))
    assert len(both.runs) == 4
    write_summaries(both, Path("kept"))
    page = page_of_summaries(CIFAR10, Path("kept")).files[0]
    assert page == Path("kept.md")
    rows = page.read_text().split("## Method")[1]
    assert "| cuda | float32 | 2 | 2.0 |" in rows
    assert "| cpu | float32 | 2 | 2.0 |" in rows


def test_what_does_not_belong_together_is_not_merged() -> None:
    one = in_short(made_run("fedteddi", 0, [0.5, 0.6]))
    with pytest.raises(
        InputError, match=r"seed 0 is there already with another outcome: remove fedteddi\.jsonl"
    ):
        merged(one, in_short(made_run("fedteddi", 0, [0.5, 0.7])))
    other = made_run("random", 0, [0.5, 0.7], base=one.runs[0].run.settings.changed(training__momentum=0.1))
    with pytest.raises(InputError, match=r"another study \(training.momentum was 0.5, now 0.1\)"):
        merged(one, in_short(other))
    # A bound has no limits; all else it shares with the rules.
    unlimited = one.runs[0].run.settings.changed(radio__total_hz=1e12)
    bound = made_run("everyone", 0, [0.5, 0.8], base=unlimited)
    assert len(merged(one, in_short(bound)).runs) == 2
    shorter = made_run("everyone", 1, [0.5], base=unlimited)
    with pytest.raises(InputError, match=r"everyone .* another study \(rounds was \[0, 5\], now \[0, 0\]\)"):
        merged(one, in_short(shorter))
    stronger = made_run("everyone", 1, [0.5, 0.8], base=unlimited.changed(radio__power_dbm=30.0))
    with pytest.raises(InputError, match=r"another study \(radio.power_dbm was 23.0, now 30.0\)"):
        merged(in_short(bound), in_short(stronger))


def diverged(rule: str, seed: int, cause: str = "its loss is not finite") -> Summarised:
    """A run as it is kept of one that ended in round 3 of frame 1."""
    run = made_run(rule, seed, [0.5, 0.6])
    return Summarised(replace(run, records=(), finished=False, failure=Failure(1, 3, cause)), {}, 0.0)


def test_runs_that_diverged_are_kept_as_such_and_named_on_the_page(cli: Cli) -> None:
    """Of random seed 1 is missing, and the page says why; a rule of which all runs failed has a file as well."""
    whole = in_short(made_run("fedteddi", 0, [0.5, 0.6]), made_run("fedteddi", 1, [0.5, 0.6]))
    part = in_short(made_run("random", 0, [0.5, 0.55]))
    failed = (diverged("fed-cbs", 0), diverged("random", 1))
    both = merged(whole, Summaries("cifar10-first", (*part.every, *failed)))
    files = write_summaries(both, Path("kept"))
    assert [file.name for file in files] == ["fed-cbs.jsonl.gz", "fedteddi.jsonl.gz", "random.jsonl.gz"]
    back = read_summaries(Path("kept"))
    assert [(one.run.title, one.run.failure) for one in back.failed] == [
        ("fed-cbs at 1.2 s, seed 0", Failure(1, 3, "its loss is not finite")),
        ("random at 1.2 s, seed 1", Failure(1, 3, "its loss is not finite")),
    ]
    assert len(back.runs) == 3
    assert [file.read_bytes() for file in write_summaries(back, Path("again"))] == [
        file.read_bytes() for file in files
    ]
    Path("README.md").write_text(
        "<!-- results of cifar10-first begins -->\n<!-- results of cifar10-first ends -->\n"
    )
    page = page_of_summaries(CIFAR10, Path("kept"), readme=Path("README.md")).files[0].read_text()
    for title in ("fed-cbs at 1.2 s, seed 0", "random at 1.2 s, seed 1"):
        told = f"**Failed,** and left out of all tables: {title}: its loss is not finite.\n"
        assert f"- {told}" in page
        assert told in Path("README.md").read_text()
    assert "3 finished runs" in page
    done = cli("reproduce", "cifar10-first", "--from-summaries", "kept")
    assert "fed-cbs at 1.2 s, seed 0 failed, and is left out: its loss is not finite" in done.err
    assert "Failed" not in page_of_summaries(CIFAR10, _written(whole)).files[0].read_text()


def _written(summaries: Summaries) -> Path:
    write_summaries(summaries, Path("whole"))
    return Path("whole")


def test_a_run_that_diverged_has_no_second_outcome() -> None:
    failed = Summaries("cifar10-first", (diverged("random", 0),))
    assert len(merged(failed, failed).failed) == 1
    finished = in_short(made_run("random", 0, [0.5, 0.6]))
    again = Summaries("cifar10-first", (diverged("random", 0, "it diverged elsewhere"),))
    for one, other in ((failed, finished), (finished, failed), (failed, again)):
        with pytest.raises(InputError, match=r"random .* seed 0 is there already with another outcome"):
            merged(one, other)
    write_summaries(failed, Path("kept"))
    write_summaries(finished, Path("other"))
    Path("other/random.jsonl.gz").rename("kept/other.jsonl.gz")
    with pytest.raises(InputError, match=r"random .* is in kept.other.* and in kept.random.*: remove one"):
        read_summaries(Path("kept"))
    run = diverged("random", 0).run
    stranger = Summarised(replace(run, settings=run.settings.changed(training__momentum=0.1)), {}, 0.0)
    with pytest.raises(InputError, match=r"another study \(training.momentum was 0.5, now 0.1\)"):
        merged(in_short(made_run("fedteddi", 0, [0.5, 0.6])), Summaries("cifar10-first", (stranger,)))


def columns(change: Callable[[dict[str, list[Any]]], object]) -> Callable[[list[bytes]], list[bytes]]:
    """Return what changes the columns of the run's stretches."""

    def spoilt(lines: list[bytes]) -> list[bytes]:
        line = json.loads(lines[-1])
        change(line["stretches"])
        return [*lines[:-1], json.dumps(line).encode()]

    return spoilt


def rows(change: Callable[[list[Any]], list[Any]]) -> Callable[[list[bytes]], list[bytes]]:
    """Return what changes the stretches of the run, the same way in every column."""

    def changed(stretches: dict[str, list[Any]]) -> None:
        for name, own in stretches.items():
            classes = name == "class_accuracy"
            stretches[name] = [change(one) for one in own] if classes else change(own)

    return columns(changed)


@pytest.mark.parametrize(
    "spoilt",
    [
        lambda lines: lines[:0],  # an empty file
        lambda lines: [*lines[:-1], lines[-1][:-20]],  # cut off
        rows(lambda own: own[:-1]),  # an evaluation is missing
        rows(lambda own: [*own[:1], *reversed(own[1:])]),  # in another order
        columns(lambda of: of["round_s"].pop()),
        columns(lambda of: of["rounds"].__setitem__(-1, 4)),  # a round is missing
        columns(lambda of: of["balanced"].__setitem__(-1, "x")),
        columns(lambda of: of.pop("balanced")),
        columns(lambda of: of["class_accuracy"].append(of["class_accuracy"][0])),
        columns(lambda of: of.__setitem__("other", of["round"])),
        columns(lambda of: of.__setitem__("class_accuracy", 3)),
        lambda lines: [*lines[:-1], b'{"run": 3}'],
    ],
)
def test_a_summary_that_is_not_whole_is_refused(
    spoilt: Callable[[list[bytes]], list[bytes]], tmp_path: Path
) -> None:
    (file,) = write_summaries(in_short(made_run("fedteddi", 0, [0.5, 0.6])), tmp_path)
    lines = gzip.decompress(file.read_bytes()).splitlines()
    assert spoilt(lines) != lines
    file.write_bytes(gzip.compress(b"\n".join(spoilt(lines))))
    with pytest.raises(InputError, match=r"fedteddi\.jsonl\.gz is not a whole summary"):
        read_summaries(tmp_path)


def test_damaged_run_folders_and_readmes_are_said(cli: Cli) -> None:
    reproduce(CIFAR10, out=Path("runs"), schedulers=["random"], seeds=[0], deadlines_s=[1.2], changes=SMALL)
    summarise(CIFAR10, Path("runs"), Path("kept"))
    Path("picture.md").write_bytes(b"\xff\xd8\xff")
    done = cli("reproduce", "cifar10-first", "--from-summaries", "kept", "--readme", "picture.md")
    assert (done.code, "picture.md cannot be used (it is no text)" in done.err) == (2, True)
    (run,) = (folder.parent for folder in Path("runs").glob("*/settings.toml"))
    (run / "environment.json").unlink()
    with pytest.raises(InputError, match=r"random-d1\.2-s0 is not a complete run folder"):
        summarise(CIFAR10, Path("runs"), Path("kept"))
    lines = (
        (run / "rounds.jsonl")
        .read_text()
        .replace('"round": 1', '"other": 1')
        .replace('"round":1', '"other":1')
    )
    (run / "rounds.jsonl").write_text(lines)
    with pytest.raises(InputError, match="is not a complete run folder"):
        read_study(Path("runs"))


def test_unusable_summaries_are_said(cli: Cli) -> None:
    Path("empty").mkdir()
    with pytest.raises(InputError, match="holds no summaries"):
        read_summaries(Path("empty"))
    Path("empty/x.jsonl.gz").write_bytes(b"no gzip")
    with pytest.raises(InputError, match="is not a whole summary"):
        read_summaries(Path("empty"))
    Path("empty/x.jsonl.gz").write_bytes(gzip.compress(b'{"format": "later"}\n'))
    with pytest.raises(InputError, match="has the format 'later'"):
        read_summaries(Path("empty"))
    write_summaries(Summaries("cifar1000", in_short(made_run("random", 0, [0.5, 0.6])).runs), Path("else"))
    assert "holds summaries of cifar1000" in cli("reproduce", "cifar10-first", "--from-summaries", "else").err
    assert "no study is called 'cifr10' (did you mean 'cifar10'?)" in cli("reproduce", "cifr10").err
    assert "give one" in cli("reproduce", "cifar10-first", "--summarise", "a", "--from-summaries", "b").err
    assert "give it with" in cli("reproduce", "cifar10-first", "--readme", "README.md").err


def test_unfinished_runs_are_left_out_and_named(cli: Cli) -> None:
    one = {
        "schedulers": ["random"],
        "deadlines_s": [1.2],
        "changes": SMALL,
        "out": Path("runs/cifar10-first"),
    }
    reproduce(CIFAR10, **one, seeds=[0], time_limit_s=0)
    done = cli("reproduce", "cifar10-first", "--summarise", "kept")
    assert (done.code, "no run that has come to its end" in done.err) == (2, True)
    reproduce(CIFAR10, **one, seeds=[1], resume=True)
    assert summarise(CIFAR10, Path("runs/cifar10-first"), Path("kept")) == ["random-d1.2-s0"]
    assert [one.key for one in read_summaries(Path("kept")).runs] == [("baseline", "random", 1.2, 1)]


def test_the_readmes_rows_stand_between_marks(cli: Cli) -> None:
    made = {"fedteddi": [0.5, 0.78, 0.78], "random": [0.5, 0.5, 0.78]}
    summaries = in_short(*(made_run(rule, s, curve) for rule, curve in made.items() for s in range(6)))
    write_summaries(summaries, Path("kept/cifar10-first"))
    Path("README.md").write_text(
        "before\n<!-- results of cifar10-first begins -->\nold\n<!-- results of cifar10-first ends -->\nafter\n"
    )
    done = cli(
        "reproduce", "cifar10-first", "--from-summaries", "kept/cifar10-first", "--readme", "README.md"
    )
    assert done.code == 0, done.err
    text = Path("README.md").read_text()
    assert text.startswith("before\n<!-- results of cifar10-first begins -->\n| claim | paper | ours |")
    found = "balanced: **holds** (100.0% faster)<br>global: **holds** (100.0% faster)"
    assert f"| faster than random, 1.2 s, to 75% | 58.4 % faster | {found} |" in text
    assert "old" not in text.splitlines()
    assert text.endswith("<!-- results of cifar10-first ends -->\nafter\n")
    with pytest.raises(InputError, match="there is no place for the results"):
        put_between_marks("nothing", "results of cifar10-first", "x")


# The studies of which docs/results/README.md has all claims.
QUOTED = {"cifar10-first", "cifar100-first", "plus-cifar10", "plus-cifar100"}


def assert_regenerated(folder: Path, into: Path, name: str, quick: bool = False) -> None:
    """The page beside a folder of summaries is what the summaries give, byte for byte, and each figure is there."""
    plan = load_study(name).quickened() if quick else load_study(name)
    page = page_of_summaries(plan, folder, into)
    assert page.files[0].read_bytes() == folder.with_suffix(".md").read_bytes()
    kept = {file.name for file in folder.iterdir() if not file.name.endswith(".jsonl.gz")}
    assert kept == {file.name for file in page.files[1:]}  # and nothing else lies there
    assert all(file.suffix == ".png" and 1000 < file.stat().st_size < 150_000 for file in page.files[1:])


@pytest.mark.parametrize("folder", COMMITTED, ids=[folder.name for folder in COMMITTED])
def test_committed_pages_are_what_their_summaries_give(folder: Path, tmp_path: Path) -> None:
    assert_regenerated(folder, tmp_path / "again", folder.name)
    if folder.name in QUOTED:
        plan = load_study(folder.name)
        readme = (ROOT / "docs" / "results" / "README.md").read_text(encoding="utf-8")
        assert at_a_glance(plan, read_kept(plan, folder)) in readme


# They are defined before their runs are made, so that nothing about them is decided by these.
NOT_RUN = {"cifar100", "sensitivity"}


def test_every_study_has_its_results_or_waits_for_them() -> None:
    assert {folder.name for folder in COMMITTED} | NOT_RUN == set(study_names())
    assert not {folder.name for folder in COMMITTED} & NOT_RUN


def test_what_is_only_compared_holds_nothing_but_summaries() -> None:
    assert ONLY_COMPARED <= SUMMARISED
    for folder in ONLY_COMPARED:
        assert all(file.name.endswith(".jsonl.gz") for file in folder.iterdir())
        assert not folder.with_suffix(".md").exists()


def test_the_study_is_the_papers() -> None:
    """SPEC section 6: the complete settings."""
    settings = CIFAR10.settings
    assert (settings.dataset, settings.rounds) == ("cifar10", [0, 300])
    assert (settings.scenario.layout, settings.scenario.samples_per_client) == ("paper-cifar10", 750)
    training = settings.training
    assert (training.model, training.local_steps, training.batch_size) == ("paper-cnn-same", 10, 32)
    assert (training.learning_rate, training.decay, training.momentum) == (0.01, 0.9992, 0.5)
    assert (training.augment, training.pretrain_epochs) == ("flip", 30)
    assert settings.radio.total_hz == 20e6
    assert settings.evaluation.every == 5
    assert len(CIFAR10.schedulers) == 8
    assert CIFAR10.deadlines_s == [0.8, 1.0, 1.2]
