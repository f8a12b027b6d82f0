"""The sensitivity studies: which factors are varied, at which levels, for which rules."""

from collections.abc import Sequence

from fedteddi.results.sensitivity_claims import AheadAtTheEnd, FasterTo, MoreNew
from fedteddi.results.sensitivity_grid import Factor, Level, Sensitivity
from fedteddi.studies import CIFAR10 as STUDY

RULES = ("fedteddi", "fedcgd", "fed-cbs", "random")
DIVERGENCE = ("fedteddi", "fedcgd")  # the rules that look at class norms, mixes, a target, and search
DRIFT = ("fedteddi",)  # the rule that looks at drift and, as its weight decays over the frame, at K
DEADLINE_S = 1.2
# What the paper claims about these rules at this deadline; where it names no accuracy, both.
CLAIMS = (
    FasterTo("random", "global", 0.75),
    FasterTo("fedcgd", "global", 0.75),
    FasterTo("random", "balanced"),
    FasterTo("fedcgd", "balanced"),
    AheadAtTheEnd(("fed-cbs",), "global"),
    AheadAtTheEnd(("fed-cbs",), "balanced"),
    AheadAtTheEnd(RULES[1:], "global"),
    AheadAtTheEnd(RULES[1:], "balanced"),
    MoreNew("random"),
)


def _levels(key: str, values: Sequence[float | str], baseline: float | str) -> tuple[Level, ...]:
    """Return the values of one setting as levels."""
    return tuple(
        Level(
            value if isinstance(value, str) else f"{value:g}",
            {} if value == baseline else {key: value},
        )
        for value in values
    )


def _factors(steps: Sequence[int], epochs: Sequence[int], rounds: Sequence[int]) -> tuple[Factor, ...]:
    """Return the factors; of local steps, epochs and rounds three values each, the baseline's in the middle."""
    shorter, usual, longer = rounds
    option = "scheduler_options__"
    return (
        Factor("tau", "τ", "Local steps", _levels("training__local_steps", steps, steps[1]), RULES),
        Factor(
            "class-norm",
            "class_norm",
            "Class norms: the paper's estimate (20), or the norms themselves",
            _levels("estimates__class_norm", ["paper", "exact"], "paper"),
            DIVERGENCE,
        ),
        Factor(
            "target",
            "target",
            "What the chosen set should look like: the global mix, or equal shares",
            _levels(f"{option}target", ["global", "uniform"], "global"),
            DIVERGENCE,
        ),
        Factor(
            "search",
            "search",
            "The search for the best set",
            _levels(f"{option}search", ["greedy", "refined", "exact"], "greedy"),
            DIVERGENCE,
        ),
        Factor(
            "mixes",
            "mixes",
            "Divergence from the round's batches, or from the clients' whole data",
            _levels(f"{option}mixes", ["batch", "data"], "batch"),
            DIVERGENCE,
        ),
        Factor(
            "lambda0",
            "λ0",
            "The drift's weight",
            _levels(f"{option}lambda0", [0.0, 0.5, 1.0, 2.0, 4.0], 2.0),
            DRIFT,
            "FedCGD is FedTeddi with λ0 = 0: there the two are the same run for run, and neither is ahead.",
        ),
        Factor(
            "shadowing",
            "shadowing",
            "Shadowing drawn anew in every round, or once",
            _levels("radio__shadowing", ["redrawn", "static"], "redrawn"),
            RULES,
        ),
        Factor(
            "augment",
            "augment",
            "Augmentation, in pre-training too",
            _levels("training__augment", ["flip", "none"], "flip"),
            RULES,
        ),
        Factor(
            "pretraining",
            "epochs",
            "Epochs of pre-training",
            _levels("training__pretrain_epochs", epochs, epochs[1]),
            RULES,
        ),
        Factor(
            "rounds",
            "K",
            "Rounds of the frame",
            (
                Level(str(shorter), {"rounds": [0, shorter]}, DRIFT),
                Level(str(usual)),
                Level(str(longer), {"rounds": [0, longer]}),
            ),
            RULES,
            "Only FedTeddi looks at K (λ decays to 0 over the frame). The others begin alike whatever K is: their"
            f" rows at K = {shorter} are the first {shorter} rounds of the baseline's runs. Those at K = {longer} were"
            " run anew: on a GPU they differ by rounding, from which other decisions may follow.",
        ),
    )


CIFAR10 = Sensitivity(
    name="sensitivity-cifar10",
    experiment="cifar10",
    command="fedteddi sensitivity cifar10",
    title="How much the paper's claims depend on what it leaves open",
    schedulers=RULES,
    seeds=2,
    factors=_factors(steps=(5, 10, 24), epochs=(10, 30, 60), rounds=(150, 300, 450)),
    targets={"balanced": [0.55, 0.60, 0.65], "global": [0.70, 0.75]},
    drawn={"balanced": 0.60, "global": 0.75},
    claims=CLAIMS,
    changes={"radio__deadline_s": DEADLINE_S},
)
# Everything is tried once, in less than ten minutes on two cores: with a fifth of the data (there, an epoch of
# pre-training costs as much as all rounds of ten runs), half the batch and few test images.
CIFAR10_QUICK = Sensitivity(
    name="sensitivity-cifar10-quick",
    experiment="cifar10",
    command=f"{CIFAR10.command} --quick",
    title=CIFAR10.title,
    schedulers=RULES,
    seeds=1,
    factors=_factors(steps=(1, 2, 4), epochs=(0, 1, 2), rounds=(1, 2, 3)),
    targets=CIFAR10.targets,
    drawn=CIFAR10.drawn,
    claims=CLAIMS,
    changes=STUDY.quick
    | {
        "radio__deadline_s": DEADLINE_S,
        "rounds": [0, 2],
        "scenario__samples_per_client": 150,
        "training__batch_size": 16,
        "evaluation__every": 1,
        "evaluation__test_images": 300,
    },
)
SENSITIVITIES = {"cifar10": (CIFAR10, CIFAR10_QUICK)}
