"""A study with factors: the grid and nothing twice, parts that merge, what is missing shown, pages made again."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cli_runner import Outcome as Done
from fedteddi import InputError, make_scheduler
from fedteddi.experiment import play
from fedteddi.results.folder import Failure
from fedteddi.studies.page import page_of_runs, page_of_summaries
from fedteddi.studies.play import grid_settings, read_kept, read_runs, reproduce, summarise
from fedteddi.studies.study import Factor, Level, StudyPlan, flat, load_study
from fedteddi.studies.summaries import Summaries, Summarised
from fedteddi.studies.summary_files import write_summaries

Cli = Callable[..., Done]
WHOLE = load_study("sensitivity-first")
QUICK = WHOLE.quickened()

# The quick study on very small images, with a model of one convolution.
SMALL = [
    "dataset=data.npz",
    "scenario.samples_per_client=16",
    "training.model=small_world:tiny_model",
    "training.batch_size=4",
    "radio.total_hz=2e6",
    "estimates.class_gradient_samples=4",
    "evaluation.loss_samples=20",
    "evaluation.test_images=0",
]
SET = [word for change in SMALL for word in ("--set", change)]


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder of one's own with a tiny data set of ten classes."""
    monkeypatch.setenv("FEDTEDDI_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    labels = np.arange(400) % 10
    noise = np.random.default_rng(0).integers(0, 100, size=(400, 8, 8, 3))
    images = (noise + 15 * labels[:, None, None, None]).astype(np.uint8)
    arrays = {"train_images": images[:300], "test_images": images[300:]}
    np.savez("data.npz", train_labels=labels[:300], test_labels=labels[300:], **arrays)


# --- the grid


def test_the_grid_is_the_one_that_was_asked_for() -> None:
    """One factor at a time at 1.2 s, four rules, two seeds; the levels as the issue lists them."""
    levels = {factor.name: [level.label for level in factor.levels] for factor in WHOLE.factors}
    assert levels == {
        "tau": ["5", "10", "24"],
        "class-norm": ["paper", "exact"],
        "target": ["global", "uniform"],
        "search": ["greedy", "refined", "exact"],
        "mixes": ["batch", "data"],
        "lambda0": ["0", "0.5", "1", "2", "4"],
        "shadowing": ["redrawn", "static"],
        "augment": ["flip", "none"],
        "pretraining": ["10", "30", "60"],
        "rounds": ["150", "300", "450"],
    }
    each = grid_settings(WHOLE)
    assert {settings.radio.deadline_s for settings in each.values()} == {1.2}
    assert {settings.seed for settings in each.values()} == {0, 1}
    counted = Counter(name.split("/")[0] for name in each)
    four, two = 8, 4  # rules × seeds
    assert counted == {
        "baseline": four,
        "tau-5": four,
        "tau-24": four,
        "class-norm-exact": two,
        "target-uniform": two,
        "search-refined": two,
        "search-exact": two,
        "mixes-data": two,
        **{f"lambda0-{value}": 2 for value in ("0", "0.5", "1", "4")},
        "shadowing-static": four,
        "augment-none": four,
        "pretraining-10": four,
        "pretraining-60": four,
        "rounds-150": 2,
        "rounds-450": four,
    }
    assert len(each) == 94


def test_every_run_differs_from_the_baseline_in_its_factor_and_none_is_run_twice() -> None:
    each = grid_settings(WHOLE)
    assert len({settings.model_dump_json() for settings in each.values()}) == len(each)
    found = {
        name: (
            settings.training,
            settings.radio,
            settings.estimates,
            settings.scheduler_options,
            settings.rounds,
        )
        for name, settings in each.items()
    }
    base = load_study("cifar10-first").settings.changed(radio__deadline_s=1.2)
    for name, settings in each.items():
        key, rule = name.split("/")[0], settings.scheduler
        changes = next((flat(lv.changes) for factor, lv in WHOLE.varied() if factor.key(lv) == key), {})
        skip = {"on_no_fit": "skip"}  # the study's option, of all its schedulers
        same = {"name": rule, "scheduler": rule, "seed": settings.seed, "scheduler_options": skip}
        assert settings == base.changed(**same).changed(**changes), name
    assert found["lambda0-0.5/fedteddi-d1.2-s1"][3] == {"on_no_fit": "skip", "lambda0": 0.5}
    assert found["rounds-450/random-d1.2-s0"][4] == [0, 450]


@pytest.mark.parametrize("grid", [WHOLE, QUICK], ids=["whole", "quick"])
def test_the_baseline_has_the_values_that_its_levels_claim(grid: StudyPlan) -> None:
    base = next(iter(grid_settings(grid).values()))
    rule: Any = make_scheduler("fedteddi")
    claimed = {f.name: lv.label for f in grid.factors for lv in f.levels if not lv.changes}
    assert claimed == {
        "tau": str(base.training.local_steps),
        "class-norm": base.estimates.class_norm,
        "target": rule.target,
        "search": rule.search,
        "mixes": rule.mixes,
        "lambda0": f"{rule.lambda0:g}",
        "shadowing": base.radio.shadowing,
        "augment": base.training.augment,
        "pretraining": str(base.training.pretrain_epochs),
        "rounds": str(base.rounds[1]),
    }
    for factor in grid.factors:  # so that the baseline's first rounds end with an evaluation
        assert factor.name != "rounds" or all(
            int(lv.label) % base.evaluation.every == 0 for lv in factor.levels
        )


def test_parts_of_the_grid() -> None:
    def levels(**part: Any) -> list[str]:
        return list(dict.fromkeys(name.split("/")[0] for name in grid_settings(WHOLE, **part)))

    assert levels(factors=["tau"]) == ["baseline", "tau-5", "tau-24"]
    assert levels(factors=["baseline"]) == ["baseline"]
    assert levels(factors=["search"], levels=["exact"]) == ["search-exact"]
    assert levels(factors=["search"], levels=["exact", "greedy"]) == ["baseline", "search-exact"]
    assert levels(schedulers=["random"]) == [
        *("baseline", "tau-5", "tau-24", "shadowing-static", "augment-none"),
        *("pretraining-10", "pretraining-60", "rounds-450"),
    ]
    assert levels(skip=["search-exact", "baseline"]) == [
        key for key in WHOLE.level_names if key not in ("search-exact", "baseline")
    ]
    assert list(grid_settings(WHOLE, factors=["lambda0"], levels=["4"], seeds=[7])) == [
        "lambda0-4/fedteddi-d1.2-s7"
    ]


def test_unknown_names_are_refused_with_the_nearest(cli: Cli) -> None:
    for words, sentence in (
        (["--factor", "taus"], "no factor is called 'taus' (did you mean 'tau'?)"),
        (
            ["--factor", "search", "--level", "exat"],
            "no level of search is called 'exat' (did you mean 'exact'?): known are greedy, refined, exact",
        ),
        (["--level", "5"], "--level 5: name the one factor it is a level of with --factor"),
        (
            ["--skip", "search-exat"],
            "no level is called 'search-exat' (did you mean 'search-exact'?)",
        ),
        (["--scheduler", "fedcdg"], "no rule is called 'fedcdg' (did you mean 'fedcgd'?)"),
        (
            ["--factor", "lambda0", "--level", "4", "--scheduler", "random"],
            "random need no runs there, the baseline's stand for them",
        ),
        (["--set", "training.local_steps=3"], "training.local_steps is the factor tau here"),
        (["--set", "scheduler_options.search=exact"], "search is the factor search here"),
        (["--summarise", "a", "--from-summaries", "b"], "give one"),
        (["--summarise", "a"], "holds no run that has come to its end"),
        (["--from-summaries", "a"], "holds no summaries"),
    ):
        done = cli("reproduce", "sensitivity-first", *words)
        assert (done.code, sentence in done.err) == (2, True), done.err


# --- playing


def rounds_of(folder: str) -> dict[str, bytes]:
    files = sorted(Path(folder).glob("*/*/rounds.jsonl"))
    return {str(file.parent.relative_to(folder)): file.read_bytes() for file in files}


def test_the_command_from_the_first_run_to_the_page(cli: Cli) -> None:
    """Everything once; only the model and the data are smaller than with a plain --quick."""
    done = cli("reproduce", "sensitivity-first", "--quick", "--svg", *SET)
    assert done.code == 0, done.err
    assert "all rounds are done" in done.out
    assert "more scheduled clients" in done.out
    whole = Path("runs/sensitivity-first-quick")
    assert len(rounds_of(str(whole))) == len(grid_settings(QUICK)) == 47
    page = (whole / "report" / "sensitivity-first.md").read_text()
    assert page.startswith(
        "# How much the paper's claims depend on what it leaves open, around our first reading\n\n**Quick: a shortened"
    )
    assert "47 finished runs of fedteddi, fedcgd, fed-cbs, random at a deadline of 1.2 s" in page
    assert "- Set here: `training.batch_size`: 4 instead of 32." in page
    assert (whole / "report" / "sensitivity-first" / "overview.png").stat().st_size > 1000
    assert "![overview](sensitivity-first/overview.png)" in page
    assert all(f"## {factor.title} ({factor.symbol})" in page for factor in QUICK.factors)
    assert "not run" not in page.partition("## Local steps")[2]
    assert "<!-- Quick: a shortened study" in (whole / "report/sensitivity-first/overview.svg").read_text()

    # Summaries give the same page, whichever parts they came from.
    done = cli("reproduce", "sensitivity-first", "--quick", "--summarise", "kept/sensitivity-first")
    assert done.code == 0, done.err
    assert (Path("kept") / "sensitivity-first.md").exists()
    again = page_of_summaries(QUICK, Path("kept/sensitivity-first"), Path("again"))
    assert again.files[0].read_bytes() == Path("kept/sensitivity-first.md").read_bytes()
    assert (
        "give --quick"
        in cli("reproduce", "sensitivity-first", "--from-summaries", "kept/sensitivity-first").err
    )
    assert cli("reproduce", "cifar10-first", "--from-summaries", "kept/sensitivity-first").code == 2
    read, _ = read_runs(QUICK, whole)
    kept = read_kept(QUICK, Path("kept/sensitivity-first"))
    assert {one.level for one in read.runs} == set(QUICK.level_names)
    assert [one.key for one in read.runs] == [one.key for one in kept.runs]
    assert [one.run.settings for one in read.runs] == [one.run.settings for one in kept.runs]

    # λ0 = 0 is FedCGD, run for run.
    one, other = (
        rounds_of(str(whole))[name] for name in ("lambda0-0/fedteddi-d1.2-s0", "baseline/fedcgd-d1.2-s0")
    )
    assert one == other


PART: dict[str, Any] = {"schedulers": ["fedteddi", "random"], "seeds": [0], "changes": SMALL}


def test_parts_and_interruptions_give_the_same_rounds(cli: Cli) -> None:
    words = ("reproduce", "sensitivity-first", "--quick", "--factor", "rounds", "--factor", "shadowing")
    words = (*words, "--scheduler", "fedteddi", "--scheduler", "random", *SET)
    stopped = cli(*words, "--time-limit", 0)
    assert (stopped.code, "stopped in time" in stopped.out) == (0, True)
    whole = "runs/sensitivity-first-quick"
    assert not Path(whole, "report").exists()
    assert cli(*words).code == 2  # something is there already
    assert "all rounds are done" in cli(*words, "--resume").out
    assert len(rounds_of(whole)) == 2 + 3 + 2

    reproduce(QUICK, out=Path("parts"), factors=["rounds"], **PART)
    reproduce(QUICK, out=Path("parts"), factors=["shadowing"], levels=["static"], resume=True, **PART)
    assert rounds_of("parts") == rounds_of(whole)

    # A level from elsewhere joins the summaries; what was not run is said, and not made up.
    summarise(QUICK, Path("parts"), Path("kept"))
    reproduce(QUICK, out=Path("more"), factors=["search"], levels=["exact"], **PART)
    summarise(QUICK, Path("more"), Path("kept"))
    assert summarise(QUICK, Path("more"), Path("kept")) == []
    kept = read_kept(QUICK, Path("kept"))
    there = ["baseline", "rounds-1", "rounds-3", "search-exact", "shadowing-static"]
    assert sorted({one.level for one in kept.runs}) == there
    page = page_of_summaries(QUICK, Path("kept")).files[0].read_text()
    assert "| 4 | fedteddi | not run | – |" in page
    assert "| refined | fedteddi | not run | – |" in page
    assert "| exact | fedteddi | 1 |" in page
    assert "Different starts" not in page

    # One that was pre-trained elsewhere, and so begins with another model, is named.
    (one,) = (own for own in kept.runs if own.level == "search-exact")
    first = replace(one.run.kept[0], balanced=0.123, class_accuracy=[0.123] * 10)
    keep(replace(one, run=replace(one.run, kept=(first, *one.run.kept[1:]))), "kept")
    page = page_of_summaries(QUICK, Path("kept")).files[0].read_text()
    assert "**Different starts.**" in page
    assert "fedteddi at search = exact: seed 0 (0.123, others" in page

    # And so is one that diverged: its level is as if it had not been run.
    failed = replace(one.run, kept=(), finished=False, failure=Failure(1, 2, "it diverged"))
    keep(replace(one, run=failed), "kept")
    page = page_of_summaries(QUICK, Path("kept")).files[0].read_text()
    title = "fedteddi at 1.2 s, seed 0, at search = exact"
    assert f"- **Failed,** and left out of all tables: {title}: it diverged." in page
    assert "| exact | fedteddi | not run | – |" in page
    again = cli("reproduce", "sensitivity-first", "--quick", "--from-summaries", "kept")
    assert "seed 0, at search = exact failed, and is left out: it diverged" in " ".join(again.err.split())

    # Not if it belongs to another study; and of nothing else there is no page.
    stranger = replace(failed, settings=failed.settings.changed(training__momentum=0.1))
    keep(replace(one, run=stranger), "kept")
    with pytest.raises(InputError, match="search-exact/fedteddi with seed 0 belongs to another study"):
        read_kept(QUICK, Path("kept"))
    keep(replace(one, run=failed), "alone")
    with pytest.raises(InputError, match=r"no run has come to its end, and 1 failed\. First error: it div"):
        page_of_summaries(QUICK, Path("alone"))


def keep(one: Summarised, folder: str) -> None:
    """Put a run in the place of what its level's file holds."""
    write_summaries(Summaries(QUICK.name, (one,), by_level=True), Path(folder))


def test_rules_that_do_not_look_at_k_begin_alike() -> None:
    """Why the baseline's first rounds stand for the shorter frame; FedTeddi's do not."""
    long = grid_settings(QUICK, changes=SMALL)
    each = {name: s for name, s in long.items() if name.startswith("baseline/")}
    found = play(each | {f"short/{s.name}": s.changed(rounds=[0, 1]) for s in each.values()})
    for name, settings in each.items():
        begun, whole = found[f"short/{settings.name}"], found[name]
        first = tuple(r for r in whole.records if r.frame == 0 or r.round <= 1)
        if settings.name != "fedteddi":
            assert begun.records == first
        else:  # λ is 0 in the last round
            weights = [run.records[-1].objective["drift_weight"] for run in (begun,)]
            assert weights == [0.0]
            assert first[-1].objective["drift_weight"] == 1.0  # 2 (1 − 1/2)


def test_runs_that_cannot_share_a_device_are_refused() -> None:
    settings = next(iter(grid_settings(QUICK, changes=SMALL).values()))
    other = settings.changed(training__batch_size=2)
    with pytest.raises(InputError, match=r"b: training\.batch_size=2 cannot run together with 4"):
        play({"a": settings, "b": other})
    with pytest.raises(InputError, match="nothing to run"):
        play({})


def test_levels_that_cannot_share_a_device_are_played_in_turn() -> None:
    """The model is a factor of the new study: a level with another batch size needs another turn, too."""
    plan = QUICK.model_copy(
        update={
            "factors": [
                Factor(
                    name="batch",
                    symbol="b",
                    title="Batch",
                    levels=[
                        Level(label="4"),
                        Level(label="2", changes={"training": {"batch_size": 2}}, only=["random"]),
                    ],
                )
            ]
        }
    )
    part: dict[str, Any] = {"schedulers": ["random"], "changes": [c for c in SMALL if "batch" not in c]}
    part["changes"] += ["rounds=[0, 1]"]
    stopped = reproduce(plan, out=Path("runs"), time_limit_s=0, **part)
    assert not any(run.finished for run in stopped.values())
    done = reproduce(plan, out=Path("runs"), resume=True, **part)
    batches = {name: run.settings.training.batch_size for name, run in done.items() if run.finished}
    assert batches == {"baseline/random-d1.2-s0": 16, "batch-2/random-d1.2-s0": 2}
    assert set(read_runs(plan, Path("runs"))[0].study.schedulers) == {"random"}


def test_the_new_grid_holds_every_open_point() -> None:
    """Issue: one point of the reading at a time, and what else the paper leaves open; each rule that it concerns."""
    plan = load_study("sensitivity")
    assert {factor.name for factor in plan.factors} == {
        *("sigma", "drift-share", "admission", "padding", "pretraining", "tau", "lambda0", "class-norm"),
        *(
            "class-norm-every",
            "class-gradients",
            "target",
            "search",
            "mixes",
            "shadowing",
            "augment",
            "head",
            "aggregation",
        ),
    }
    each = grid_settings(plan)
    assert {settings.rounds[1] for settings in each.values()} == {600}
    options = {name.split("/")[0]: settings.scheduler_options for name, settings in each.items()}
    assert options["sigma-std"] == {"sigma": "std"}
    assert each["admission-skip/random-d1.2-s0"].scheduler_options == {"on_no_fit": "skip"}
    assert each["baseline/fedteddi-sigma-literal-d1.2-s0"].scheduler_options == {"sigma": "literal"}
    assert each["padding-paper-cnn-same/fed-cbs-d1.2-s1"].training.model == "paper-cnn-same"


def test_failed_runs_are_named_and_left_out(cli: Cli) -> None:
    """A learning rate that diverges at once fails every run, with its level's name."""
    words = (
        "reproduce",
        "sensitivity-first",
        "--quick",
        "--factor",
        "baseline",
        "--scheduler",
        "random",
        *SET,
    )
    done = cli(*words, "--set", "training.learning_rate=1e30")
    assert done.code == 1
    assert "baseline/random-d1.2-s0 failed, and is left out" in done.err


# --- the page


def test_a_page_about_unfinished_runs_names_them() -> None:
    reproduce(QUICK, out=Path("runs"), factors=["baseline"], **PART, time_limit_s=0)
    with pytest.raises(InputError, match="no run that has come to its end"):
        page_of_runs(QUICK, Path("runs"))
    reproduce(QUICK, out=Path("runs"), factors=["tau"], levels=["1"], **PART, resume=True)
    page, unfinished = page_of_runs(QUICK, Path("runs"))
    assert unfinished == ["baseline/fedteddi-d1.2-s0", "baseline/random-d1.2-s0"]
    assert page.files[0].exists()


def test_other_options_are_those_of_reproduce(cli: Cli) -> None:
    done = cli("reproduce", "cifar10-first", "--factor", "tau")
    assert (done.code, "tau: cifar10-first has no factors" in done.err) == (2, True)
    done = cli("reproduce", "sensitivity-first", "--deadline", 0.8)
    assert (done.code, "no deadline is called '0.8': known are 1.2" in done.err) == (2, True)
    stopped = cli(
        "reproduce", "sensitivity-first", "--quick", "--factor", "baseline", "--time-limit", 0, *SET
    )
    assert (stopped.code, "stopped in time" in stopped.out) == (0, True)


def test_options_are_for_every_rule_that_has_them() -> None:
    """fed-cbs and random have no search; a level that varies an option goes before."""
    plan = WHOLE.model_copy(update={"options": {"search": "refined"}})
    each = grid_settings(plan, seeds=[0])
    assert each["baseline/fedteddi-d1.2-s0"].scheduler_options == {"search": "refined"}
    assert each["baseline/random-d1.2-s0"].scheduler_options == {}
    assert each["search-exact/fedcgd-d1.2-s0"].scheduler_options == {"search": "exact"}
