"""Which runs begin with another model than the others of their seed, on runs made by hand."""

from dataclasses import replace

from fedteddi.results.runs import RunRecord
from fedteddi.results.starts import OtherStart, other_starts, started_otherwise
from made_study import made_run


def started(rule: str, seed: int, accuracy: float) -> RunRecord:
    """A run whose first model tells this share of every class right."""
    run = made_run(rule, seed, [0.4, 0.5])
    first = run.records[0]
    first = replace(first, balanced=accuracy, class_accuracy=[accuracy] * len(first.class_accuracy))
    return replace(run, records=(first, *run.records[1:]))


def named(*runs: RunRecord) -> list[tuple[str, RunRecord]]:
    return [(run.scheduler, run) for run in runs]


def test_the_few_that_begin_otherwise_are_found_seed_by_seed() -> None:
    runs = [started(rule, seed, 0.8) for rule in ("fedteddi", "random", "fed-cbs") for seed in (0, 1)]
    assert other_starts(named(*runs)) == []
    assert started_otherwise(named(*runs)) == ""
    others = [started("best-norm", 0, 0.81), started("best-channel", 0, 0.81), started("best-norm", 1, 0.79)]
    found = other_starts(named(*others, *runs))
    assert found == [
        OtherStart(0, ("best-channel", "best-norm"), 0.81, 0.8),
        OtherStart(1, ("best-norm",), 0.79, 0.8),
    ]
    sentence = started_otherwise(named(*others, *runs))
    assert (
        "best-channel, best-norm: seed 0 (0.810, others 0.800); best-norm: seed 1 (0.790, others 0.800)."
        in sentence
    )


def test_one_class_that_is_told_otherwise_is_enough() -> None:
    """With the same mean over the classes."""
    usual, other = (started(rule, 0, 0.8) for rule in ("fedteddi", "random"))
    first = other.records[0]
    moved = list(first.class_accuracy)
    moved[0], moved[1] = moved[0] + 0.1, moved[1] - 0.1
    other = replace(other, records=(replace(first, class_accuracy=moved), *other.records[1:]))
    (found,) = other_starts(named(usual, usual, other))
    assert (found.names, found.balanced) == (("random",), 0.8)


def test_what_is_pretrained_otherwise_may_begin_otherwise() -> None:
    """Another length of pre-training, as in a sensitivity study; but not another rule, deadline or number of steps."""
    usual, longer = started("fedteddi", 0, 0.8), started("fedteddi", 0, 0.9)
    longer = replace(longer, settings=longer.settings.changed(training__pretrain_epochs=60))
    assert other_starts([("the baseline", usual), ("epochs = 60", longer)]) == []
    steps = started("fedteddi", 0, 0.9)
    steps = replace(steps, settings=steps.settings.changed(training__local_steps=5, radio__deadline_s=0.8))
    (found,) = other_starts([("the baseline", usual), ("the baseline", usual), ("τ = 5", steps)])
    assert found.names == ("τ = 5",)
